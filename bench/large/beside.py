"""What others notice of large requests: the times of a GET every 20 ms while lists, pages or deletions run."""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from .bystander import OBJECT

_PODS = "/api/v1/pods"
_LONGEST_LINE = 16 * 1024 * 1024
_LISTS = 4
_PAGE = 500

Client = Callable[[str], aiohttp.ClientSession]


@dataclass(frozen=True)
class Beside:
    """One scenario: how long it took, and how long GETs took meanwhile, in seconds."""

    name: str
    seconds: float
    #: Of each GET: what passed, and what the server worked meanwhile.
    times: list[tuple[float, float]]

    def passed(self, part: float) -> float:
        """The time within which that part of the GETs was answered."""
        return _share([passed for passed, _ in self.times], part)

    def worked(self, part: float) -> float:
        """What the server worked during that part of the GETs, at most."""
        return _share([worked for _, worked in self.times], part)


def _share(times: list[float], part: float) -> float:
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def _session(directory: Path, url: str) -> Client:
    token = (directory / "pki" / "token").read_text().strip()
    context = ssl.create_default_context(cafile=str(directory / "pki" / "ca.crt"))

    def make(agent: str) -> aiohttp.ClientSession:
        headers = {"Authorization": f"Bearer {token}", "User-Agent": agent}
        connector = aiohttp.TCPConnector(limit=0, ssl=context)
        return aiohttp.ClientSession(url, headers=headers, connector=connector, timeout=aiohttp.ClientTimeout(600))

    return make


async def _read(session: aiohttp.ClientSession, method: str, path: str, **more: Any) -> bytes:
    async with session.request(method, path, **more) as response:
        body = await response.read()
        assert response.status == 200, body[:300]
        return body


async def _measured(name: str, asking: list[str], work: Callable[[], Awaitable[object]]) -> Beside:
    pipe = asyncio.subprocess.PIPE
    bystander = await asyncio.create_subprocess_exec(*asking, stdin=pipe, stdout=pipe, limit=_LONGEST_LINE)
    assert bystander.stdin is not None
    assert bystander.stdout is not None
    await bystander.stdout.readline()
    began = time.perf_counter()
    await work()
    seconds = time.perf_counter() - began
    bystander.stdin.close()
    times = json.loads(await bystander.stdout.readline())
    await bystander.wait()
    return Beside(name, seconds, times)


async def _pages(session: aiohttp.ClientSession) -> None:
    """All pages, with a write after the first one: the others are at an older revision."""
    token = ""
    first = True
    while token or first:
        body = await _read(session, "GET", _PODS, params={"limit": str(_PAGE), "continue": token})
        token = msgspec.json.decode(body)["metadata"].get("continue", "")
        if first:
            patch = {"metadata": {"annotations": {"at": str(time.time())}}}
            kind = {"Content-Type": "application/merge-patch+json"}
            await _read(session, "PATCH", OBJECT, data=msgspec.json.encode(patch), headers=kind)
        first = False


async def measure(directory: Path, url: str, server: int, *, delete: bool) -> list[Beside]:
    """All scenarios; the last one deletes all pods."""
    client = _session(directory, url)
    asking = [sys.executable, "-m", "bench.large.bystander", str(directory), url, str(server)]
    table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    async with client("large") as session:

        async def lists(headers: dict[str, str] | None = None) -> None:
            await asyncio.gather(*(_read(session, "GET", _PODS, headers=headers) for _ in range(_LISTS)))

        found = [
            await _measured("nothing else", asking, lambda: asyncio.sleep(3)),
            await _measured("one full list", asking, lambda: _read(session, "GET", _PODS)),
            await _measured("four full lists", asking, lists),
            await _measured("four Tables", asking, lambda: lists(table)),
            await _measured(f"pages of {_PAGE}", asking, lambda: _pages(session)),
            await _measured(
                "list by label",
                asking,
                lambda: _read(session, "GET", _PODS, params={"labelSelector": "job-name=train-7"}),
            ),
        ]
        if delete:
            path = "/api/v1/namespaces/default/pods"
            body = msgspec.json.encode({"gracePeriodSeconds": 0})
            kind = {"Content-Type": "application/json"}
            work = lambda: _read(session, "DELETE", path, data=body, headers=kind)  # noqa: E731
            found.append(await _measured("deletecollection", asking, work))
    return found
