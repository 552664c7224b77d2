"""Tells a damaged write-ahead log from one whose last transaction is torn, before SQLite opens it.

SQLite replays the log up to the first frame that does not match its checksum and forgets the rest.  That is right for
the transaction that was being written when the machine stopped: it was never acknowledged.  But a transaction is only
written when the one before it is on disk.  So if frames of a later transaction follow, the frame was damaged after it
had been acknowledged, and replaying would lose acknowledged writes without a word.

    header: magic, version, page size, sequence, two salts, checksum          32 bytes
    frame:  page number, size of a committed database or 0, salts, checksum   24 bytes, then the page

A checksum continues that of the frame before it.
"""

from __future__ import annotations

import struct
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .interface import StoreFailed

_HEADER, _FRAME_HEADER = 32, 24
#: The lowest bit says that checksums are made of words in big-endian order.
_MAGIC = 0x377F0682
#: Frames that are checked at a time.
_CHUNK = 2048
_MASK = 0xFFFFFFFF

Words = NDArray[np.uint32]
Bytes = NDArray[np.uint8]


def check_wal(path: Path) -> None:
    """`StoreFailed` if acknowledged transactions in a write-ahead log cannot be replayed."""
    if not path.exists() or path.stat().st_size <= _HEADER:
        return
    with path.open("rb") as file:
        header = file.read(_HEADER)
        magic, _, page_size, _ = struct.unpack(">4I", header[:16])
        order = ">u4" if magic & 1 else "<u4"
        stored: Words = np.frombuffer(header[24:], ">u4").astype(np.uint32)
        sums = _sums(np.frombuffer(header[:24], order).reshape(1, -1), np.zeros((1, 2), np.uint32))
        if magic & ~1 != _MAGIC or not 512 <= page_size <= 65536 or (sums[0] != stored).any():
            raise StoreFailed(damage(path, "its header does not match its checksum"))
        scan = _Scan(np.frombuffer(header[16:24], np.uint8), order, stored)
        size = _FRAME_HEADER + page_size
        while len(chunk := file.read(_CHUNK * size)) >= size:
            scan.read(np.frombuffer(chunk, np.uint8, len(chunk) // size * size).reshape(-1, size))
            if scan.damaged:
                raise StoreFailed(damage(path, f"frame {scan.broken} does not match its checksum"))


class _Scan:
    """Reads frames in order and finds the first broken one, and what follows it."""

    def __init__(self, salts: Bytes, order: str, stored: Words) -> None:
        self._salts = salts
        self._order = order
        #: The checksum that the next frame continues.
        self._before = stored
        self._seen = 0
        #: Whether a commit was seen after the broken frame.
        self._committed = False
        #: The number of the first broken frame; 0: there is none yet.
        self.broken = 0
        #: Whether the broken frame belongs to a transaction that was acknowledged.
        self.damaged = False

    def read(self, frames: Bytes) -> None:
        # Frames with other salts are left from before the log began again.
        ours: NDArray[np.bool_] = np.all(frames[:, 8:16] == self._salts, axis=1)
        start = 0
        if not self.broken:
            start = self._fine(frames, ours)
            self.broken = self._seen + start + 1 if start < len(frames) else 0
        commits: NDArray[np.bool_] = np.any(frames[:, 4:8], axis=1)
        for at in np.flatnonzero(ours[start:]) + start:
            self.damaged = self.damaged or self._committed
            self._committed = bool(commits[at])
        self._seen += len(frames)

    def _fine(self, frames: Bytes, ours: NDArray[np.bool_]) -> int:
        """How many frames match their checksums before the first that does not."""
        stored = frames[:, 16:24].copy().view(">u4").astype(np.uint32)
        words = np.hstack((frames[:, :8], frames[:, _FRAME_HEADER:])).view(self._order)
        fine: NDArray[np.bool_] = ours & (_sums(words, np.vstack((self._before, stored[:-1]))) == stored).all(axis=1)
        self._before = stored[-1]
        return len(frames) if fine.all() else int(np.argmin(fine))


def _sums(words: NDArray[np.uint32], before: Words) -> Words:
    """The checksums of rows of words, each continuing the pair of sums in the same row of `before`."""
    weights, start = _weights(words.shape[1])
    total: Words = words.astype(np.uint32) @ weights + before @ start
    return total


@cache
def _weights(words: int) -> tuple[Words, Words]:
    """What every word, and each of the two sums before it, adds to the two sums after that many words.

    Per pair of words: first += word + second; second += next word + first; modulo 2³².
    """
    weights = np.zeros((words, 2), np.uint32)
    # The power of the matrix ((1, 1), (1, 2)) that the remaining pairs amount to, by its columns.
    (a, b), (c, d) = (1, 0), (0, 1)
    for pair in reversed(range(words // 2)):
        weights[2 * pair] = (a + c & _MASK, b + d & _MASK)
        weights[2 * pair + 1] = (c, d)
        (a, b), (c, d) = ((a + c & _MASK, b + d & _MASK), (a + 2 * c & _MASK, b + 2 * d & _MASK))
    return weights, np.array([(a, b), (c, d)], np.uint32)


def damage(path: Path, what: str) -> str:
    """The message for a damaged file."""
    return (
        f"{path} is damaged: {what}. Restore the data directory from a copy, "
        "or move it away to start with an empty cluster"
    )
