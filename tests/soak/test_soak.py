"""A few seeds of the soak in every test run; `make soak` runs a hundred."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .seed_run import live

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("seed", range(5))  # one of each character
def test_whatever_happens_the_invariants_hold(seed: int) -> None:
    story = live(seed, 60)
    assert not story.failure, f"event {story.events}: {story.failure}; SEED={seed} EVENTS=60 make soak tells its story"
    assert story.bindings


def _digest(hash_seed: str) -> str:
    """The hash of every change of a run, in a process of its own."""
    program = "from tests.soak.seed_run import live; story = live(11, 40); print(story.changes, story.digest)"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_a_seed_gives_the_same_changes_byte_for_byte() -> None:
    first = _digest("1")
    assert int(first.split()[0]) > 200
    assert _digest("2") == first
