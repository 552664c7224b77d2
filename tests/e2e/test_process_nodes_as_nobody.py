"""Process nodes without any rights: the same tests as a user that owns nothing (uid 65534)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

NOBODY = "65534"
ROOT = Path(__file__).parents[2]
TESTS = ("tests/integration/test_process_names.py", "tests/integration/test_process_pods.py")
#: The interpreter may be below a home that others cannot enter: nobody sees that home with nothing else in it.
SEE_THE_INTERPRETER = """
set -e
for home in /root /home/*; do
  case "$1" in "$home"/*)
    inner=${1#"$home"/}; top=${inner%%/*}
    mkdir -p "$2/view"; mount --bind "$home/$top" "$2/view"
    mount -t tmpfs -o mode=755 tmpfs "$home"; mkdir "$home/$top"; mount --move "$2/view" "$home/$top";;
  esac
done
shift 2
exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become nobody")
@pytest.mark.skipif(not all(map(shutil.which, ("unshare", "setpriv", "mount"))), reason="needs util-linux")
def test_nobody_can_do_the_same() -> None:
    with tempfile.TemporaryDirectory(prefix="echelon-nobody-") as folder:  # that of pytest is closed to others
        done = run_as_nobody(Path(folder))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert " skipped" not in done.stdout


def run_as_nobody(folder: Path) -> subprocess.CompletedProcess[str]:
    folder.chmod(0o755)
    own = folder / "own"
    own.mkdir()
    os.chown(own, int(NOBODY), int(NOBODY))
    interpreter = os.path.realpath(sys.executable)
    command = ["unshare", "-m", "sh", "-c", SEE_THE_INTERPRETER, "sh", interpreter, str(folder)]
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", str(own / "t"), *TESTS]
    return subprocess.run(
        [*command, *tests],
        cwd=ROOT,
        env={**os.environ, "HOME": str(own), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
