"""Connections to ports of a pod that end in other ways than both sides want."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from echelon.api.running_pods import RunningPod
from echelon.server.http.streams import port_forward
from echelon.server.http.streams.spdy_frames import Frames
from echelon.server.http.streams.spdy_tunnel import Tunnel
from echelon.server.http.streams.web_socket import WebSocket

from .test_spdy_frames import Peer, control


class Client:
    """The other side of a WebSocket."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.got: asyncio.Queue[bytes] = asyncio.Queue()
        self.socket = WebSocket(self.sent.get, self._take, ())

    async def _take(self, message: Any) -> None:
        if message["type"] == "websocket.send":
            self.got.put_nowait(message["bytes"])

    def send(self, data: bytes) -> None:
        self.sent.put_nowait({"type": "websocket.receive", "bytes": data})

    def leave(self) -> None:
        self.sent.put_nowait({"type": "websocket.disconnect"})


class Pod:
    """Its connections read nothing; `reset` ends them as the kernel does when a pod closes what it has not read."""

    def __init__(self, *, refuses_input: bool = False) -> None:
        self.refuses_input = refuses_input
        self.reset = asyncio.Event()
        self.answers = asyncio.Queue[bytes]()

    async def connect(self, port: int) -> Any:
        return self

    async def read(self) -> bytes:
        answer, reset = asyncio.ensure_future(self.answers.get()), asyncio.ensure_future(self.reset.wait())
        done, _ = await asyncio.wait({answer, reset}, return_when=asyncio.FIRST_COMPLETED)
        for one in (answer, reset):
            one.cancel()
        if answer in done:
            return answer.result()
        raise ConnectionResetError

    async def write(self, data: bytes) -> None:
        if self.refuses_input:
            raise ConnectionResetError
        await asyncio.Event().wait()

    def end_writing(self) -> None: ...

    def close(self) -> None: ...


def opened(peer: Peer, stream: int, request: str) -> bytes:
    head = {"port": "80", "requestid": request}
    error = peer.open(stream, {**head, "streamtype": "error"}, fin=True)
    return error + peer.open(stream + 2, {**head, "streamtype": "data"})


@asynccontextmanager
async def tunnel(pod: Pod) -> AsyncIterator[Client]:
    client = Client()
    running: RunningPod = pod  # type: ignore[assignment]  # only connects
    serving = asyncio.create_task(Tunnel(client.socket, running).serve())
    async with asyncio.timeout(60):
        yield client
        client.leave()
        await serving


async def answered(client: Client, wanted: bytes) -> None:
    while wanted not in await client.got.get():
        pass


def test_a_connection_that_a_pod_closes_unread_holds_up_no_other_one() -> None:
    async def forward() -> None:
        peer, pod = Peer(), Pod()
        async with tunnel(pod) as client:
            client.send(opened(peer, 1, "0"))
            for _ in range(200):
                client.send(Frames.data(3, b"x"))
            client.send(control(6, struct.pack(">I", 7)))
            while client.sent.qsize() > 150:  # noqa: ASYNC110  # until it is held up
                await asyncio.sleep(0.01)
            pod.reset.set()
            await answered(client, Frames.ping(7))

    asyncio.run(forward())


def test_a_stream_that_is_opened_twice_is_reset_and_the_first_one_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async def forward() -> None:
        peer, pod = Peer(), Pod()
        async with tunnel(pod) as client:
            client.send(opened(peer, 1, "0") + opened(peer, 1, "0"))
            await answered(client, Frames.reset(3))
            pod.answers.put_nowait(b"answer")
            await answered(client, Frames.data(3, b"answer"))

    asyncio.run(forward())
    assert caplog.text == ""


def test_a_pod_that_refuses_more_input_may_still_answer() -> None:
    async def forward() -> None:
        peer, pod = Peer(), Pod(refuses_input=True)
        async with tunnel(pod) as client:
            client.send(opened(peer, 1, "0"))
            for _ in range(200):
                client.send(Frames.data(3, b"x"))
            client.send(control(6, struct.pack(">I", 7)))
            await answered(client, Frames.ping(7))
            pod.answers.put_nowait(b"too much")
            await answered(client, Frames.data(3, b"too much"))

    asyncio.run(forward())


def test_a_connection_that_a_pod_resets_has_ended_for_python_clients_too() -> None:
    async def forward() -> None:
        client, pod = Client(), Pod(refuses_input=True)
        running: RunningPod = pod  # type: ignore[assignment]
        async with asyncio.timeout(60):
            serving = asyncio.create_task(port_forward.serve(client.socket, running, [80]))
            client.send(b"\0lost")
            pod.answers.put_nowait(b"answer")
            await answered(client, b"\0answer")
            pod.reset.set()
            await serving

    asyncio.run(forward())
