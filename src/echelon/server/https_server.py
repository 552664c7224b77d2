"""Starts and stops the HTTPS server around `http.application`.

The server runs on the caller's event loop and leaves signals to the caller.  Stopping ends all watches first, so that
open streams finish cleanly.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import socket
import ssl
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import uvicorn

from ..api.access.attributes import Authorizer
from ..api.access.authorizers import AllowAll, Rbac
from ..api.errors import ApiError
from ..api.objects.root_certificate import SOURCE_NAMESPACE, root_certificate
from ..api.running_pods import RunningPods
from ..api.scheme import CONFIG_MAPS, PODS, Object
from ..api.verbs import Patch, PatchType
from ..base.clock import Clock
from .connections import BoundedProtocol, CertifiedWebSocket
from .http.application import DEFAULT_LIMITS, Application, FlightLimits
from .http.audit import AuditLog
from .http.handlers.health import Check, Health
from .http.requests.gate import Gate
from .identity.authenticator import Authenticator
from .identity.service_account_tokens import ISSUER, ServiceAccountTokens
from .identity.user_file import UserFile
from .pipeline import Pipeline
from .setup import certificates, kubeconfigs
from .setup.certificates import Credentials

#: Longer than clients keep idle connections, so that the server does not close one that is about to be used.
_KEEP_ALIVE_SECONDS = 180
#: How long active requests may take while the server stops.
_GRACE_SECONDS = 2
_CLOSE_SECONDS = 0.2
#: Bytes of a message on a WebSocket.
_LARGEST_MESSAGE = 4 * 1024 * 1024

#: allow-all: every authenticated user may do everything; rbac: what roles and bindings grant.
Authorization = Literal["allow-all", "rbac"]


@dataclass(frozen=True)
class ServerSettings:
    """Where the server listens and keeps its files."""

    #: Certificates, keys and the admin token are in `pki` below it; created if missing.
    directory: Path
    #: 0 selects a free port.
    port: int = 0
    #: Where to write a kubeconfig; None: nowhere.
    kubeconfig: Path | None = None
    #: The address to listen on; other addresses than loopback need RBAC.
    host: str = "127.0.0.1"
    authorization: Authorization = "allow-all"

    #: Where to append the audit log; None: nowhere.
    audit_log: Path | None = None
    limits: FlightLimits = DEFAULT_LIMITS
    #: Addresses of relays that lead here.
    also_at: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not is_loopback(self.host) and self.authorization != "rbac":
            raise ValueError(f"{self.host} can be reached from other machines and needs RBAC")


def is_loopback(host: str) -> bool:
    return ipaddress.ip_address(host).is_loopback


class AddressRefused(Exception):
    """Address or port cannot be had; the message is for the user."""


class Server:
    """A running server."""

    def __init__(
        self,
        listener: _Listener,
        app: Application,
        credentials: Credentials,
        host: str,
        port: int,
        audit: AuditLog | None,
        tokens: ServiceAccountTokens,
    ) -> None:
        self._audit = audit
        self._listener = listener
        self._app = app
        self._credentials = credentials
        self.host, self.port = host, port
        self._tokens = tokens
        self.url = f"https://{_bracketed(host)}:{port}"

    @property
    def authority_pem(self) -> bytes:
        """The certificate of the CA, which clients must trust."""
        return self._credentials.authority_pem

    @property
    def token(self) -> str:
        """The administrator's bearer token."""
        return self._credentials.token

    def issue_token(self, account: Object, pod: Object, audience: str, seconds: int) -> str:
        """A token of a service account that is valid as long as a pod exists."""
        bound = {**pod, "kind": PODS.kind}
        return self._tokens.issue(account, (audience or ISSUER,), time.time(), seconds, bound, str(uuid.uuid4()))

    def serve_pods(self, pods: RunningPods) -> None:
        """Logs, exec, attach, port-forward and measured use from now on."""
        self._app.serve_pods(pods)

    def write_kubeconfig(self, path: Path) -> None:
        kubeconfigs.write(path, self.url, self.authority_pem, self.token)

    async def stop(self) -> None:
        """End watches, finish active requests, close the port."""
        self._app.close()
        await self._listener.stop()
        if self._audit is not None:
            self._audit.close()


