"""Exec and attach over a WebSocket: every message begins with a byte that names its channel.

    0 stdin   1 stdout   2 stderr   3 how it ended, a Status   4 size of the terminal   255 n: channel n is at its end

The last one is what v5 added to v4.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec

from ....api.errors import ApiError
from ....api.running_pods import Session
from .web_socket import Closed, WebSocket

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
#: How often a client is looked for whose input the program does not take: nothing else tells that it is gone.
_LOOK_SECONDS = 5.0
_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_CHANNELS = {"stdout": _STDOUT, "stderr": _STDERR}


class _Size(msgspec.Struct):
    Width: int = 0
    Height: int = 0


async def serve(socket: WebSocket, session: Session, *, stdout: bool, stderr: bool) -> None:
    """Carry data both ways until the program has ended or the client has left."""
    wanted = {"stdout": stdout, "stderr": stderr}
    incoming = asyncio.create_task(_incoming(socket, session))
    outgoing = asyncio.create_task(_outgoing(socket, session, wanted))
    try:
        await asyncio.wait({incoming, outgoing}, return_when=asyncio.FIRST_COMPLETED)
        if outgoing.done():
            with suppress(Closed):
                outgoing.result()
                await socket.send(bytes((_ERROR,)) + ended(await session.ended()))
    finally:
        for task in (incoming, outgoing):
            task.cancel()
        await asyncio.gather(incoming, outgoing, return_exceptions=True)
        await session.close()
        await socket.close()


async def _outgoing(socket: WebSocket, session: Session, wanted: dict[str, bool]) -> None:
    async for name, data in session.output():
        if wanted[name]:
            await socket.send(bytes((_CHANNELS[name],)) + data)


async def _incoming(socket: WebSocket, session: Session) -> None:
    """Returns when the client leaves."""
    while True:
        try:
            message = await socket.receive()
        except Closed:
            return
        if not message:
            continue
        channel, data = message[0], message[1:]
        if channel == _STDIN and data:
            if not await _written(socket, session, data):
                return
        elif channel == _RESIZE:
            with suppress(msgspec.MsgspecError):
                size = msgspec.json.decode(data, type=_Size)
                session.resize(size.Width, size.Height)
        elif channel == _CLOSE and data[:1] == bytes((_STDIN,)):
            await session.close_input()


async def _written(socket: WebSocket, session: Session, data: bytes) -> bool:
    """Give the program its input; False if the client has left while it did not take it.

    What a client sends next is not read meanwhile, so its end is not seen: it is sent an empty message now and then.
    """
    writing = asyncio.create_task(session.write(data), name="input")
    try:
        while not (await asyncio.wait({writing}, timeout=_LOOK_SECONDS))[0]:
            await socket.send(bytes((_ERROR,)))
        writing.result()
    except Closed:
        return False
    finally:
        writing.cancel()
    return True


def ended(code: int) -> bytes:
    """How a program ended, as clients read it."""
    if code == 0:
        return msgspec.json.encode({"metadata": {}, "status": "Success"})
    cause = {"reason": "ExitCode", "message": str(code)}
    text = f"command terminated with non-zero exit code: exit status {code}"
    status = {"status": "Failure", "message": text, "reason": "NonZeroExitCode", "details": {"causes": [cause]}}
    return msgspec.json.encode({"metadata": {}, **status})


def failed(error: ApiError) -> bytes:
    """The message for a session that could not begin, after the connection was opened."""
    status = {"status": "Failure", "message": error.message, "reason": error.reason, "code": error.code}
    return bytes((_ERROR,)) + msgspec.json.encode({"metadata": {}, **status})
