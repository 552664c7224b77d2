"""Pods as processes beside bare processes, in one run:

    200 pods     `true`, from the first create until the last one says Succeeded, beside 200 bare starts of the shim
    shims        resident memory of each, and the processor time of the whole plane while 50 pods do nothing
    first step   of the NumPy and JAX examples on two pods, see `first_step`

All in tier `names`, where a bare shim needs no network of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from echelon.agents.process.pod_directories import PodDirectory
from echelon.agents.process.shim_lines import ShimLine, start_shim
from echelon.api.objects import meta
from echelon.api.scheme import PODS, Object
from echelon.api.verbs import DeleteOptions
from echelon.runtime.plane import Plane, run_program

from .first_step import examples, first_step, local_plane

_SHORT, _IDLE, _IDLE_SECONDS = 200, 50, 20.0
_AT_ONCE = 8


def _pod(name: str, *command: str) -> Object:
    container = {"name": "c", "image": "registry.example/c:1", "command": list(command)}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def _until(plane: Plane, phase: str, count: int) -> None:
    """Wait until so many pods are in a phase."""
    pods, reached = plane.caches.of(PODS), asyncio.Event()

    def look(_old: Object | None, _new: Object | None) -> None:
        if sum((pod.get("status") or {}).get("phase") == phase for pod in pods.all()) >= count:
            reached.set()

    pods.add_handler(look)
    look(None, None)
    await reached.wait()


async def _clear(plane: Plane) -> None:
    for pod in list(plane.caches.of(PODS).all()):
        await plane.verbs.delete(PODS, meta.name(pod), "default", DeleteOptions(grace_period_seconds=0))
    while len(plane.caches.of(PODS)):  # noqa: ASYNC110  # only the last one is of interest
        await asyncio.sleep(0.05)


async def _short_pods(plane: Plane) -> float:
    begun = time.perf_counter()
    for number in range(_SHORT):
        await plane.verbs.create(PODS, _pod(f"short-{number}", "true"), "default")
    await _until(plane, "Succeeded", _SHORT)
    return time.perf_counter() - begun


async def _bare_shims(plane: Plane, data: Path) -> float:
    """The same number of shims, with the sandbox of a real pod, started and stopped without anything around them."""
    (pod,) = plane.caches.of(PODS).all()
    sandbox = json.loads((data / "pods" / meta.uid(pod) / "sandbox.json").read_text())
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(number: int, folder: Path) -> None:
        directory = PodDirectory(folder / f"bare-{number}")
        async with gate:
            shutil.copytree(
                data / "pods" / meta.uid(pod), directory.path, ignore=shutil.ignore_patterns("*.sock", "lock")
            )
            directory.write("sandbox.json", {**sandbox, "uid": f"bare-{number}", "past": []})
            await start_shim(directory)
            line = await ShimLine.open(directory, lambda _state: None)
            line.send(do="stop")
            await line.ended(30)

    with tempfile.TemporaryDirectory(prefix="echelon-bench-") as folder:
        begun = time.perf_counter()
        await asyncio.gather(*(one(number, Path(folder)) for number in range(_SHORT)))
        return time.perf_counter() - begun


async def _idle(plane: Plane, data: Path) -> tuple[float, float]:
    """The largest resident memory of a shim in MB, and the share of one processor that 50 idle pods cost."""
    for number in range(_IDLE):
        await plane.verbs.create(PODS, _pod(f"idle-{number}", "sleep", "1000"), "default")
    await _until(plane, "Running", _IDLE)
    await asyncio.sleep(5)
    shims = _shims(data)
    before = time.process_time() + sum(map(_processor, shims))
    await asyncio.sleep(_IDLE_SECONDS)
    used = time.process_time() + sum(map(_processor, shims)) - before
    return max(map(_resident, shims)) / 1e6, used / _IDLE_SECONDS


def _shims(data: Path) -> list[int]:
    return [json.loads(path.read_text())["pid"] for path in data.glob("pods/*/shim.json")]


def _processor(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def _measure() -> Table:
    table = Table(title="pods as processes beside bare processes")
    for heading in ("", "pods", "bare", "ratio", "aim"):
        table.add_column(heading, justify="right")
    async with local_plane() as (plane, data):
        through = await _short_pods(plane)
        await _clear(plane)
        await plane.verbs.create(PODS, _pod("pattern", "sleep", "1000"), "default")
        await _until(plane, "Running", 1)
        bare = await _bare_shims(plane, data)
        await _clear(plane)
        memory, idle = await _idle(plane, data)
        await _clear(plane)
    table.add_row(f"{_SHORT} short pods", f"{through:.1f} s", f"{bare:.1f} s", f"{through / bare:.2f}", "3")
    table.add_row("memory of a shim", f"{memory:.1f} MB", "", "", "15 MB")
    table.add_row(f"{_IDLE} idle pods", f"{idle:.1%} of a core", "", "", "2 %")
    for example in examples():
        taken = await first_step(example)
        later = f"{taken.pods - taken.bare:+.2f} s"
        table.add_row(f"first step, {example.name}, 2 pods", f"{taken.pods:.2f} s", f"{taken.bare:.2f} s", later, "")
        own, bare = taken.pods_since_start, taken.bare_since_start
        table.add_row("since its trainers started", f"{own:.2f} s", f"{bare:.2f} s", f"{own - bare:+.2f} s", "+1 s")
    return table


Console(width=120).print(run_program(_measure()))
