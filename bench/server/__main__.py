"""`make bench-server`: requests a second and processor time per request; `ARGS="--pods 300 --runs 1"` asks less.

Contenders take turns within each row, because the machine is not the same from minute to minute; of several runs the
median counts.  On a busy machine compare processor time, not rates.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.table import Table

from echelon.runtime.plane import run_program

from . import rows
from .bare_sqlite import inserts
from .contenders import Contender, everyone
from .fan_out import WATCHES, fan_out
from .rows import AT_ONCE, ROWS, Figure

_WRITES = ("create", "patch", "status", "bind", "apply")
_FAN_OUT = f"watch × {WATCHES:,}"
Figures = dict[tuple[str, str], list[Figure]]


@click.command()
@click.option("--pods", type=click.IntRange(AT_ONCE), default=1600, help="Pods of a run.")
@click.option("--runs", type=click.IntRange(1), default=3)
@click.option("--row", "chosen", multiple=True, type=click.Choice([*ROWS, "watch"]), help="[default: all]")
def main(pods: int, runs: int, chosen: tuple[str, ...]) -> None:
    """The API server, row by row."""
    with tempfile.TemporaryDirectory() as directory:
        body = msgspec.json.encode(rows.pod("fixed"))
        with everyone(Path(directory), body) as contenders:
            figures = run_program(_measured(contenders, Path(directory), pods, runs, chosen or (*ROWS, "watch")))
    Console(width=140).print(_table([contender.name for contender in contenders], figures))


async def _measured(
    contenders: Sequence[Contender], directory: Path, pods: int, runs: int, chosen: Sequence[str]
) -> Figures:
    figures: Figures = {}
    names = [f"pod-{number}" for number in range(pods)]
    for run in range(runs):
        where = rows.path_of(f"run-{run}")
        async with AsyncExitStack() as stack:
            wires = [await stack.enter_async_context(rows.namespace(one, f"run-{run}")) for one in contenders]
            for row in ROWS:
                if row != "create" and row not in chosen:
                    continue
                for contender, wire in zip(contenders, wires, strict=True):
                    if (row, contender.name) == ("list", "uvicorn"):
                        continue  # its answer is one pod
                    figure = await rows.measure(contender, wire, row, where, names)
                    figures.setdefault((row, contender.name), []).append(figure)
        value = b"x" * 1500
        figure = await asyncio.to_thread(inserts, directory / "bare.db", value, pods, AT_ONCE)
        figures.setdefault(("create", "sqlite"), []).append(figure)
        if "watch" in chosen:
            for contender in contenders:
                if contender.name != "uvicorn":
                    figure = await fan_out(contender, f"watched-{run}")
                    figures.setdefault((_FAN_OUT, contender.name), []).append(figure)
    return figures


def _median(figures: Figures, row: str, name: str, of: Callable[[Figure], float]) -> float | None:
    found = figures.get((row, name))
    return statistics.median(map(of, found)) if found else None


def _table(contenders: Sequence[str], figures: Figures) -> Table:
    table = Table(title=f"Requests a second and processor time of the server; {AT_ONCE} at a time over HTTPS")
    table.add_column("row")
    for name in contenders:
        table.add_column(f"{name}/s", justify="right")
        table.add_column("ms CPU", justify="right")
    table.add_column("of uvicorn", justify="right")
    table.add_column("of sqlite", justify="right")
    table.add_column("× kube-apiserver: rate", justify="right")
    table.add_column("CPU", justify="right")
    for row in dict.fromkeys(row for row, _ in figures):
        cells = [row]
        for name in contenders:
            rate, cost = _median(figures, row, name, _rate), _median(figures, row, name, _cost)
            cells += [f"{rate:,.0f}" if rate else "", f"{cost:.3f}" if cost else ""]
        bare = "create" if row in _WRITES else row
        cells.append(_ratio(figures, row, _rate, (row, "uvicorn")))
        cells.append(_ratio(figures, row, _rate, (bare, "sqlite")))
        cells.append(_ratio(figures, row, _rate, (row, "kube-apiserver")))
        cells.append(_ratio(figures, row, _cost, (row, "kube-apiserver")))
        table.add_row(*cells)
    return table


def _rate(figure: Figure) -> float:
    return figure.rate


def _cost(figure: Figure) -> float:
    return figure.cost


def _ratio(figures: Figures, row: str, of: Callable[[Figure], float], other: tuple[str, str]) -> str:
    """Echelon's figure in a row, divided by another one."""
    ours, theirs = _median(figures, row, "echelon", of), _median(figures, *other, of)
    return f"{ours / theirs:.2f}" if ours and theirs else ""


main()
