"""The occupancy chart of `echelon run`: a row per domain, time from left to right, a letter per job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.text import Text

from ...api.objects import meta
from ...api.scheme import Object
from ...base.paths import spoken
from ..output import counting_order, hanging
from .story import Stay

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "red", "bright_cyan", "bright_magenta", "bright_yellow")
_IDLE = "·"
#: Columns of the time: as many as this if there is room, and never fewer than a few.
_TIME, _FEW = 60, 12
#: Columns between parts of a line, and the shortest column of a name with its gap.
_GAP, _SHORTEST = 2, 8


@dataclass(frozen=True)
class Row:
    """One domain of the chart: its path and its nodes."""

    path: tuple[str, ...]
    nodes: tuple[str, ...]


def rows(nodes: Iterable[Object], keys: Sequence[str]) -> list[Row]:
    """Nodes by their domain path at the given topology keys, in the order in which people count."""
    grouped: dict[tuple[str, ...], list[str]] = {}
    for node in nodes:
        path = tuple(meta.labels(node).get(key, "") for key in keys)
        grouped.setdefault(path, []).append(meta.name(node))
    ordered = sorted(grouped, key=lambda path: [counting_order(name) for name in path])
    return [Row(path, tuple(sorted(grouped[path], key=counting_order))) for path in ordered]


def draw(stays: Sequence[Stay], domains: Sequence[Row], begin: float, end: float, width: int) -> RenderableType:
    """The chart and a legend with the domains and times of each unit, at most `width` columns wide."""
    units = list(dict.fromkeys(stay.unit for stay in sorted(stays, key=lambda stay: stay.begin)))
    marks = {unit: _mark(index) for index, unit in enumerate(units)}
    labels = [_labels(row) for row in domains]
    layout = _layout(labels, [_size(row) for row in domains], width)
    step = max((end - begin) / layout.time, 1e-9)
    lines: list[Text] = []
    previous = ""
    for row, (outer, name) in zip(domains, labels, strict=True):
        line = Text(_fitted(outer if outer != previous else "", layout.outer), style="bold")
        line.append(_fitted(name, layout.name), style="not bold")
        line.append_text(_timeline(row, stays, marks, begin, step, layout.time))
        if layout.sizes:
            line.append(f"  {_size(row)}", style="not bold dim")
        lines.append(line)
        previous = outer
    scale = "0s" + f"{end - begin:.0f}s".rjust(layout.time - 2)
    lines.append(Text(" " * (layout.outer + layout.name) + scale, style="dim"))
    return Group(*lines, Text(), *_legend(units, marks, stays, domains, begin, width))


@dataclass(frozen=True)
class _Layout:
    """Columns of each part of a line: names of outer domain and domain with the gap that follows, and the time."""

    outer: int
    name: int
    time: int
    #: Whether the numbers of nodes are shown.
    sizes: bool


def _labels(row: Row) -> tuple[str, str]:
    """The outer domain and, without repeating it, the domain."""
    outer, name = spoken(row.path[:-1]), (row.path[-1] or "(none)") if any(row.path) else "cluster"
    return outer, name.removeprefix(f"{outer}-")


def _size(row: Row) -> str:
    return "1 node" if len(row.nodes) == 1 else f"{len(row.nodes)} nodes"


def _layout(labels: Sequence[tuple[str, str]], sizes: Sequence[str], width: int) -> _Layout:
    """Names are shown in full as long as the time has a few columns; the numbers of nodes go first."""
    outer = max((len(outer) for outer, _ in labels), default=0)
    name = max((len(name) for _, name in labels), default=0)
    outer, name = outer + _GAP if outer else 0, name + _GAP
    rest = width - outer - name
    count = max(map(len, sizes), default=0) + _GAP
    if rest - count >= _FEW:
        return _Layout(outer, name, min(_TIME, rest - count), sizes=True)
    missing = max(0, _FEW - rest)
    cut = min(missing, max(0, outer - _SHORTEST))
    return _Layout(
        outer - cut, max(name - (missing - cut), min(name, _SHORTEST)), max(_FEW, min(_TIME, rest)), sizes=False
    )


def _fitted(name: str, width: int) -> str:
    """A name padded to its column; of one that is too long the end is kept, which tells domains apart."""
    if name and len(name) > width - _GAP:
        name = "…" + name[len(name) - (width - _GAP - 1) :]
    return name.ljust(width)


def _mark(index: int) -> tuple[str, str]:
    return _LETTERS[index % len(_LETTERS)], COLOURS[index % len(COLOURS)]


def _timeline(
    row: Row, stays: Sequence[Stay], marks: dict[str, tuple[str, str]], begin: float, step: float, width: int
) -> Text:
    """One character per time slice: the unit that used most of the domain's nodes in it."""
    inside = set(row.nodes)
    mine = [stay for stay in stays if stay.node in inside]
    text = Text()
    for column in range(width):
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
            text.append(_IDLE, style="not bold dim")
    return text


def _legend(
    units: Sequence[str],
    marks: dict[str, tuple[str, str]],
    stays: Sequence[Stay],
    domains: Sequence[Row],
    begin: float,
    width: int,
) -> list[RenderableType]:
    """Each unit with the domains and times of its runs; a unit that was evicted has several."""
    path_of = {node: spoken(row.path) for row in domains for node in row.nodes}
    longest = max(map(len, units), default=0)
    lines: list[RenderableType] = []
    for unit in units:
        letter, colour = marks[unit]
        runs: dict[str, list[Stay]] = {}
        for stay in stays:
            if stay.unit == unit:
                runs.setdefault(path_of.get(stay.node, stay.node), []).append(stay)
        told = "; ".join(_run(place, its, begin) for place, its in runs.items())
        head = Text.assemble((letter, f"bold {colour}"), f"  {unit:<{longest}}  ")
        lines.append(hanging(head, Text(told, style="dim"), len(head), width))
    return lines


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
