"""`echelon user` where there is no plane, or one of somebody else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from echelon.cli import main


@pytest.mark.parametrize("command", [["list"], ["add", "ann"], ["remove", "ann"]], ids=" ".join)
def test_a_directory_without_a_plane_is_told(tmp_path: Path, command: list[str]) -> None:
    done = CliRunner().invoke(main, ["user", *command, "--data", str(tmp_path / "nowhere")])
    assert done.exit_code == 2
    assert done.output == (f"echelon: {tmp_path}/nowhere is not the data directory of a plane: run echelon up first\n")


@pytest.mark.parametrize("command", [["list"], ["add", "ann"], ["remove", "ann"]], ids=" ".join)
def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "pki").mkdir()
    for name in ("url", "ca.crt"):
        (tmp_path / "pki" / name).write_text("any")
    # Not even root can read a directory as a file.
    for name in ("users.json", "users.json.lock"):
        os.mkdir(tmp_path / "pki" / name)
    done = CliRunner().invoke(main, ["user", *command, "--data", str(tmp_path)])
    assert (done.exit_code, done.output) == (2, f"echelon: {tmp_path}: Is a directory\n")
