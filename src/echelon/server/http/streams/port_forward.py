"""Port-forward over the channels of a WebSocket, as Python clients speak it.

For the i-th port of the query, channel 2i carries data and 2i+1 an error in words; the first message of the server on
each of them is the number of the port, in two bytes.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from contextlib import suppress

from ....api.running_pods import Connection, RunningPod
from .web_socket import Closed, WebSocket

PROTOCOLS = ("v4.channel.k8s.io", "portforward.k8s.io")


async def serve(socket: WebSocket, pod: RunningPod, ports: Sequence[int]) -> None:
    connections: dict[int, Connection] = {}
    try:
        async with asyncio.TaskGroup() as group:
            for index, port in enumerate(ports):
                for channel in (2 * index, 2 * index + 1):
                    await socket.send(bytes((channel,)) + struct.pack("<H", port))
            readers = []
            for index, port in enumerate(ports):
                try:
                    connections[2 * index] = await pod.connect(port)
                except OSError as error:
                    await socket.send(bytes((2 * index + 1,)) + refusal(port, error).encode())
                else:
                    readers.append(group.create_task(_outgoing(socket, 2 * index, connections[2 * index])))
            writer = group.create_task(_incoming(socket, connections))
            if readers:
                await asyncio.wait([*readers, writer], return_when=asyncio.FIRST_COMPLETED)
                if not writer.done():
                    await asyncio.wait(readers)
            for task in (*readers, writer):
                task.cancel()
    except* Closed:
        pass
    finally:
        for connection in connections.values():
            connection.close()
        await socket.close()


async def _outgoing(socket: WebSocket, channel: int, connection: Connection) -> None:
    with suppress(OSError):  # a connection that the pod resets has ended
        while data := await connection.read():
            await socket.send(bytes((channel,)) + data)


async def _incoming(socket: WebSocket, connections: dict[int, Connection]) -> None:
    while True:
        try:
            message = await socket.receive()
        except Closed:
            return
        connection = connections.get(message[0]) if message else None
        if connection is not None and len(message) > 1:
            with suppress(OSError):
                await connection.write(message[1:])


def refusal(port: int, error: OSError) -> str:
    """Why a connection failed, as a kubelet says it."""
    reason = error.strerror or str(error) or type(error).__name__
    return f"error forwarding port {port} to pod: failed to connect to localhost:{port} inside the pod: {reason}"
