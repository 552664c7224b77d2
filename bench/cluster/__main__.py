"""`make bench-cluster ARGS="--only echelon --scenario racks --scale 0.2"`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import click
from rich.console import Console
from rich.table import Table
from tests.cluster.controlplane import VERSION, ControlPlane, control_plane, home, missing

from bench.blocked import table as reason_table
from echelon.runtime.plane import run_program

from .contenders import Contender, echelon, kube_scheduler
from .full import reasons
from .measure import BARE, Outcome, run
from .scenarios import SCENARIOS, Scenario
from .stage import Stage, stage

_KUBE = "kube-scheduler"
_FULL = "full"
_SHARE = 0.85

T = TypeVar("T")


@click.command()
@click.option("--scenario", "names", multiple=True, type=click.Choice([*SCENARIOS, _FULL]), help="[default: all]")
@click.option("--scale", type=click.FloatRange(0, 1, min_open=True), default=1.0, help="Part of the full size.")
@click.option("--only", type=click.Choice(["echelon", _KUBE]), help="Leave the other scheduler out.")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="Runs of each but kube-scheduler.")
@click.option("--patience", type=float, default=600.0, show_default=True, help="Seconds a scheduler may take.")
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), help="Keep the logs in this directory.")
def main(
    names: tuple[str, ...], scale: float, only: str | None, rounds: int, patience: float, keep: Path | None
) -> None:
    """Both schedulers on a real control plane, and what its server can take at all."""
    if missing():
        click.echo(f"NO REAL CONTROL PLANE in {home()}: nothing measured; `make cluster-tools` builds it with Go.")
        sys.exit(0)
    console = Console(width=150)
    outcomes = []
    for name in names or (*SCENARIOS, _FULL):
        with tempfile.TemporaryDirectory(prefix="echelon-bench-") as temporary:
            directory = keep / name if keep else Path(temporary)
            directory.mkdir(parents=True, exist_ok=True)
            # A control plane of its own for every scenario.
            with control_plane(directory, manager=False) as plane:
                if name == _FULL:
                    told = run_program(_staged(plane, lambda at: reasons(at, scale)))
                    console.print(reason_table(told, "on a real control plane"))
                    continue
                chosen = [one for one in (echelon(plane), kube_scheduler(plane)) if only in (None, one.name)]
                scenario = SCENARIOS[name](scale)
                outcomes.append(run_program(_staged(plane, partial(_race, scenario, chosen, rounds, patience))))
        console.print(_table(outcomes))


async def _staged(plane: ControlPlane, act: Callable[[Stage], Awaitable[T]]) -> T:
    async with stage(plane) as at:
        return await act(at)


async def _race(scenario: Scenario, chosen: list[Contender], rounds: int, patience: float, at: Stage) -> Outcome:
    return await run(at, scenario, chosen, rounds, patience)


def _table(outcomes: list[Outcome]) -> Table:
    table = Table(
        title=f"pods bound on a real control plane {VERSION}, from the scheduler's first moment as the leader; medians",
        caption="CPU of the scheduler or bare client | of etcd and kube-apiserver, until the last bind",
    )
    for heading in ("scenario", "who", "pods/s", "last bind", "last word", "CPU", "memory", "of the limit", "aim"):
        table.add_column(heading, justify="left" if heading in ("scenario", "who", "aim") else "right")
    for outcome in outcomes:
        for contender in outcome.results:
            table.add_row(*_row(outcome, contender))
    return table


def _row(outcome: Outcome, contender: str) -> list[str]:
    middle, rates = outcome.median(contender), [one.rate for one in outcome.results[contender]]
    shown = f"{outcome.rate(contender):,.0f}"
    if len(rates) > 1:
        shown += f" ({min(rates):,.0f}–{max(rates):,.0f})"
    whole = middle.bound == middle.pods
    last = f"{middle.seconds:.2f} s" if whole else f"{middle.bound} of {middle.pods}"
    cpu = f"{middle.own:.2f} | {middle.server:.1f} s"
    if contender == BARE:
        who = f"no scheduler, {outcome.connections} at once"
        return [outcome.scenario.title, who, shown, last, "", cpu, "", "", ""]
    return [
        "",
        contender,
        shown,
        last,
        f"{middle.to_last_word:.2f} s" if middle.to_last_word is not None else "–",
        cpu,
        f"{middle.peak_megabytes:,.0f} MB",
        f"{outcome.rate(contender) / outcome.rate(BARE):.0%}",
        _aim(outcome, contender),
    ]


def _aim(outcome: Outcome, contender: str) -> str:
    """Whether Echelon is as fast as it means to be, beside kube-scheduler and beside the limit."""
    if contender == _KUBE:
        return ""
    share = outcome.rate(contender) / outcome.rate(BARE)
    words = [f"≥ {_SHARE:.0%} of the limit: {'reached' if share >= _SHARE else 'missed'}"]
    if _KUBE in outcome.results and outcome.rate(_KUBE):
        faster, aim = outcome.rate(contender) / outcome.rate(_KUBE), outcome.scenario.aim
        words.append(f"≥ {aim:.0f}×: {'reached' if faster >= aim else 'missed'}, {faster:.1f}×")
    return "; ".join(words)


main()
