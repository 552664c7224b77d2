"""Answers that go on and on."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from echelon.client import stream as streams
from echelon.client.connection_pool import ConnectionPool
from echelon.client.login.credentials import FixedCredentials, Login
from echelon.client.stream import ConnectionClosed, Stream
from echelon.server.setup import certificates

_PATIENCE = 20.0
_HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
_END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


#: What the server shows, and what the client trusts; None without TLS.
Secrets = tuple[ssl.SSLContext, ssl.SSLContext] | None


@pytest.fixture(params=["plain", "tls"])
def secrets(request: pytest.FixtureRequest, tmp_path: Path) -> Secrets:
    if request.param == "plain":
        return None
    own = certificates.ensure(tmp_path, time.time())
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    shown.load_cert_chain(own.certificate, own.key)
    return shown, ssl.create_default_context(cafile=tmp_path / "ca.crt")


@asynccontextmanager
async def told(
    tell: Callable[[asyncio.StreamWriter], Awaitable[None]],
    silence: float = _PATIENCE,
    answer: float = _PATIENCE,
    secrets: Secrets = None,
) -> AsyncIterator[Stream]:
    """The stream of a server that tells this and hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        try:
            await tell(writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    shown, trusted = secrets or (None, None)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=shown)
    async with server:
        scheme, port = "https" if secrets else "http", server.sockets[0].getsockname()[1]
        wire = ConnectionPool(f"{scheme}://127.0.0.1:{port}", FixedCredentials(Login(tls=trusted)), {}, 1)
        async with wire.stream("/watch", answer, silence) as stream:
            yield stream


async def lines_of(stream: Stream) -> list[bytes]:
    return [line async for batch in stream.batches() for line in batch.splitlines() if line]


async def test_lines_come_whole_and_in_order_however_they_are_cut(secrets: Secrets) -> None:
    wanted = [b"line %d %s" % (number, b"x" * (number % 50)) for number in range(500)]
    text = b"\n".join(wanted) + b"\n\n"

    async def tell(writer: asyncio.StreamWriter) -> None:
        writer.write(_HEAD)
        for begin in range(0, len(text), 333):
            writer.write(chunk(text[begin : begin + 333]))
            await writer.drain()
        writer.write(_END)
        await writer.drain()

    async with told(tell, secrets=secrets) as stream:
        assert (stream.status, await lines_of(stream)) == (200, wanted)


async def test_a_line_longer_than_many_pieces_is_one_line() -> None:
    wanted = [b"short", b"z" * 300_000, b"after"]

    async def tell(writer: asyncio.StreamWriter) -> None:
        text = b"\n".join(wanted) + b"\n"
        writer.write(_HEAD)
        for begin in range(0, len(text), 7_777):
            writer.write(chunk(text[begin : begin + 7_777]))
            await writer.drain()
        writer.write(_END)

    async with told(tell) as stream:
        assert await lines_of(stream) == wanted


async def test_a_line_that_is_not_finished_is_no_line() -> None:
    async def tell(writer: asyncio.StreamWriter) -> None:
        writer.write(_HEAD + chunk(b"one\ntwo\nthr") + _END)

    async with told(tell) as stream:
        assert await lines_of(stream) == [b"one", b"two"]


async def test_a_refusal_is_read_to_its_end() -> None:
    async def tell(writer: asyncio.StreamWriter) -> None:
        writer.write(b'HTTP/1.1 410 Gone\r\nContent-Length: 16\r\n\r\n{"kind":\n"Status')
        await writer.drain()

    async with told(tell) as stream:
        assert (stream.status, await stream.rest()) == (410, b'{"kind":\n"Status')


async def test_a_server_that_nobody_trusts_is_not_asked(tmp_path: Path) -> None:
    own = certificates.ensure(tmp_path, time.time())
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    shown.load_cert_chain(own.certificate, own.key)

    async def tell(_: asyncio.StreamWriter) -> None:
        raise AssertionError("it was asked")

    with pytest.raises(ssl.SSLCertVerificationError):
        async with told(tell, secrets=(shown, ssl.create_default_context())):
            pass


async def test_what_came_before_the_line_broke_is_delivered() -> None:
    async def tell(writer: asyncio.StreamWriter) -> None:
        writer.write(_HEAD + chunk(b"one\n"))

    async with told(tell) as stream:
        batches = stream.batches()
        assert await anext(batches) == b"one\n"
        with pytest.raises(ConnectionClosed):
            await anext(batches)


async def test_a_server_that_does_not_even_begin_to_answer_is_given_up_sooner() -> None:
    over = asyncio.Event()

    async def tell(writer: asyncio.StreamWriter) -> None:
        await over.wait()

    begin = asyncio.get_running_loop().time()
    with pytest.raises(TimeoutError):
        async with told(tell, answer=0.2):
            pass
    assert asyncio.get_running_loop().time() - begin < _PATIENCE
    over.set()


async def test_a_server_that_says_nothing_for_too_long_is_given_up() -> None:
    over = asyncio.Event()

    async def tell(writer: asyncio.StreamWriter) -> None:
        writer.write(_HEAD + chunk(b"one\n"))
        await over.wait()

    async with told(tell, silence=0.2) as stream:
        with pytest.raises(TimeoutError):
            await lines_of(stream)
        over.set()


async def test_a_slow_reader_makes_the_server_wait(monkeypatch: pytest.MonkeyPatch, secrets: Secrets) -> None:
    """Much more is sent than may wait here and in the sockets between; it is all there in the end."""
    # Below what waits in the sockets, so that 30 MB suffice to fill everything on the way.
    monkeypatch.setattr(streams, "_HIGH_WATER", 1 << 16)
    line, count = b"y" * 999 + b"\n", 30_000
    sent = asyncio.Event()

    async def tell(writer: asyncio.StreamWriter) -> None:
        writer.write(_HEAD)
        for _ in range(count):
            writer.write(chunk(line))
            await writer.drain()
        sent.set()
        writer.write(_END)
        await writer.drain()

    async with told(tell, secrets=secrets) as stream:
        while stream._waiting_bytes <= streams._HIGH_WATER:  # noqa: ASYNC110 - until the reader is behind
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert not sent.is_set()
        assert len(await lines_of(stream)) == count
