"""The main loop of `echelon run`: submits manifests when they are due and tells what happens, until all have ended."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass

import click

from ...api.errors import ApiError
from ...api.objects import meta
from ...api.scheme import CRON_JOBS, Object
from ...api.verbs import WriteOptions
from ...runtime.config import PlaneSettings
from ...runtime.plane import Plane, running
from ..failures import EXIT_BLOCKED, EXIT_FAILED, EXIT_INTERRUPTED, Refusal
from .manifests import Manifest, ManifestObject, ordered
from .printing import Printer, printer
from .progress import Progress
from .story import Story

_TICK_SECONDS = 0.1


@dataclass(frozen=True)
class _Submission:
    """A manifest and the time at which it is submitted."""

    manifest: Manifest
    due: float


async def follow_to_the_end(settings: PlaneSettings, manifests: list[Manifest], stagger: float, output: str) -> int:
    """Run the manifests on a new control plane; returns the exit code."""
    interrupted = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, interrupted.set)
    async with running(settings) as plane:
        keys = tuple(level.key for level in settings.cluster.levels)
        begin = plane.clock.now()
        story = Story(plane.caches, plane.clock.now, keys)
        progress = Progress(plane.caches, plane.clock.now)
        told = printer(output)
        told.begin(plane, keys)
        due = [_Submission(manifest, begin + index * stagger) for index, manifest in enumerate(manifests)]
        try:
            code = await _follow(told, plane, story, progress, due, interrupted)
        except BaseException:
            told.stop()
            raise
        told.end(story, progress, code)
        return code


async def _follow(
    told: Printer,
    plane: Plane,
    story: Story,
    progress: Progress,
    due: list[_Submission],
    interrupted: asyncio.Event,
) -> int:
    """Submit what is due and tell what happened, until the end; returns the exit code."""
    while True:
        while due and plane.clock.now() >= due[0].due:
            await _submit(plane, due.pop(0).manifest, story, progress)
        told.lines(story.tell(), progress)
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
            raise Refusal(f"{manifest.source}: {error}") from error
        if progress.add(entry.resource, created):
            story.say("submitted", entry.label, "" if titled else manifest.title)
            titled = True
        elif entry.resource is CRON_JOBS:
            text = "starts Jobs on its schedule; a run follows what ends, echelon up keeps it"
            story.say("warning", entry.label, text)


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
