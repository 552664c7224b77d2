"""A container that restarts for ever: nothing is kept of the attempts that its shim has forgotten."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from echelon.agents.process.pod_directories import NodeDirectory
from echelon.agents.process.pods.pod_worker import PodWorker

from .pods import pod


def record(number: int, code: int | None) -> dict[str, Any]:
    nothing = {"signal": None, "error": "", "out_of_memory": False, "pid": 1, "start": 1}
    ended = 0.0 if code is None else number + 0.5
    return {"container": "c", "attempt": number, "started": float(number), "finished": ended, "code": code, **nothing}


async def test_nothing_is_kept_of_attempts_that_the_shim_has_forgotten(tmp_path: Path) -> None:
    services: Any = SimpleNamespace(directory=NodeDirectory(tmp_path), ahead=0.0)
    worker = PodWorker(services, pod(), {})
    sandbox = worker._sandbox
    for number in range(1, 20):
        worker._hooks["c", number] = worker._stops["c", number] = asyncio.create_task(asyncio.sleep(0))
        await asyncio.sleep(0.001)
        sandbox._take_state({"attempts": [record(number - 1, 1), record(number, None)]})
        worker._heard()
    assert [one.number for one in sandbox.attempts.of_container["c"]] == [18, 19]
    assert list(sandbox._messages) == [("c", 18)]
    assert list(worker._hooks) == list(worker._stops) == [("c", 19)]
