"""POST pods/{name}/binding: bind a pod to a node.  The hot path of scheduling: no schema validation here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...api.errors import ApiError, conflict, invalid_object, required
from ...api.scheme import PODS, Object
from ...base.instants import to_time
from ...store.interface import RevisionMismatch
from ..objects.stored_objects import Access


async def bind(
    access: Access,
    namespace: str,
    pod: str,
    node: str,
    uid: str,
    annotations: Mapping[str, str],
    *,
    dry_run: bool,
) -> None:
    if not node:
        raise invalid_object(PODS, pod, [required("target.name")])
    while True:
        record = access.record(PODS, pod, namespace)
        if uid and uid != record.header.uid:
            detail = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {record.header.uid}"
            raise conflict(PODS, pod, detail)
        bound = _bound(access.trees.of_record(record), node, annotations, access.clock.now())
        if dry_run:
            return
        try:
            await access.replace(PODS, bound, record)
        except RevisionMismatch:
            await access.store.settled(record.key)
        else:
            return


def _refuse(pod: str, detail: str) -> ApiError:
    message = f'Operation cannot be fulfilled on pods/binding "{pod}": {detail}'
    return ApiError(409, "Conflict", message, {"name": pod, "kind": "pods/binding"})


def _bound(pod: Object, node: str, annotations: Mapping[str, str], now: float) -> Object:
    metadata, spec, status = {**pod["metadata"]}, pod["spec"], {**(pod.get("status") or {})}
    name = metadata["name"]
    if "deletionTimestamp" in metadata:
        raise _refuse(name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise _refuse(name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise _refuse(name, f"pod {name} has non-empty .spec.schedulingGates")
    if annotations:
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
    status["conditions"] = _with_scheduled(status.get("conditions") or (), now)
    status.pop("nominatedNodeName", None)
    return {**pod, "metadata": metadata, "spec": {**spec, "nodeName": node}, "status": status}


def _with_scheduled(conditions: Iterable[Object], now: float) -> list[Object]:
    """PodScheduled=True without the reason and message that a pending pod carried."""
    others = [one for one in conditions if one.get("type") != "PodScheduled"]
    return [*others, {"type": "PodScheduled", "status": "True", "lastTransitionTime": to_time(now)}]
