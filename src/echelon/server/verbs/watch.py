"""GET with watch: changes of the store as watch events, filtered by selectors.

    store changes ──▶ does it match now, did it match before? ──▶ ADDED, MODIFIED, DELETED, BOOKMARK

Events carry stored bytes.  Readers inside the process get the shared tree of the record instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from ...api.errors import FieldError, expired, forbidden_field
from ...api.scheme import Object, Resource
from ...api.verbs import WatchEvent, WatchOptions
from ...store.interface import Change, Compacted, Record, Watch
from ..objects.encoded import EncodedEvent, decode_json, encode_object
from ..objects.stored_objects import Access, at_version
from .read import Filter, bad_options, parse_version

_BOOKMARK_SECONDS = 60.0
#: The last bookmark is sent this long before the stream ends, so that its reader can resume there.
_LAST_BOOKMARK_SECONDS = 2.0
_INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}
#: The initial state and what has gathered are sent in slices, so that they do not block the event loop.
_SLICE = 200


@dataclass(frozen=True)
class WatchPlan:
    """A validated watch request."""

    resource: Resource
    filter: Filter
    options: WatchOptions
    #: Start with the current state instead of history.
    initial: bool
    after: int

    @staticmethod
    def parse(resource: Resource, namespace: str, options: WatchOptions) -> WatchPlan:
        """`ApiError` 400 or 422 for invalid options."""
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


async def events(access: Access, plan: WatchPlan) -> AsyncGenerator[Sequence[EncodedEvent], None]:
    """Batches of events until the deadline, if any; 410 if the version is too old or the reader too slow."""
    at = access.store.revision
    current = access.store.scan(plan.filter.prefix) if plan.initial else ()
    after = at if plan.initial or plan.after == 0 else plan.after
    try:
        watch = access.store.watch(plan.filter.prefix, after)
    except Compacted as error:
        raise expired(str(error)) from None
    forget = access.kinds.until_dropped(plan.resource, watch.close) if plan.resource.custom is not None else None
    try:
        for batch in _initial(plan, current, at):
            yield batch
            await access.turns.next()
        async with aclosing(_live(access, plan, watch, after)) as live:
            async for batch in live:
                yield batch
    except Compacted as error:
        raise expired(str(error)) from None
    finally:
        watch.close()
        if forget is not None:
            forget()


def decoded(access: Access, resource: Resource, event: EncodedEvent) -> WatchEvent:
    """The event with the shared tree of its object."""
    if event.type == "BOOKMARK":
        return WatchEvent(event.type, decode_json(event.value))
    if not event.key:
        return WatchEvent(event.type, at_version(resource, decode_json(event.value)))
    return WatchEvent(event.type, at_version(resource, access.trees.of(event.key, event.revision, event.value)))


def _initial(plan: WatchPlan, current: Sequence[Record], at: int) -> Iterator[Sequence[EncodedEvent]]:
    """The initial state in slices, then the initial-events-end bookmark if bookmarks are allowed."""
    if not plan.initial:
        return
    wanted = plan.filter
    for start in range(0, len(current), _SLICE):
        part = current[start : start + _SLICE]
        yield [
            EncodedEvent("ADDED", record.key, record.revision, record.value)
            for record in part
            if wanted.everything or wanted.matches(record)
        ]
    if plan.options.allow_bookmarks:
        yield [_bookmark(plan, at, _INITIAL_EVENTS_END)]


async def _live(
    access: Access, plan: WatchPlan, watch: Watch, after: int
) -> AsyncGenerator[Sequence[EncodedEvent], None]:
    """Live events, with a bookmark about every minute; ends at the deadline."""
    loop = asyncio.get_running_loop()
    timeout = plan.options.timeout_seconds
    deadline = None if timeout is None else loop.time() + timeout
    bookmark_at = _next_bookmark(loop.time(), deadline) if plan.options.allow_bookmarks else None
    changes = watch.__aiter__()
    while deadline is None or loop.time() < deadline:
        wake = deadline if bookmark_at is None else bookmark_at
        watch.wake_at(wake)
        try:
            batch = await anext(changes)
        except StopAsyncIteration:
            return
        if not batch:
            if wake == bookmark_at and watch.caught_up:
                bookmark_at = _next_bookmark(loop.time(), deadline)
                yield [_bookmark(plan, max(after, access.store.revision))]
            continue
        after = batch[-1].revision
        for start in range(0, len(batch), _SLICE):
            if start:
                await access.turns.next()
            part = batch[start : start + _SLICE]
            found = [event for change in part if (event := _event(access, plan, change)) is not None]
            if found:
                yield found


def _next_bookmark(now: float, deadline: float | None) -> float | None:
    """The time of the next bookmark: in a minute, or shortly before the deadline; None after that."""
    regular = now + _BOOKMARK_SECONDS
    if deadline is None or regular < deadline - _LAST_BOOKMARK_SECONDS:
        return regular
    last = deadline - _LAST_BOOKMARK_SECONDS
    return last if last > now else None


def _event(access: Access, plan: WatchPlan, change: Change) -> EncodedEvent | None:
    """The event of a change for this selection, if any."""
    wanted, record, previous = plan.filter, change.record, change.previous
    everything = wanted.everything
    was_in = previous is not None and (everything or wanted.matches(previous))
    if record is not None and (everything or wanted.matches(record)):
        return EncodedEvent("MODIFIED" if was_in else "ADDED", change.key, change.revision, record.value)
    if not was_in or previous is None:
        return None
    if record is None:
        return EncodedEvent("DELETED", change.key, change.revision, change.tombstone)
    # It no longer matches: the event has the old state at the version of the change.
    known = access.trees.of_record(previous)
    tree = {**known, "metadata": {**known["metadata"], "resourceVersion": str(change.revision)}}
    # Not kept under its revision, which is another state for others.
    return EncodedEvent("DELETED", "", change.revision, encode_object(tree))


def _bookmark(plan: WatchPlan, revision: int, annotations: dict[str, str] | None = None) -> EncodedEvent:
    metadata: Object = {"resourceVersion": str(revision)}
    if annotations:
        metadata["annotations"] = annotations
    tree = {"kind": plan.resource.kind, "apiVersion": plan.resource.api_version, "metadata": metadata}
    return EncodedEvent("BOOKMARK", "", revision, encode_object(tree))
