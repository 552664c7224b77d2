"""One seed from its first event to its rest, audited all the way.

make soak            all seeds, with figures
SEED=n make soak     one of them, with its story
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from echelon.api.objects import meta
from echelon.base.instants import to_time
from echelon.runtime import virtual_time
from echelon.scheduler.acting.reservation import Patience
from echelon.scheduler.loop import Settings
from echelon.store.interface import Change, Store
from echelon.testing.virtual_plane import VirtualPlane, virtual_plane

from . import final_checks
from .invariants import Auditor, Breach
from .ledger import Tree
from .random_events import RandomEvents

#: Events between two rests.
_EVENTS_PER_ROUND = 40
#: How often a rest is looked at again while room is kept for someone.
_TURNS = 60


@dataclass
class Story:
    """What happened to a seed; `failure` is what went wrong, if anything did."""

    seed: int
    #: Whether `lines` tell every change that matters, or nothing.
    told: bool = False
    events: int = 0
    virtual_seconds: float = 0.0
    cpu_seconds: float = 0.0
    changes: int = 0
    bindings: int = 0
    preemptions: int = 0
    #: Pods of units that could not be completed where they ran.
    releases: int = 0
    digest: str = ""
    failure: str = ""
    lines: list[str] = field(default_factory=list)


class _Log(logging.Handler):
    """What the parts log goes into the story; errors are remembered."""

    def __init__(self, story: Story) -> None:
        super().__init__(logging.INFO)
        self._story = story
        self.errors: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += f" ({record.exc_info[1]!r})"
        if self._story.told:
            self._story.lines.append(f"{self._story.events:4}        log {record.levelname} {text}")
        if record.levelno >= logging.ERROR:
            self.errors.append(text)


class Life:
    """A world under audit."""

    def __init__(self, plane: VirtualPlane, story: Story) -> None:
        self._plane = plane
        self._story = story
        self.auditor = Auditor()
        self.world = RandomEvents(plane, story.seed, self._tell)
        self._read_to = 0

    def _tell(self, text: str) -> None:
        if not self._story.told:
            return
        self._story.lines.append(f"{self._story.events:4} {to_time(self._plane.clock.now())[11:19]} {text}")

    async def look(self) -> None:
        """Everything that can be checked at any moment."""
        self._plane.check()
        now, news = self._plane.clock.now(), await self._news()
        self.auditor.read(news, now)
        self.auditor.look(now, self.world.whole)
        if self._story.told:
            for line in filter(None, map(_remarkable, news)):
                self._tell(f"    {line}")
        process = self._plane.processes.get("scheduler")
        if news and process is not None and process.scheduler is not None:
            wrong = process.scheduler.inconsistencies()
            if wrong:
                raise Breach("the scheduler's view is not what a list gives: " + "; ".join(wrong[:3]))

    async def rest(self) -> None:
        """Leave the cluster alone until nothing moves, and look at what it has come to."""
        self.auditor.left_alone(True)
        await self.world.quiet(self.look)
        for _ in range(_TURNS):
            # Room may be kept for someone who starves; others get their turn before long.
            if not final_checks.problems(self.auditor) or not self._is_room_kept():
                break
            await self.world.quiet(self.look)
        self.auditor.left_alone(False)
        final_checks.check(self.auditor)
        await self._caches_are_current()

    async def _caches_are_current(self) -> None:
        """Whatever happened to its watches, every process knows what there is."""
        for process in self._plane.processes.values():
            for resource in process.caches.resources:
                kept = _versions(process.caches.of(resource).all())
                there = _versions((await self._plane.verbs.list(resource)).items)
                if kept != there:
                    differs = sorted(set(kept.items()) ^ set(there.items()))
                    raise Breach(f"at rest the {process.name} have an old picture of {resource.plural}: {differs[:4]}")

    def _is_room_kept(self) -> bool:
        process = self._plane.processes.get("scheduler")
        return process is not None and process.scheduler is not None and len(process.scheduler.reservations) > 0

    async def _news(self) -> Sequence[Change]:
        """What has been written since the last look."""
        store: Store = self._plane.store
        if store.revision == self._read_to:
            return ()
        watch = store.watch("", self._read_to)
        changes = await anext(aiter(watch))
        watch.close()
        self._read_to = changes[-1].revision
        return changes


def _versions(objects: list[Tree]) -> dict[str, str]:
    return {meta.key(one): one["metadata"]["resourceVersion"] for one in objects}


def _remarkable(change: Change) -> str:
    """A line for the story about a change that placement is made of."""
    _, _, plural, key = change.key.split("/", 3)
    if plural in ("events", "nodes"):
        return ""
    if change.record is None:
        return f"- {plural} {key}"
    new = msgspec.json.decode(change.record.value)
    if change.previous is None:
        return f"+ {plural} {key}"
    old = msgspec.json.decode(change.previous.value)
    facts = (_node, _phase, _deleting, _conditions, _counters)
    said = [f"{fact.__name__[1:]} {fact(old)!r} → {fact(new)!r}" for fact in facts if fact(old) != fact(new)]
    return f"  {plural} {key}: {', '.join(said)}" if said else ""


def _node(tree: Tree) -> Any:
    return (tree.get("spec") or {}).get("nodeName", "")


def _phase(tree: Tree) -> Any:
    return (tree.get("status") or {}).get("phase", "")


def _deleting(tree: Tree) -> Any:
    return "deletionTimestamp" in tree["metadata"]


def _conditions(tree: Tree) -> Any:
    interesting = ("DisruptionTarget", "Complete", "Failed", "Completed", "Suspended", "PodGroupInitiallyScheduled")
    found = (tree.get("status") or {}).get("conditions") or ()
    return [f"{one['type']}={one['status']}" for one in found if one["type"] in interesting]


def _counters(tree: Tree) -> Any:
    status = tree.get("status") or {}
    return {key: status[key] for key in ("active", "succeeded", "failed", "restarts") if status.get(key)}


async def _live(story: Story, events: int) -> None:
    # Every other seed is impatient, so that room is kept, and given up, again and again.
    patience = Patience(after_seconds=5, hold_seconds=60) if story.seed % 2 else Patience()
    async with virtual_plane(story.seed, Settings(patience=patience)) as plane:
        life = Life(plane, story)
        begun = plane.clock.now()
        try:
            await life.world.begin()
            while story.events < events:
                for _ in range(min(_EVENTS_PER_ROUND, events - story.events)):
                    story.events += 1
                    await life.world.step()
                    await life.look()
                await life.rest()
        finally:
            auditor = life.auditor
            story.virtual_seconds = plane.clock.now() - begun
            story.changes, story.bindings, story.preemptions = auditor.changes, auditor.bindings, auditor.preemptions
            story.releases = auditor.releases
            story.digest = auditor.digest.hexdigest()


def live(seed: int, events: int, *, told: bool = False) -> Story:
    """The story of a seed; it always comes back, with `failure` set if an invariant broke."""
    story = Story(seed, told)
    begun = time.process_time()
    log = _Log(story)
    logger = logging.getLogger("echelon")
    level, propagate = logger.level, logger.propagate
    logger.addHandler(log)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        virtual_time.run(_live(story, events))
    except AssertionError as error:
        story.failure = str(error)
    except Exception:
        story.failure = f"the soak itself broke: {traceback.format_exc()}"
    finally:
        logger.removeHandler(log)
        logger.setLevel(level)
        logger.propagate = propagate
    if log.errors:
        story.failure = "; ".join([story.failure, *log.errors[:3]]).removeprefix("; ")
    story.cpu_seconds = time.process_time() - begun
    return story
