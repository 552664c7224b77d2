"""HTTP probes against a server that remembers what it was asked."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from echelon.agents.process.local_pods import LocalPod
from echelon.agents.process.pods.probing import HandlerFailed, run_handler

ADDRESS = "127.0.0.1"
CONTAINER = {"name": "c"}


class _Pod:
    address = ADDRESS

    async def connect(self, port: int) -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, (ADDRESS, port))
        return made


POD = cast(LocalPod, _Pod())


@asynccontextmanager
async def served(pages: dict[str, str]) -> AsyncIterator[tuple[int, list[list[str]]]]:
    """A port and the requests that came there; a page is its status line and headers, others are not found."""
    asked: list[list[str]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()[:-1]
        asked.append(lines)
        writer.write(f"HTTP/1.1 {pages.get(lines[0].split()[1], '404 Not Found')}\r\n\r\n".encode())
        writer.close()

    server = await asyncio.start_server(answer, ADDRESS, 0)
    async with server:
        yield server.sockets[0].getsockname()[1], asked


async def probe(port: int, **action: Any) -> None:
    await run_handler(POD, CONTAINER, {"httpGet": {"port": port, **action}}, 30)


@pytest.mark.parametrize(
    ("path", "asked"), [("/a?b=1", "/a?b=1"), ("a?b=1", "/a?b=1"), ("", "/"), ("//twice", "//twice")]
)
async def test_a_path_begins_at_the_root(path: str, asked: str) -> None:
    async with served({asked: "200 OK"}) as (port, requests):
        await probe(port, path=path)
    assert requests[0][0] == f"GET {asked} HTTP/1.1"


async def test_given_headers_replace_own_ones_and_repeat() -> None:
    given = [("host", "h.example"), ("X-A", "1"), ("X-A", "2"), ("accept", ""), ("user-agent", "me")]
    async with served({"/": "200 OK"}) as (port, requests):
        await probe(port, httpHeaders=[{"name": name, "value": value} for name, value in given])
        await probe(port)
    assert requests[0][1:] == ["host: h.example", "X-A: 1", "X-A: 2", "user-agent: me", "Connection: close"]
    own = [f"Host: {ADDRESS}:{port}", "User-Agent: kube-probe/1.37", "Accept: */*", "Connection: close"]
    assert requests[1][1:] == own


@pytest.mark.parametrize(
    ("location", "problem"),
    [
        ("/good", ""),
        ("good", ""),
        ("/bad", "HTTP probe failed with statuscode: 500"),
        ("/loop", "stopped after 10 redirects"),
        ("http://elsewhere.example/bad", ""),
        ("", ""),
    ],
)
async def test_redirects_are_followed_on_the_same_host_alone(location: str, problem: str) -> None:
    pages = {
        "/": f"302 Found\r\nX: y\r\nlocation: {location}",
        "/good": "204 No Content",
        "/bad": "500 Oh",
        "/loop": "301 Again\r\nLocation: /loop",
    }
    async with served(pages) as (port, _):
        if not problem:
            return await probe(port)
        with pytest.raises(HandlerFailed, match=problem):
            await probe(port)
    return None


async def test_a_connection_of_a_hook_that_times_out_by_itself_is_told_as_such() -> None:
    class Lost(_Pod):
        async def connect(self, port: int) -> socket.socket:
            raise TimeoutError(errno.ETIMEDOUT, "Connection timed out")

    with pytest.raises(HandlerFailed, match="timed out"):
        await run_handler(cast(LocalPod, Lost()), CONTAINER, {"tcpSocket": {"port": 1}}, None)
