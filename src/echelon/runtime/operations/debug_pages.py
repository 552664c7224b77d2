"""Pages for people who look into a running program: its state, its stacks, a profile.

    /debug/state            JSON; /debug/state.txt the same for reading; ?limit=N roots
    /debug/stacks           where every thread and task is now
    /debug/profile          ?seconds=N: stacks seen meanwhile with their counts, folded as flame graphs take them

Off unless `debugEndpoints` is on, and then for callers on this machine only: in a pod these are `kubectl port-forward`
and `kubectl exec`, which the API server authorizes.  A page of a browser cannot ask by another host name.
"""

from __future__ import annotations

import asyncio
import ipaddress
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import islice
from types import FrameType
from typing import Any

import msgspec
from aiohttp import web

from .profile_sampler import sample_stacks

_ROOTS_SHOWN = 200
_MOST_ROOTS = 10_000
_MOST_SECONDS = 60.0
_TASKS_SHOWN = 500
_FRAMES_SHOWN = 25
_LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")

#: Called with the number of roots to show.
StateOf = Callable[[int], Mapping[str, Any]]


class DebugPages:
    def __init__(self, state: StateOf, enabled: Callable[[], bool]) -> None:
        self._state = state
        self._enabled = enabled
        self._profiling = False
        self._ended = threading.Event()

    def end(self) -> None:
        """Answer now what takes its time: a program that ends does not wait for it."""
        self._ended.set()

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/debug/state", self._guarded(self._state_page)),
            web.get("/debug/state.txt", self._guarded(self._state_text)),
            web.get("/debug/stacks", self._guarded(self._stacks)),
            web.get("/debug/profile", self._guarded(self._profile)),
        ]

    def _guarded(self, page: Callable[[web.Request], Any]) -> Callable[[web.Request], Any]:
        async def guarded(request: web.Request) -> web.Response:
            if not self._enabled():
                raise web.HTTPNotFound(text="debug pages are off: set debugEndpoints to true\n")
            if not _is_local(request):
                raise web.HTTPForbidden(text="debug pages are for callers on this machine: use kubectl port-forward\n")
            answer: web.Response = await page(request)
            return answer

        return guarded

    async def _state_page(self, request: web.Request) -> web.Response:
        body = msgspec.json.format(msgspec.json.encode(self._state(_limit(request)), enc_hook=str), indent=1)
        return web.Response(body=body + b"\n", content_type="application/json")

    async def _state_text(self, request: web.Request) -> web.Response:
        return web.Response(text="\n".join(readable(self._state(_limit(request)))) + "\n")

    async def _stacks(self, _: web.Request) -> web.Response:
        return web.Response(text=_all_stacks())

    async def _profile(self, request: web.Request) -> web.Response:
        seconds = _number(request, "seconds", 5.0, _MOST_SECONDS)
        if self._profiling:
            raise web.HTTPTooManyRequests(text="a profile is being taken; ask again when it is done\n")
        self._profiling = True
        try:
            counted = await asyncio.to_thread(sample_stacks, threading.get_ident(), seconds, self._ended)
        finally:
            self._profiling = False
        return web.Response(text=_folded(counted))


def readable(state: Mapping[str, Any], indent: str = "") -> list[str]:
    """A tree of mappings, lists and values as indented lines."""
    lines: list[str] = []
    for key, value in state.items():
        if isinstance(value, Mapping):
            lines += [f"{indent}{key}:", *readable(value, indent + "  ")]
        elif isinstance(value, (list, tuple)) and any(isinstance(one, Mapping) for one in value):
            lines.append(f"{indent}{key}: {len(value)}")
            for one in value:
                inner = readable(one, indent + "    ")
                lines += [f"{indent}  - {inner[0].strip()}", *inner[1:]] if inner else []
        else:
            shown = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else value
            lines.append(f"{indent}{key}: {shown}")
    return lines


def _folded(counted: Counter[tuple[str, ...]]) -> str:
    return "".join(f"{';'.join(stack)} {count}\n" for stack, count in counted.most_common())


def _all_stacks() -> str:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = [_thread(names.get(ident, "?"), frame) for ident, frame in sys._current_frames().items()]
    tasks = asyncio.all_tasks()
    parts += [_task(task) for task in islice(sorted(tasks, key=asyncio.Task.get_name), _TASKS_SHOWN)]
    if len(tasks) > _TASKS_SHOWN:
        parts.append(f"and {len(tasks) - _TASKS_SHOWN} tasks more\n")
    return "\n".join(parts)


def _thread(name: str, frame: FrameType) -> str:
    return f"thread {name}\n" + "".join(traceback.format_stack(frame, _FRAMES_SHOWN))


def _task(task: asyncio.Task[Any]) -> str:
    lines = [
        f'  File "{frame.f_code.co_filename}", line {frame.f_lineno}, in {frame.f_code.co_name}\n'
        for frame in task.get_stack(limit=_FRAMES_SHOWN)
    ]
    return f"task {task.get_name()}\n" + "".join(lines)


def _limit(request: web.Request) -> int:
    return int(_number(request, "limit", _ROOTS_SHOWN, _MOST_ROOTS))


def _number(request: web.Request, name: str, default: float, most: float) -> float:
    text = request.query.get(name, "")
    try:
        value = float(text) if text else default
    except ValueError:
        value = -1.0
    if not 0 < value <= most:
        raise web.HTTPBadRequest(text=f"{name}={text}: must be a number greater than 0, at most {most:g}\n")
    return value


def _is_local(request: web.Request) -> bool:
    peer = request.transport.get_extra_info("peername") if request.transport is not None else None
    host = request.host.rsplit(":", 1)[0] if not request.host.endswith("]") else request.host
    try:
        address = ipaddress.ip_address(peer[0]) if peer else None
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return address is not None and (mapped or address).is_loopback and host in _LOCAL_NAMES
