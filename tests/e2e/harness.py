"""A whole control plane over real sockets and a durable store, as the seed tests use it.

`async with echelon(tmp_path) as e` starts what `echelon up` starts and hands out an HTTPS client; nothing in a test
reaches around it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from echelon.api.cluster.pools import Cluster, parse
from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.scheme import NODES, PODS, Object, Resource, by_kind
from echelon.api.verbs import ListOptions, Patch, PatchType, Verbs
from echelon.client.kubeconfig import connect, load
from echelon.runtime.config import PlaneSettings
from echelon.runtime.plane import running

#: Cluster seconds per real second: a pod that runs for 5 s ends after 0.25 s.
SPEED = 20.0
NAMESPACE = "default"

RACKS = """
levels:
  - {name: block, key: topology.kubernetes.io/block}
  - {name: rack, key: topology.kubernetes.io/rack}
pools:
  - name: gpu
    counts: {block: 1, rack: 2, node: 4}
    capacity: {cpu: 32, memory: 256Gi, nvidia.com/gpu: 8}
"""


def cluster(text: str = RACKS) -> Cluster:
    return parse(text, "test-cluster.yaml")


class Echelon:
    """The client side of a running plane."""

    def __init__(self, verbs: Verbs) -> None:
        self.verbs = verbs

    async def apply(self, text: str) -> list[Object]:
        """Create every document of a manifest."""
        return [await self.create(document) for document in yaml.safe_load_all(text) if document]

    async def create(self, obj: Object) -> Object:
        resource = by_kind(obj["apiVersion"], obj["kind"])
        assert resource is not None, obj["kind"]
        return await self.verbs.create(resource, obj, NAMESPACE if resource.namespaced else "")

    async def get(self, resource: Resource, name: str) -> Object:
        return await self.verbs.get(resource, name, NAMESPACE if resource.namespaced else "")

    async def find(self, resource: Resource, name: str) -> Object | None:
        try:
            return await self.get(resource, name)
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    async def list(self, resource: Resource, selector: str = "") -> list[Object]:
        space = NAMESPACE if resource.namespaced else ""
        return (await self.verbs.list(resource, space, ListOptions(label_selector=selector))).items

    async def merge(self, resource: Resource, name: str, body: Object) -> Object:
        space = NAMESPACE if resource.namespaced else ""
        return await self.verbs.patch(resource, name, Patch(PatchType.MERGE, body), space)

    async def bound(self, selector: str = "") -> list[Object]:
        return [pod for pod in await self.list(PODS, selector) if pod["spec"].get("nodeName")]

    async def domain(self, pod: Object, key: str) -> str:
        node = await self.get(NODES, pod["spec"]["nodeName"])
        return meta.labels(node)[key]

    async def until(self, check: Callable[[], Awaitable[Any]], what: str, seconds: float = 60.0) -> Any:
        """Wait for `check` to return something true, and return it."""
        deadline = time.monotonic() + seconds
        while True:
            found = await check()
            if found:
                return found
            assert time.monotonic() < deadline, f"waited {seconds} s in vain for {what}"
            await asyncio.sleep(0.05)

    async def until_condition(self, resource: Resource, name: str, type_: str, status: str = "True") -> Object:
        async def holds() -> Object | None:
            obj = await self.find(resource, name)
            return obj if obj is not None and meta.condition_is(obj, type_, status) else None

        found: Object = await self.until(holds, f"{resource.kind}/{name} {type_}={status}")
        return found

    async def stays(self, check: Callable[[], Awaitable[bool]], what: str, cluster_seconds: float = 5.0) -> None:
        """`check` holds now and keeps holding for a while."""
        deadline = time.monotonic() + cluster_seconds / SPEED
        while time.monotonic() < deadline:
            assert await check(), what
            await asyncio.sleep(0.02)


@asynccontextmanager
async def echelon(data: Path, nodes: Cluster | None = None, speed: float = SPEED) -> AsyncIterator[Echelon]:
    settings = PlaneSettings(data=data, cluster=nodes or cluster(), speed=speed)
    async with running(settings) as plane:
        verbs = connect(load(plane.kubeconfig))
        try:
            yield Echelon(verbs)
        finally:
            await verbs.close()
