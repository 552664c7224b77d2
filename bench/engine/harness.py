"""Running a case: median of five on fresh views, the greedy loop beside it, verdicts judged by the checker.

Times are CPU time of this process, which on an idle machine is the time that passes: one thread does all the work.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import process_time

from echelon.engine import Blocked, ClusterView, Demand, Evict, Placed, Verdict, decide, problems, sentence

from .greedy import Greedy, OutOfTime
from .worlds import NOW, bind

World = tuple[ClusterView, list[Demand]]

#: Verdicts of one case that are judged; the checker looks at every node each time.
JUDGED = 100


@dataclass(frozen=True)
class Case:
    """A world and the demands that are decided and bound in it, one after the other."""

    name: str
    title: str
    #: Milliseconds for all demands together.
    aim: float
    build: Callable[[], World]
    #: The least loss there is (highest priority, work, units), if the case preempts.
    least: Callable[[ClusterView], tuple[int, int, int]] | None = None
    #: Megabytes that a process which decides it may hold, if that is an aim.
    memory: float | None = None


@dataclass(frozen=True)
class Result:
    case: Case
    ours: float
    outcome: str
    #: Milliseconds of the greedy loop; at least so much if it was given up.
    greedy: float
    greedy_outcome: str
    given_up: bool


def run(case: Case, rounds: int, greedy_seconds: float) -> Result:
    view, demands = case.build()
    least = case.least(view) if case.least else None
    outcome = summary(judged(view, demands), least)
    times = [timed(*case.build())[0] for _ in range(rounds)]
    greedy, greedy_outcome, given_up = _greedily(*case.build(), greedy_seconds)
    return Result(case, median(times), outcome, greedy, greedy_outcome, given_up)


def timed(view: ClusterView, demands: list[Demand]) -> tuple[float, list[Verdict]]:
    """Milliseconds to decide, explain and, if more demands follow, bind."""
    gc.collect()
    verdicts = []
    started = process_time()
    for number, demand in enumerate(demands, 1):
        verdict = decide(view, demand, NOW)
        sentence(verdict, {})
        verdicts.append(verdict)
        if number < len(demands):
            bind(view, demand, verdict)
    return (process_time() - started) * 1000, verdicts


def judged(view: ClusterView, demands: list[Demand]) -> list[Verdict]:
    """The verdicts, passed by the checker before they are bound; of many demands, every so many-th and the last."""
    verdicts, stride = [], -(-len(demands) // JUDGED)
    for left, demand in zip(reversed(range(len(demands))), demands, strict=True):
        verdict = decide(view, demand, NOW)
        wrong = problems(view, demand, verdict, NOW) if left % stride == 0 else []
        assert not wrong, wrong[:3]
        bind(view, demand, verdict)
        verdicts.append(verdict)
    return verdicts


def _greedily(view: ClusterView, demands: list[Demand], seconds: float) -> tuple[float, str, bool]:
    gc.collect()
    greedy, placed = Greedy(view, seconds), 0
    started = process_time()
    try:
        for demand in demands:
            placed += greedy.decide(demand) is not None
    except OutOfTime:
        return seconds * 1000, "given up", True
    elapsed = (process_time() - started) * 1000
    if greedy.victims:
        return elapsed, f"evicts {len(greedy.victims)} units", False
    return elapsed, _tally({"placed": placed, "failed": len(demands) - placed}), False


def summary(verdicts: list[Verdict], least: tuple[int, int, int] | None) -> str:
    if len(verdicts) == 1 and isinstance(verdicts[0], Evict) and least is not None:
        loss = verdicts[0].loss
        found = (loss.highest_priority, loss.work, loss.units)
        more = f"{loss.work / least[1] - 1:+.1%} work, priority {loss.highest_priority} for {least[0]}"
        proved = ", proved" if verdicts[0].least else ""
        worth = f"least loss{proved}" if found == least else more
        return f"evicts {loss.units}: {worth}"
    return _tally(Counter(map(ending, verdicts)))


def ending(verdict: Verdict) -> str:
    match verdict:
        case Placed():
            return "placed"
        case Evict():
            return "evicts"
        case Blocked(proved=True):
            return "proved"
        case Blocked():
            return "exhausted"


def _tally(counts: dict[str, int]) -> str:
    told = {name: number for name, number in counts.items() if number}
    if sum(told.values()) == 1:
        return next(iter(told))
    return ", ".join(f"{number} {name}" for name, number in told.items())
