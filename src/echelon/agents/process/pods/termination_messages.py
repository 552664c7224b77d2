"""The termination message of a container: what it wrote into its termination log, or the end of its output."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ....api.scheme import Object
from ..pod_directories import PodDirectory
from ..rules.attempts import Attempt

_MOST_BYTES = 4096
_FALLBACK_BYTES, _FALLBACK_LINES = 2048, 80


def termination_message(directory: PodDirectory, container: Object, attempt: Attempt) -> str:
    """As a kubelet reads it: at most 4 KiB; the log only if the container failed and its policy says so."""
    said = _start_of(directory.termination_log(attempt.container, attempt.number))
    if said or not attempt.code or container.get("terminationMessagePolicy") != "FallbackToLogsOnError":
        return said
    return _end_of(directory.log(attempt.container, attempt.number))


def _start_of(path: Path) -> str:
    """The container may have put anything in the place of this file: only a file counts."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        is_file = stat.S_ISREG(os.fstat(file).st_mode)
        return os.read(file, _MOST_BYTES).decode(errors="replace") if is_file else ""
    finally:
        os.close(file)


def _end_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - 4 * _FALLBACK_BYTES))
            lines = file.read().split(b"\n")
    except OSError:
        return ""
    texts = [line.split(b" ", 3)[3] for line in lines if line.count(b" ") >= 3 and line[:2] == b"20"]
    text = b"\n".join(texts[-_FALLBACK_LINES:]) + (b"\n" if texts else b"")
    return text[-_FALLBACK_BYTES:].decode(errors="replace")
