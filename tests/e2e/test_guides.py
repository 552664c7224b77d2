"""The commands of a guide do what the guide prints.

A guide that opens with `<!-- tested` is followed to the letter on a plane of its own: YAML blocks that begin with
`# name.yaml` are written to that file, lines `$ command` of console blocks are run, and the lines below a command must
come in its output, in this order.  `…` stands for anything, blanks for any number of blanks.  The plane has simulated
nodes, or if the guide opens with `<!-- tested on process nodes` this machine.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import kubectl
from .process import UpProcess

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
TESTED = [path for path in sorted(GUIDES.glob("*.md")) if path.read_text().startswith("<!-- tested")]
_BLOCK = re.compile(r"^```(yaml|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(text: str) -> Iterator[tuple[str, str]]:
    for found in _BLOCK.finditer(text):
        yield found[1], found[2]


def commands(block: str) -> list[tuple[str, list[str]]]:
    """Each command with the lines that it must print."""
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line.strip():
            found[-1][1].append(line)
    return found


def unprinted(expected: list[str], output: str) -> str | None:
    """The first expected line that does not come in its turn."""
    lines = iter(" ".join(line.split()) for line in output.splitlines())
    for line in expected:
        pattern = re.escape(" ".join(line.split())).replace("…", ".*")
        if not any(re.fullmatch(pattern, printed) for printed in lines):
            return line
    return None


def run(command: str, directory: Path, kubeconfig: Path) -> str:
    words = shlex.split(command)
    if words[0] == "echelon":
        words = [sys.executable, "-m", "echelon", *words[1:]]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(directory)}
    done = subprocess.run(
        words, cwd=directory, env=environment, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.skipif(kubectl.PATH is None, reason="NO KUBECTL ON PATH: guides are not followed")
@pytest.mark.parametrize("guide", TESTED, ids=lambda path: path.stem)
def test_a_guide_does_what_it_says(guide: Path, tmp_path: Path) -> None:
    real = guide.read_text().startswith("<!-- tested on process nodes")
    plane = UpProcess(tmp_path / "data", *(["--nodes", "process"] if real else ["--speed", "10"]))
    plane.start()
    try:
        for kind, block in blocks(guide.read_text()):
            if kind == "yaml":
                name = block.partition("\n")[0].removeprefix("# ")
                if name.endswith(".yaml"):
                    (tmp_path / name).write_text(block)
                continue
            for command, expected in commands(block):
                output = run(command, tmp_path, plane.kubeconfig)
                missing = unprinted(expected, output)
                assert missing is None, f"$ {command}\ndid not print: {missing}\nbut:\n{output}"
    finally:
        plane.stop()


def test_some_guides_are_followed() -> None:
    assert "gang-jobs" in [path.stem for path in TESTED]


def test_a_line_that_is_not_printed_in_its_turn_is_found() -> None:
    assert unprinted(["a  b", "c…"], "a b\ncd\n") is None
    assert unprinted(["c…", "a b"], "a b\ncd\n") == "a b"
    assert unprinted(["d"], "a b\n") == "d"
