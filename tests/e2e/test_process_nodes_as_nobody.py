"""Process nodes without any rights: the same tests as a user that owns nothing (uid 65534)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from .as_nobody import NOBODY, directory_of_nobody, seeing_the_interpreter

ROOT = Path(__file__).parents[2]
TESTS = ("tests/integration/test_process_names.py", "tests/integration/test_process_pods.py")


@pytest.mark.timeout(900)  # all tests of two files, one after the other
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become nobody")
@pytest.mark.skipif(not all(map(shutil.which, ("unshare", "setpriv", "mount"))), reason="needs util-linux")
def test_nobody_can_do_the_same() -> None:
    with tempfile.TemporaryDirectory(prefix="echelon-nobody-") as folder:  # that of pytest is closed to others
        done = run_as_nobody(Path(folder))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert " skipped" not in done.stdout


def run_as_nobody(folder: Path) -> subprocess.CompletedProcess[str]:
    own = directory_of_nobody(folder)
    command = [*seeing_the_interpreter(folder), "setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", str(own / "t"), *TESTS]
    return subprocess.run(
        [*command, *tests],
        cwd=ROOT,
        env={**os.environ, "HOME": str(own), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=840,
        check=False,
    )
