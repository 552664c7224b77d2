"""The data directory: only its owner may read it, because it has Secrets, keys and tokens.

A new directory has mode 0700.  One that existed and that others can read is closed to them if it is empty or has our
database; any other directory is refused, because others may need the files that are in it.
"""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

_OURS = "echelon.db"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_log = logging.getLogger(__name__)


class Unsafe(Exception):
    """Other users could read the data directory; the message is for the user."""


def prepare(directory: Path) -> None:
    """Create the directory, or make sure that only this user can read it; `Unsafe` or OSError if that fails."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = directory.stat()
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid != os.geteuid():
        raise Unsafe(f"{directory}: belongs to another user, who could read and change the database")
    if not mode & _OTHERS:
        return
    if (directory / _OURS).exists() or not any(directory.iterdir()):
        directory.chmod(0o700)
        _log.warning("%s had mode %04o; it is 0700 now", directory, mode)
        return
    raise Unsafe(
        f"{directory}: other users can read it (mode {mode:04o}) and it has other files; "
        "choose another directory, or close it with chmod 700"
    )
