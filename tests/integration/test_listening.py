"""The socket that the server listens on."""

from __future__ import annotations

import asyncio
import socket

import pytest

from echelon.server.https_server import bind


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_answers_are_sent_at_once_on_the_loop_of_asyncio_too(host: str) -> None:
    """It sets TCP_NODELAY only where it knows that the protocol is TCP; else answers wait 40 ms to be acknowledged."""
    accepted: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    class Accepting(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            own = transport.get_extra_info("socket")
            accepted.set_result(bool(own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)))
            transport.close()

    server = await asyncio.get_running_loop().create_server(Accepting, sock=bind(host, 0))
    async with server:
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        assert await accepted
        writer.close()
        await writer.wait_closed()
