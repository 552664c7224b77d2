"""The log of a container, where its files cannot be made as they should."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from echelon.agents.process.shim.container_log import ContainerLog


def test_a_log_that_cannot_be_rotated_goes_on_and_is_rotated_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk has room for more in a file, but for no new file."""
    path = tmp_path / "0.log"
    log = ContainerLog(str(path), most_bytes=200, most_files=9)
    real = os.open
    full = True

    def opened(name: Any, *more: Any, **other: Any) -> int:
        if full and str(name) == str(path):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(name, *more, **other)

    monkeypatch.setattr(os, "open", opened)
    for number in range(20):
        log.feed("stdout", b"line %d\n" % number)
        stranger = real(tmp_path / f"other{number}", os.O_RDWR | os.O_CREAT)  # gets the lowest number that is free
        assert os.fstat(stranger).st_size == 0
        if number == 12:
            full = False
        os.close(stranger)
    log.close()
    pieces = sorted(tmp_path.glob("0.log.*"))
    assert pieces
    texts = [line.split(" ", 3)[3] for file in [*pieces, path] for line in file.read_text().splitlines()]
    assert texts == [f"line {number}" for number in range(20)]
    assert log.lost == 0
    assert all((tmp_path / f"other{number}").stat().st_size == 0 for number in range(20))
