"""Reads the log of one attempt of a container, as `kubectl logs` asks for it.

    pieces of the log on disk ─► where to begin (tail) ─► lines ─► since, output, timestamps ─► bytes, in bounded pieces

Who follows looks for more until the attempt has ended and everything is read.  A file that was rotated away in the
meantime is read to its end first.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import BinaryIO

from ....api.running_pods import LogOptions
from .log_pieces import inode_at, inode_of, opened_pieces

_CHUNK = 64 * 1024
#: How often a log that is followed is looked at.
_LOOK_SECONDS = 0.1


class LogReader:
    """One reading of one log."""

    def __init__(
        self,
        newest: Path,
        is_running: Callable[[], bool],
        options: LogOptions,
        look_seconds: float = _LOOK_SECONDS,
    ) -> None:
        """The log is at `newest`, beside the pieces that were rotated away."""
        self._newest = newest
        self._is_running = is_running
        self._options = options
        self._look_seconds = look_seconds
        self._left = options.limit_bytes
        #: Outputs of which a part of a line was shown and not yet its end.
        self._begun: set[bytes] = set()
        self._opened: list[BinaryIO] | None = None
        #: Where to end in the newest piece; None for who follows.  A container may write faster than somebody reads.
        self._end: int | None = None

    def begin(self) -> None:
        """Where to begin is decided now, not when the first line is asked for."""
        # Opened first: a log that is rotated meanwhile has other files at its paths.
        opened = self._opened_after(0)
        begin, skip = _tail(opened, self._options.tail_lines)
        _close(opened[:begin])
        self._opened = opened[begin:]
        if self._opened:
            self._opened[0].seek(skip)
            self._end = None if self._options.follow else os.fstat(self._opened[-1].fileno()).st_size

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
                    file = opened[0]
                    # Asked first here too: a file that is not written any more is then read to its end.
                    complete = len(opened) > 1 or (self._end is None and self._is_rotated(file))
                    while chunk := file.read(self._most(file, newest=len(opened) == 1)):
                        *lines, rest = (rest + chunk).split(b"\n")
                        yield lines
                        await asyncio.sleep(0)
                    newer = (opened[1:] or self._opened_after(inode_of(file))) if complete else []
                    if not newer:
                        break
                    opened = newer
                    file.close()  # not before: its number would be free for another file
                if not running:
                    return
                await asyncio.sleep(self._look_seconds)
                opened = opened or self._opened_after(0)
        finally:
            _close(opened)

    def _most(self, file: BinaryIO, *, newest: bool) -> int:
        """What may be read at once."""
        return _CHUNK if self._end is None or not newest else max(0, min(_CHUNK, self._end - file.tell()))

    def _is_rotated(self, file: BinaryIO) -> bool:
        """Whether what follows is in another piece by now."""
        return inode_at(self._newest) not in (0, inode_of(file))

    def _opened_after(self, inode: int) -> list[BinaryIO]:
        """The pieces that are newer than a file, which may have been rotated several times or be gone; else all."""
        opened: list[BinaryIO] = []
        for file in opened_pieces(self._newest):
            opened.append(file)
            if inode_of(file) == inode:
                _close(opened)
                opened.clear()
        return opened

    def _shown(self, line: bytes) -> bytes:
        """What a reader sees of a line on disk: `TIME OUTPUT F text`, or P for a part of a line."""
        time, _, rest = line.partition(b" ")
        output, _, rest = rest.partition(b" ")
        kind, _, text = rest.partition(b" ")
        if self._options.only and output != self._options.only.encode():
            return b""
        if self._options.since and time < self._options.since.encode():
            return b""
        begins = output not in self._begun
        if kind == b"P":
            self._begun.add(output)
        else:
            self._begun.discard(output)
        end = b"" if kind == b"P" else b"\n"
        return (time + b" " if self._options.timestamps and begins else b"") + text + end


def _close(opened: Iterable[BinaryIO]) -> None:
    for file in opened:
        file.close()


def _tail(files: list[BinaryIO], lines: int | None) -> tuple[int, int]:
    """Where the last lines begin: the index of the file, and the offset in it."""
    if lines is None:
        return 0, 0
    for index in range(len(files) - 1, -1, -1):
        offset, found = _backwards(files[index].fileno(), lines)
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
