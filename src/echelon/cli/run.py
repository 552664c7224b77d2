"""`echelon run`: start a plane of its own, submit manifests, follow them to the end, show where everything ran."""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from ..api import meta
from ..api.errors import ApiError
from ..api.scheme import NODES, Object
from ..api.verbs import WriteOptions
from ..runtime.config import PlaneSettings
from ..runtime.plane import CannotStart, Plane, run_program, running
from . import picture
from .failures import EXIT_BLOCKED, EXIT_FAILED, EXIT_INTERRUPTED, Refusal
from .manifests import BadManifest, Entry, Manifest, load, ordered
from .options import cluster_option, load_cluster, speed_option
from .progress import Progress
from .story import Line, Story

_TICK_SECONDS = 0.1
_PLAIN_WIDTH = 120
_VERB_STYLES = {
    "submitted": "bold",
    "placed": "cyan",
    "evicted": "red",
    "restarts": "yellow",
    "waits": "yellow",
    "complete": "green",
    "failed": "bold red",
}


@click.command()
@click.argument("manifests", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False))
@cluster_option
@speed_option
@click.option(
    "--every",
    "stagger",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="Submit one manifest after the other, this far apart in cluster time.  [default: all at once]",
)
def run(manifests: tuple[Path, ...], cluster_file: Path | None, speed: float, stagger: float) -> None:
    """Run MANIFESTS on a simulated cluster to their end.

    \b
    The exit code tells the outcome:
      0    everything completed
      1    something failed
      2    bad input
      3    nothing moves any more and something cannot be placed (the reason is printed)
      130  interrupted
    """
    try:
        loaded = [load(path) for path in manifests]
    except BadManifest as error:
        raise Refusal(str(error)) from error
    cluster = load_cluster(cluster_file)
    with tempfile.TemporaryDirectory(prefix="echelon-") as data:
        settings = PlaneSettings(data=Path(data), cluster=cluster, speed=speed)
        try:
            code = run_program(_run(settings, loaded, stagger))
        except CannotStart as error:
            raise Refusal(str(error)) from error
    sys.exit(code)


@dataclass(frozen=True)
class _Submission:
    """A file and the instant at which it is due."""

    manifest: Manifest
    due: float


async def _run(settings: PlaneSettings, manifests: list[Manifest], stagger: float) -> int:
    console = _console()
    interrupted = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, interrupted.set)
    async with running(settings) as plane:
        keys = tuple(level.key for level in settings.cluster.levels)
        begin = plane.clock.now()
        story = Story(plane.caches, plane.clock.now, keys)
        progress = Progress(plane.caches, plane.clock.now)
        _say_hello(console, plane, keys)
        due = [_Submission(manifest, begin + index * stagger) for index, manifest in enumerate(manifests)]
        code = await _follow(console, plane, story, progress, due, begin, interrupted)
        for line in story.tell():
            _print(console, line, begin)
        rows = picture.rows(plane.caches.of(NODES).all(), keys)
        if story.stays:
            console.print()
            console.print(picture.draw(list(story.stays.values()), rows, begin, plane.clock.now()))
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
    """Submit what is due, print what happened, until the end; the exit code."""
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
    told = False
    for entry in ordered(manifest.entries):
        try:
            created = await _create(plane, entry)
        except ApiError as error:
            raise Refusal(f"{manifest.path}: {error}") from error
        if progress.add(entry.resource, created):
            story.say("submitted", entry.label, "" if told else manifest.title)
            told = True


async def _create(plane: Plane, entry: Entry) -> Object:
    namespace = ""
    if entry.resource.namespaced:
        namespace = meta.namespace(entry.obj) or "default"
    warnings: list[str] = []
    options = WriteOptions(field_validation="Strict", field_manager="echelon", warn=warnings.append)
    created = await plane.verbs.create(entry.resource, entry.obj, namespace, options)
    for warning in warnings:
        click.echo(f"warning: {entry.label}: {warning}", err=True)
    return created


def _console() -> Console:
    """Wide enough for the drawing where there is no terminal to measure."""
    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = _PLAIN_WIDTH
    return console


def _say_hello(console: Console, plane: Plane, keys: tuple[str, ...]) -> None:
    nodes = plane.caches.of(NODES).all()
    domains = picture.rows(nodes, keys)
    console.print(
        Text.assemble(
            ("echelon", "bold"), f"  {len(nodes)} simulated nodes in {len(domains)} domains, API at {plane.url}"
        )
    )
    console.print()


def _print(console: Console, line: Line, begin: float) -> None:
    text = Text(f"{line.at - begin:7.1f}s  ", style="dim")
    text.append(f"{line.verb:<10}", style=_VERB_STYLES.get(line.verb, ""))
    text.append(f"{line.subject:<28}  ", style="bold" if line.verb == "submitted" else "")
    text.append(line.text, style="dim" if line.verb == "submitted" else "")
    text.rstrip()
    console.print(text)
