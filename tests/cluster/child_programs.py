"""Programs that are children of the tests: each ends with the block that started it, by its own handle."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

_STOP_SECONDS = 15.0


@contextmanager
def child_program(
    command: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs in the directory of its log while the block lasts."""
    with log.open("wb") as out:
        child = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=log.parent, env=environment
        )
        try:
            yield child
        finally:
            child.terminate()
            try:
                child.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
