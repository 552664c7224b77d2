"""The log of one attempt of a container, in the format of container runtimes:

    2026-11-17T09:30:00.123456789Z stdout F a line
    2026-11-17T09:30:00.123456790Z stdout P the beginning of a line that is longer than 16 KiB

A file that has grown to its limit is renamed to `NAME.<UTC time>` and a new one begins; the oldest are removed.
"""

from __future__ import annotations

import contextlib
import os
import time

_LONGEST_PIECE = 16 * 1024


class ContainerLog:
    def __init__(self, path: str, most_bytes: int, most_files: int, *, whole_lines: bool = True) -> None:
        """Without `whole_lines` the beginning of a line is written at once: somebody may wait for it at a terminal."""
        self._path = path
        self._most_bytes = most_bytes
        self._most_files = most_files
        self._whole_lines = whole_lines
        self._rest = {"stdout": b"", "stderr": b""}
        #: Bytes that the disk refused.
        self.lost = 0
        self._file = -1
        self._size = 0
        self._open()

    def _open(self) -> None:
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
        self._size = os.fstat(self._file).st_size

    def feed(self, stream: str, data: bytes) -> None:
        pieces = (self._rest[stream] + data).split(b"\n")
        rest = pieces.pop()
        head = _stamp() + b" " + stream.encode()
        full, part = head + b" F ", head + b" P "
        out: list[bytes] = []
        for line in pieces:
            while len(line) > _LONGEST_PIECE:
                out.append(part + line[:_LONGEST_PIECE])
                line = line[_LONGEST_PIECE:]
            out.append(full + line)
        while len(rest) > _LONGEST_PIECE:
            out.append(part + rest[:_LONGEST_PIECE])
            rest = rest[_LONGEST_PIECE:]
        if rest and not self._whole_lines:
            out.append(part + rest)
            rest = b""
        self._rest[stream] = rest
        if out:
            out.append(b"")
            self._write(b"\n".join(out))

    def close(self) -> None:
        """Write what is left without an end of line."""
        for stream, rest in self._rest.items():
            if rest:
                self._rest[stream] = b""
                self._write(_stamp() + b" " + stream.encode() + b" F " + rest + b"\n")
        os.close(self._file)

    def _write(self, data: bytes) -> None:
        if self._size and self._size + len(data) > self._most_bytes:
            self._rotate()
        written = 0
        try:
            while written < len(data):
                written += os.write(self._file, data[written:])
            self._size += len(data)
        except OSError:
            # No halves of lines: what follows when there is room again begins a line.
            self.lost += len(data)
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, os.fstat(self._file).st_size - written)

    def _rotate(self) -> None:
        now = time.time_ns()
        suffix = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now // 10**9)) + f".{now % 10**9:09}"
        before = self._file
        try:
            with contextlib.suppress(FileNotFoundError):  # it was renamed before, and no new one could be opened
                os.rename(self._path, f"{self._path}.{suffix}")
            self._open()
            os.close(before)
            directory, name = os.path.split(self._path)
            old = sorted(one for one in os.listdir(directory) if one.startswith(name + "."))
            for one in old[: max(0, len(old) - self._most_files + 1)]:
                os.unlink(f"{directory}/{one}")
        except OSError:
            self._size = 0  # tried again when as much again is written


def _stamp() -> bytes:
    now = time.time_ns()
    return (time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now // 10**9)) + f".{now % 10**9:09}Z").encode()
