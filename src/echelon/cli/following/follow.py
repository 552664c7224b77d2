"""The main loop of `echelon run`: submits manifests when they are due and prints what happens, until all have ended."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from dataclasses import dataclass

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from ...api.errors import ApiError
from ...api.objects import meta
from ...api.scheme import NODES, Object
from ...api.verbs import WriteOptions
from ...runtime.config import PlaneSettings
from ...runtime.plane import Plane, running
from ..failures import EXIT_BLOCKED, EXIT_FAILED, EXIT_INTERRUPTED, Refusal
from ..output import hanging, plain_console
from . import chart
from .manifests import Manifest, ManifestObject, ordered
from .progress import Progress
from .story import Line, Story

_TICK_SECONDS = 0.1
#: Columns from which on wrapped text begins below its subject.
_WIDE = 60
_VERB_STYLES = {
    "submitted": "bold",
    "placed": "cyan",
    "evicted": "red",
    "restarts": "yellow",
    "waits": "yellow",
    "complete": "green",
    "failed": "bold red",
}


@dataclass(frozen=True)
class _Submission:
    """A manifest and the time at which it is submitted."""

    manifest: Manifest
    due: float


async def follow_to_the_end(settings: PlaneSettings, manifests: list[Manifest], stagger: float) -> int:
    """Run the manifests on a new control plane; returns the exit code."""
    console = plain_console()
    interrupted = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, interrupted.set)
    async with running(settings) as plane:
        keys = tuple(level.key for level in settings.cluster.levels)
        begin = plane.clock.now()
        story = Story(plane.caches, plane.clock.now, keys)
        progress = Progress(plane.caches, plane.clock.now)
        _print_header(console, plane, keys)
        due = [_Submission(manifest, begin + index * stagger) for index, manifest in enumerate(manifests)]
        code = await _follow(console, plane, story, progress, due, begin, interrupted)
        for line in story.tell(last=True):
            _print(console, line, begin)
        rows = chart.rows(plane.caches.of(NODES).all(), keys)
        if story.stays:
            console.print()
            console.print(chart.draw(list(story.stays.values()), rows, begin, plane.clock.now(), console.width))
        console.print()
        console.print(progress.closing(code))
        return code


async def _follow(
    console: Console,
    plane: Plane,
    story: Story,
    progress: Progress,
    due: list[_Submission],
    begin: float,
    interrupted: asyncio.Event,
) -> int:
    """Submit what is due and print what happened, until the end; returns the exit code."""
    with Live(console=console, refresh_per_second=8, transient=True) as live:
        if not console.is_terminal:
            live.stop()
        while True:
            while due and plane.clock.now() >= due[0].due:
                await _submit(plane, due.pop(0).manifest, story, progress)
            for line in story.tell():
                _print(live.console if live.is_started else console, line, begin)
            if live.is_started:
                live.update(progress.bars())
            if interrupted.is_set():
                return EXIT_INTERRUPTED
            if not due:
                ended = progress.ended()
                if ended is not None:
                    return {"complete": 0, "failed": EXIT_FAILED, "blocked": EXIT_BLOCKED}[ended]
            await asyncio.sleep(_TICK_SECONDS)


async def _submit(plane: Plane, manifest: Manifest, story: Story, progress: Progress) -> None:
    titled = False
    for entry in ordered(manifest.entries):
        try:
            created = await _create(plane, entry)
        except ApiError as error:
            raise Refusal(f"{manifest.path}: {error}") from error
        if progress.add(entry.resource, created):
            story.say("submitted", entry.label, "" if titled else manifest.title)
            titled = True


async def _create(plane: Plane, entry: ManifestObject) -> Object:
    namespace = ""
    if entry.resource.namespaced:
        namespace = meta.namespace(entry.obj) or "default"
    warnings: list[str] = []
    options = WriteOptions(field_validation="Strict", field_manager="echelon", warn=warnings.append)
    created = await plane.verbs.create(entry.resource, entry.obj, namespace, options)
    for warning in warnings:
        click.echo(f"warning: {entry.label}: {warning}", err=True)
    return created


def _print_header(console: Console, plane: Plane, keys: tuple[str, ...]) -> None:
    nodes = plane.caches.of(NODES).all()
    domains = chart.rows(nodes, keys)
    console.print(
        Text.assemble(
            ("echelon", "bold"),
            f"  {_counted(nodes, 'simulated node')} in {_counted(domains, 'domain')}, API at {plane.url}",
        )
    )
    console.print()


def _counted(things: Sequence[object], word: str) -> str:
    return f"{len(things)} {word}" if len(things) == 1 else f"{len(things)} {word}s"


def _print(console: Console, line: Line, begin: float) -> None:
    """Print one line; text that does not fit beside its subject wraps below it."""
    head = Text(f"{line.at - begin:7.1f}s  ", style="dim")
    head.append(f"{line.verb:<10}", style=_VERB_STYLES.get(line.verb, ""))
    indent = len(head) if console.width >= _WIDE else len(head) // 2
    head.append(f"{line.subject:<28}  ", style="bold" if line.verb == "submitted" else "")
    console.print(
        hanging(head, Text(line.text, style="dim" if line.verb == "submitted" else ""), indent, console.width)
    )
