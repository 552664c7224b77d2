"""What a user who owns nothing (uid 65534) needs in order to run Echelon: a directory, and to see the interpreter."""

from __future__ import annotations

import os
import sys
from pathlib import Path

NOBODY = "65534"
#: The interpreter may be below a home that others cannot enter: nobody sees that home with nothing else in it.
_SEE_THE_INTERPRETER = """
set -e
for home in /root /home/*; do
  case "$1" in "$home"/*)
    inner=${1#"$home"/}; top=${inner%%/*}
    mkdir -p "$2/view"; mount --bind "$home/$top" "$2/view"
    mount -t tmpfs -o mode=755 tmpfs "$home"; mkdir "$home/$top"; mount --move "$2/view" "$home/$top";;
  esac
done
shift 2
exec "$@"
"""


def directory_of_nobody(folder: Path) -> Path:
    """A directory of nobody below `folder`, which others may enter from now on."""
    folder.chmod(0o755)
    own = folder / "own"
    own.mkdir()
    os.chown(own, int(NOBODY), int(NOBODY))
    return own


def seeing_the_interpreter(folder: Path) -> list[str]:
    """A command that runs the rest of its arguments, as root, where nobody can see the interpreter."""
    interpreter = os.path.realpath(sys.executable)
    return ["unshare", "-m", "sh", "-c", _SEE_THE_INTERPRETER, "sh", interpreter, str(folder)]
