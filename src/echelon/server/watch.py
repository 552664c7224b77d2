"""GET with watch: the log, seen through a selector.

    store changes ──▶ does it match now, did it match before? ──▶ ADDED, MODIFIED, DELETED ──▶ tree or JSON
                                                 (bookmarks in between, when asked for)

One `Event` serves both kinds of reader: components in the process take `object`, the shared tree; the HTTP face
takes `json`, which for most events are the very bytes that were stored, so nothing is encoded twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from ..api.errors import FieldError, expired, forbidden_field
from ..api.scheme import Object, Resource
from ..api.verbs import WatchOptions, WatchType
from ..store.interface import Change, Compacted, Record, Watch
from .access import Access, at_version
from .read import Filter, bad_options, parse_version
from .trees import encode_json

_BOOKMARK_SECONDS = 60.0
#: A last bookmark comes this long before the stream ends, so that its reader can go on from there.
_LAST_BOOKMARK_SECONDS = 2.0
_INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}
#: Initial state is handed out in slices, so that a large one does not hold up everything else.
_SLICE = 500


class Event:
    """One event of one watch."""

    __slots__ = ("_access", "_key", "_resource", "_tree", "_value", "revision", "type")

    def __init__(
        self,
        access: Access,
        resource: Resource,
        type_: WatchType,
        revision: int,
        key: str,
        value: bytes,
        tree: Object | None = None,
    ) -> None:
        self.type = type_
        self.revision = revision
        self._access = access
        self._resource = resource
        self._key = key
        self._value = value
        self._tree = tree

    @property
    def object(self) -> Object:
        """The object at the version watched; shared, never to be mutated."""
        stored = self._tree
        if stored is None:
            stored = self._access.trees.of(self._key, self.revision, self._value)
        return at_version(self._resource, stored)

    @property
    def json(self) -> bytes:
        """The object at the version watched, encoded."""
        if self._value and self._resource.api_version == self._resource.storage_api_version:
            return self._value
        return encode_json(self.object)


@dataclass(frozen=True)
class WatchPlan:
    """A watch request that has been understood and found valid."""

    resource: Resource
    filter: Filter
    options: WatchOptions
    #: Begin with the current state instead of with history.
    initial: bool
    after: int

    @staticmethod
    def parse(resource: Resource, namespace: str, options: WatchOptions) -> WatchPlan:
        """`ApiError` 400 or 422 for what cannot be watched."""
        wanted = Filter.parse(resource, namespace, options.label_selector, options.field_selector)
        asked = parse_version(options.resource_version)
        _check(options)
        initial = asked == 0 if options.send_initial_events is None else options.send_initial_events
        return WatchPlan(resource, wanted, options, initial, asked)


def _check(options: WatchOptions) -> None:
    field, match = "resourceVersionMatch", options.resource_version_match
    if options.send_initial_events is not None and match != "NotOlderThan":
        if match:
            text = f'Unsupported value: "{match}": supported values: "NotOlderThan"'
            problem = FieldError("FieldValueNotSupported", field, text)
        else:
            problem = forbidden_field(field, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
        raise bad_options("ListOptions", problem)
    if options.send_initial_events is None and match:
        detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        raise bad_options("ListOptions", forbidden_field(field, detail))


async def events(access: Access, plan: WatchPlan) -> AsyncIterator[Sequence[Event]]:
    """Batches of events until the deadline, for ever without one; 410 when history or the reader is too far behind."""
    at = access.store.revision
    current = access.store.scan(plan.filter.prefix) if plan.initial else ()
    after = at if plan.initial or plan.after == 0 else plan.after
    try:
        watch = access.store.watch(plan.filter.prefix, after)
    except Compacted as error:
        raise expired(str(error)) from None
    try:
        async for batch in _initial(access, plan, current, at):
            yield batch
        async for batch in _live(access, plan, watch, after):
            yield batch
    except Compacted as error:
        raise expired(str(error)) from None
    finally:
        watch.close()


async def _initial(
    access: Access, plan: WatchPlan, current: Sequence[Record], at: int
) -> AsyncIterator[Sequence[Event]]:
    if not plan.initial:
        return
    selected = plan.filter.select(current)
    for start in range(0, len(selected), _SLICE):
        part = selected[start : start + _SLICE]
        yield [Event(access, plan.resource, "ADDED", r.revision, r.key, r.value) for r in part]
        await asyncio.sleep(0)
    if plan.options.allow_bookmarks:
        yield [_bookmark(access, plan, at, _INITIAL_EVENTS_END)]


async def _live(access: Access, plan: WatchPlan, watch: Watch, after: int) -> AsyncIterator[Sequence[Event]]:
    """What happens, with a bookmark every minute of silence or noise; ends at the deadline."""
    loop = asyncio.get_running_loop()
    timeout = plan.options.timeout_seconds
    deadline = None if timeout is None else loop.time() + timeout
    bookmark_at = _next_bookmark(loop.time(), deadline) if plan.options.allow_bookmarks else None
    changes = watch.__aiter__()
    while True:
        wake = min((t for t in (deadline, bookmark_at) if t is not None), default=None)
        # Everything up to here was in the store before we wait, so it is what a bookmark may promise.
        try:
            async with asyncio.timeout_at(wake):
                batch = await anext(changes)
        except TimeoutError:
            if deadline is not None and loop.time() >= deadline:
                return
            bookmark_at = _next_bookmark(loop.time(), deadline)
            yield [_bookmark(access, plan, max(after, access.store.revision))]
            continue
        except StopAsyncIteration:
            return
        after = batch[-1].revision
        found = [event for change in batch if (event := _event(access, plan, change)) is not None]
        if found:
            yield found


def _next_bookmark(now: float, deadline: float | None) -> float | None:
    """In a minute, or shortly before the end; None when that has passed."""
    regular = now + _BOOKMARK_SECONDS
    if deadline is None or regular < deadline - _LAST_BOOKMARK_SECONDS:
        return regular
    last = deadline - _LAST_BOOKMARK_SECONDS
    return last if last > now else None


def _event(access: Access, plan: WatchPlan, change: Change) -> Event | None:
    """What a change means to a reader of this selection, if anything."""
    resource, wanted = plan.resource, plan.filter
    record, previous = change.record, change.previous
    was_in = previous is not None and (wanted.everything or wanted.matches(previous))
    if record is not None and (wanted.everything or wanted.matches(record)):
        return Event(access, resource, "MODIFIED" if was_in else "ADDED", change.revision, change.key, record.value)
    if not was_in or previous is None:
        return None
    if record is None:
        return Event(access, resource, "DELETED", change.revision, change.key, change.tombstone)
    # It left the selection: the reader gets the state it knew, at the version of the change.
    known = access.trees.of_record(previous)
    left = {**known, "metadata": {**known["metadata"], "resourceVersion": str(change.revision)}}
    return Event(access, resource, "DELETED", change.revision, change.key, b"", left)


def _bookmark(access: Access, plan: WatchPlan, revision: int, annotations: dict[str, str] | None = None) -> Event:
    metadata: Object = {"resourceVersion": str(revision)}
    if annotations:
        metadata["annotations"] = annotations
    tree = {"kind": plan.resource.kind, "apiVersion": plan.resource.api_version, "metadata": metadata}
    return Event(access, plan.resource, "BOOKMARK", revision, "", b"", tree)
