"""How `echelon run` tells what happens: as text with a chart at the end, or as one JSON object per line.

Of pods that are processes of this machine it also tells what they write, and what failed with the end of its log.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from ...api.objects import meta
from ...api.running_pods import LogLine
from ...api.scheme import NODES, Object
from ...base import quantity
from ...runtime.plane import Plane
from ..failures import EXIT_FAILED
from ..output import hanging, plain_console
from . import chart
from .followed_pods import Failure, FollowedPods, shown
from .obstacles import Obstacle
from .story import Line, Story

#: Columns from which on wrapped text begins below its subject.
_WIDE = 60
#: Begins below what the first line says of the cluster.
_INDENT = Text("         ")
_VERB_STYLES = {
    "submitted": "bold",
    "placed": "cyan",
    "running": "cyan",
    "log": "dim",
    "evicted": "red",
    "restarts": "yellow",
    "waits": "yellow",
    "warning": "yellow",
    "complete": "green",
    "failed": "bold red",
}
_OUTCOMES = {0: "complete", 1: "failed", 3: "blocked", 130: "interrupted"}


#: Of failed containers, so many are shown with the end of their log.
_SHOWN_FAILURES = 3


@dataclass(frozen=True)
class RunEnd:
    """How a run ended, before what still ran was stopped."""

    code: int
    at: float
    closing: RenderableType
    waiting: Sequence[Obstacle]


class LiveView(Protocol):
    def bars(self) -> RenderableType: ...


class Printer(Protocol):
    """What is told of a run, in this order."""

    #: Whether there is a view below the lines that changes in place.
    live: bool

    def begin(self, plane: Plane, keys: tuple[str, ...]) -> None: ...

    def lines(self, lines: Sequence[Line], view: LiveView) -> None: ...

    def logs(self, lines: Sequence[LogLine]) -> None:
        """What containers wrote.  May wait for whoever reads it."""

    def stopping(self, pods: int) -> None:
        """So many pods of this machine are asked to end."""

    def end(self, story: Story, local: FollowedPods | None, outcome: RunEnd) -> None: ...

    def stop(self) -> None:
        """Leave the terminal as it was; for a run that cannot go on."""


def printer(output: str) -> Printer:
    return _JsonPrinter() if output == "json" else _TextPrinter()


class _TextPrinter:
    """Lines as they happen, a live view below them on a terminal, a chart at the end."""

    def __init__(self) -> None:
        self._console = plain_console()
        self._live = Live(console=self._console, refresh_per_second=8, transient=True)
        self.live = self._console.is_terminal
        self._prefix = 0
        self._colours: dict[str, str] = {}

    def begin(self, plane: Plane, keys: tuple[str, ...]) -> None:
        self._plane, self._keys, self._begin = plane, keys, plane.clock.now()
        self._console.print(Text.assemble(("echelon", "bold"), f"  {_described(plane, keys)}, API at {plane.url}"))
        if plane.process_nodes is not None:
            words = Text(f"pods run as processes: {plane.process_nodes.tier_described}", style="dim")
            self._console.print(hanging(_INDENT, words, len(_INDENT), self._console.width))
            self._console.print(Text.assemble(_INDENT, (f"KUBECONFIG={plane.kubeconfig}", "dim")))
        self._console.print()
        if self.live:
            self._live.start()

    def lines(self, lines: Sequence[Line], view: LiveView) -> None:
        for line in lines:
            _print(self._console, line, self._begin)
        if self._live.is_started:
            self._live.update(Group(Text(), view.bars()))

    def logs(self, lines: Sequence[LogLine]) -> None:
        """Each line after its pod and container, in a colour of the pod."""
        for line in lines:
            name = f"{line.pod}/{line.container}"
            self._prefix = max(self._prefix, len(name))
            if not self.live:
                click.echo(f"{name:<{self._prefix}} | {shown(line.text).plain}")
                continue
            colour = self._colours.setdefault(line.pod, chart.COLOURS[len(self._colours) % len(chart.COLOURS)])
            self._console.print(Text.assemble((f"{name:<{self._prefix}} │ ", colour), shown(line.text)))

    def stopping(self, pods: int) -> None:
        self._console.print(Text(f"stopping {_counted(range(pods), 'pod')}; Ctrl-C kills what is left", style="yellow"))

    def end(self, story: Story, local: FollowedPods | None, outcome: RunEnd) -> None:
        self.stop()
        console, nodes = self._console, self._plane.caches.of(NODES).all()
        for line in story.tell(last=True):
            _print(console, line, self._begin)
        if story.stays and (local is None or len(nodes) > 1):
            rows = chart.rows(nodes, self._keys)
            console.print()
            console.print(chart.draw(list(story.stays.values()), rows, self._begin, outcome.at, console.width))
        if local is not None and story.stays:
            console.print()
            console.print(local.bars())
        for failure in _failures(local, outcome)[:_SHOWN_FAILURES]:
            _print_failure(console, failure)
        console.print()
        console.print(outcome.closing, soft_wrap=False)

    def stop(self) -> None:
        self._live.stop()


class _JsonPrinter:
    """`start`, then an `event` for each line, then `end` with the outcome and every pod's stay on a node."""

    live = False

    def begin(self, plane: Plane, keys: tuple[str, ...]) -> None:
        self._begin = plane.clock.now()
        nodes = [
            {"name": meta.name(node), "domain": [meta.labels(node).get(key, "") for key in keys]}
            for node in plane.caches.of(NODES).all()
        ]
        told: dict[str, object] = {"type": "start", "server": plane.url, "levels": list(keys), "nodes": nodes}
        _write(told | ({"kubeconfig": str(plane.kubeconfig)} if plane.process_nodes is not None else {}))

    def lines(self, lines: Sequence[Line], view: LiveView) -> None:
        self._events(lines)

    def _events(self, lines: Sequence[Line]) -> None:
        for line in lines:
            event = {"event": line.verb, "object": line.subject, "message": line.text}
            _write({"type": "event", "at": self._since(line.at), **event})

    def logs(self, lines: Sequence[LogLine]) -> None:
        for line in lines:
            who = {"pod": line.pod, "container": line.container, "attempt": line.attempt, "output": line.output}
            _write({"type": "log", "time": line.time, **who, "text": line.text})

    def stopping(self, pods: int) -> None:
        pass

    def end(self, story: Story, local: FollowedPods | None, outcome: RunEnd) -> None:
        self._events(story.tell(last=True))
        stays = [
            {
                "unit": stay.unit,
                "node": stay.node,
                "begin": self._since(stay.begin),
                "end": self._since(stay.end) if stay.end is not None else None,
            }
            for stay in story.stays.values()
        ]
        waiting = [{"object": name, "reason": why} for name, why in outcome.waiting]
        told = {"outcome": _OUTCOMES[outcome.code], "exitCode": outcome.code, "at": self._since(outcome.at)}
        groups = {"groups": [asdict(group) for group in local.groups()]} if local is not None else {}
        failures = list(map(_failure, _failures(local, outcome)))
        more = {"failures": failures} if failures else {}
        _write({"type": "end", **told, "waiting": waiting, "stays": stays, **groups, **more})

    def stop(self) -> None:
        pass

    def _since(self, time: float) -> float:
        return round(time - self._begin, 3)


