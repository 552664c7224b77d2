"""The occupancy chart of `echelon run`: a row per domain, time from left to right, a letter per job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..api.objects import meta
from ..api.scheme import Object
from ..base.paths import spoken
from .story import Stay

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "red", "bright_cyan", "bright_magenta", "bright_yellow")
_WIDTH = 60
_IDLE = "·"


@dataclass(frozen=True)
class Row:
    """One domain of the chart: its path and its nodes."""

    path: tuple[str, ...]
    nodes: tuple[str, ...]


def rows(nodes: Iterable[Object], keys: Sequence[str]) -> list[Row]:
    """Nodes by their domain path at the given topology keys, in order."""
    grouped: dict[tuple[str, ...], list[str]] = {}
    for node in nodes:
        path = tuple(meta.labels(node).get(key, "") for key in keys)
        grouped.setdefault(path, []).append(meta.name(node))
    return [Row(path, tuple(sorted(names))) for path, names in sorted(grouped.items())]


def draw(stays: Sequence[Stay], domains: Sequence[Row], begin: float, end: float) -> RenderableType:
    """The chart and a legend with the domains and times of each unit."""
    units = list(dict.fromkeys(stay.unit for stay in sorted(stays, key=lambda stay: stay.begin)))
    marks = {unit: _mark(index) for index, unit in enumerate(units)}
    step = max((end - begin) / _WIDTH, 1e-9)
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, min_width=_WIDTH)
    table.add_column(no_wrap=True)
    previous = ""
    for row in domains:
        outer, name = spoken(row.path[:-1]), row.path[-1] if row.path else "cluster"
        table.add_row(
            Text(outer if outer != previous else "", style="bold"),
            Text(name.removeprefix(f"{outer}-")),
            _timeline(row, stays, marks, begin, step),
            Text(f"{len(row.nodes)} nodes", style="dim"),
        )
        previous = outer
    last = f"{end - begin:.0f}s"
    scale = Text("0s" + last.rjust(_WIDTH - 2), style="dim")
    table.add_row("", "", scale, "")
    return Group(table, Text(), _legend(units, marks, stays, domains, begin))


def _mark(index: int) -> tuple[str, str]:
    return _LETTERS[index % len(_LETTERS)], _COLOURS[index % len(_COLOURS)]


def _timeline(row: Row, stays: Sequence[Stay], marks: dict[str, tuple[str, str]], begin: float, step: float) -> Text:
    """One character per time slice: the unit that used most of the domain's nodes in it."""
    inside = set(row.nodes)
    mine = [stay for stay in stays if stay.node in inside]
    text = Text()
    for column in range(_WIDTH):
        left, right = begin + column * step, begin + (column + 1) * step
        held: dict[str, float] = {}
        for stay in mine:
            overlap = min(right, stay.end if stay.end is not None else right) - max(left, stay.begin)
            if overlap > 0:
                held[stay.unit] = held.get(stay.unit, 0.0) + overlap
        if held:
            letter, colour = marks[max(held, key=lambda unit: (held[unit], unit))]
            text.append(letter, style=f"bold {colour}")
        else:
            text.append(_IDLE, style="dim")
    return text


def _legend(
    units: Sequence[str],
    marks: dict[str, tuple[str, str]],
    stays: Sequence[Stay],
    domains: Sequence[Row],
    begin: float,
) -> Table:
    """Each unit with the domains and times of its runs; a unit that was evicted has several."""
    path_of = {node: spoken(row.path) for row in domains for node in row.nodes}
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for unit in units:
        letter, colour = marks[unit]
        runs: dict[str, list[Stay]] = {}
        for stay in stays:
            if stay.unit == unit:
                runs.setdefault(path_of.get(stay.node, stay.node), []).append(stay)
        told = "; ".join(_run(place, its, begin) for place, its in runs.items())
        table.add_row(Text(letter, style=f"bold {colour}"), Text(unit), Text(told, style="dim"))
    return table


def _run(place: str, stays: Sequence[Stay], begin: float) -> str:
    spans: list[list[float]] = []
    for stay in sorted(stays, key=lambda one: one.begin):
        end = stay.end if stay.end is not None else float("inf")
        if spans and stay.begin <= spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], end)
        else:
            spans.append([stay.begin, end])
    times = ", ".join(
        f"{a - begin:.0f}s…" if b == float("inf") else f"{a - begin:.0f}–{b - begin:.0f}s" for a, b in spans
    )
    return f"{place} at {times}" if place else times
