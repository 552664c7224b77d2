"""The lines of Python in the README, to the letter, with the Kubeflow SDK as published."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.e2e.process import UpProcess

from .environments import interpreter

pytestmark = pytest.mark.clients
README = Path(__file__).parents[2] / "README.md"


def test_the_python_of_the_readme_trains(tmp_path: Path) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    expected = re.findall(r"# (node \d.*)$", program, re.MULTILINE)
    (tmp_path / "train.py").write_text(program)
    plane = UpProcess(tmp_path / "data", "--nodes", "process")
    plane.start()
    try:
        done = subprocess.run(
            [interpreter("kubeflow"), tmp_path / "train.py"],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={"HOME": str(tmp_path), "KUBECONFIG": str(plane.kubeconfig)},
        )
    finally:
        assert plane.stop() == 0
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(expected) == 1
    assert done.stdout.splitlines()[-1:] == expected
