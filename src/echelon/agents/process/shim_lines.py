"""The agent's end of a shim: starts it, connects to it, sends commands, hears of every change."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable, Sequence
from typing import Any

from .pod_directories import PodDirectory
from .shim.launch import program
from .shim.main import ALREADY_RUNNING

_LIMIT = 16 << 20
_START_SECONDS = 60.0


class ShimFailed(Exception):
    """The sandbox of a pod could not be made; the message says why."""


async def start_shim(directory: PodDirectory, scope: Sequence[str] = ()) -> None:
    """Returns when the shim takes commands; another one that runs already is as good."""
    process = await asyncio.create_subprocess_exec(
        *scope,
        *program("main", str(directory.path)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, said = await asyncio.wait_for(process.communicate(), _START_SECONDS)
    except TimeoutError:
        process.kill()
        raise ShimFailed(f"no sandbox within {_START_SECONDS:.0f} s") from None
    if process.returncode not in (0, ALREADY_RUNNING):
        raise ShimFailed(said.decode(errors="replace").strip()[-500:] or f"exit code {process.returncode}")


def connect_in(directory: str, name: str, *, wait: bool = True) -> socket.socket:
    """A connection to a Unix socket, however long the path of its directory is.

    If more clients than it takes stand before the other side already, this one waits, or it is an OSError.
    """
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    line.setblocking(wait)
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        line.connect(f"/proc/self/fd/{folder}/{name}")
    except OSError:
        line.close()
        raise
    finally:
        os.close(folder)
    return line


class ShimLine:
    """A connection to a running shim; `changed` is called with every new state, and with None at its end."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, changed: Callable[[Any], None]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._changed = changed
        self._task = asyncio.create_task(self._listen(), name="shim")

    @classmethod
    async def open(cls, directory: PodDirectory, changed: Callable[[Any], None]) -> ShimLine:
        """OSError if no shim listens."""
        line = connect_in(str(directory.path), "control.sock", wait=False)
        reader, writer = await asyncio.open_unix_connection(sock=line, limit=_LIMIT)
        return cls(reader, writer, changed)

    def send(self, **command: Any) -> None:
        self._writer.write(json.dumps(command).encode() + b"\n")

    async def _listen(self) -> None:
        try:
            while line := await self._reader.readline():
                self._changed(json.loads(line))
        except (OSError, ValueError):
            pass  # as if it had ended
        finally:
            self._writer.close()
        self._changed(None)

    async def ended(self, seconds: float) -> bool:
        """Wait until the shim has ended, at most so long; whether it has."""
        return bool((await asyncio.wait([self._task], timeout=seconds))[0])

    def close(self) -> None:
        """Hear no more; the shim goes on."""
        self._task.cancel()
        self._writer.close()
