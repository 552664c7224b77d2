"""`GET pods/NAME/log`: the log of a container as text, to its end or as it grows."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime

from ....api import errors
from ....api.errors import ApiError, FieldError
from ....api.objects import meta
from ....api.running_pods import LogOptions, RunningPods
from ....api.scheme import PODS, Object, Resource
from ..handlers.call import Call
from ..requests.query_options import integer
from ..requests.request import Abort, Receive, Reply, Request, Response, Send, send_patiently
from .pod_targets import container_of, is_simulated, is_waiting, why_no_log

_OPTIONS = Resource("", "v1", "podlogoptions", "PodLogOptions")
_TYPE = "text/plain; charset=utf-8"
_OUTPUTS = {"Stdout": "stdout", "Stderr": "stderr"}


async def log(call: Call) -> Reply:
    options = log_options(call.request, call.target.name, call.now)
    pod = await call.verbs.get(PODS, call.target.name, call.target.namespace)
    container = container_of(pod, call.request.parameter("container"))
    if call.pods is not None and not pod["spec"].get("nodeName"):
        return Response(b"", 204, _TYPE)
    running = call.pods.find(meta.uid(pod)) if call.pods is not None else None
    if running is None:
        raise errors.bad_request(_no_log(call.pods, pod, container))
    try:
        pieces = running.logs(container, replace(options, waiting=is_waiting(pod, container)))
    except ApiError:
        if options.previous:
            raise
        raise errors.bad_request(why_no_log(pod, container)) from None
    return LogStream(pieces, call.request.receive, call.request.abort)


def _no_log(pods: RunningPods | None, pod: Object, container: str) -> str:
    """Of a pod that no process runs for."""
    if pods is None or is_simulated(pod):
        return f'no logs are kept for pod "{meta.name(pod)}": its containers are simulated and write nothing'
    return why_no_log(pod, container)


def log_options(request: Request, name: str, now: float) -> LogOptions:
    """The options in the query; 422 with everything that is wrong."""
    problems: list[FieldError] = []
    tail = integer(request, "tailLines")
    if tail is not None and tail < 0:
        problems.append(errors.invalid("tailLines", tail, "must be greater than or equal to 0"))
    limit, seconds = _positive(request, "limitBytes", problems), _positive(request, "sinceSeconds", problems)
    since_time = request.parameter("sinceTime")
    if since_time and seconds is not None:
        detail = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        problems.append(errors.forbidden_field("", detail))
    output = request.parameter("stream") or "All"
    if output not in ("All", *_OUTPUTS):
        problems.append(errors.not_supported("stream", output, ("All", "Stderr", "Stdout")))
    if problems:
        raise errors.invalid_object(_OPTIONS, name, problems)
    since = _written(now - seconds) if seconds is not None else _since(since_time)
    return LogOptions(
        follow=request.flag("follow"),
        previous=request.flag("previous"),
        timestamps=request.flag("timestamps"),
        tail_lines=tail,
        since=since,
        limit_bytes=limit,
        only=_OUTPUTS.get(output),  # type: ignore[arg-type]  # the two outputs
    )


def _positive(request: Request, name: str, problems: list[FieldError]) -> int | None:
    number = integer(request, name)
    if number is not None and number < 1:
        problems.append(errors.invalid(name, number, "must be greater than 0"))
    return number


def _since(text: str) -> str:
    if not text:
        return ""
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", text):
        raise errors.bad_request(f'parsing time "{text[:100]}": not a time as in 2026-01-31T12:00:00Z (sinceTime)')
    return _written(datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text)).timestamp())


def _written(at: float) -> str:
    """A time as it stands in logs; lines are compared with it as text."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")


class LogStream:
    """The reply: pieces of a log, until it ends or the client leaves."""

    code = 200

    def __init__(self, pieces: AsyncIterator[bytes], receive: Receive, abort: Abort) -> None:
        self._pieces = pieces
        self._receive = receive
        self._abort = abort

    async def send(self, send: Send) -> None:
        headers = [(b"content-type", _TYPE.encode()), (b"cache-control", b"no-cache, private")]
        await send({"type": "http.response.start", "status": self.code, "headers": headers})
        pump = asyncio.create_task(self._pump(send))
        gone = asyncio.create_task(_disconnected(self._receive))
        try:
            await asyncio.wait({pump, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (pump, gone):
                task.cancel()
            await asyncio.gather(pump, gone, return_exceptions=True)
        await send({"type": "http.response.body", "body": b""})

    async def _pump(self, send: Send) -> None:
        async for piece in self._pieces:
            message = {"type": "http.response.body", "body": piece, "more_body": True}
            if not await send_patiently(send, message, self._abort):
                return


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
