"""docs/design/tour.md names the functions that a TrainJob passes, in the order in which it passes them.

The plane is up and at rest before the TrainJob is created, so every call of a station since then is caused by it.  The
order of the stations is that of their first calls.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import yaml

from echelon.api.objects import meta
from echelon.api.scheme import CLUSTER_TRAINING_RUNTIMES, NODES, TRAIN_JOBS
from echelon.runtime import virtual_time
from echelon.testing.builders import make_node
from echelon.testing.virtual_plane import PROCESSES, VirtualPlane, virtual_plane

ROOT = Path(__file__).parents[2]
MANIFEST = ROOT / "examples" / "demo" / "3-trainjob.yaml"
STATION = re.compile(r"^\d+\. \*\*`([\w/]+)\.py`\*\* `([\w.]+)`", flags=re.MULTILINE)


def stations() -> dict[CodeType, str]:
    """The code of each station's function, in the order of the page."""
    page = (ROOT / "docs" / "design" / "tour.md").read_text()
    found = {}
    for path, name in STATION.findall(page):
        function: Any = reduce(getattr, name.split("."), import_module("echelon." + path.replace("/", ".")))
        found[function.__code__] = f"{path}.py {name}"
    return found


@contextmanager
def first_calls(wanted: dict[CodeType, str]) -> Iterator[list[str]]:
    """The stations in the order in which they are called for the first time within the block."""
    seen: dict[CodeType, None] = {}
    called: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in wanted and frame.f_code not in seen:
            seen[frame.f_code] = None
            called.append(wanted[frame.f_code])

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield called
    finally:
        sys.setprofile(before)


async def at_rest(plane: VirtualPlane, runtime: dict[str, Any]) -> None:
    """Two racks that have room for the gang, the runtime, and every process running."""
    for rack in ("r1", "r2"):
        for number in range(4):
            await plane.verbs.create(NODES, make_node(f"{rack}-{number}", cpu=32, gpu=8, rack=rack))
    await plane.verbs.create(CLUSTER_TRAINING_RUNTIMES, runtime)
    for process in PROCESSES:
        plane.start(process)
    await plane.clock.sleep(60)


async def completed(plane: VirtualPlane, name: str) -> None:
    for _ in range(600):
        await plane.clock.sleep(1)
        plane.check()
        if meta.condition_is(await plane.verbs.get(TRAIN_JOBS, name, "default"), "Complete"):
            return
    raise AssertionError(f"{name} is not complete after ten minutes")


def test_a_trainjob_passes_the_stations_of_the_tour_in_their_order() -> None:
    wanted = stations()

    async def scenario() -> tuple[list[str], list[str]]:
        runtime, trainjob = yaml.safe_load_all(MANIFEST.read_text())
        async with virtual_plane(seed=1) as plane:
            await at_rest(plane, runtime)
            with first_calls(wanted) as idle:
                await plane.clock.sleep(60)
            with first_calls(wanted) as called:
                await plane.verbs.create(TRAIN_JOBS, trainjob, "default")
                await completed(plane, trainjob["metadata"]["name"])
        return idle, called

    idle, called = virtual_time.run(scenario())
    assert idle == [], "these calls need no TrainJob"
    assert called == list(wanted.values())


def test_the_tour_has_the_stations_that_newcomers_look_for() -> None:
    files = [station.split()[0] for station in stations().values()]
    assert len(files) == len(set(files)) >= 18
    for kind in ("trainjob", "jobset", "job"):
        assert files.index(f"controllers/{kind}.py") + 1 == files.index(f"decide/{kind}/reconcile.py")
