"""Serves `/metrics`, `/healthz`, `/readyz` and debug pages for processes that have no API server (cluster mode).

Plain HTTP without a token, therefore on loopback by default.  The embedded plane serves these paths on its own API
server, with its token.
"""

from __future__ import annotations

import ipaddress
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from aiohttp import web
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, ProcessCollector, generate_latest

from .debug_pages import DebugPages


class CannotListen(Exception):
    """Listening on the address failed; the message says which address and why."""


@dataclass(frozen=True)
class Address:
    host: str
    #: 0 selects a free port.
    port: int


def metrics_registry() -> CollectorRegistry:
    """A new registry with the CPU, memory and file metrics of this process."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return registry


@asynccontextmanager
async def serve_metrics(
    registry: CollectorRegistry, address: Address, ready: Callable[[], bool], debug: DebugPages | None = None
) -> AsyncIterator[str]:
    """Serve while the block runs; yields the URL.  `/readyz` answers 503 until `ready` returns True.

    With debug pages, which only this machine may ask for, the port is opened on a loopback address too.
    """

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})

    async def alive(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def is_ready(_: web.Request) -> web.Response:
        if ready():
            return web.Response(text="ok")
        return web.Response(status=503, text="caches are not synced yet")

    app = web.Application()
    app.add_routes([web.get("/metrics", metrics), web.get("/healthz", alive), web.get("/readyz", is_ready)])
    if debug is not None:
        app.add_routes(debug.routes())
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, address.host, address.port)
        try:
            await site.start()
        except OSError as error:
            raise CannotListen(f"cannot serve metrics on {address.host}:{address.port}: {error.strerror}") from error
        host, port = runner.addresses[0][:2]
        if debug is not None and not _is_loopback(host):
            with suppress(OSError):  # taken by somebody else: then there are no debug pages
                await web.TCPSite(runner, "127.0.0.1", port).start()
        yield f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    finally:
        if debug is not None:
            debug.end()
        await runner.cleanup()


def _is_loopback(host: str) -> bool:
    """Whether callers on this machine reach it there by a loopback address."""
    address = ipaddress.ip_address(host)
    return address.is_loopback or address.is_unspecified
