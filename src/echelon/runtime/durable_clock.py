"""The clock of an embedded control plane: real time, possibly sped up, that never steps back across restarts.

With `--speed` the clock runs ahead of the wall clock.  Where it stands is in two files of the data directory:

    clock.now    the last time that it showed: memory that the kernel keeps when the process is killed
    clock.json   a time that it will not reach before this file is written again: on disk, for when the machine fails

While the plane is down the clock goes on at real speed.  After a failure of the machine it may jump ahead, never back.
"""

from __future__ import annotations

import asyncio
import json
import logging
import mmap
import os
import struct
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from .clocks import RealClock

_log = logging.getLogger(__name__)

_STATE_FILE, _SHOWN_FILE = "clock.json", "clock.now"
#: Changes with every start of the machine.
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
#: Real seconds for which the state is written in advance, and between two writes.
_RESERVED_SECONDS = 30.0
_ROUND_SECONDS = 10.0
#: The time shown, and the wall time then.
_SHOWN = struct.Struct("dd")


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
    #: The start of the machine that this was written in, "" if that is not known.
    boot: str

    def start(self, wall: float) -> float:
        """Where the clock goes on; `reserved` if the wall clock was set back in between."""
        begin = wall + max(0.0, self.ahead)
        return begin if begin >= self.seen else self.reserved


class DurableClock(RealClock):
    """Use it through `open_clock`; `run` keeps its state on disk current, `close` writes the exact one."""

    def __init__(self, directory: Path, speed: float, start: float, wall: Callable[[], float]) -> None:
        super().__init__(speed, start)
        self._path = directory / _STATE_FILE
        self._wall = wall
        self._boot = _boot_id()
        self._shown: mmap.mmap | bytearray = _mapped(directory / _SHOWN_FILE)
        _write(self._path, self._state(_RESERVED_SECONDS))

    def now(self) -> float:
        now = super().now()
        _SHOWN.pack_into(self._shown, 0, now, self._wall())
        return now

    async def run(self) -> None:
        """Keep the state on disk current until cancelled."""
        while True:
            await asyncio.sleep(_ROUND_SECONDS)
            await asyncio.to_thread(_write, self._path, self._state(_RESERVED_SECONDS))

    def close(self) -> None:
        """Write the exact state; if the disk refuses, the reserved one stands, as after a crash."""
        try:
            _write(self._path, self._state(0.0))
        except OSError as error:
            _log.warning("cannot write %s: %s", self._path, error.strerror)
        mapped, self._shown = self._shown, bytearray(_SHOWN.size)
        if isinstance(mapped, mmap.mmap):
            mapped.close()

    def _state(self, reserve: float) -> _State:
        now = self.now()
        reserved = now + reserve * self.speed
        return _State(reserved - (self._wall() + reserve), now, reserved, self._boot)


def open_clock(directory: Path, speed: float, wall: Callable[[], float] = time.time) -> DurableClock:
    """The clock of a data directory that this process has locked; `BadClockFile` if its file is damaged."""
    state, shown = _read_state(directory / _STATE_FILE), _read_shown(directory / _SHOWN_FILE)
    now = wall()
    if state is None:
        start = now
    elif shown is not None and state.boot and state.boot == _boot_id():
        last, then = shown
        start = max(now, last + max(0.0, now - then))
    else:
        start = state.start(now)
    return DurableClock(directory, speed, start, wall)


def _read_state(path: Path) -> _State | None:
    try:
        fields = json.loads(path.read_text())
        ahead, seen, reserved = (float(fields[name]) for name in ("ahead", "seen", "reserved"))
        return _State(ahead, seen, reserved, str(fields["boot"]))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise BadClockFile(
            f"{path} is damaged ({error}); without it the cluster clock may step back: "
            "delete it if the plane never ran with --speed"
        ) from error


def _read_shown(path: Path) -> tuple[float, float] | None:
    try:
        last, then = _SHOWN.unpack(path.read_bytes())
    except (FileNotFoundError, struct.error):
        return None
    return (last, then) if last else None


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def _mapped(path: Path) -> mmap.mmap:
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.ftruncate(file, _SHOWN.size)
        return mmap.mmap(file, _SHOWN.size)
    finally:
        os.close(file)


def _write(path: Path, state: _State) -> None:
    """Replace the file; after a crash it has the old or the new state."""
    draft = path.with_suffix(".new")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(asdict(state), file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
