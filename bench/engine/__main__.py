"""`make bench-engine`: the tables; `python -m bench.engine rack-gangs tight` runs cases with a word in their names."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from statistics import median
from time import process_time

from rich.console import Console
from rich.table import Table

from echelon.engine.check import judge, problems
from echelon.engine.cycle import decide
from echelon.engine.verdict import Blocked, Evict, Verdict

from . import blocked, contests, gangs, growth, preemption, proofs, tight
from .harness import Case, World, ending, run, timed
from .worlds import NOW

CASES = (*gangs.CASES, *tight.CASES, *blocked.CASES, *preemption.CASES)
#: How a contest ends.
ENDS = ("least", "open", "no need")
console = Console(width=150)


def main() -> None:
    options = arguments()
    cases = [case for case in CASES if not options.words or any(word in case.name for word in options.words)]
    if cases:
        decisions(cases, options.rounds, options.greedy_seconds)
    if not options.words or "families" in options.words:
        families(options.instances, options.family_seconds)
    if not options.words or "contests" in options.words:
        losses(options.instances // 2, options.family_seconds)
    if not options.words or "proofs" in options.words:
        confirmations(options.instances // 2)
    if not options.words or "growth" in options.words:
        grows()
    console.print(f"{process_time():.0f} s of CPU time in all")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.engine", description=__doc__)
    parser.add_argument(
        "words", nargs="*", help="parts of case names, or `families`, `contests`, `proofs`, `growth`; all if left out"
    )
    parser.add_argument("--rounds", type=int, default=5, help="runs of each case, of which the median counts")
    parser.add_argument("--greedy-seconds", type=float, default=10, help="when the greedy loop is given up")
    parser.add_argument(
        "--instances", type=int, default=100, help="instances of each tight family, half as many of other kinds"
    )
    parser.add_argument("--family-seconds", type=float, default=40, help="when a family takes no more instances")
    return parser.parse_args()


def decisions(cases: list[Case], rounds: int, greedy_seconds: float) -> None:
    table = Table("case", "ours", "aim", "met", "outcome", "greedy", "its outcome", "greedy ÷ ours")
    for case in cases:
        result = run(case, rounds, greedy_seconds)
        more = "> " if result.given_up else ""
        table.add_row(
            case.title, _ms(result.ours), _ms(case.aim), "yes" if result.ours <= case.aim else "no", result.outcome,
            more + _ms(result.greedy), result.greedy_outcome, f"{more}{result.greedy / result.ours:,.1f}×",
        )  # fmt: skip
        console.log(f"{case.name}: {_ms(result.ours)}")
    console.print(table)


def families(instances: int, seconds: float) -> None:
    table = Table("tight family", "instances", "placed", "proved", "exhausted", "median", "p95", "worst")
    for name, build in tight.FAMILIES.items():
        counts, times = family(build, instances, seconds, ending)
        ends = (str(counts[end]) for end in ("placed", "proved", "exhausted"))
        table.add_row(name, str(len(times)), *ends, *_spread(times))
        console.log(f"{name}: {dict(counts)}")
    console.print(table)


def losses(instances: int, seconds: float) -> None:
    """Preemption: of how many evictions it is proved that none loses less."""
    table = Table("contest", "instances", "least loss proved", "not proved", "no need", "median", "p95", "worst")
    for name, build in contests.FAMILIES.items():
        counts, times = family(build, instances, seconds, _worth)
        table.add_row(name, str(len(times)), *(str(counts[end]) for end in ENDS), *_spread(times))
        console.log(f"{name}: {dict(counts)}")
    console.print(table)


def confirmations(instances: int) -> None:
    """Of demands that just do not fit: proofs, and how many of these the judge confirms."""
    table = Table("just too much", "instances", "proved", "confirmed", "judged in", "worst")
    for name, build in proofs.FAMILIES.items():
        times, confirmed = list[float](), 0
        for view, (demand,) in map(build, range(instances)):
            verdict = decide(view, demand, NOW)
            if isinstance(verdict, Blocked) and verdict.proved:
                started = process_time()
                judgement = judge(view, demand, verdict, NOW)
                times.append((process_time() - started) * 1000)
                assert not judgement.problems, judgement.problems
                confirmed += judgement.confirmed
        table.add_row(name, str(instances), str(len(times)), str(confirmed), _ms(median(times)), _ms(max(times)))
        console.log(f"{name}: {confirmed} of {len(times)} proofs confirmed")
    console.print(table)


def _worth(verdict: Verdict) -> str:
    return ENDS[2] if not isinstance(verdict, Evict) else ENDS[0] if verdict.least else ENDS[1]


def family(
    build: Callable[[int], World], instances: int, seconds: float, end: Callable[[Verdict], str]
) -> tuple[Counter[str], list[float]]:
    """How the instances ended and how long each took."""
    counts, times, started = Counter[str](), list[float](), process_time()
    for seed in range(instances):
        view, (demand,) = build(seed)
        elapsed, (verdict,) = timed(view, [demand])
        assert not problems(view, demand, verdict, NOW)
        counts[end(verdict)] += 1
        times.append(elapsed)
        if process_time() - started > seconds:
            break
    return counts, times


def _spread(times: list[float]) -> tuple[str, str, str]:
    """Median, 95th percentile and worst."""
    ranked = sorted(times)
    return _ms(median(ranked)), _ms(ranked[int(len(ranked) * 0.95)]), _ms(ranked[-1])


def grows() -> None:
    table = Table("nodes", "rack-gangs", "decision", "per gang")
    for nodes, groups, elapsed in growth.by_nodes_and_groups():
        table.add_row(f"{nodes:,}", str(groups), _ms(elapsed), f"{elapsed / groups * 1000:.0f} µs")
        console.log(f"{nodes:,} nodes, {groups} rack-gangs: {_ms(elapsed)}")
    console.print(table)
    table = Table("nodes", "decide, bind and unbind a rack-gang", "change one node and decide")
    for nodes, cycle, change in growth.one_change():
        table.add_row(f"{nodes:,}", f"{cycle:.0f} µs", f"{change:.0f} µs")
        console.log(f"one change on {nodes:,} nodes: {cycle:.0f} µs and {change:.0f} µs")
    console.print(table)
    console.print(f"memory for 10,000 pods on 100,000 nodes: {growth.memory():.0f} MB resident at most (aim 300 MB)")


def _ms(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.1f} s" if milliseconds >= 10_000 else f"{milliseconds:,.1f} ms"


if __name__ == "__main__":
    main()
