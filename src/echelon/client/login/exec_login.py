"""Logging in with the command of a kubeconfig, as clusters of cloud providers want it (client-go credential plugins).

    user.exec ─► run the command ─► ExecCredential on its standard output ─► token or certificate, until it expires

The command runs when a login is needed: at the first request, when the last one expires, and when the server refuses
it.  Of many requests that need one at a time, the first runs it.
"""

from __future__ import annotations

import asyncio
import math
import os
import ssl
import sys
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from lightkube.config.client_adapter import verify_cluster
from lightkube.config.kubeconfig import SingleConfig
from lightkube.config.models import User, UserExec

from ...base.instants import parse
from .credentials import Login

_GROUP = "client.authentication.k8s.io"
_VERSIONS = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")
_INFO = "KUBERNETES_EXEC_INFO"
#: A person may have to log in meanwhile.
_COMMAND_SECONDS = 300.0
#: A login is renewed this long before it expires.
_EARLY_SECONDS = 10.0


class ExecCredentials:
    """A `LoginSource`; `now` is the time of day, in which expiry is given."""

    def __init__(self, config: SingleConfig, plugin: UserExec, now: Callable[[], float]) -> None:
        """ValueError if the plugin speaks a version that is not known."""
        if plugin.apiVersion not in _VERSIONS:
            raise ValueError(f"its command speaks {plugin.apiVersion}; known are {' and '.join(_VERSIONS)}")
        self._config = config
        self._plugin = plugin
        self._now = now
        self._login: Login | None = None
        self._expires = 0.0
        self._turn = asyncio.Lock()

    def current(self) -> Login | None:
        return self._login if self._now() < self._expires else None

    async def renewed(self, refused: Login | None) -> Login:
        async with self._turn:
            known = self.current()
            if known is not None and known is not refused:
                return known
            status = _status(await self._run(), self._plugin)
            made = self._made(status)
            self._expires = _expiry(status, self._plugin) - _EARLY_SECONDS
            self._login = made
            return made

    async def _run(self) -> bytes:
        """What the command prints; OSError says what went wrong."""
        plugin, environment = self._plugin, dict(os.environ)
        environment.update((one.name, one.value) for one in plugin.env or ())
        interactive = sys.stdin is not None and sys.stdin.isatty()
        environment[_INFO] = msgspec.json.encode(self._info(interactive)).decode()
        try:
            process = await asyncio.create_subprocess_exec(
                self._command(),
                *(plugin.args or ()),
                env=environment,
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            hint = f"; {plugin.installHint.strip()}" if plugin.installHint else ""
            raise OSError(f"cannot log in: {plugin.command}: {error.strerror}{hint}") from error
        try:
            async with asyncio.timeout(_COMMAND_SECONDS):
                printed, _ = await process.communicate()
        except BaseException as error:
            if process.returncode is None:
                process.kill()
                await process.wait()
            if isinstance(error, TimeoutError):
                raise OSError(f"cannot log in: {plugin.command} takes longer than {_COMMAND_SECONDS:g} s") from error
            raise
        if process.returncode != 0:
            raise OSError(f"cannot log in: {plugin.command} ended with exit code {process.returncode}")
        return printed

    def _command(self) -> str:
        """A command with a path is looked for beside the kubeconfig."""
        command = self._plugin.command
        return str(self._config.abs_file(command)) if os.sep in command else command

    def _info(self, interactive: bool) -> dict[str, Any]:
        cluster = self._config.cluster
        known: dict[str, Any] = {"server": cluster.server}
        if cluster.certificate_auth_data:
            known["certificate-authority-data"] = cluster.certificate_auth_data
        elif cluster.certificate_auth:
            content = Path(self._config.abs_file(cluster.certificate_auth)).read_bytes()
            known["certificate-authority-data"] = b64encode(content).decode()
        if cluster.insecure:
            known["insecure-skip-tls-verify"] = True
        spec = {"interactive": interactive, "cluster": known}
        return {"apiVersion": self._plugin.apiVersion, "kind": "ExecCredential", "spec": spec}

    def _made(self, status: dict[str, Any]) -> Login:
        token = str(status.get("token") or "")
        certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
        if not token and not (certificate and key):
            raise OSError(f"cannot log in: {self._plugin.command} printed neither a token nor a client certificate")
        tls = verify_cluster(self._config.cluster, User(), self._config.abs_file)
        if certificate and key:
            try:
                _load(tls, str(certificate), str(key))
            except (OSError, ValueError) as error:
                raise OSError(f"cannot log in: the client certificate of {self._plugin.command}: {error}") from error
        return Login(f"Bearer {token}" if token else "", tls)


def _status(printed: bytes, plugin: UserExec) -> dict[str, Any]:
    try:
        found: Any = msgspec.json.decode(printed)
    except msgspec.DecodeError as error:
        raise OSError(f"cannot log in: {plugin.command} did not print JSON: {error}") from error
    if not isinstance(found, dict) or found.get("kind") != "ExecCredential":
        raise OSError(f"cannot log in: {plugin.command} did not print an ExecCredential")
    if found.get("apiVersion") != plugin.apiVersion:
        raise OSError(
            f"cannot log in: {plugin.command} printed {found.get('apiVersion')}, the kubeconfig says "
            f"{plugin.apiVersion}"
        )
    status = found.get("status")
    return status if isinstance(status, dict) else {}


def _expiry(status: dict[str, Any], plugin: UserExec) -> float:
    told = status.get("expirationTimestamp")
    try:
        return parse(str(told)) if told else math.inf
    except ValueError as error:
        raise OSError(f"cannot log in: {plugin.command} printed expirationTimestamp {told!r}: {error}") from error


def _load(tls: ssl.SSLContext, certificate: str, key: str) -> None:
    """Certificates are loaded from files only; nobody else can read these."""
    with TemporaryDirectory(prefix="echelon-") as directory:
        first, second = Path(directory, "certificate"), Path(directory, "key")
        first.write_text(certificate)
        second.write_text(key)
        tls.load_cert_chain(first, second)
