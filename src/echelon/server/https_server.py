"""Starting and stopping the HTTPS listener around the application.

The server runs on the caller's event loop and leaves signals to the caller.  Stopping ends all watches first,
so that open streams finish cleanly and nothing has to be waited for.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from ..api.verbs import Verbs
from ..base.clock import Clock
from .http.application import Application
from .http.requests.authn import Gate
from .setup import admin_kubeconfig, certificates
from .setup.certificates import Credentials

#: Clients keep idle connections for later use; closing them early would race with that use.
_KEEP_ALIVE_SECONDS = 180
#: How long requests may take to be answered while stopping.
_GRACE_SECONDS = 2
_FAREWELL_SECONDS = 0.2


@dataclass(frozen=True)
class ServerSettings:
    """What the server needs to know before it starts."""

    #: Certificates, keys and the admin token live in `pki` below it; made if missing.
    directory: Path
    #: 0 takes any free port.
    port: int = 0
    #: Where to write a kubeconfig once the port is known, if anywhere.
    kubeconfig: Path | None = None
    #: Loopback only: whoever has the token rules the cluster.
    host: str = "127.0.0.1"

    def __post_init__(self) -> None:
        if not ipaddress.ip_address(self.host).is_loopback:
            raise ValueError(f"the server listens on loopback addresses only, not on {self.host}")


class PortInUse(Exception):
    """Another process listens where this server should."""


class Server:
    """A running server."""

    def __init__(self, listener: _Listener, app: Application, credentials: Credentials, host: str, port: int) -> None:
        self._listener = listener
        self._app = app
        self._credentials = credentials
        self.port = port
        self.url = f"https://{_bracketed(host)}:{port}"

    @property
    def authority_pem(self) -> bytes:
        """The certificate that clients must trust."""
        return self._credentials.authority_pem

    @property
    def token(self) -> str:
        """The administrator's bearer token."""
        return self._credentials.token

    def write_kubeconfig(self, path: Path) -> None:
        admin_kubeconfig.write(path, self.url, self.authority_pem, self.token)

    async def stop(self) -> None:
        """End watches, finish what is being answered, close the port."""
        self._app.close()
        await self._listener.stop()


async def serve(
    verbs: Verbs, settings: ServerSettings, clock: Clock, more_metrics: Callable[[], bytes] = bytes
) -> Server:
    """Listen, and return once connections are accepted and the kubeconfig is written; may raise `PortInUse`.

    `/metrics` ends with whatever `more_metrics` says then.
    """
    bound = _bind(settings.host, settings.port)
    try:
        port = int(bound.getsockname()[1])
        credentials = certificates.ensure(settings.directory / "pki", time.time())
        gate = Gate(credentials.token, credentials.names)
        app = Application(verbs, gate, clock, f"{_bracketed(settings.host)}:{port}", more_metrics)
        listener = _Listener(app, credentials)
        await listener.start(bound)
    except BaseException:
        bound.close()
        raise
    server = Server(listener, app, credentials, settings.host, port)
    if settings.kubeconfig is not None:
        server.write_kubeconfig(settings.kubeconfig)
    return server


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _bind(host: str, port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(
                f"port {port} on {host} is in use; take another with --port, or --port 0 for any free one"
            ) from None
        raise
    return bound


class _Listener(uvicorn.Server):
    """uvicorn on a running loop, without its own handling of signals."""

    def __init__(self, app: Application, credentials: Credentials) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http="httptools",
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="error",
                access_log=False,
                server_header=False,
                ssl_certfile=credentials.certificate,
                ssl_keyfile=credentials.key,
                timeout_keep_alive=_KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=_GRACE_SECONDS,
            )
        )
        self._accepting = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self, bound: socket.socket) -> None:
        self._task = asyncio.create_task(self.serve(sockets=[bound]))
        accepting = asyncio.create_task(self._accepting.wait())
        await asyncio.wait({self._task, accepting}, return_when=asyncio.FIRST_COMPLETED)
        if not self._accepting.is_set():
            accepting.cancel()
            await self._task
            raise RuntimeError("the HTTPS listener ended before it began")

    async def stop(self) -> None:
        self.should_exit = True
        if self._task is not None:
            await self._task

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        impatience = asyncio.create_task(self._hang_up())
        await super().shutdown(sockets)
        impatience.cancel()

    async def _hang_up(self) -> None:
        """Once everything is answered, do not wait long for clients that will not say goodbye."""
        if answering := set(self.server_state.tasks):
            await asyncio.wait(answering)
        await asyncio.sleep(_FAREWELL_SECONDS)
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._accepting.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
