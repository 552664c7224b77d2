"""`echelon completion`: scripts that shells accept, and what they are told."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from echelon.cli import main


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_accepted_by_it(shell: str) -> None:
    done = CliRunner().invoke(main, ["completion", shell])
    assert done.exit_code == 0, done.output
    assert f"_ECHELON_COMPLETE={shell}_complete" in done.stdout
    if shutil.which(shell):
        checked = subprocess.run([shell, "-n"], input=done.stdout, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stderr


def completed(line: str, tmp_path: Path) -> list[str]:
    """What bash is told for a line whose last word is being typed."""
    words = line.split(" ")
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(sys.path),
        "HOME": str(tmp_path),
        "_ECHELON_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    code = "from echelon.cli import main; main(prog_name='echelon')"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    return [answer.partition(",")[2] for answer in done.stdout.split()]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("echelon co", ["completion", "controllers"]),
        ("echelon run --sp", ["--speed"]),
        ("echelon run --output ", ["text", "json"]),
        ("echelon tree job", ["jobset", "job"]),
        ("echelon tree jobset ", []),  # no cluster to ask
        ("echelon tree jobset/lo", []),
    ],
)
def test_words_are_completed(line: str, words: list[str], tmp_path: Path) -> None:
    assert completed(line, tmp_path) == words
