"""Examples run as they stand, and show what they promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_placement_example_draws_what_landed_where_and_explains_what_did_not() -> None:
    ended = subprocess.run(
        [sys.executable, "examples/place.py"], cwd=ROOT, capture_output=True, text=True, encoding="utf-8",
        env={"PYTHONPATH": "src", "PYTHONIOENCODING": "utf-8"}, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    before, after = ended.stdout.split("After:")
    assert "r2  [········] [········] [········]" in before
    for letter, pods in {"A": 3 * 8, "B": 4 * 4, "C": 3 * 8, "D": 4 * 4}.items():
        drawn = [line for line in after.splitlines() if f"[{letter}" in line]
        assert len(drawn) == 1, "a stage is in one rack"
        assert drawn[0].count(letter) == pods
    assert "✓ stage E (1 × 4 GPUs) needs 1 pod in one rack: fits in " in after
    assert "✗ stage F (3 × 8 GPUs) needs 3 pods in one rack" in after
    assert "b1/r2: room for 2 of 3; 2 of 3 nodes free, 1 short of nvidia.com/gpu" in after
    for number, kind in enumerate(
        ("remove spec.", "lower spec.", "add 1 node", "free 1 node", "evict chat (priority 1000)"), 1
    ):
        assert f"  {number}. {kind}" in after
