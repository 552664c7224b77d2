"""A whole plane as `echelon up` starts it, and nothing around it: what clients meet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.process import UpProcess


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    plane = UpProcess(tmp_path_factory.mktemp("plane"))
    plane.start()
    try:
        yield plane.kubeconfig
    finally:
        plane.stop()
