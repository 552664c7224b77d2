"""Reads the log of one attempt of a container, as `kubectl logs` asks for it.

    pieces of the log on disk ─► where to begin (tail) ─► lines ─► since, output, timestamps ─► bytes, in bounded pieces

Who follows looks for more until the attempt has ended and everything is read.  A file that was rotated away in the
meantime is read to its end first.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from ....api.running_pods import LogOptions

_CHUNK = 64 * 1024
#: How often a log that is followed is looked at.
_LOOK_SECONDS = 0.1


class LogReader:
    """One reading of one log."""

    def __init__(self, files: Callable[[], list[Path]], is_running: Callable[[], bool], options: LogOptions) -> None:
        self._files = files
        self._is_running = is_running
        self._options = options
        self._left = options.limit_bytes
        self._opened: list[tuple[Path, BinaryIO]] | None = None

    def begin(self) -> None:
        """Where to begin is decided now, not when the first line is asked for."""
        files = self._files()
        begin, skip = _tail(files, self._options.tail_lines)
        self._opened = [(path, open(path, "rb")) for path in files[begin:] if path.exists()]  # noqa: SIM115
        if self._opened:
            self._opened[0][1].seek(skip)

    async def read(self) -> AsyncIterator[bytes]:
        """What the options ask for."""
        async for lines in self._lines():
            out = b"".join(filter(None, map(self._shown, lines)))
            if self._left is not None:
                out = out[: self._left]
                self._left -= len(out)
            if out:
                yield out
            if self._left == 0:
                return

    async def _lines(self) -> AsyncIterator[list[bytes]]:
        """Whole lines as they are on disk, from the first one that is wanted."""
        if self._opened is None:
            self.begin()
        opened = self._opened or []
        rest = b""
        try:
            while True:
                # Asked first: what is written before the end is then surely read after it.
                running = self._options.follow and self._is_running()
                while opened:
                    path, file = opened[0]
                    while chunk := file.read(_CHUNK):
                        *lines, rest = (rest + chunk).split(b"\n")
                        yield lines
                        await asyncio.sleep(0)
                    if len(opened) == 1 and not _is_replaced(path, file.fileno()):
                        break
                    file.close()
                    opened.pop(0)
                    if not opened:
                        opened = [(path, open(path, "rb"))]  # noqa: ASYNC230, SIM115
                if not running:
                    return
                await asyncio.sleep(_LOOK_SECONDS)
                if not opened:
                    opened = [(path, open(path, "rb")) for path in self._files()]  # noqa: ASYNC230, SIM115
        finally:
            for _, file in opened:
                file.close()

    def _shown(self, line: bytes) -> bytes:
        """What a reader sees of a line on disk: `TIME OUTPUT F text`, or P for a part of a line."""
        time, _, rest = line.partition(b" ")
        output, _, rest = rest.partition(b" ")
        kind, _, text = rest.partition(b" ")
        if self._options.only and output != self._options.only.encode():
            return b""
        if self._options.since and time < self._options.since.encode():
            return b""
        end = b"" if kind == b"P" else b"\n"
        return (time + b" " if self._options.timestamps else b"") + text + end


def _is_replaced(path: Path, file: int) -> bool:
    """Whether another file is at the path by now: the log was rotated."""
    with suppress(FileNotFoundError):
        return path.stat().st_ino != os.fstat(file).st_ino
    return False


def _tail(files: list[Path], lines: int | None) -> tuple[int, int]:
    """Where the last lines begin: the index of the file, and the offset in it."""
    if lines is None:
        return 0, 0
    for index in range(len(files) - 1, -1, -1):
        with suppress(FileNotFoundError), open(files[index], "rb") as file:
            offset, found = _backwards(file.fileno(), lines)
            if found >= lines:
                return index, offset
            lines -= found
    return 0, 0


def _backwards(file: int, lines: int) -> tuple[int, int]:
    """The offset of the last `lines` lines of a file, and how many of them there are."""
    end = position = os.fstat(file).st_size
    if not lines:
        return end, 0
    found = 0
    while position:
        size = min(_CHUNK, position)
        position -= size
        chunk = os.pread(file, size, position)
        at = len(chunk)
        while (at := chunk.rfind(b"\n", 0, at)) >= 0:
            if position + at == end - 1:
                continue  # the end of the last line, not the beginning of one
            found += 1
            if found == lines:
                return position + at + 1, lines
    return 0, min(lines, found + 1) if end else 0
