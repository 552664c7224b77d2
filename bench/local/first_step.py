"""How long a training example takes to its first step: as pods of a JobSet, beside the same programs started by hand.

submission ─► stage that makes the data ─► trainers start ─► first step          all of it, and the last part alone

What lies before the last part is scheduling, two stages of pods and their sandboxes.  Both ways run in turns; medians
count.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pytest
import yaml
from tests.clients.environments import interpreter

from echelon.agents.process.images import Images, read_images
from echelon.agents.process.process_nodes import ProcessSettings
from echelon.api.cluster.pools import this_machine
from echelon.api.scheme import by_kind
from echelon.runtime.config import PlaneSettings
from echelon.runtime.plane import Plane, running

_ROUNDS = 5
_EXAMPLES = Path(__file__).parents[2] / "examples" / "training"
_AMOUNTS = {"cpu": "1000", "memory": "100Gi", "pods": "1000"}


@dataclass(frozen=True)
class Example:
    name: str
    folder: Path
    python: str
    #: Of every trainer: what tells it its number, and the variables that all have.
    rank: str
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class FirstStep:
    """Seconds, since the submission and since the trainers started."""

    pods: float
    bare: float
    pods_since_start: float
    bare_since_start: float


def examples() -> Iterator[Example]:
    """NumPy, and JAX where it can be installed in an environment of its own."""
    where = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "{port}"}
    yield Example("NumPy", _EXAMPLES / "numpy", sys.executable, "RANK", where)
    try:
        python = interpreter("jax")
    except pytest.skip.Exception as reason:
        print(reason, file=sys.stderr)
        return
    where = {"JAX_NUM_PROCESSES": "2", "JAX_COORDINATOR_ADDRESS": "127.0.0.1:{port}"}
    yield Example("JAX", _EXAMPLES / "jax", str(python), "JAX_PROCESS_ID", where)


async def first_step(example: Example) -> FirstStep:
    pods, bare = [], []
    for _ in range(_ROUNDS):
        with tempfile.TemporaryDirectory(prefix="echelon-bench-") as folder:
            bare.append(_bare(example, Path(folder)))
        pods.append(await _as_pods(example))
    return FirstStep(
        median(one[0] for one in pods),
        median(one[0] for one in bare),
        median(one[1] for one in pods),
        median(one[1] for one in bare),
    )


@asynccontextmanager
async def local_plane(images: Images | None = None) -> AsyncIterator[tuple[Plane, Path]]:
    """A plane whose node is this machine, and its data directory."""
    with tempfile.TemporaryDirectory(prefix="echelon-bench-") as folder:
        data = Path(folder)
        processes = ProcessSettings(data, "names", images or Images(), capacity=_AMOUNTS)
        settings = PlaneSettings(data=data, cluster=this_machine("here"), processes=processes)
        async with running(settings) as plane:
            yield plane, data


# -- as pods ---------------------------------------------------------------------------------------------------


async def _as_pods(example: Example) -> tuple[float, float]:
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump({"images": [{"image": "*", "virtualenv": str(Path(example.python).parents[1])}]}, file)
        file.flush()
        images = read_images(Path(file.name))
    async with local_plane(images) as (plane, data):
        begun = time.time()
        for name in ("code.yaml", "jobset.yaml"):
            for document in yaml.safe_load_all((example.folder / name).read_text()):
                resource = by_kind(document["apiVersion"], document["kind"])
                assert resource is not None
                await plane.verbs.create(resource, document, "default" if resource.namespaced else "")
        while not _has_stepped(data):  # noqa: ASYNC110  # the shims are other processes
            await asyncio.sleep(0.01)
        stepped = time.time()
        return stepped - begun, stepped - _last_start(data)


def _has_stepped(data: Path) -> bool:
    return any(b"F step " in log.read_bytes() for log in data.glob("pods/*/logs/*/0.log"))


def _last_start(data: Path) -> float:
    states = (json.loads(path.read_text()) for path in data.glob("pods/*/state.json"))
    return max(float(attempt["started"]) for state in states for attempt in state["attempts"])


# -- by hand ---------------------------------------------------------------------------------------------------


def _bare(example: Example, folder: Path) -> tuple[float, float]:
    """The programs of the two stages, one after the other, with the variables of the manifest."""
    for document in yaml.safe_load_all((example.folder / "code.yaml").read_text()):
        for name, text in document["data"].items():
            (folder / name).write_text(text)
    port = str(_free_port())
    env = {name: value.format(port=port) for name, value in example.env.items()}
    env |= {"DATA": str(folder / "data.npz"), "CHECKPOINT": str(folder / "checkpoint.npz")}
    begun = time.perf_counter()
    subprocess.run([example.python, folder / "make_data.py", env["DATA"]], check=True, stdout=subprocess.DEVNULL)
    started = time.perf_counter()
    trainers = [
        subprocess.Popen(
            [example.python, folder / "train.py"],
            env={**os.environ, **env, example.rank: str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for rank in range(2)
    ]
    assert trainers[0].stdout is not None
    next(line for line in trainers[0].stdout if line.startswith("step "))
    taken = time.perf_counter()
    for trainer in trainers:
        trainer.kill()
        trainer.communicate()
    return taken - begun, taken - started


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
