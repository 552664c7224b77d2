"""Port-forward as kubectl speaks it: SPDY frames inside the messages of a WebSocket.

For every connection to its local port kubectl opens two streams with the same request id: one of type `error`, on which
the server says in words what went wrong, and one of type `data`.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from ....api.running_pods import Connection, RunningPod
from .port_forward import refusal
from .spdy_frames import BadFrame, DataReceived, Frames, GoingAway, PingReceived, StreamOpened, StreamReset
from .web_socket import Closed, WebSocket

PROTOCOL = "SPDY/3.1+portforward.k8s.io"
#: Connections of one client at a time.
_MOST_STREAMS = 1000


class Tunnel:
    """One client with all its forwarded connections."""

    def __init__(self, socket: WebSocket, pod: RunningPod) -> None:
        self._socket = socket
        self._pod = pod
        self._frames = Frames()
        #: Request id → the stream for errors.
        self._errors: dict[str, int] = {}
        #: Data stream → what the client has sent; None: no more will come.
        self._inputs: dict[int, asyncio.Queue[bytes | None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        try:
            while True:
                for frame in self._frames.feed(await self._socket.receive()):
                    await self._handle(frame)
        except (Closed, BadFrame):
            pass
        finally:
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._socket.close()

    async def _handle(self, frame: object) -> None:
        match frame:
            case StreamOpened(stream, headers):
                await self._open(stream, headers.get("streamtype", ""), headers)
            case DataReceived(stream, data, is_last):
                if (queue := self._inputs.get(stream)) is not None:
                    if data:
                        await queue.put(data)
                    if is_last:
                        await queue.put(None)
            case StreamReset(stream):
                if (queue := self._inputs.get(stream)) is not None:
                    await queue.put(None)
            case PingReceived(number):
                await self._socket.send(self._frames.ping(number))
            case GoingAway():
                raise Closed

    async def _open(self, stream: int, kind: str, headers: object) -> None:
        assert isinstance(headers, dict)
        request, port = headers.get("requestid", ""), headers.get("port", "")
        is_new = stream not in self._inputs and len(self._inputs) < _MOST_STREAMS
        if kind not in ("error", "data") or not port.isdigit() or not is_new:
            await self._socket.send(self._frames.reset(stream))
            return
        await self._socket.send(self._frames.reply(stream))
        if kind == "error":
            self._errors[request] = stream
            return
        # A client that sends faster than the pod reads waits here, with all its connections.
        self._inputs[stream] = asyncio.Queue(64)
        task = asyncio.create_task(self._forward(stream, int(port), self._errors.pop(request, 0)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _forward(self, stream: int, port: int, error_stream: int) -> None:
        problem = ""
        try:
            connection = await self._pod.connect(port)
        except OSError as error:
            problem = refusal(port, error)
        else:
            await self._carry(stream, connection)
        finally:
            self._forget_input(stream)
        with suppress(Closed):
            await self._socket.send(self._frames.data(stream, b"", is_last=True))
            if error_stream:
                await self._socket.send(self._frames.data(error_stream, problem.encode(), is_last=True))

    def _forget_input(self, stream: int) -> None:
        """What the client still sends is nobody's: whoever waits to hand it over must not wait for ever."""
        queue = self._inputs.pop(stream)
        while not queue.empty():
            queue.get_nowait()

    async def _carry(self, stream: int, connection: Connection) -> None:
        incoming = asyncio.create_task(self._incoming(stream, connection))
        try:
            while data := await connection.read():
                await self._socket.send(self._frames.data(stream, data))
        except (Closed, OSError):
            pass
        finally:
            incoming.cancel()
            connection.close()

    async def _incoming(self, stream: int, connection: Connection) -> None:
        queue = self._inputs[stream]
        with suppress(OSError):
            while (data := await queue.get()) is not None:
                await connection.write(data)
            connection.end_writing()
            return
        # The pod does not read any more, but may still answer; other connections of the client go on.
        while await queue.get() is not None:
            pass
