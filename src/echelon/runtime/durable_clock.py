"""The clock of an embedded control plane: real time, possibly sped up, that never steps back across restarts.

    start ─► max(wall time + how far the clock was ahead, never before what it has shown) ─► runs ─► stop: exact state

With `--speed` the clock runs ahead of the wall clock.  How far is kept in the data directory, for a moment that lies a
little in the future: after a crash the clock may jump ahead by that little, never back.  While the plane is down the
clock goes on at real speed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from .clocks import RealClock

_log = logging.getLogger(__name__)

_FILE = "clock.json"
#: Real seconds for which the state is written in advance, and between two writes.
_RESERVED_SECONDS = 30.0
_ROUND_SECONDS = 10.0


class BadClockFile(Exception):
    """The file of the clock cannot be read; the message is for the user."""


@dataclass(frozen=True)
class _State:
    """Seconds of cluster time, since the Unix epoch where they are times."""

    #: How far the clock is ahead of the wall clock when it reaches `reserved`.
    ahead: float
    #: The time of the clock when this was written.
    seen: float
    #: The clock shows no later time before the next state is written.
    reserved: float

    def start(self, wall: float) -> float:
        """Where the clock goes on; `reserved` if the wall clock was set back in between."""
        begin = wall + max(0.0, self.ahead)
        return begin if begin >= self.seen else self.reserved


class DurableClock(RealClock):
    """Use it through `open_clock`; `run` keeps the file current, `close` writes the exact state."""

    def __init__(self, path: Path, speed: float, start: float, wall: Callable[[], float]) -> None:
        super().__init__(speed, start)
        self._path = path
        self._wall = wall
        _write(path, self._state(_RESERVED_SECONDS))

    async def run(self) -> None:
        """Keep the file current until cancelled."""
        while True:
            await asyncio.sleep(_ROUND_SECONDS)
            await asyncio.to_thread(_write, self._path, self._state(_RESERVED_SECONDS))

    def close(self) -> None:
        """Write the exact state; if the disk refuses, the reserved one stands, as after a crash."""
        try:
            _write(self._path, self._state(0.0))
        except OSError as error:
            _log.warning("cannot write %s: %s", self._path, error.strerror)

    def _state(self, reserve: float) -> _State:
        now = self.now()
        reserved = now + reserve * self.speed
        return _State(ahead=reserved - (self._wall() + reserve), seen=now, reserved=reserved)


def open_clock(directory: Path, speed: float, wall: Callable[[], float] = time.time) -> DurableClock:
    """The clock of a data directory that this process has locked; `BadClockFile` if its file is damaged."""
    path = directory / _FILE
    known = _read(path)
    start = wall() if known is None else known.start(wall())
    return DurableClock(path, speed, start, wall)


def _read(path: Path) -> _State | None:
    try:
        fields = json.loads(path.read_text())
        return _State(float(fields["ahead"]), float(fields["seen"]), float(fields["reserved"]))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise BadClockFile(
            f"{path} is damaged ({error}); without it the cluster clock may step back: "
            "delete it if the plane never ran with --speed"
        ) from error


def _write(path: Path, state: _State) -> None:
    """Replace the file; after a crash it has the old or the new state."""
    draft = path.with_suffix(".new")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(asdict(state), file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
