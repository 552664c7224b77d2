"""The endpoints of a Service: which pods it stands for, with their addresses, host names and whether they are ready.

    Service with a selector ─┐
    pods that it selects    ─┴─► EndpointSlices of at most 100 endpoints, one set per list of ports

An endpoint stays in the slice that has it; slices that become empty go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..api.objects import meta
from ..api.scheme import ENDPOINT_SLICES, PODS, SERVICES, Object
from ..api.verbs import Patch, PatchType
from .plan import Action, ApplyPatch, Create, Delete, Draft, Plan

SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
MANAGER = "endpointslice-controller.k8s.io"
_HEADLESS = "service.kubernetes.io/headless"
_MOST_ENDPOINTS = 100

#: Ports as (name, protocol, number, application protocol): what endpoints of one slice have in common.
_Ports = tuple[tuple[str, str, int, str], ...]


def reconcile(service: Object, pods: Iterable[Object], slices: Sequence[Object]) -> Plan:
    """`pods` are those that the Service selects; `slices` those that this controller made for it."""
    wanted: dict[_Ports, dict[str, Object]] = {}
    for pod in pods:
        endpoint = endpoint_of(pod, service)
        if endpoint is not None:
            wanted.setdefault(_ports(service, pod), {})[meta.uid(pod)] = endpoint
    draft = Draft()
    known: dict[_Ports, list[Object]] = {}
    for one in sorted(slices, key=meta.name):
        known.setdefault(_ports_of_slice(one), []).append(one)
    actions: list[Action] = []
    for ports in sorted({*wanted, *known}):
        actions += _fill(service, ports, wanted.get(ports, {}), known.get(ports, []))
    draft.stage(*actions)
    return draft.done()


def endpoint_of(pod: Object, service: Object) -> Object | None:
    """None for a pod without an address, or one that has ended."""
    status = pod.get("status") or {}
    address = status.get("podIP")
    if not address or status.get("phase") in ("Succeeded", "Failed"):
        return None
    deleting, serving = meta.deleting(pod), meta.condition_is(pod, "Ready")
    published = bool(service["spec"].get("publishNotReadyAddresses"))
    endpoint: Object = {
        "addresses": [address],
        "conditions": {
            "ready": published or (serving and not deleting),
            "serving": serving,
            "terminating": deleting,
        },
        "nodeName": pod["spec"].get("nodeName", ""),
        "targetRef": {
            "kind": PODS.kind,
            "namespace": meta.namespace(pod),
            "name": meta.name(pod),
            "uid": meta.uid(pod),
        },
    }
    if pod["spec"].get("hostname") and pod["spec"].get("subdomain") == meta.name(service):
        endpoint["hostname"] = pod["spec"]["hostname"]
    return endpoint


def _fill(service: Object, ports: _Ports, wanted: dict[str, Object], slices: list[Object]) -> list[Action]:
    """Bring the slices with these ports up to date."""
    left = dict(wanted)
    contents: list[list[Object]] = []
    for one in slices:
        kept = []
        for endpoint in one.get("endpoints") or ():
            current = left.pop((endpoint.get("targetRef") or {}).get("uid", ""), None)
            if current is not None:
                kept.append(current)
        contents.append(kept)
    new = sorted(left.values(), key=lambda endpoint: str(endpoint["targetRef"]["name"]))
    for kept in contents:
        while new and len(kept) < _MOST_ENDPOINTS:
            kept.append(new.pop(0))
    actions: list[Action] = []
    for one, kept in zip(slices, contents, strict=True):
        actions += _changed(service, one, kept)
    for begin in range(0, len(new), _MOST_ENDPOINTS):
        made = _slice(service, ports, new[begin : begin + _MOST_ENDPOINTS])
        actions.append(Create(ENDPOINT_SLICES, made))
    return actions


def _changed(service: Object, one: Object, endpoints: list[Object]) -> list[Action]:
    if not endpoints:
        return [Delete(ENDPOINT_SLICES, meta.namespace(one), meta.name(one), meta.uid(one))]
    labels = _labels(service)
    if endpoints == (one.get("endpoints") or []) and labels == dict(meta.labels(one)):
        return []
    version = one["metadata"].get("resourceVersion", "")
    body = {"metadata": {"resourceVersion": version, "labels": labels}, "endpoints": endpoints}
    patch = Patch(PatchType.MERGE, body)
    return [ApplyPatch(ENDPOINT_SLICES, meta.namespace(one), meta.name(one), patch, gone_is_fine=True)]


def _slice(service: Object, ports: _Ports, endpoints: list[Object]) -> Object:
    made: Object = {
        "apiVersion": ENDPOINT_SLICES.api_version,
        "kind": ENDPOINT_SLICES.kind,
        "metadata": {
            "generateName": f"{meta.name(service)}-",
            "namespace": meta.namespace(service),
            "labels": _labels(service),
            "ownerReferences": [meta.owner_reference(service, SERVICES)],
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
    }
    if ports:
        made["ports"] = [
            {"name": name, "protocol": protocol, "port": number, **({"appProtocol": kind} if kind else {})}
            for name, protocol, number, kind in ports
        ]
    return made


def _labels(service: Object) -> dict[str, str]:
    own = {SERVICE_NAME: meta.name(service), MANAGED_BY: MANAGER}
    headless = {_HEADLESS: ""} if service["spec"].get("clusterIP") == "None" else {}
    return {**meta.labels(service), **own, **headless}


def _ports(service: Object, pod: Object) -> _Ports:
    """The ports of the Service as this pod has them; one that the pod does not name is left out."""
    found: list[tuple[str, str, int, str]] = []
    for port in service["spec"].get("ports") or ():
        protocol = port.get("protocol") or "TCP"
        target = port.get("targetPort") or port.get("port")
        number = target if isinstance(target, int) else _named_port(pod, str(target), protocol)
        if number:
            found.append((port.get("name") or "", protocol, number, port.get("appProtocol") or ""))
    return tuple(sorted(found))


def _named_port(pod: Object, name: str, protocol: str) -> int:
    for container in pod["spec"].get("containers") or ():
        for port in container.get("ports") or ():
            if port.get("name") == name and (port.get("protocol") or "TCP") == protocol:
                return int(port["containerPort"])
    return 0


def _ports_of_slice(one: Object) -> _Ports:
    found: list[tuple[str, str, int, str]] = []
    for port in one.get("ports") or ():
        name, protocol = port.get("name") or "", port.get("protocol") or "TCP"
        found.append((name, protocol, int(port.get("port") or 0), port.get("appProtocol") or ""))
    return tuple(sorted(found))
