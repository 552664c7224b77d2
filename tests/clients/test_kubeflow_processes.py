"""The Kubeflow SDK as published, against a plane whose pods are processes of this machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.e2e.process import UpProcess

from .environments import HERE, interpreter

pytestmark = pytest.mark.clients


@pytest.mark.conformance("API-108", "TJ-71", "TJ-72", "TJ-95")
@pytest.mark.parametrize("tier", ["net", "names"])
def test_functions_train_as_processes(tmp_path: Path, tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for torchrun that says so, since torch need not be there."""
    python = interpreter("kubeflow")
    monkeypatch.setenv("PATH", f"{HERE / 'standin'}:{os.environ['PATH']}")
    plane = UpProcess(tmp_path / "data", "--nodes", "process", "--tier", tier)
    plane.start()
    try:
        command = [python, HERE / "python" / "kubeflow_processes.py", plane.kubeconfig, "sdk"]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=200, check=False, env={"HOME": str(tmp_path)}
        )
    finally:
        assert plane.stop() == 0
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "deleted"
