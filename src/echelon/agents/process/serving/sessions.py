"""Programs in containers with their streams: started by exec, on pipes or on a terminal, or attached to."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import logging
import os
import struct
import termios
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path

from ....api.running_pods import LogOptions, Output
from ..local_pods import Launch
from .log_reading import LogReader

log = logging.getLogger(__name__)

_CHUNK = 32 * 1024
#: Pieces of output that wait for a client that does not read.
_WAITING = 16


class PipeSession:
    """A program on pipes."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @staticmethod
    async def start(launch: Launch, *, stdin: bool) -> PipeSession:
        process = await asyncio.create_subprocess_exec(
            *launch.argv,
            env=dict(launch.env),
            stdin=PIPE if stdin else DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=True,
        )
        return PipeSession(process)

    def output(self) -> AsyncIterator[tuple[Output, bytes]]:
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        return _merged({"stdout": _pieces(self._process.stdout), "stderr": _pieces(self._process.stderr)})

    async def write(self, data: bytes) -> None:
        stdin = self._process.stdin
        if stdin is not None and not stdin.is_closing():
            with suppress(ConnectionError, BrokenPipeError):
                stdin.write(data)
                await stdin.drain()

    async def close_input(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()

    def resize(self, width: int, height: int) -> None:
        """Pipes have no size."""

    async def ended(self) -> int:
        return _code(await self._process.wait())

    async def close(self) -> None:
        await _end(self._process)


async def _pieces(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while data := await reader.read(_CHUNK):
        yield data


async def _merged(outputs: Mapping[Output, AsyncIterator[bytes]]) -> AsyncIterator[tuple[Output, bytes]]:
    """What comes on several outputs, as it comes, until all have ended."""
    queue: asyncio.Queue[tuple[Output, bytes]] = asyncio.Queue(_WAITING)

    async def pump(name: Output, pieces: AsyncIterator[bytes]) -> None:
        try:
            async for data in pieces:
                await queue.put((name, data))
        except Exception:
            log.exception("the output of a container cannot be read")
        await queue.put((name, b""))  # also then: who waits for it would wait for ever

    pumps = [asyncio.create_task(pump(*one)) for one in outputs.items()]
    still_open = len(pumps)
    try:
        while still_open:
            name, data = await queue.get()
            if data:
                yield name, data
            else:
                still_open -= 1
    finally:
        for one in pumps:
            one.cancel()


class TerminalSession:
    """A program on a terminal of its own: one output, and input that it may echo."""

    def __init__(self, process: Process, master: int) -> None:
        self._process = process
        self._master = master
        self._loop = asyncio.get_running_loop()

    @staticmethod
    async def start(launch: Launch) -> TerminalSession:
        master, slave = os.openpty()
        try:
            os.set_blocking(master, False)
            process = await asyncio.create_subprocess_exec(
                *launch.argv,
                env={"TERM": "xterm", **launch.env},
                stdin=slave,
                stdout=slave,
                stderr=slave,
                start_new_session=True,
            )
        except BaseException:
            os.close(master)
            raise
        finally:
            os.close(slave)
        return TerminalSession(process, master)

    async def output(self) -> AsyncIterator[tuple[Output, bytes]]:
        while True:
            await _ready(self._loop.add_reader, self._loop.remove_reader, self._master)
            try:
                data = os.read(self._master, _CHUNK)
            except BlockingIOError:
                continue
            except OSError as error:
                if error.errno == errno.EIO:  # nobody has the other side open any more
                    return
                raise
            if not data:
                return
            yield "stdout", data

    async def write(self, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(self._master, data) :]
            except BlockingIOError:
                await _ready(self._loop.add_writer, self._loop.remove_writer, self._master)
            except OSError:
                return

    async def close_input(self) -> None:
        await self.write(b"\x04")

    def resize(self, width: int, height: int) -> None:
        size = struct.pack("HHHH", _size(height), _size(width), 0, 0)
        with suppress(OSError):
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, size)

    async def ended(self) -> int:
        return _code(await self._process.wait())

    async def close(self) -> None:
        await _end(self._process)
        os.close(self._master)


class AttachedSession:
    """A container that runs anyway: its output from now on, and its standard input if it has one."""

    def __init__(
        self,
        outputs: Mapping[Output, LogReader],
        ended: Callable[[], Awaitable[int]],
        stdin: Path | None,
        tell: Callable[..., None],
        *,
        reads_once: bool,
    ) -> None:
        """`tell` sends a command to the shim of the container."""
        self._outputs = outputs
        for reader in outputs.values():
            reader.begin()  # nothing that is written after this is missed
        self._ended = ended
        self._tell = tell
        self._reads_once = reads_once
        self._stdin = _opened_for_writing(stdin) if stdin is not None else -1

    def output(self) -> AsyncIterator[tuple[Output, bytes]]:
        return _merged({name: reader.read() for name, reader in self._outputs.items()})

    async def write(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        while data and self._stdin >= 0:
            try:
                data = data[os.write(self._stdin, data) :]
            except BlockingIOError:
                await _ready(loop.add_writer, loop.remove_writer, self._stdin)
            except OSError:
                return

    async def close_input(self) -> None:
        if self._stdin >= 0:
            os.close(self._stdin)
            self._stdin = -1
            if self._reads_once:
                with suppress(OSError):
                    self._tell(do="end input")

    def resize(self, width: int, height: int) -> None:
        with suppress(OSError):
            self._tell(do="resize", width=_size(width), height=_size(height))

    async def ended(self) -> int:
        return await self._ended()

    async def close(self) -> None:
        await self.close_input()


def _size(asked: int) -> int:
    """As the kernel takes it."""
    return max(0, min(asked, 0xFFFF))


def _opened_for_writing(fifo: Path) -> int:
    """-1 if nobody reads there any more: the container has closed its input."""
    try:
        return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENOENT):
            return -1
        raise


def attached_options(only: Output) -> LogOptions:
    """What is written from now on."""
    return LogOptions(follow=True, tail_lines=0, only=only)


async def _ready(add: Callable[..., None], remove: Callable[[int], object], file: int) -> None:
    ready = asyncio.Event()
    add(file, ready.set)
    try:
        await ready.wait()
    finally:
        remove(file)


def _code(returned: int) -> int:
    return returned if returned >= 0 else 128 - returned


async def _end(process: Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
