"""Other users cannot read the data directory."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from echelon.runtime.config import PlaneSettings
from echelon.runtime.data_directory import Unsafe, prepare
from echelon.runtime.plane import CannotStart, running


def _mode(directory: Path) -> int:
    return stat.S_IMODE(directory.stat().st_mode)


def _open_directory(path: Path) -> Path:
    path.mkdir()
    path.chmod(0o755)
    return path


def test_a_new_directory_is_closed_to_others(tmp_path: Path) -> None:
    prepare(tmp_path / "a" / "data")
    assert _mode(tmp_path / "a" / "data") == 0o700


@pytest.mark.parametrize("file", ["", "echelon.db"])
def test_an_open_directory_is_closed_if_it_is_empty_or_ours(tmp_path: Path, file: str) -> None:
    directory = _open_directory(tmp_path / "data")
    if file:
        (directory / file).touch()
    prepare(directory)
    assert _mode(directory) == 0o700


def test_an_open_directory_with_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    directory = _open_directory(tmp_path / "data")
    (directory / "thesis.txt").touch()
    with pytest.raises(Unsafe, match=r"mode 0755.*chmod 700"):
        prepare(directory)
    assert _mode(directory) == 0o755


async def test_a_plane_does_not_start_in_a_directory_that_others_can_read(tmp_path: Path) -> None:
    directory = _open_directory(tmp_path / "data")
    (directory / "thesis.txt").touch()
    with pytest.raises(CannotStart, match="other users can read it"):
        async with running(PlaneSettings(data=directory, nodes="none")):
            pass
    assert not (directory / "echelon.db").exists()
