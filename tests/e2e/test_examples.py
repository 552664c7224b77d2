"""Every example runs, and ends as its opening comment promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from echelon.api.cluster.pools import parse

EXAMPLES = Path(__file__).parents[2] / "examples"
#: Examples that end otherwise than complete.
ENDS = {"too-large.yaml": 3}


@pytest.mark.parametrize(
    "path", sorted([*EXAMPLES.glob("*.yaml"), *(EXAMPLES / "cluster").glob("*.yaml")]), ids=lambda path: path.name
)
def test_an_example_ends_as_it_says(path: Path) -> None:
    command = [sys.executable, "-m", "echelon", "run", str(path), "--speed", "20"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == ENDS.get(path.name, 0), done.stdout + done.stderr


def test_the_demo_runs_on_the_packaged_cluster_too() -> None:
    """What `make demo` shows can be applied to a plane that was started without a cluster file."""
    manifests = [str(path) for path in sorted((EXAMPLES / "demo").glob("*.yaml"))]
    command = [sys.executable, "-m", "echelon", "run", *manifests, "--speed", "20"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all 3 complete" in done.stdout


@pytest.mark.parametrize("path", sorted((EXAMPLES / "clusters").glob("*.yaml")), ids=lambda path: path.name)
def test_a_cluster_file_can_be_read(path: Path) -> None:
    assert parse(path.read_text(), str(path)).size > 0
