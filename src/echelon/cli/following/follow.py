"""The main loop of `echelon run`: submits manifests when they are due and tells what happens, until all have ended."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

import click

from ...api.errors import ApiError
from ...api.objects import meta
from ...api.scheme import CRON_JOBS, Object, Resource
from ...api.verbs import WriteOptions
from ...runtime.config import PlaneSettings
from ...runtime.plane import Plane, running
from ..failures import EXIT_BLOCKED, EXIT_FAILED, EXIT_INTERRUPTED, Refusal
from ..stop_signals import StopSignals
from .followed_pods import FollowedPods
from .manifests import Manifest, ManifestObject, ordered
from .printing import Printer, RunEnd, printer
from .progress import Progress
from .story import Story

_TICK_SECONDS = 0.1


@dataclass(frozen=True)
class _Submission:
    """A manifest and the time at which it is submitted."""

    manifest: Manifest
    due: float


async def follow_to_the_end(
    settings: PlaneSettings, manifests: list[Manifest], stagger: float, output: str, *, logs: bool = False
) -> int:
    """Run the manifests on a new control plane; returns the exit code."""
    stop = StopSignals()
    told = printer(output)
    run: _Run | None = None
    try:
        async with running(settings) as plane:
            stop.nodes = plane.process_nodes
            run = _Run(told, plane, tuple(level.key for level in settings.cluster.levels), logs)
            begin = plane.clock.now()
            due = [_Submission(manifest, begin + index * stagger) for index, manifest in enumerate(manifests)]
            code = await _follow(run, due, stop.asked)
            outcome = RunEnd(code, plane.clock.now(), run.progress.closing(code), run.progress.waiting())
            stop.asked.set()
            telling = asyncio.create_task(run.tell_while_stopping())
    except BaseException:
        told.stop()
        raise
    run.stopped.set()
    await telling
    told.end(run.story, run.local, outcome)
    return code


class _Run:
    """A run and what is told of it."""

    def __init__(self, told: Printer, plane: Plane, keys: tuple[str, ...], logs: bool) -> None:
        self.told = told
        self.plane = plane
        nodes = plane.process_nodes
        own = nodes.names if nodes is not None else frozenset()
        self.story = Story(plane.caches, plane.clock.now, keys)
        self.progress = Progress(plane.caches, plane.clock.now, own)
        self.local: FollowedPods | None = None
        if nodes is not None:
            tails = nodes.log_tails(complete=logs)
            self.local = FollowedPods(plane.caches, own, tails, plane.clock.now, self.story.say)
        self._logs = logs
        #: Set when the plane has ended.
        self.stopped = asyncio.Event()
        told.begin(plane, keys)

    async def tell(self, *, last: bool = False) -> None:
        """Tell what happened since the last call."""
        if self.local is None:
            self.told.lines(self.story.tell(), self.progress)
            return
        lines = self.local.new_lines(last=last)
        self.local.tell_running()
        if not self._logs and not self.told.live:
            self.local.tell_logs()
        if self._logs and lines:
            # Beside the plane, which goes on however slowly the lines are read.
            await asyncio.to_thread(self.told.logs, lines)
        self.told.lines(self.story.tell(), self.local)

    async def tell_while_stopping(self) -> None:
        """Pods that are still there are ended within their grace, and may write until then."""
        if self.local is None:
            return
        self.local.freeze()
        pods = self.local.running()
        if pods:
            self.told.stopping(pods)
        while not self.stopped.is_set():
            await self.tell()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_SECONDS):
                    await self.stopped.wait()
        await self.tell(last=True)
        self.local.end()


async def _follow(run: _Run, due: list[_Submission], interrupted: asyncio.Event) -> int:
    """Submit what is due and tell what happened, until the end; returns the exit code."""
    clock, progress = run.plane.clock, run.progress
    while True:
        while due and clock.now() >= due[0].due and not interrupted.is_set():
            await _submit(run.plane, due.pop(0).manifest, run.story, progress)
        await run.tell()
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
            raise Refusal(f"{entry.place}: {error}") from error
        label = _label(entry.resource, created)
        if progress.add(entry.resource, created):
            story.say("submitted", label, "" if titled else manifest.title)
            titled = True
        elif entry.resource is CRON_JOBS:
            text = "starts Jobs on its schedule; a run follows what ends, echelon up keeps it"
            story.say("warning", label, text)


async def _create(plane: Plane, entry: ManifestObject) -> Object:
    namespace = ""
    if entry.resource.namespaced:
        namespace = meta.namespace(entry.obj) or "default"
    warnings: list[str] = []
    options = WriteOptions(field_validation="Strict", field_manager="echelon", warn=warnings.append)
    created = await plane.verbs.create(entry.resource, entry.obj, namespace, options)
    for warning in warnings:
        click.echo(f"warning: {_label(entry.resource, created)}: {warning}", err=True)
    return created


def _label(resource: Resource, obj: Object) -> str:
    return f"{resource.kind}/{meta.name(obj)}"
