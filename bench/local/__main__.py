"""Pods as processes beside bare processes, in one run:

    200 pods     `true`, from the first create until the last one says Succeeded, beside 200 bare starts of the shim
    shims        resident memory of each, and the processor time of the whole plane while 50 pods do nothing
    first step   of the NumPy example on two pods, since its submission, beside the same two programs started by hand

All in tier `names`, where a bare shim needs no network of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml
from rich.console import Console
from rich.table import Table

from echelon.agents.process.pod_directories import PodDirectory
from echelon.agents.process.process_nodes import ProcessSettings
from echelon.agents.process.shim_lines import ShimLine, start_shim
from echelon.api.cluster.pools import this_machine
from echelon.api.objects import meta
from echelon.api.scheme import PODS, Object, by_kind
from echelon.api.verbs import DeleteOptions
from echelon.runtime.config import PlaneSettings
from echelon.runtime.plane import Plane, run_program, running

_SHORT, _IDLE, _IDLE_SECONDS = 200, 50, 20.0
_AT_ONCE = 8
_EXAMPLE = Path(__file__).parents[2] / "examples" / "training" / "numpy"


@asynccontextmanager
async def _plane() -> AsyncIterator[tuple[Plane, Path]]:
    with tempfile.TemporaryDirectory(prefix="echelon-bench-") as folder:
        data = Path(folder)
        processes = ProcessSettings(data, "names", capacity={"cpu": "1000", "memory": "100Gi", "pods": "1000"})
        settings = PlaneSettings(data=data, cluster=this_machine("here"), processes=processes)
        async with running(settings) as plane:
            yield plane, data


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
            await line.ended()

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


def _has_stepped(data: Path) -> bool:
    return any(b"F step " in log.read_bytes() for log in data.glob("pods/*/logs/*/0.log"))


def _processor(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def _first_step(plane: Plane, data: Path) -> float:
    """Since the submission of the example's JobSet until a pod has written that a step is done."""
    begun = time.perf_counter()
    for name in ("code.yaml", "jobset.yaml"):
        for document in yaml.safe_load_all((_EXAMPLE / name).read_text()):
            resource = by_kind(document["apiVersion"], document["kind"])
            assert resource is not None
            await plane.verbs.create(resource, document, "default" if resource.namespaced else "")
    while not _has_stepped(data):  # noqa: ASYNC110  # the shims are other processes
        await asyncio.sleep(0.02)
    return time.perf_counter() - begun


def _bare_first_step(folder: Path) -> float:
    """The programs of the example's two stages, one after the other, with the variables of the manifest."""
    for document in yaml.safe_load_all((_EXAMPLE / "code.yaml").read_text()):
        for name, text in document["data"].items():
            (folder / name).write_text(text)
    env = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()),
           "DATA": str(folder / "data.npz"), "CHECKPOINT": str(folder / "checkpoint.npz")}  # fmt: skip
    begun = time.perf_counter()
    subprocess.run([sys.executable, folder / "make_data.py", env["DATA"]], check=True, stdout=subprocess.DEVNULL)
    trainers = [
        subprocess.Popen(
            [sys.executable, folder / "train.py"],
            env={**os.environ, **env, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    assert trainers[0].stdout is not None
    next(line for line in trainers[0].stdout if line.startswith("step "))
    taken = time.perf_counter() - begun
    for trainer in trainers:
        trainer.kill()
        trainer.communicate()
    return taken


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def _measure() -> Table:
    table = Table(title="pods as processes beside bare processes")
    for heading in ("", "pods", "bare", "ratio", "aim"):
        table.add_column(heading, justify="right")
    async with _plane() as (plane, data):
        through = await _short_pods(plane)
        await _clear(plane)
        await plane.verbs.create(PODS, _pod("pattern", "sleep", "1000"), "default")
        await _until(plane, "Running", 1)
        bare = await _bare_shims(plane, data)
        await _clear(plane)
        memory, idle = await _idle(plane, data)
        await _clear(plane)
        first = await _first_step(plane, data)
    with tempfile.TemporaryDirectory(prefix="echelon-bench-") as folder:
        bare_first = _bare_first_step(Path(folder))
    table.add_row(f"{_SHORT} short pods", f"{through:.1f} s", f"{bare:.1f} s", f"{through / bare:.2f}", "3")
    table.add_row("memory of a shim", f"{memory:.1f} MB", "", "", "15 MB")
    table.add_row(f"{_IDLE} idle pods", f"{idle:.1%} of a core", "", "", "2 %")
    later = f"{first - bare_first:+.2f} s"
    table.add_row("first step, 2 pods", f"{first:.2f} s", f"{bare_first:.2f} s", later, "+1 s")
    return table


Console(width=120).print(run_program(_measure()))
