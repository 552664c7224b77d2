"""The shell every controller shares: fetch → decide → enact.

    informers ─(sources)→ keys → WorkQueue → Controller.decide(key, now) → Plan → enact → caches.observe

`decide` reads only caches and returns a `Plan`; the runner writes it, stage by stage.  What a write came back as
enters the caches before the key is decided again, so a decision never repeats what it has already done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from ..api.errors import ApiError, said
from ..api.objects import meta
from ..api.scheme import Object, Resource
from ..api.verbs import DeleteOptions, Verbs
from ..base.clock import Clock
from ..client.events import Recorder
from ..client.informer import Caches
from ..client.workqueue import WorkQueue
from ..decide.plan import Action, ApplyPatch, Create, Delete, Note, Plan, StatusWrite

log = logging.getLogger(__name__)

#: Doubts looked up in one turn of the event loop.
_LOOK_UPS = 100
_PARALLEL_WRITES = 64


@dataclass(frozen=True)
class Source:
    """A kind to listen to, and the keys that a change of one of its objects concerns."""

    resource: Resource
    keys: Callable[[Object], Iterable[str]]
    #: Wait this long before deciding, so that a burst of changes is decided on once.
    batch_seconds: float = 0.0


class Controller(Protocol):
    """One kind's controller.  It asks `caches` for its informers when it is made."""

    name: str

    def sources(self) -> Sequence[Source]: ...

    def decide(self, key: str, now: float) -> Plan: ...


@runtime_checkable
class Doubting(Protocol):
    """A controller that must know whether an object is really absent, and not only missing from a cache."""

    def doubts(self, key: str) -> Iterable[tuple[Resource, str, str]]:
        """Objects, as (resource, namespace, name), to be read from the server before `decide`."""
        ...


@runtime_checkable
class Surveying(Protocol):
    """A controller that must know that a cache is complete for a kind: its watch may lag behind."""

    def unsure(self, key: str, now: float) -> Iterable[tuple[Resource, str]]:
        """Kinds, each with the namespace, to be listed from the server before `decide`."""
        ...

    def surveyed(self, resource: Resource, namespace: str, at: int, now: float) -> None:
        """A kind was listed as it was at a revision."""
        ...


@runtime_checkable
class AllKinds(Protocol):
    """A controller of every kind: kinds that are defined later are among its sources."""

    def follow_kinds(self, listen: Callable[[Source], None]) -> None:
        """Call `listen` with the source of every custom kind, now and later."""
        ...


def own_key(obj: Object) -> Iterable[str]:
    """A change of the object concerns the object."""
    return (meta.key(obj),)


def controller_key(kind: str) -> Callable[[Object], Iterable[str]]:
    """A change of the object concerns its controlling owner, if that is of `kind`."""

    def keys(obj: Object) -> Iterable[str]:
        owner = meta.controller_of(obj)
        return (f"{meta.namespace(obj)}/{owner['name']}",) if owner and owner["kind"] == kind else ()

    return keys


