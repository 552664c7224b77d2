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
from .measure import Outcome, run
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
@click.option("--patience", type=float, default=600.0, show_default=True, help="Seconds a scheduler may take.")
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), help="Keep the logs in this directory.")
def main(names: tuple[str, ...], scale: float, only: str | None, patience: float, keep: Path | None) -> None:
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
                outcomes.append(run_program(_staged(plane, partial(_race, scenario, chosen, patience))))
        console.print(_table(outcomes))


async def _staged(plane: ControlPlane, act: Callable[[Stage], Awaitable[T]]) -> T:
    async with stage(plane) as at:
        return await act(at)


async def _race(scenario: Scenario, chosen: list[Contender], patience: float, at: Stage) -> Outcome:
    return await run(at, scenario, chosen, patience)


def _table(outcomes: list[Outcome]) -> Table:
    table = Table(
        title=f"pods bound on a real control plane {VERSION}, from the scheduler's first moment as the leader"
    )
    for heading in ("scenario", "who", "pods/s", "last bind", "last word", "CPU", "memory", "of the limit", "aim"):
        table.add_column(heading, justify="left" if heading in ("scenario", "who", "aim") else "right")
    for outcome in outcomes:
        limit = outcome.limit
        table.add_row(
            outcome.scenario.title,
            f"no scheduler, {limit.connections} at once",
            f"{limit.rate:,.0f}",
            "",
            "",
            "",
            "",
            "",
        )
        for result in outcome.results.values():
            whole = result.bound == result.pods
            table.add_row(
                "",
                result.contender,
                f"{result.rate:,.0f}",
                f"{result.to_last_bind:.2f} s" if whole else f"{result.bound} of {result.pods}",
                f"{result.to_last_word:.2f} s" if result.to_last_word is not None else "–",
                f"{result.cost.processor_seconds:.1f} s",
                f"{result.cost.peak_megabytes:,.0f} MB",
                f"{result.rate / limit.rate:.0%}",
                _aim(outcome, result.contender),
            )
    return table


def _aim(outcome: Outcome, contender: str) -> str:
    """Whether Echelon is as fast as it means to be, beside kube-scheduler and beside the limit."""
    if contender == _KUBE:
        return ""
    ours, theirs = outcome.results[contender], outcome.results.get(_KUBE)
    share = ours.rate / outcome.limit.rate
    words = [f"≥ {_SHARE:.0%} of the limit: {'reached' if share >= _SHARE else 'missed'}"]
    if theirs is not None and theirs.to_last_bind:
        faster = ours.rate / theirs.rate
        words.append(
            f"≥ {outcome.scenario.aim:.0f}×: {'reached' if faster >= outcome.scenario.aim else 'missed'}, {faster:.1f}×"
        )
    return "; ".join(words)


main()
