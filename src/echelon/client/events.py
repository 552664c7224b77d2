"""Event recorder: events are written in the background; a repeated event increases `count` instead of a new object.

Nobody waits for an event, so writing events may be delayed in favour of other requests (`give_way`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec

from ..api.errors import ApiError
from ..api.objects import meta
from ..api.scheme import EVENTS, Object, Resource
from ..api.verbs import Patch, PatchType, Verbs
from ..base.clock import Clock
from ..base.instants import to_micro_time, to_time

log = logging.getLogger(__name__)

_QUEUE_LIMIT = 50_000
_REMEMBERED = 4_096
_MESSAGE_LIMIT = 1_024


class Reference(msgspec.Struct, frozen=True, gc=False):
    """An object that an event names beside the one it is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


def reference_to(resource: Resource, obj: Object) -> Reference:
    metadata = obj["metadata"]
    uid, name, namespace = metadata.get("uid") or "", metadata.get("name") or "", metadata.get("namespace") or ""
    return Reference(resource.api_version, resource.kind, namespace, name, uid)


class _EventKey(msgspec.Struct, frozen=True, gc=False):
    """Everything of an event but its time; `gc=False`, because thousands may be queued."""

    uid: str
    namespace: str
    name: str
    api_version: str
    kind: str
    type: str
    reason: str
    message: str
    #: What was done, and the object for which it was done; "" and None for most events.
    action: str = ""
    related: Reference | None = None


class Recorder:
    """`record` never waits and never fails; `run` writes what was recorded."""

    def __init__(self, verbs: Verbs, clock: Clock, component: str) -> None:
        self._verbs = verbs
        self._clock = clock
        self._component = component
        self._queue: deque[tuple[_EventKey, float]] = deque()
        #: `_arrived` is set while the queue is not empty, `_done` while nothing is queued or being written.
        self._arrived = asyncio.Event()
        self._done = asyncio.Event()
        self._done.set()
        #: Events written recently, as (name, count).
        self._written: OrderedDict[_EventKey, tuple[str, int]] = OrderedDict()
        self._dropping = False
        self._turn: Callable[[float], Awaitable[None]] | None = None

    def give_way(self, turn: Callable[[float], Awaitable[None]]) -> None:
        """Await `turn` before each write; its argument is the time at which the event was recorded."""
        self._turn = turn

    def record(
        self,
        resource: Resource,
        obj: Object,
        type_: Literal["Normal", "Warning"],
        reason: str,
        message: str,
        action: str = "",
        related: Reference | None = None,
    ) -> None:
        queue = self._queue
        if len(queue) < _QUEUE_LIMIT:
            if not queue:
                self._arrived.set()
                self._done.clear()
            # The object itself is not kept: thousands of outdated objects could be queued here.
            metadata = obj["metadata"]
            event = _EventKey(
                metadata.get("uid") or "",
                metadata.get("namespace") or "default",
                metadata.get("name") or "",
                resource.api_version,
                resource.kind,
                type_,
                reason,
                message if len(message) <= _MESSAGE_LIMIT else message[: _MESSAGE_LIMIT - 1] + "…",
                action,
                related,
            )
            queue.append((event, self._clock.now()))
            self._dropping = False
        else:
            if not self._dropping:
                log.warning("event queue is full: dropping events, first for %s %s", resource.kind, meta.key(obj))
            self._dropping = True

    async def run(self) -> None:
        while True:
            await self._arrived.wait()
            event, at = self._queue.popleft()
            if not self._queue:
                self._arrived.clear()
            if self._turn is not None:
                await self._turn(at)
            try:
                await self._write(event, at)
            except (ApiError, OSError) as error:
                log.debug("cannot write event for %s/%s: %s", event.namespace, event.name, error)
            except Exception:
                log.exception("cannot write event for %s/%s", event.namespace, event.name)
            finally:
                if not self._queue:
                    self._done.set()

    async def flush(self) -> None:
        """Wait until everything recorded so far is written."""
        await self._done.wait()

    async def _write(self, event: _EventKey, at: float) -> None:
        stamp = to_time(at)
        known = self._written.get(event)
        if known is not None:
            name, count = known
            # Readers of events.k8s.io count repetitions in the series.
            series = {"count": count + 1, "lastObservedTime": to_micro_time(at)}
            body = {"count": count + 1, "lastTimestamp": stamp, "series": series}
            try:
                await self._verbs.patch(EVENTS, name, Patch(PatchType.MERGE, body), event.namespace)
            except ApiError as error:
                if error.code != 404:
                    raise
                del self._written[event]
            else:
                self._remember(event, name, count + 1)
                return
        created = await self._verbs.create(EVENTS, self._event(event, stamp), event.namespace)
        self._remember(event, meta.name(created), 1)

    def _remember(self, event: _EventKey, name: str, count: int) -> None:
        self._written[event] = (name, count)
        self._written.move_to_end(event)
        if len(self._written) > _REMEMBERED:
            self._written.popitem(last=False)

    def _event(self, event: _EventKey, stamp: str) -> Object:
        body: Object = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"generateName": f"{event.name[:50]}-", "namespace": event.namespace},
            "involvedObject": {
                "apiVersion": event.api_version,
                "kind": event.kind,
                "namespace": event.namespace,
                "name": event.name,
                "uid": event.uid,
            },
            "type": event.type,
            "reason": event.reason,
            "message": event.message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
        }
        if event.action:
            body["action"] = event.action
        if event.related is not None:
            body["related"] = _object_reference(event.related)
        return body


def _object_reference(reference: Reference) -> Object:
    fields = {
        "apiVersion": reference.api_version,
        "kind": reference.kind,
        "namespace": reference.namespace,
        "name": reference.name,
        "uid": reference.uid,
    }
    return {name: value for name, value in fields.items() if value}