class Runner:
    """Runs one controller with a few workers; a key is never worked on twice at a time."""

    def __init__(
        self, controller: Controller, verbs: Verbs, caches: Caches, clock: Clock, recorder: Recorder, workers: int = 4
    ) -> None:
        self._controller = controller
        self._doubts = controller.doubts if isinstance(controller, Doubting) else None
        self._surveys = controller if isinstance(controller, Surveying) else None
        self._follow_kinds = controller.follow_kinds if isinstance(controller, AllKinds) else None
        self._verbs = verbs
        self._caches = caches
        self._clock = clock
        self._recorder = recorder
        self._workers = workers
        self.queue = WorkQueue(clock)
        self._handlers = [(source.resource, self._enqueuer(source)) for source in controller.sources()]
        self._writes = asyncio.Semaphore(_PARALLEL_WRITES)

    def state(self, _most: int) -> dict[str, object]:
        """What is under way, for people; it has no lists that could be too long."""
        return {"name": self._controller.name, **self.queue.state()}

    async def run(self) -> None:
        """Work until cancelled; begins once all caches are filled."""
        for resource, handler in self._handlers:
            self._caches.of(resource).add_handler(handler, f"{self._controller.name}-controller")
        if self._follow_kinds is not None:
            self._follow_kinds(self._listen)
            self._follow_kinds = None
        await self._caches.wait_synced()
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._workers):
                    group.create_task(self._work(), name=f"{self._controller.name}-{number}")
        finally:
            self.queue.close()

    def _listen(self, source: Source) -> None:
        """Take a source that comes while the controller runs."""
        self._caches.of(source.resource).add_handler(self._enqueuer(source), f"{self._controller.name}-controller")

    def _enqueuer(self, source: Source) -> Callable[[Object | None, Object | None], None]:
        def enqueue(old: Object | None, new: Object | None) -> None:
            for obj in (old, new):
                if obj is not None:
                    for key in source.keys(obj):
                        self.queue.add_after(key, source.batch_seconds)

        return enqueue

    async def _work(self) -> None:
        while True:
            key = await self.queue.get()
            try:
                await self._reconcile(key)
            finally:
                self.queue.done(key)

    async def _reconcile(self, key: str) -> None:
        """Decide and enact once; whatever goes wrong with one key must not stop the others."""
        try:
            if self._doubts is not None:
                await self._look_up(self._doubts(key))
            if self._surveys is not None:
                await self._survey(self._surveys, key)
            plan = self._controller.decide(key, self._clock.now())
            await self._enact(plan)
            self._log(key, plan)
        except (ApiError, OSError) as error:
            expected = isinstance(error, ApiError) and error.reason in ("Conflict", "AlreadyExists")
            level = logging.DEBUG if expected else logging.WARNING
            log.log(level, "%s %s: %s", self._controller.name, key, said(error))
            self.queue.retry(key)
        except Exception as error:
            resource = self._controller.sources()[0].resource
            obj = self._caches.of(resource).get(key)
            self._caches.set_aside.report(f"{self._controller.name}-controller", error, resource, obj, key)
            self.queue.retry(key)
        else:
            self.queue.forget(key)
            if plan.requeue_after is not None:
                self.queue.add_after(key, plan.requeue_after)

    def _log(self, key: str, plan: Plan) -> None:
        """One line per decision that made or removed something; changes of status and fields at level debug."""
        made = [action for stage in plan.stages for action in stage]
        kinds = {"created": Create, "deleted": Delete, "patched": ApplyPatch}
        counts = {word: sum(isinstance(one, kind) for one in made) for word, kind in kinds.items()}
        level = logging.INFO if counts["created"] or counts["deleted"] else logging.DEBUG
        if (made or plan.status is not None) and log.isEnabledFor(level):
            namespace, _, name = key.rpartition("/")
            kind = self._controller.sources()[0].resource.kind
            told = {"controller": self._controller.name, "kind": kind, "namespace": namespace, "name": name, **counts}
            log.log(level, "reconciled", extra={"fields": {**told, "status": plan.status is not None}})

    async def _look_up(self, doubts: Iterable[tuple[Resource, str, str]]) -> None:
        for count, (resource, namespace, name) in enumerate(doubts):
            if count % _LOOK_UPS == _LOOK_UPS - 1:
                await asyncio.sleep(0)  # an object may name thousands of owners, and the server may not wait at all
            try:
                self._caches.observe(resource, await self._verbs.get(resource, name, namespace))
            except ApiError as error:
                if error.code != 404:
                    raise

    async def _survey(self, surveys: Surveying, key: str) -> None:
        for resource, namespace in surveys.unsure(key, self._clock.now()):
            listed = await self._verbs.list(resource, namespace)
            for obj in listed.items:
                self._caches.observe(resource, obj)
            surveys.surveyed(resource, namespace, int(listed.resource_version), self._clock.now())

    async def _enact(self, plan: Plan) -> None:
        for stage in plan.stages:
            outcomes = await asyncio.gather(*map(self._apply, stage), return_exceptions=True)
            for action, outcome in zip(stage, outcomes, strict=True):
                if isinstance(outcome, ApiError) and plan.refused is not None and not isinstance(action, ApplyPatch):
                    await self._write_status(_with_error(plan.refused, str(outcome)))
                if isinstance(outcome, BaseException):
                    raise outcome
        if plan.status is not None:
            await self._write_status(plan.status)
        for note in plan.notes:
            self._say(note)

    async def _write_status(self, write: StatusWrite) -> None:
        updated = await self._verbs.update(
            write.resource, {**write.obj, "status": write.status}, meta.namespace(write.obj), "status"
        )
        self._caches.observe(write.resource, updated)

    async def _apply(self, action: Action) -> None:
        async with self._writes:
            match action:
                case Create():
                    await self._create(action)
                case ApplyPatch():
                    await self._patch(action)
                case Delete():
                    await self._delete(action)

    async def _patch(self, action: ApplyPatch) -> None:
        resource = action.resource
        try:
            changed = await self._verbs.patch(resource, action.name, action.patch, action.namespace, action.subresource)
        except ApiError as error:
            if error.code == 404 and action.gone_is_fine:
                return
            if error.reason != "Conflict":
                self._say(action.refused, "{error}", str(error))
            raise
        self._caches.observe(resource, changed)

    async def _create(self, action: Create) -> None:
        try:
            created = await self._verbs.create(action.resource, action.obj, meta.namespace(action.obj))
        except ApiError as error:
            self._say(action.refused, "{error}", str(error))
            raise
        self._caches.observe(action.resource, created)
        self._say(action.created, "{name}", meta.name(created))

    def _say(self, note: Note | None, placeholder: str = "", value: str = "") -> None:
        if note is not None:
            message = note.message.replace(placeholder, value) if placeholder else note.message
            self._recorder.record(note.resource, note.obj, note.type, note.reason, message)

    async def _delete(self, action: Delete) -> None:
        options = DeleteOptions(
            action.propagation, action.grace_period_seconds, uid=action.uid, resource_version=action.resource_version
        )
        try:
            marked = await self._verbs.delete(action.resource, action.name, action.namespace, options)
        except ApiError as error:
            # Gone, or another object under the same name: either way the one meant is no more.
            if error.code != 404 and (error.reason != "Conflict" or action.resource_version):
                raise
            return
        # One that lingers is seen as deleting at once; of one that is gone the watch will tell.
        if "deletionTimestamp" in marked.get("metadata", {}) and meta.uid(marked) == action.uid:
            self._caches.observe(action.resource, marked)


def _with_error(write: StatusWrite, error: str) -> StatusWrite:
    """The status for a refused action, with the refusal in place of `{error}`."""
    conditions = [
        {**one, "message": one.get("message", "").replace("{error}", error)}
        for one in write.status.get("conditions", ())
    ]
    return replace(write, status={**write.status, "conditions": conditions})