def _write(data: dict[str, object]) -> None:
    click.echo(json.dumps(data, ensure_ascii=False))


def _failures(local: FollowedPods | None, outcome: RunEnd) -> list[Failure]:
    return local.first_failures() if local is not None and outcome.code == EXIT_FAILED else []


def _failure(failure: Failure) -> dict[str, object]:
    who = {"pod": failure.pod, "container": failure.container, "exitCode": failure.exit_code}
    return {**who, "reason": failure.reason, "message": failure.message, "log": list(failure.log)}


def _print_failure(console: Console, failure: Failure) -> None:
    console.print()
    words = f"Pod/{failure.pod} container {failure.container}: {failure.why}"
    console.print(Text(f"{words}; the end of its log:" if failure.log else f"{words}; it wrote nothing", style="red"))
    for line in [*failure.log, *filter(None, [failure.message])]:
        console.print(Text("  ").append_text(shown(line)))


def _described(plane: Plane, keys: tuple[str, ...]) -> str:
    """The nodes, in words."""
    local = plane.process_nodes.names if plane.process_nodes is not None else frozenset[str]()
    nodes = plane.caches.of(NODES).all()
    own = [node for node in nodes if meta.name(node) in local]
    simulated = [node for node in nodes if meta.name(node) not in local]
    told = []
    if own:
        told.append(f"this machine as {_counted(own, 'node')} ({_amounts(own)})")
    if simulated:
        domains = _counted(chart.rows(simulated, keys), "domain")
        told.append(f"{_counted(simulated, 'simulated node')} in {domains}")
    return " and ".join(told)


def _amounts(nodes: Sequence[Object]) -> str:
    """What the first node has; those of one machine share it."""
    capacity = nodes[0]["status"]["capacity"]
    memory = quantity.parse(capacity.get("memory", "0")) / 2**30
    gpus = [f"{amount} {name}" for name, amount in capacity.items() if "/" in name and amount != "0"]
    return ", ".join([f"{capacity.get('cpu')} cpu", f"{memory:.0f} GiB", *gpus]) + (" each" if len(nodes) > 1 else "")


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