async def serve(
    pipeline: Pipeline,
    settings: ServerSettings,
    clock: Clock,
    more_metrics: Callable[[], bytes] = bytes,
    ready: Mapping[str, Check] = MappingProxyType({}),
) -> Server:
    """Start the server; returns when connections are accepted and the kubeconfig is written.

    Raises `AddressRefused` where it cannot listen.  The text of `more_metrics` is appended to `/metrics`; `ready` are
    checks of `/readyz`.
    """
    bound = bind(settings.host, settings.port)
    try:
        port = int(bound.getsockname()[1])
        pki = settings.directory / "pki"
        credentials = certificates.ensure(pki, time.time(), (*_served_addresses(settings.host), *settings.also_at))
        authorizer: Authorizer = Rbac(pipeline.reader) if settings.authorization == "rbac" else AllowAll()
        tokens = ServiceAccountTokens(certificates.signing_key(pki / "sa.key"), pipeline.reader)
        authenticator = Authenticator(credentials.token, UserFile(pki / "users.json"), tokens, time.time)
        gate = Gate(credentials.names, authenticator, authorizer)
        audit = AuditLog(settings.audit_log) if settings.audit_log else None
        app = Application(
            pipeline,
            pipeline.kinds,
            gate,
            clock,
            f"{_bracketed(settings.host)}:{port}",
            more_metrics,
            Health({"etcd": lambda: pipeline.failure}, ready),
            settings.limits,
            audit,
        )
        listener = _Listener(app, credentials)
        await listener.start(bound)
    except BaseException:
        bound.close()
        raise
    server = Server(listener, app, credentials, _reachable(settings.host), port, audit, tokens)
    certificates.write_secret(pki / "url", server.url.encode())
    await _publish_certificate(pipeline, credentials)
    await pipeline.publish(_reachable(settings.host), port)
    if settings.kubeconfig is not None:
        server.write_kubeconfig(settings.kubeconfig)
    return server


async def _publish_certificate(pipeline: Pipeline, credentials: Credentials) -> None:
    """Keep the original of `kube-root-ca.crt`; a controller copies it to every namespace."""
    made = root_certificate(credentials.authority_pem.decode())
    try:
        await pipeline.create(CONFIG_MAPS, made, SOURCE_NAMESPACE)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
        patch = Patch(PatchType.MERGE, {"data": made["data"]})
        await pipeline.patch(CONFIG_MAPS, made["metadata"]["name"], patch, SOURCE_NAMESPACE)


def _served_addresses(host: str) -> tuple[str, ...]:
    """The addresses that clients use: the host, or those of this machine if it stands for all of them."""
    if not ipaddress.ip_address(host).is_unspecified:
        return (host,)
    try:
        found = socket.getaddrinfo(socket.gethostname(), None)
    except OSError:
        return ()
    return tuple(sorted({str(entry[4][0]).partition("%")[0] for entry in found}))


def _reachable(host: str) -> str:
    """The address for a kubeconfig on this machine."""
    address = ipaddress.ip_address(host)
    return ("127.0.0.1" if address.version == 4 else "::1") if address.is_unspecified else host


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def bind(host: str, port: int) -> socket.socket:
    """A socket to listen on; AddressRefused says what else to try."""
    # The protocol is named for asyncio's own loop, which leaves TCP_NODELAY off where it is 0: 40 ms for each answer.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        words = {
            errno.EADDRINUSE: f"port {port} on {host} is in use; set another with --port, or --port 0 for a free one",
            errno.EACCES: f"port {port} needs more rights than you have; set another with --port",
            errno.EADDRNOTAVAIL: f"{host} is no address of this machine; set another with --bind",
        }
        if error.errno in words:
            raise AddressRefused(words[error.errno]) from None
        raise
    return bound


class _Listener(uvicorn.Server):
    """uvicorn on a running event loop, without its own signal handling."""

    def __init__(self, app: Application, credentials: Credentials) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=BoundedProtocol,
                ws=CertifiedWebSocket,
                ws_max_size=_LARGEST_MESSAGE,
                # Clients of exec and port-forward have pings of their own.
                ws_ping_interval=None,
                ws_per_message_deflate=False,
                lifespan="off",
                log_config=None,
                log_level="error",
                access_log=False,
                server_header=False,
                # The address of a client is that of its connection, whatever its headers say.
                proxy_headers=False,
                ssl_certfile=credentials.certificate,
                ssl_keyfile=credentials.key,
                ssl_ca_certs=str(credentials.authority),
                ssl_cert_reqs=ssl.CERT_OPTIONAL,
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
            raise RuntimeError("the HTTPS server ended during startup")

    async def stop(self) -> None:
        self.should_exit = True
        if self._task is not None:
            await self._task

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        closing = asyncio.create_task(self._close_connections())
        await super().shutdown(sockets)
        closing.cancel()

    async def _close_connections(self) -> None:
        """When all requests are finished, close the remaining connections after a short wait."""
        if active := set(self.server_state.tasks):
            await asyncio.wait(active)
        await asyncio.sleep(_CLOSE_SECONDS)
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._accepting.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
