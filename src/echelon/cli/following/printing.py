"""How `echelon run` tells what happens: as text with a chart at the end, or as one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Protocol

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from ...api.objects import meta
from ...api.scheme import NODES
from ...runtime.plane import Plane
from ..output import hanging, plain_console
from . import chart
from .progress import Progress
from .story import Line, Story

#: Columns from which on wrapped text begins below its subject.
_WIDE = 60
_VERB_STYLES = {
    "submitted": "bold",
    "placed": "cyan",
    "evicted": "red",
    "restarts": "yellow",
    "waits": "yellow",
    "warning": "yellow",
    "complete": "green",
    "failed": "bold red",
}
_OUTCOMES = {0: "complete", 1: "failed", 3: "blocked", 130: "interrupted"}


class Printer(Protocol):
    """What is told of a run, in this order."""

    def begin(self, plane: Plane, keys: tuple[str, ...]) -> None: ...

    def lines(self, lines: Sequence[Line], progress: Progress) -> None: ...

    def end(self, story: Story, progress: Progress, code: int) -> None: ...

    def stop(self) -> None:
        """Leave the terminal as it was; for a run that cannot go on."""


def printer(output: str) -> Printer:
    return _JsonPrinter() if output == "json" else _TextPrinter()


class _TextPrinter:
    """Lines as they happen, progress bars below them on a terminal, a chart at the end."""

    def __init__(self) -> None:
        self._console = plain_console()
        self._live = Live(console=self._console, refresh_per_second=8, transient=True)

    def begin(self, plane: Plane, keys: tuple[str, ...]) -> None:
        self._plane, self._keys, self._begin = plane, keys, plane.clock.now()
        nodes = plane.caches.of(NODES).all()
        size = f"{_counted(nodes, 'simulated node')} in {_counted(chart.rows(nodes, keys), 'domain')}"
        self._console.print(Text.assemble(("echelon", "bold"), f"  {size}, API at {plane.url}"))
        self._console.print()
        if self._console.is_terminal:
            self._live.start()

    def lines(self, lines: Sequence[Line], progress: Progress) -> None:
        for line in lines:
            _print(self._console, line, self._begin)
        if self._live.is_started:
            self._live.update(progress.bars())

    def end(self, story: Story, progress: Progress, code: int) -> None:
        self.stop()
        console, now = self._console, self._plane.clock.now()
        for line in story.tell(last=True):
            _print(console, line, self._begin)
        if story.stays:
            rows = chart.rows(self._plane.caches.of(NODES).all(), self._keys)
            console.print()
            console.print(chart.draw(list(story.stays.values()), rows, self._begin, now, console.width))
        console.print()
        console.print(progress.closing(code), soft_wrap=False)

    def stop(self) -> None:
        self._live.stop()


class _JsonPrinter:
    """`start`, then an `event` for each line, then `end` with the outcome and every pod's stay on a node."""

    def begin(self, plane: Plane, keys: tuple[str, ...]) -> None:
        self._plane, self._begin = plane, plane.clock.now()
        nodes = [
            {"name": meta.name(node), "domain": [meta.labels(node).get(key, "") for key in keys]}
            for node in plane.caches.of(NODES).all()
        ]
        _write({"type": "start", "server": plane.url, "levels": list(keys), "nodes": nodes})

    def lines(self, lines: Sequence[Line], progress: Progress) -> None:
        for line in lines:
            event = {"event": line.verb, "object": line.subject, "message": line.text}
            _write({"type": "event", "at": self._since(line.at), **event})

    def end(self, story: Story, progress: Progress, code: int) -> None:
        self.lines(story.tell(last=True), progress)
        stays = [
            {
                "unit": stay.unit,
                "node": stay.node,
                "begin": self._since(stay.begin),
                "end": self._since(stay.end) if stay.end is not None else None,
            }
            for stay in story.stays.values()
        ]
        waiting = [{"object": name, "reason": why} for name, why in progress.waiting()]
        outcome = {"outcome": _OUTCOMES[code], "exitCode": code, "at": self._since(self._plane.clock.now())}
        _write({"type": "end", **outcome, "waiting": waiting, "stays": stays})

    def stop(self) -> None:
        pass

    def _since(self, time: float) -> float:
        return round(time - self._begin, 3)


def _write(data: dict[str, object]) -> None:
    click.echo(json.dumps(data, ensure_ascii=False))


def _counted(things: Sequence[object], word: str) -> str:
    return f"{len(things)} {word}" if len(things) == 1 else f"{len(things)} {word}s"


def _print(console: Console, line: Line, begin: float) -> None:
    """Print one line; text that does not fit beside its subject wraps below it."""
    head = Text(f"{line.at - begin:7.1f}s  ", style="dim")
    head.append(f"{line.verb:<10}", style=_VERB_STYLES.get(line.verb, ""))
    indent = len(head) if console.width >= _WIDE else len(head) // 2
    head.append(f"{line.subject:<28}  ", style="bold" if line.verb == "submitted" else "")
    text = Text(line.text, style="dim" if line.verb == "submitted" else "")
    console.print(hanging(head, text, indent, console.width))
