"""Objects of the largest allowed size: no step on the event loop is long, and all of them go again."""

from __future__ import annotations

from pathlib import Path

import pytest

from .largest import largest, writes
from .plane import Plane

#: What is timed for all objects by `make fuzz`; here those that other parts than the server read too.
_CHOSEN = (
    "keys",
    "owners",
    "tolerations",
    "containers",
    "resources",
    "node-selector",
    "taints",
    "capacity",
    "selector",
)
_STEPS = ("create", "status", "merge", "apply", "delete")
#: Seconds of CPU time, which other processes on this machine do not count in; the aim is half of it.
_MOST_CPU = 0.1


@pytest.mark.timeout(300)
def test_no_largest_object_holds_the_event_loop(tmp_path: Path) -> None:
    plane = Plane(tmp_path, watchdog=True)
    plane.start()
    codes: dict[str, list[int]] = {}
    try:
        connection = plane.connect(120)
        for odd in largest():
            if odd.id.removeprefix("largest-") in _CHOSEN:
                codes[odd.id] = [call() for step, call in writes(connection, odd) if step in _STEPS]
        connection.close()
        held = [f"{one.loop_cpu} s: {one.places}" for one in plane.held() if one.loop_cpu > _MOST_CPU]
        assert held == []
        assert plane.failures() == []
    finally:
        plane.kill()
    assert len(codes) == len(_CHOSEN)
    created = {id_: answers[0] for id_, answers in codes.items()}
    assert set(created.values()) == {201}, created
