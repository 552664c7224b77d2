"""What the pipeline owes to simulation and to sudden death: the same bytes for the same inputs, and no lost answer."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from echelon.api.scheme import EVENTS, PODS
from echelon.api.verbs import Patch, PatchType
from echelon.base.clock import ManualClock
from echelon.base.instants import to_time
from echelon.base.rng import Rng
from echelon.runtime import virtual_time
from echelon.runtime.clocks import LoopClock
from echelon.server.objects.object_cache import header_of
from echelon.server.pipeline import Pipeline
from echelon.store.memory import open_memory
from echelon.store.sqlite import open_sqlite
from echelon.testing.builders import bare_pod


async def _scenario(directory: Path | None) -> list[tuple[str, bytes]]:
    """Concurrent writers with waits between their steps; returns everything that is stored."""
    store = open_sqlite(directory, header_of, inline=True) if directory else open_memory(header_of)
    clock = LoopClock()
    pipeline = Pipeline(store, clock, Rng(42))
    await pipeline.bootstrap()

    async def live(wait: float) -> None:
        name = (await pipeline.create(PODS, {**bare_pod(), "metadata": {"generateName": "p-"}}, "default"))["metadata"][
            "name"
        ]
        await clock.sleep(wait)
        await pipeline.bind("default", name, "n1")
        await clock.sleep(3600 - wait)
        running = Patch(PatchType.MERGE, {"status": {"phase": "Running", "startTime": "2027-01-15T09:00:00Z"}})
        await pipeline.patch(PODS, name, running, "default", "status")

    await asyncio.gather(*(live(n * 7 % 5) for n in range(20)))
    stored = [(record.key, record.value) for record in store.scan("")]
    await store.close()
    return stored


def test_virtual_time_repeats_byte_for_byte_on_any_store(tmp_path: Path) -> None:
    begin = time.monotonic()
    first = virtual_time.run(_scenario(None))
    assert virtual_time.run(_scenario(None)) == first
    assert virtual_time.run(_scenario(tmp_path)) == first
    assert len(first) > 20
    assert time.monotonic() - begin < 60


async def _two_hours_of_events() -> list[list[str]]:
    """Names of the events that are left after each half hour; one of two happens again after 50 minutes."""
    clock = LoopClock()
    pipeline = Pipeline(open_memory(header_of), clock, Rng(1))
    await pipeline.bootstrap()
    keeper = asyncio.ensure_future(pipeline.run())
    for name in ("once", "twice"):
        about = {"kind": "Pod", "name": "p", "namespace": "default"}
        event = {"metadata": {"name": name}, "involvedObject": about, "reason": "R", "message": "m"}
        await pipeline.create(EVENTS, event, "default")
    left = []
    for half_hour in range(4):
        await clock.sleep(1801)
        if half_hour == 0:
            again = Patch(PatchType.MERGE, {"lastTimestamp": to_time(clock.now() + 1200), "count": 2})
            await pipeline.patch(EVENTS, "twice", again, "default")
        left.append([event["metadata"]["name"] for event in (await pipeline.list(EVENTS)).items])
    keeper.cancel()
    return left


def test_events_go_an_hour_after_they_were_last_seen() -> None:
    left = virtual_time.run(_two_hours_of_events())
    assert left == [["once", "twice"], ["once", "twice"], ["twice"], []]


_BINDER = """
import asyncio, os, sys
from pathlib import Path
from echelon.api.scheme import PODS
from echelon.base.clock import ManualClock
from echelon.base.rng import Rng
from echelon.server.pipeline import Pipeline
from echelon.server.objects.object_cache import header_of
from echelon.store.sqlite import open_sqlite

async def main():
    pipeline = Pipeline(open_sqlite(Path(sys.argv[1]), header_of), ManualClock(), Rng(os.getpid()))
    await pipeline.bootstrap()
    spec = {"containers": [{"name": "c", "image": "i"}]}
    async def binder(number):
        while True:
            pod = await pipeline.create(PODS, {"metadata": {"generateName": "p-"}, "spec": spec}, "default")
            name, node = pod["metadata"]["name"], f"n{number}"
            os.write(1, f"created {name} {pod['metadata']['uid']}\\n".encode())
            await pipeline.bind("default", name, node)
            os.write(1, f"bound {name} {node}\\n".encode())
    await asyncio.gather(*(binder(n) for n in range(8)))
asyncio.run(main())
"""


def _bind_until_killed(directory: Path, seconds: float) -> bytes:
    """The answers that a process told of before it was killed."""
    child = subprocess.Popen([sys.executable, "-c", _BINDER, str(directory)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    told = child.stdout.readline()
    time.sleep(seconds)
    os.kill(child.pid, signal.SIGKILL)
    told += child.stdout.read()
    child.stdout.close()
    child.wait()
    return told


@pytest.mark.conformance("API-24", "API-62")
async def test_killed_while_binding_every_answer_given_still_holds(tmp_path: Path) -> None:
    for seconds in (0.05, 0.3):
        told = _bind_until_killed(tmp_path, seconds)
        store = open_sqlite(tmp_path, header_of)
        pipeline = Pipeline(store, ManualClock(), Rng(1))
        lines = [line.decode().split() for line in told.splitlines(keepends=True) if line.endswith(b"\n")]
        assert len(lines) > 2
        for what, name, answer in lines:
            pod = await pipeline.get(PODS, name, "default")
            assert answer == (pod["metadata"]["uid"] if what == "created" else pod["spec"]["nodeName"])
        await store.close()
