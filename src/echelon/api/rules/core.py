"""Rules of Namespace, Node, Service and Lease."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import FieldError, forbidden_field, invalid, required
from ..scheme import Object
from . import fields, metadata, pod_placement, resources
from .kind import KindRules

NAMESPACE_LABEL = "kubernetes.io/metadata.name"
#: Present until the content of the namespace is deleted.
NAMESPACE_FINALIZER = "kubernetes"


def _start_namespace(obj: Object, now: float) -> None:
    spec = obj.setdefault("spec", {})
    finalizers = spec.setdefault("finalizers", [])
    if NAMESPACE_FINALIZER not in finalizers:
        finalizers.append(NAMESPACE_FINALIZER)
    obj["status"] = {"phase": "Active"}


def _keep_namespace(new: Object, old: Object, now: float) -> None:
    """`spec.finalizers` is written through `/finalize` only."""
    new["spec"] = old.get("spec") or {}


def _namespace(obj: Object) -> list[FieldError]:
    name = obj["metadata"].get("name", "")
    label = (obj["metadata"].get("labels") or {}).get(NAMESPACE_LABEL)
    if label == name:
        return []
    return [invalid(f"metadata.labels[{NAMESPACE_LABEL}]", label or "", f"must be {name}")]


def _namespace_update(new: Object, old: Object) -> list[FieldError]:
    return _namespace(new)


NAMESPACE = KindRules(
    start=_start_namespace,
    keep=_keep_namespace,
    validate_create=_namespace,
    validate_update=_namespace_update,
)


def _node(obj: Object) -> list[FieldError]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    problems = pod_placement.taints("spec.taints", spec.get("taints") or ())
    for field in ("capacity", "allocatable"):
        for name, amount in (status.get(field) or {}).items():
            where = f"status.{field}[{name}]"
            problems += fields.label_key(where, name)
            if resources.milli(name, amount) < 0:
                problems.append(invalid(where, amount, "must be greater than or equal to 0"))
    return problems


def _node_update(new: Object, old: Object) -> list[FieldError]:
    problems = _node(new)
    for field in ("providerID", "podCIDR"):
        now, was = (new.get("spec") or {}).get(field, ""), (old.get("spec") or {}).get(field, "")
        if was and now != was:
            detail = f'node updates may not change {field} except from "" to valid'
            problems.append(forbidden_field(f"spec.{field}", detail))
    return problems


NODE = KindRules(
    validate_create=_node,
    validate_update=_node_update,
    validate_status=_node_update,
    keeps_status_on_create=True,
)


def _lease(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    problems: list[FieldError] = []
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        problems.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    transitions = spec.get("leaseTransitions")
    if transitions is not None and transitions < 0:
        problems.append(invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
    return problems


LEASE = KindRules(validate_create=_lease, validate_update=lambda new, old: _lease(new))


def _service(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    problems = metadata.check_labels("spec.selector", spec.get("selector"))
    kind = spec.get("type", "ClusterIP")
    problems += fields.one_of("spec.type", kind, ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"))
    problems += fields.one_of("spec.sessionAffinity", spec.get("sessionAffinity", "None"), ("ClientIP", "None"))
    ports = spec.get("ports") or ()
    if not ports and kind != "ExternalName" and spec.get("clusterIP") != "None":
        problems.append(required("spec.ports"))
    if kind == "ExternalName" and not spec.get("externalName"):
        problems.append(required("spec.externalName"))
    return problems + _service_ports(ports)


def _service_ports(ports: Sequence[Object]) -> list[FieldError]:
    problems = fields.unique("spec.ports", ports) if len(ports) > 1 else []
    for index, port in enumerate(ports):
        where = f"spec.ports[{index}]"
        if len(ports) > 1 and not port.get("name"):
            problems.append(required(f"{where}.name"))
        problems += fields.optional(f"{where}.name", port.get("name"), fields.short_name)
        problems += resources.port(f"{where}.port", port.get("port", 0))
        problems += resources.protocol(f"{where}.protocol", port.get("protocol", "TCP"))
    return problems


def _service_update(new: Object, old: Object) -> list[FieldError]:
    problems = _service(new)
    now, was = (new.get("spec") or {}).get("clusterIP", ""), (old.get("spec") or {}).get("clusterIP", "")
    if was and now != was and (new.get("spec") or {}).get("type") != "ExternalName":
        problems.append(invalid("spec.clusterIP", now, "field is immutable"))
    return problems


def _service_default(obj: Object, old: Object | None) -> None:
    """A headless Service is IPv4 and has clusterIP and clusterIPs None."""
    spec = obj.setdefault("spec", {})
    if old is not None and "clusterIP" not in spec and "clusterIP" in (old.get("spec") or {}):
        spec["clusterIP"] = old["spec"]["clusterIP"]
    if spec.get("clusterIP") == "None":
        spec.setdefault("clusterIPs", ["None"])
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")


def _start_service(obj: Object, now: float) -> None:
    obj["status"] = {"loadBalancer": {}}


SERVICE = KindRules(
    default=_service_default,
    start=_start_service,
    validate_create=_service,
    validate_update=_service_update,
)
