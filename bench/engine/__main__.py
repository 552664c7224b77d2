"""`make bench-engine`: the tables; `python -m bench.engine rack-gangs tight` runs cases with a word in their names."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping
from statistics import median
from time import process_time

from rich.console import Console
from rich.table import Table

from echelon.engine import Blocked, Evict, Verdict, decide, judge, problems
from echelon.runtime.gc_tuning import collecting_rarely

from . import contests, growth, neighbours, proofs, tight
from .cases import CASES
from .harness import Case, World, ending, run, timed
from .memory import taken_by
from .worlds import NOW

#: How a contest ends.
LEAST, OPEN, NO_NEED = "least loss proved", "not proved", "no need"
console = Console(width=150)


def main() -> None:
    options = arguments()
    with collecting_rarely():  # as a scheduler does
        measure(options)


def measure(options: argparse.Namespace) -> None:
    cases = [case for case in CASES if not options.words or any(word in case.name for word in options.words)]
    if cases:
        decisions(cases, options.rounds, options.greedy_seconds)
    if not options.words or "families" in options.words:
        title = ("tight family", "placed", "proved", "exhausted")
        families(title, tight.FAMILIES | neighbours.FAMILIES, ending, options.instances, options)
    if not options.words or "contests" in options.words:
        title = ("contest", LEAST, OPEN, NO_NEED)
        families(title, contests.FAMILIES, worth, options.instances // 2, options)
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
    parser.add_argument(
        "--judge-seconds", type=float, default=5, help="how long instances of a family are judged, the first ones"
    )
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
    for case in cases:
        if case.memory is not None:
            taken = taken_by(case)
            met = "met" if taken <= case.memory else "missed"
            console.print(
                f"{case.title}: {taken:.0f} MB at most in a process of its own (aim {case.memory:.0f}, {met})"
            )


def families(
    title: tuple[str, ...],
    builds: Mapping[str, Callable[[int], World]],
    end: Callable[[Verdict], str],
    instances: int,
    options: argparse.Namespace,
) -> None:
    """Random instances: how many ended which way, and how long they took."""
    kind, *ends = title
    table = Table(kind, "instances", "judged", *ends, "median", "p95", "worst")
    for name, build in builds.items():
        counts, times, judged = family(build, instances, end, options.family_seconds, options.judge_seconds)
        table.add_row(name, str(len(times)), str(judged), *(str(counts[each]) for each in ends), *_spread(times))
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


def worth(verdict: Verdict) -> str:
    """Of an eviction: whether it is proved that none loses less."""
    return NO_NEED if not isinstance(verdict, Evict) else LEAST if verdict.least else OPEN


def family(
    build: Callable[[int], World],
    instances: int,
    end: Callable[[Verdict], str],
    seconds: float,
    judge_seconds: float,
) -> tuple[Counter[str], list[float], int]:
    """How the instances ended, how long each took, and how many were judged, which takes longer than to decide."""
    counts, times, judged, judging = Counter[str](), list[float](), 0, 0.0
    started = process_time()
    for seed in range(instances):
        view, (demand,) = build(seed)
        elapsed, (verdict,) = timed(view, [demand])
        if judging < judge_seconds:
            before = process_time()
            assert not problems(view, demand, verdict, NOW)
            judged, judging = judged + 1, judging + process_time() - before
        counts[end(verdict)] += 1
        times.append(elapsed)
        if process_time() - started > seconds:
            break
    return counts, times, judged


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


def _ms(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.1f} s" if milliseconds >= 10_000 else f"{milliseconds:,.1f} ms"


if __name__ == "__main__":
    main()
