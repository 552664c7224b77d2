"""`metrics.k8s.io`: what pods and nodes use, for `kubectl top`.  Measured by the nodes, stored nowhere."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from ....api import errors
from ....api.objects import meta
from ....api.running_pods import PodUse, Use
from ....api.scheme import NODE_METRICS, NODES, PODS, Object
from ..handlers.call import Call
from ..requests.query_options import list_options
from ..requests.request import Response


async def measured(call: Call) -> Response:
    """One object by its name, or all that a list of pods or nodes selects."""
    measures = NODES if call.resource is NODE_METRICS else PODS
    if call.target.name:
        found = await call.verbs.get(measures, call.target.name, call.target.namespace)
        objects = list(_measurements(call, [found]))
        if not objects:
            raise errors.not_found(call.resource, call.target.name)
        return Response(msgspec.json.encode(objects[0]))
    listed = await call.verbs.list(measures, call.target.namespace, list_options(call.request))
    head = {"kind": f"{call.resource.kind}List", "apiVersion": call.resource.api_version, "metadata": {}}
    return Response(msgspec.json.encode({**head, "items": list(_measurements(call, listed.items))}))


def _measurements(call: Call, objects: Iterable[Object]) -> Iterable[Object]:
    if call.pods is None:
        return
    for obj in objects:
        node = call.resource is NODE_METRICS
        use = call.pods.node_use(meta.name(obj)) if node else call.pods.use(meta.uid(obj))
        if use is not None:
            yield {**_head(call, obj, use), **(_of_node(use) if node else _of_pod(use))}


def _head(call: Call, obj: Object, use: PodUse) -> Object:
    measured_at = datetime.fromtimestamp(use.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata = {"name": meta.name(obj), "creationTimestamp": measured_at, "labels": meta.labels(obj)}
    if meta.namespace(obj):
        metadata["namespace"] = meta.namespace(obj)
    head = {"kind": call.resource.kind, "apiVersion": call.resource.api_version, "metadata": metadata}
    return {**head, "timestamp": measured_at, "window": f"{use.seconds:.3f}s"}


def _of_node(use: PodUse) -> Object:
    return {"usage": _amounts(next(iter(use.containers.values())))}


def _of_pod(use: PodUse) -> Object:
    return {"containers": [{"name": name, "usage": _amounts(one)} for name, one in sorted(use.containers.items())]}


def _amounts(use: Use) -> Object:
    return {"cpu": f"{use.nanocores}n", "memory": f"{use.memory_bytes // 1024}Ki"}
