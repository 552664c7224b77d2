"""A WebSocket of a client, over ASGI."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from ..requests.request import Receive, Response, Send


class Closed(Exception):
    """The client has closed the connection."""


class WebSocket:
    def __init__(self, receive: Receive, send: Send, offered: Sequence[str]) -> None:
        self._receive = receive
        self._send = send
        #: The protocols that the client speaks, the best first.
        self.offered = offered

    async def accept(self, protocol: str) -> None:
        await self._receive()  # websocket.connect
        await self._send({"type": "websocket.accept", "subprotocol": protocol or None, "headers": []})

    async def refuse(self, response: Response) -> None:
        """Answer with an HTTP response instead of opening the connection."""
        await self._receive()
        headers = [(b"content-type", response.content_type.encode()), (b"content-length", b"%d" % len(response.body))]
        await self._send({"type": "websocket.http.response.start", "status": response.code, "headers": headers})
        await self._send({"type": "websocket.http.response.body", "body": response.body})

    async def receive(self) -> bytes:
        """The next message."""
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            raise Closed
        return message.get("bytes") or (message.get("text") or "").encode()

    async def send(self, data: bytes) -> None:
        try:
            await self._send({"type": "websocket.send", "bytes": data})
        except OSError as error:  # uvicorn's word for a client that is gone
            raise Closed from error

    async def close(self) -> None:
        with suppress(OSError, RuntimeError):
            await self._send({"type": "websocket.close", "code": 1000})
