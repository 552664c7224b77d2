"""Certificates that are replaced while a client runs: no request fails, and new connections use the new ones."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import yaml

from echelon.api.scheme import CONFIG_MAPS
from echelon.client import kubeconfig
from echelon.client.http import HttpVerbs
from echelon.client.kubeconfig import KubeconfigError
from echelon.server.setup import certificates


@asynccontextmanager
async def who_am_i(pki: Path, port: int = 0) -> AsyncIterator[int]:
    """An HTTPS server that answers every request with the name in the client's certificate; yields its port."""
    files = certificates.ensure(pki, time.time())
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=files.authority)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(files.certificate, files.key)

    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        certificate = writer.get_extra_info("peercert")
        (name,) = [value for part in certificate["subject"] for key, value in part if key == "commonName"]
        found = {"metadata": {"name": name, "resourceVersion": "1"}}
        while True:
            try:
                request = await reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                return
            body = msgspec.json.encode({"type": "ADDED", "object": found} if b"watch=1" in request else found) + b"\n"
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

    server = await asyncio.start_server(serve, "127.0.0.1", port, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in writers:
            writer.close()
        await server.wait_closed()


def trust(home: Path, pki: Path) -> None:
    (home / "ca.crt").write_bytes(certificates.ensure(pki, time.time()).authority_pem)


def be(home: Path, pki: Path, user: str) -> None:
    issued = certificates.issue_client(pki, user, (), time.time(), 3600)
    (home / "client.crt").write_bytes(issued.certificate_pem)
    (home / "client.key").write_bytes(issued.key_pem)


def client_of(home: Path, port: int) -> HttpVerbs:
    """Files are named relative to the kubeconfig."""
    config = {
        "clusters": [
            {"name": "c", "cluster": {"server": f"https://127.0.0.1:{port}", "certificate-authority": "ca.crt"}}
        ],
        "users": [{"name": "u", "user": {"client-certificate": "client.crt", "client-key": "client.key"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (home / "kubeconfig").write_text(yaml.safe_dump(config))
    return kubeconfig.connect(kubeconfig.load(home / "kubeconfig"))


async def names(client: HttpVerbs) -> set[str]:
    """As whom the server sees requests of the three ways in which they are sent."""
    got = await client.get(CONFIG_MAPS, "m", "default")
    raw, _ = await client.get_raw("/version")
    watching = client.watch(CONFIG_MAPS, "default")
    event = await anext(watching)
    await watching.aclose()
    return {one["metadata"]["name"] for one in (got, raw, event.object)}


async def test_a_server_with_a_new_authority_is_trusted_as_soon_as_the_file_says_so(tmp_path: Path) -> None:
    for pki in ("one", "two"):
        certificates.ensure(tmp_path / pki, time.time())
    trust(tmp_path, tmp_path / "one")
    be(tmp_path, tmp_path / "one", "me")
    async with who_am_i(tmp_path / "one") as port:
        client = client_of(tmp_path, port)
        assert await names(client) == {"me"}
    try:
        trust(tmp_path, tmp_path / "two")
        be(tmp_path, tmp_path / "two", "me-again")
        async with who_am_i(tmp_path / "two", port):
            assert await names(client) == {"me-again"}
    finally:
        await client.close()


async def test_a_new_client_certificate_is_used_by_new_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("echelon.client.login.credentials._REREAD_SECONDS", 0.0)
    trust(tmp_path, tmp_path / "pki")
    be(tmp_path, tmp_path / "pki", "old")
    async with who_am_i(tmp_path / "pki") as port:
        client = client_of(tmp_path, port)
        try:
            assert await names(client) == {"old"}
            key = (tmp_path / "client.key").read_bytes()
            be(tmp_path, tmp_path / "pki", "new")
            newer = (tmp_path / "client.key").read_bytes()
            (tmp_path / "client.key").write_bytes(key)
            assert await names(client) == {"old"}, "a certificate without its key is not used"
            (tmp_path / "client.key").write_bytes(newer)
            assert await names(client) == {"new"}
        finally:
            await client.close()


async def test_a_file_that_is_missing_at_the_start_is_named(tmp_path: Path) -> None:
    trust(tmp_path, tmp_path / "pki")
    with pytest.raises(KubeconfigError, match=r"context 'x': cannot read its credentials: .*client\.crt"):
        client_of(tmp_path, 1)
