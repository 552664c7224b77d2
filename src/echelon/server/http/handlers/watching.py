"""Watches: a streaming reply of JSON lines or protobuf frames, one per event.

The stream ends at its timeout, when the client disconnects or when the server stops.  Errors in the request are sent
before the first byte; later errors are ERROR events (410 if the version is too old), and the client lists again.

A client that does not read blocks only its own stream, by flow control; its watch has a bounded buffer and ends with
410 when the buffer is full.  If it reads nothing for a minute although there is something to read, its connection is
closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace

from ....api.errors import ApiError
from ...objects.encoded import EncodedEvent
from ..replies.encode import EventLines, Presentation, error_line, watch_type
from ..requests import request
from ..requests.query_options import watch_options
from ..requests.request import Receive, Send
from .call import Call
from .request_metrics import RequestMetrics, labels_of

_log = logging.getLogger(__name__)
#: Watches without timeoutSeconds last 30 to 60 minutes, spread so that they do not end at the same time.
_SHORTEST, _SPREAD, _STRIDE = 1800, 1800, 617
#: How long the end of a stream may take if its client does not read.
_CLOSE_SECONDS = 0.5
#: Events that come together are sent in pieces of about this size.
_JOINED_BYTES = 64 * 1024


class Watches:
    """All watch streams of one server."""

    def __init__(self, metrics: RequestMetrics) -> None:
        self._lines = EventLines()
        self._closing = asyncio.Event()
        self._count = itertools.count()
        self.metrics = metrics

    def close(self) -> None:
        """End every stream; later ones end at once."""
        self._closing.set()

    def begin(self, call: Call) -> WatchStream:
        presentation = call.presentation()
        timeout = _SHORTEST + next(self._count) * _STRIDE % _SPREAD
        options = watch_options(call.request, timeout)
        if call.target.name:
            only = f"metadata.name={call.target.name}"
            options = replace(options, field_selector=",".join(filter(None, (options.field_selector, only))))
        events = call.verbs.watch_encoded(call.resource, call.target.namespace, options)
        return WatchStream(self, call, presentation, events)

    def line(self, presentation: Presentation, event: EncodedEvent, *, first: bool) -> bytes:
        return self._lines.line(presentation, event, first=first)

    async def closed(self) -> None:
        await self._closing.wait()


class WatchStream:
    """The reply of one watch."""

    code = 200

    def __init__(
        self, watches: Watches, call: Call, presentation: Presentation, events: AsyncIterator[Sequence[EncodedEvent]]
    ) -> None:
        self._watches = watches
        self._call = call
        self._presentation = presentation
        self._events = events
        #: When the part that is being sent was begun, in the loop's time; 0: nothing is being sent.
        self._sending = 0.0

    async def send(self, send: Send) -> None:
        media_type = watch_type(self._presentation.form).encode()
        headers = [(b"content-type", media_type), (b"cache-control", b"no-cache, private")]
        await send({"type": "http.response.start", "status": self.code, "headers": headers})
        metrics, labels = self._watches.metrics, labels_of(self._call.request, self._call.target)
        metrics.watches[labels] += 1
        watchdog = asyncio.create_task(self._abort_if_stuck())
        ends = [
            asyncio.create_task(self._pump(send)),
            asyncio.create_task(_disconnected(self._call.request.receive)),
            asyncio.create_task(self._watches.closed()),
        ]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            metrics.watches[labels] -= 1
            watchdog.cancel()
            for end in ends:
                end.cancel()
            await asyncio.gather(*ends, return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await send({"type": "http.response.body", "body": b""})

    async def _pump(self, send: Send) -> None:
        first, resource, events = True, self._call.resource, self._watches.metrics.events
        series = (resource.group, resource.version, resource.plural)
        try:
            async for batch in self._events:
                events[series] += len(batch)
                for body in self._bodies(batch, first=first):
                    await self._send(send, body)
                first = False
        except ApiError as error:
            await self._send(send, error_line(error, self._presentation.form))
        except Exception:
            _log.exception("watch of %s failed, request %s", resource.qualified, self._call.request.audit_id)
        finally:
            await _release(self._events)

    def _bodies(self, batch: Sequence[EncodedEvent], *, first: bool) -> Iterator[bytes]:
        """The lines of a batch, joined so far that one write sends many small events."""
        lines: list[bytes] = []
        size = 0
        for event in batch:
            line = self._watches.line(self._presentation, event, first=first)
            first = False
            lines.append(line)
            size += len(line)
            if size >= _JOINED_BYTES:
                yield b"".join(lines)
                lines, size = [], 0
        if lines:
            yield b"".join(lines)

    async def _send(self, send: Send, body: bytes) -> None:
        self._sending = asyncio.get_running_loop().time()
        await send({"type": "http.response.body", "body": body, "more_body": True})
        self._sending = 0.0

    async def _abort_if_stuck(self) -> None:
        """Close the connection of a client that does not read; to look now and then needs no timer per event."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(request.STUCK_SECONDS / 4)
            if self._sending and loop.time() - self._sending >= request.STUCK_SECONDS:
                self._call.request.abort()


async def _disconnected(receive: Receive) -> None:
    """Return when the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _release(events: AsyncIterator[Sequence[EncodedEvent]]) -> None:
    """Close an abandoned watch now instead of when it is garbage-collected."""
    close = getattr(events, "aclose", None)
    if close is not None:
        await close()
