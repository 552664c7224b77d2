"""The pieces of a log that is being written: opened without a gap, whatever its shim does meanwhile.

    ATTEMPT.log.<UTC time> …  rotated away, oldest first; these names stay, until the oldest piece is removed
    ATTEMPT.log               the newest; for a moment there is none, and when the disk is full for longer

A piece that is open is read to its end even if it is renamed or removed; it is known by its inode.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


def opened_pieces(log: Path) -> Iterator[BinaryIO]:
    """All, oldest first: those up to the one that was the newest when this began.  Who asks for them closes them."""
    newest, older = _listed(log)
    for path in older:
        file = _opened(path)
        if file is None:
            continue
        if newest is not None and inode_of(file) == inode_of(newest):
            file.close()
            break  # others may have been rotated away after it
        yield file
    if newest is not None:
        yield newest


def _listed(log: Path) -> tuple[BinaryIO | None, list[Path]]:
    """The newest piece and paths of others: all that are older, then perhaps it and newer ones."""
    while True:
        newest = _opened(log)
        older = _rotated(log)
        if newest is None:
            if not log.exists() and _rotated(log) == older:
                return None, older
        elif inode_at(log) == inode_of(newest):
            return newest, older
        else:  # a list has or lacks what is rotated while it is made: newer ones may be in it though this one is not
            return newest, _rotated(log)


def _rotated(log: Path) -> list[Path]:
    return sorted(log.parent.glob(f"{log.name}.*"))


def _opened(path: Path) -> BinaryIO | None:
    try:
        return open(path, "rb")
    except FileNotFoundError:
        return None


def inode_of(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_ino


def inode_at(path: Path) -> int:
    """0 if there is none."""
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return 0
