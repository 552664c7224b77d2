"""A data directory with running pods, each created, bound and reported as a client, a scheduler and a node would."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any

from echelon.agents import pod_status
from echelon.api.cluster.pools import Cluster, Level, Pool, nodes
from echelon.api.objects.vocabulary import BLOCK, RACK
from echelon.api.scheme import NODES, PODS, Object
from echelon.api.verbs import Patch, PatchType
from echelon.base.rng import Rng
from echelon.runtime.clocks import RealClock
from echelon.server.objects.object_cache import header_of
from echelon.server.pipeline import Pipeline
from echelon.store.sqlite import open_sqlite

_WRITERS = 64
_PODS_PER_NODE = 100
#: Pods of one template, as a large Job would have.
_PODS_PER_TEMPLATE = 1_000


def cluster(pods: int) -> Cluster:
    """Nodes for that many pods."""
    racks = max(1, pods // _PODS_PER_NODE // 16)
    amounts = {"cpu": "128", "memory": "1Ti", "pods": "110"}
    return Cluster((Level("block", BLOCK), Level("rack", RACK)), (Pool("big", {"rack": racks, "node": 16}, amounts),))


def pod(number: int) -> Object:
    """One pod of an indexed Job that is not there, with the fields that such pods have."""
    template, index = divmod(number, _PODS_PER_TEMPLATE)
    labels = {
        "app": "train",
        "batch.kubernetes.io/job-name": f"train-{template}",
        "batch.kubernetes.io/job-completion-index": str(index),
        "job-name": f"train-{template}",
    }
    container = {
        "name": "worker",
        "image": "registry.example/team/train:2.7.1",
        "command": ["sh", "-c", f"python train.py --run {template}; sleep infinity"],
        "env": [
            {"name": "WORLD_SIZE", "value": str(_PODS_PER_TEMPLATE)},
            {"name": "MASTER_ADDR", "value": f"train-{template}-0.train"},
            {"name": "INDEX", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
        ],
        "resources": {"requests": {"cpu": "1", "memory": "4Gi"}, "limits": {"memory": "4Gi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    spec = {"containers": [container], "volumes": [{"name": "data", "emptyDir": {}}], "restartPolicy": "Never"}
    metadata = {"name": f"train-{template}-{index}", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def _run(pipeline: Pipeline, number: int, node: str, now: float) -> None:
    made = await pipeline.create(PODS, pod(number), "default")
    name = made["metadata"]["name"]
    await pipeline.bind("default", name, node)
    patch = Patch(PatchType.STRATEGIC, {"status": pod_status.running(made, now)})
    await pipeline.patch(PODS, name, patch, "default", "status")


async def together(work: Iterable[Coroutine[Any, Any, object]], workers: int = _WRITERS) -> None:
    """Run coroutines, a few at a time."""
    rest = iter(work)

    async def worker() -> None:
        for one in rest:
            await one

    await asyncio.gather(*(worker() for _ in range(workers)))


async def fill(directory: Path, pods: int) -> None:
    """Write the nodes and pods; does nothing if the directory has a database."""
    if (directory / "echelon.db").exists():
        return
    clock = RealClock()
    store = open_sqlite(directory, header_of)
    pipeline = Pipeline(store, clock, Rng(1))
    await pipeline.bootstrap()
    made = list(nodes(cluster(pods)))
    await together(pipeline.create(NODES, node) for node in made)
    names = [node["metadata"]["name"] for node in made]
    now = clock.now()
    await together(_run(pipeline, number, names[number % len(names)], now) for number in range(pods))
    await store.close()
