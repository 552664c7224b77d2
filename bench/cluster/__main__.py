"""`make bench-cluster ARGS="--only echelon --scenario racks --scale 0.2"`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import click
from rich.console import Console
from rich.table import Table
from tests.cluster.controlplane import VERSION, ControlPlane, control_plane, home, missing

from bench.blocked import table as reason_table
from echelon.api.group_kinds import NATIVE, OWN, OWN_GROUP
from echelon.runtime.plane import run_program

from .capacity import starts
from .capacity import table as capacity_table
from .contenders import Contender, echelon, kube_scheduler
from .fallback import Forms, compare
from .full import reasons
from .many import large_cluster
from .many import table as many_table
from .measure import Outcome, Result, Runs, run
from .scenarios import SCENARIOS, Scenario
from .stage import Stage, stage

_ECHELON, _KUBE = "echelon", "kube-scheduler"
_FULL = "full"
_MANY = "many"
_CAPACITY = "capacity"
_FALLBACK = "fallback"
_CHOICES = [*SCENARIOS, _FULL, _MANY, _CAPACITY, _FALLBACK]
_SHARE = 0.85

T = TypeVar("T")


@click.command()
@click.option("--scenario", "names", multiple=True, type=click.Choice(_CHOICES), help="[default: all]")
@click.option("--scale", type=click.FloatRange(0, 1, min_open=True), default=1.0, help="Part of the full size.")
@click.option("--only", type=click.Choice([_ECHELON, _KUBE]), help="Leave the other scheduler out.")
@click.option("--rounds", type=click.IntRange(1), default=7, show_default=True, help="Runs of each but kube-scheduler.")
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
    for name in names or _CHOICES:
        with tempfile.TemporaryDirectory(prefix="echelon-bench-") as temporary:
            directory = keep / name if keep else Path(temporary)
            directory.mkdir(parents=True, exist_ok=True)
            if name == _FALLBACK:
                for forms in compare(directory, scale, rounds, patience):
                    console.print(_forms(forms))
                continue
            # A control plane of its own for every scenario.
            with control_plane(directory, manager=False) as plane:
                if name == _FULL:
                    told = run_program(_staged(plane, lambda at: reasons(at, scale)))
                    console.print(reason_table(told, "on a real control plane"))
                    continue
                if name == _CAPACITY:
                    console.print(capacity_table(run_program(_staged(plane, lambda at: starts(at, scale)))))
                    continue
                if name == _MANY:
                    console.print(many_table([run_program(_staged(plane, lambda at: large_cluster(at, scale)))]))
                    continue
                chosen = [one for one in (echelon(plane), kube_scheduler(plane)) if only in (None, one.name)]
                scenario = SCENARIOS[name](scale)
                outcomes.append(run_program(_staged(plane, partial(_race, scenario, chosen, rounds, patience))))
        console.print(_limits(outcomes))
        console.print(_submissions(outcomes))


async def _staged(plane: ControlPlane, act: Callable[[Stage], Awaitable[T]]) -> T:
    async with stage(plane) as at:
        return await act(at)


async def _race(scenario: Scenario, chosen: list[Contender], rounds: int, patience: float, at: Stage) -> Outcome:
    return await run(at, scenario, chosen, rounds, patience)


def _limits(outcomes: list[Outcome]) -> Table:
    """How near each comes to what the server can take."""
    table = _table(
        "all pods were there; from the scheduler's first moment as the leader",
        ("scenario", "who", "pods/s", "last bind", "last word", "CPU", "memory", "of the limit", "aim"),
    )
    for outcome in outcomes:
        best = outcome.best
        title = [outcome.scenario.title, f"no scheduler, {best}"]
        middle = outcome.bare.median(best)
        table.add_row(*title, _rate(outcome.bare, best), _last_bind(middle), "", _cpu(middle))
        for who in outcome.waiting:
            middle, share = outcome.waiting.median(who), outcome.share(who)
            cells = [_rate(outcome.waiting, who), _last_bind(middle), _last_word(middle), _cpu(middle), _memory(middle)]
            table.add_row("", who, *cells, f"{share:.0%}", _aims(outcome, who))
    return table


def _submissions(outcomes: list[Outcome]) -> Table:
    """How long a user waits."""
    table = _table(
        "submitted to a scheduler that leads; from the first create",
        (
            "scenario",
            "who",
            "pods/s",
            "last create",
            "last bind",
            "last word",
            "CPU",
            "memory",
            "beside kube-scheduler",
        ),
    )
    for outcome in outcomes:
        title, runs = outcome.scenario.title, outcome.submitted
        for who in runs:
            middle = runs.median(who)
            created = f"{middle.to_last_create:.2f} s"
            cells = [_rate(runs, who), created, _last_bind(middle), _last_word(middle), _cpu(middle), _memory(middle)]
            faster = f"{_faster(runs):.1f}×" if who != _KUBE and _KUBE in runs else ""
            table.add_row(title, who, *cells, faster)
            title = ""
    return table


def _forms(forms: Forms) -> Table:
    """What it costs that a server has no groups of pods."""
    table = _table(
        f"{forms.title}; Echelon with native groups, and with {OWN_GROUP} without gates",
        ("pods", "groups", "pods/s", "last create", "last bind", "last word", "CPU", "memory", "beside native"),
    )
    for kind, runs in (("were there", forms.waiting), ("submitted", forms.submitted)):
        native = runs.median(NATIVE)
        for form in runs:
            middle = runs.median(form)
            created = f"{middle.to_last_create:.2f} s" if middle.to_last_create else ""
            cells = [_rate(runs, form), created, _last_bind(middle), _last_word(middle), _cpu(middle), _memory(middle)]
            ratio = f"{runs.rate(form) / runs.rate(NATIVE):.2f}×; CPU {_ratio(middle.own, native.own)}"
            ratio += f" | {_ratio(middle.server, native.server)}"
            table.add_row(kind, form, *cells, ratio if form == OWN else "")
    return table


def _ratio(one: float, other: float) -> str:
    return f"{one / other:.2f}×" if other else "–"


def _table(title: str, headings: Sequence[str]) -> Table:
    table = Table(
        title=f"pods bound on a real control plane {VERSION}: {title}; medians",
        caption="CPU of the scheduler or bare client | of etcd and kube-apiserver, until the last bind",
    )
    words = ("scenario", "who", "pods", "groups", "aim")
    for heading in headings:
        table.add_column(heading, justify="left" if heading in words else "right")
    return table


def _rate(runs: Runs, who: str) -> str:
    rates = runs.rates(who)
    return f"{runs.rate(who):,.0f}" + (f" ({rates[0]:,.0f}–{rates[-1]:,.0f})" if len(rates) > 1 else "")


def _last_bind(result: Result) -> str:
    return f"{result.seconds:.2f} s" if result.bound == result.pods else f"{result.bound} of {result.pods}"


def _last_word(result: Result) -> str:
    return f"{result.to_last_word:.2f} s" if result.to_last_word is not None else "–"


def _cpu(result: Result) -> str:
    return f"{result.own:.2f} | {result.server:.1f} s"


def _memory(result: Result) -> str:
    return f"{result.peak_megabytes:,.0f} MB"


def _faster(runs: Runs) -> float:
    """How many times as fast as kube-scheduler in this run; 0 if it did not take part."""
    slow = runs.rate(_KUBE) if _KUBE in runs else 0.0
    return runs.rate(_ECHELON) / slow if slow and _ECHELON in runs else 0.0


def _aims(outcome: Outcome, who: str) -> str:
    """Whether Echelon is as fast as it means to be, beside the limit and beside kube-scheduler."""
    if who == _KUBE:
        return ""
    words = [f"≥ {_SHARE:.0%}: {_reached(outcome.share(who) >= _SHARE)}"]
    if faster := _faster(outcome.waiting):
        words.append(f"≥ {outcome.scenario.aim:.0f}×: {_reached(faster >= outcome.scenario.aim)}, {faster:.1f}×")
    return "; ".join(words)


def _reached(reached: bool) -> str:
    return "reached" if reached else "missed"


main()
