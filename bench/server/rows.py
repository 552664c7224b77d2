"""The rows of the table: requests of one sort each, prepared as bytes, sent over open connections."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from echelon.api.scheme import Object
from echelon.client.connection_pool import ConnectionPool

from ..cluster.bare import PATIENCE_SECONDS, binding, connected
from .contenders import Contender

AT_ONCE = 32
_JSON, _MERGE, _APPLY = "application/json", "application/merge-patch+json", "application/apply-patch+yaml"


class Prepared(NamedTuple):
    method: str
    path: str
    body: bytes | None = None
    content_type: str = _JSON


@dataclass(frozen=True)
class Figure:
    """What one contender came to in one row."""

    requests: int
    seconds: float
    #: Processor seconds of the server.
    processor: float

    @property
    def rate(self) -> float:
        return self.requests / self.seconds

    @property
    def cost(self) -> float:
        """Processor milliseconds per request."""
        return self.processor / self.requests * 1000


def pod(name: str) -> Object:
    """A worker of a training job, of usual size."""
    container = {
        "name": "worker",
        "image": "registry.example/train:1.4",
        "command": ["torchrun", "--nnodes=4", "--nproc-per-node=8", "train.py"],
        "env": [{"name": f"SETTING_{number}", "value": f"value-{number}"} for number in range(8)],
        "resources": {"requests": {"cpu": "8", "memory": "64Gi"}, "limits": {"cpu": "8", "memory": "64Gi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    labels = {"app": "train", "job": "large", "index": name}
    spec = {"restartPolicy": "Never", "containers": [container], "volumes": [{"name": "data", "emptyDir": {}}]}
    metadata = {"name": name, "labels": labels, "annotations": {"example.com/owner": "team-a"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _status(number: int) -> Object:
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {"status": {"phase": "Running", "conditions": [condition], "message": f"step {number}"}}


def _applied(name: str) -> Object:
    metadata = {"name": name, "annotations": {"example.com/applied": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


Row = Callable[[str, Sequence[str]], Iterable[Prepared]]

_encode = msgspec.json.encode
#: In the order in which they run: all need what the first creates.
ROWS: dict[str, Row] = {
    "create": lambda where, names: (Prepared("POST", where, _encode(pod(name))) for name in names),
    "get": lambda where, names: (Prepared("GET", f"{where}/{name}") for name in names),
    "list": lambda where, names: (Prepared("GET", where) for _ in range(max(4, len(names) // 100))),
    "patch": lambda where, names: (
        Prepared("PATCH", f"{where}/{name}", _encode({"metadata": {"labels": {"patched": name}}}), _MERGE)
        for name in names
    ),
    "status": lambda where, names: (
        Prepared("PATCH", f"{where}/{name}/status", _encode(_status(number)), _MERGE)
        for number, name in enumerate(names)
    ),
    "bind": lambda where, names: (
        Prepared("POST", *binding(where.split("/")[4], name, f"node-{number % 100}"))
        for number, name in enumerate(names)
    ),
    "apply": lambda where, names: (
        Prepared("PATCH", f"{where}/{name}?fieldManager=bench", _encode(_applied(name)), _APPLY) for name in names
    ),
}
#: Requests at a time, where it is not `AT_ONCE`.
_AT_ONCE = {"list": 2}


def path_of(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


@asynccontextmanager
async def namespace(contender: Contender, name: str) -> AsyncIterator[ConnectionPool]:
    """Open connections and an empty namespace, which is empty again afterwards."""
    async with connected(contender.endpoint, AT_ONCE) as wire:
        if contender.name != "uvicorn":
            made = _encode({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            await wire.call("POST", "/api/v1/namespaces", made, _JSON, PATIENCE_SECONDS)
            account = _encode({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}})
            await wire.call("POST", f"/api/v1/namespaces/{name}/serviceaccounts", account, _JSON, PATIENCE_SECONDS)
        yield wire
        if contender.name != "uvicorn":
            await wire.call("DELETE", f"{path_of(name)}?gracePeriodSeconds=0", None, "", PATIENCE_SECONDS)


async def measure(contender: Contender, wire: ConnectionPool, row: str, where: str, names: Sequence[str]) -> Figure:
    """Send all requests of a row; a refusal is an error."""
    requests = list(ROWS[row](where, names))
    line = iter(requests)

    async def work() -> None:
        for method, path, body, content_type in line:
            answer = await wire.call(method, path, body, content_type, PATIENCE_SECONDS)
            if answer.status not in (200, 201):
                raise RuntimeError(f"{contender.name}: {method} {path} was refused: {answer.body[:300]!r}")

    before, begin = contender.processor(), time.perf_counter()
    await asyncio.gather(*(work() for _ in range(_AT_ONCE.get(row, AT_ONCE))))
    return Figure(len(requests), time.perf_counter() - begin, contender.processor() - before)
