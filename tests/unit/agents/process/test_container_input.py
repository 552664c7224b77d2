"""Input of containers in the shim, which has other things to do meanwhile."""

from __future__ import annotations

import os
import signal
from types import FrameType

from echelon.agents.process.shim.container_input import ContainerInput


def test_input_without_end_leaves_time_for_other_things() -> None:
    def too_long(_: int, __: FrameType | None) -> None:
        raise AssertionError("input is moved without end")

    before = signal.signal(signal.SIGALRM, too_long)
    moved = ContainerInput("/dev/zero", os.open(os.devnull, os.O_WRONLY), terminal=False)
    signal.alarm(20)
    try:
        moved.move()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        moved.close()
