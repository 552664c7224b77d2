"""The HTTP request of a probe or hook, as a kubelet sends it: its headers, its path, the redirects that it follows."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

from ....api.scheme import Object
from ..local_pods import LocalPod

_MOST_REDIRECTS = 10


class BadAnswer(Exception):
    """The request was answered, and not as it should be."""


@dataclass(frozen=True)
class _Target:
    secure: bool
    #: "" stands for the pod itself.
    host: str
    port: int
    path: str


async def get(pod: LocalPod, action: Object, port: int) -> None:
    """Returns once the answer is good; BadAnswer if it is not."""
    target = _Target(
        (action.get("scheme") or "HTTP").upper() == "HTTPS",
        action.get("host") or "",
        port,
        "/" + (action.get("path") or "").removeprefix("/"),
    )
    for _ in range(_MOST_REDIRECTS):
        code, location = await _answer(pod, target, action.get("httpHeaders") or ())
        if not 200 <= code < 400:
            raise BadAnswer(f"HTTP probe failed with statuscode: {code}" if code else "malformed HTTP response")
        following = _redirected(pod, target, location) if code >= 300 else None
        if following is None:
            return
        target = following
    raise BadAnswer(f"stopped after {_MOST_REDIRECTS} redirects")


def _redirected(pod: LocalPod, target: _Target, location: str) -> _Target | None:
    """Where to ask next; None for another host, which nobody is asked about."""
    host = target.host or pod.address
    scheme = "https" if target.secure else "http"
    parts = urlsplit(urljoin(f"{scheme}://{host}:{target.port}{target.path}", location))
    if not location or parts.hostname != host.lower() or parts.scheme not in ("http", "https"):
        return None
    secure = parts.scheme == "https"
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return _Target(secure, target.host, parts.port or (443 if secure else 80), path)


async def _answer(pod: LocalPod, target: _Target, headers: Iterable[Object]) -> tuple[int, str]:
    """The code, 0 if it is none, and the place of a redirect."""
    context = ssl._create_unverified_context() if target.secure else None  # noqa: S323 - as a kubelet
    if target.host:
        reader, writer = await asyncio.open_connection(target.host, target.port, ssl=context)
    else:
        made = await pod.connect(target.port)
        server = "" if target.secure else None
        reader, writer = await asyncio.open_connection(sock=made, ssl=context, server_hostname=server)
    try:
        own = f"{target.host or pod.address}:{target.port}"
        writer.write(f"GET {target.path} HTTP/1.1\r\n{header_lines(own, headers)}\r\n".encode())
        parts = (await reader.readline()).split()
        code = int(parts[1]) if len(parts) > 1 and parts[1].isdigit() else 0
        return code, await _location(reader) if 300 <= code < 400 else ""
    finally:
        writer.close()


def header_lines(host: str, given: Iterable[Object]) -> str:
    """Given ones stand in place of those that are sent anyway, whatever their case; an empty Accept sends none."""
    own = {"host": ("Host", host), "user-agent": ("User-Agent", "kube-probe/1.37"), "accept": ("Accept", "*/*")}
    lines = []
    for one in given:
        name, value = one["name"], one.get("value", "")
        own.pop(name.lower(), None)
        if name.lower() != "connection" and (value or name.lower() != "accept"):
            lines.append((name, value))
    return "".join(f"{name}: {value}\r\n" for name, value in [*own.values(), *lines, ("Connection", "close")])


async def _location(reader: asyncio.StreamReader) -> str:
    while line := (await reader.readline()).strip():
        name, _, value = line.decode("latin-1").partition(":")
        if name.strip().lower() == "location":
            return value.strip()
    return ""
