"""Events about objects: recorded in the background, repeated ones counted instead of written again.

Nobody waits for an event, so its writing may give way to what somebody waits for (`give_way`).
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
from ..base.instants import to_time

log = logging.getLogger(__name__)

_LINE_LIMIT = 50_000
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
    known = obj["metadata"]
    uid, name, namespace = known.get("uid") or "", known.get("name") or "", known.get("namespace") or ""
    return Reference(resource.api_version, resource.kind, namespace, name, uid)


class _Said(msgspec.Struct, frozen=True, gc=False):
    """What makes two events the same one: everything but the time.  Thousands may wait: none for the collector."""

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
        self._line: deque[tuple[_Said, float]] = deque()
        #: Set while something is in line; set while nothing is in line or being written.
        self._arrived = asyncio.Event()
        self._done = asyncio.Event()
        self._done.set()
        #: Events written lately, as (name, count).
        self._written: OrderedDict[_Said, tuple[str, int]] = OrderedDict()
        self._dropping = False
        self._turn: Callable[[float], Awaitable[None]] | None = None

    def give_way(self, turn: Callable[[float], Awaitable[None]]) -> None:
        """Before each write wait for this; it is told since when the event waits."""
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
        line = self._line
        if len(line) < _LINE_LIMIT:
            if not line:
                self._arrived.set()
                self._done.clear()
            # The object itself is not kept: thousands of them may wait here that are outdated.
            known = obj["metadata"]
            said = _Said(
                known.get("uid") or "",
                known.get("namespace") or "default",
                known.get("name") or "",
                resource.api_version,
                resource.kind,
                type_,
                reason,
                message if len(message) <= _MESSAGE_LIMIT else message[: _MESSAGE_LIMIT - 1] + "…",
                action,
                related,
            )
            line.append((said, self._clock.now()))
            self._dropping = False
        else:
            if not self._dropping:
                log.warning("too many events at once: from %s %s on they are dropped", resource.kind, meta.key(obj))
            self._dropping = True

    async def run(self) -> None:
        while True:
            await self._arrived.wait()
            said, at = self._line.popleft()
            if not self._line:
                self._arrived.clear()
            if self._turn is not None:
                await self._turn(at)
            try:
                await self._write(said, at)
            except (ApiError, OSError) as error:
                log.debug("event about %s/%s not written: %s", said.namespace, said.name, error)
            finally:
                if not self._line:
                    self._done.set()

    async def flush(self) -> None:
        """Wait until everything recorded so far is written."""
        await self._done.wait()

    async def _write(self, said: _Said, at: float) -> None:
        stamp = to_time(at)
        known = self._written.get(said)
        if known is not None:
            name, count = known
            body = {"count": count + 1, "lastTimestamp": stamp}
            try:
                await self._verbs.patch(EVENTS, name, Patch(PatchType.MERGE, body), said.namespace)
            except ApiError as error:
                if error.code != 404:
                    raise
                del self._written[said]
            else:
                self._remember(said, name, count + 1)
                return
        created = await self._verbs.create(EVENTS, self._event(said, stamp), said.namespace)
        self._remember(said, meta.name(created), 1)

    def _remember(self, said: _Said, name: str, count: int) -> None:
        self._written[said] = (name, count)
        self._written.move_to_end(said)
        if len(self._written) > _REMEMBERED:
            self._written.popitem(last=False)

    def _event(self, said: _Said, stamp: str) -> Object:
        event: Object = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"generateName": f"{said.name[:50]}-", "namespace": said.namespace},
            "involvedObject": {
                "apiVersion": said.api_version,
                "kind": said.kind,
                "namespace": said.namespace,
                "name": said.name,
                "uid": said.uid,
            },
            "type": said.type,
            "reason": said.reason,
            "message": said.message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
        }
        if said.action:
            event["action"] = said.action
        if said.related is not None:
            event["related"] = _object_reference(said.related)
        return event


def _object_reference(reference: Reference) -> Object:
    fields = {
        "apiVersion": reference.api_version,
        "kind": reference.kind,
        "namespace": reference.namespace,
        "name": reference.name,
        "uid": reference.uid,
    }
    return {name: value for name, value in fields.items() if value}
