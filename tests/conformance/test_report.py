"""The table at the end of a run, whoever runs the tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_TESTS = """
import pytest

@pytest.mark.conformance("SCH-1", "SCH-2")
def test_passes():
    pass

@pytest.mark.conformance("SCH-2", "SCH-3")
def test_fails():
    assert False
"""


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
def test_the_table_counts_what_was_covered_and_what_passes(tmp_path: Path, workers: tuple[str, ...]) -> None:
    (tmp_path / "test_marked.py").write_text(_TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "tests.conformance.report", "-c", "/dev/null", *workers]
    done = subprocess.run(
        [*command, "--rootdir", tmp_path, tmp_path], cwd=_ROOT, capture_output=True, text=True, check=False, timeout=280
    )
    (row,) = [line.split() for line in done.stdout.splitlines() if line.startswith("SCH ")]
    assert row[3:5] == ["3", "1"], done.stdout
