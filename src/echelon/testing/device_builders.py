"""Objects of resource.k8s.io for tests, as a manifest would say them."""

from __future__ import annotations

from typing import Any

from ..api.scheme import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Object,
    Resource,
)

DRIVER = "gpu.example.org"


def _object(resource: Resource, name: str, spec: Object, namespace: str = "") -> Object:
    metadata: Object = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}


def make_device_class(name: str = "gpu", *expressions: str, **spec: Any) -> Object:
    """A class of devices; without expressions those of `DRIVER`."""
    chosen = expressions or (f'device.driver == "{DRIVER}"',)
    return _object(DEVICE_CLASSES, name, {"selectors": [{"cel": {"expression": one}} for one in chosen], **spec})


def make_device(name: str, taints: list[Object] | None = None, **attributes: Any) -> Object:
    """A device of a slice; attributes are integers, booleans or text."""
    kinds = {bool: "bool", int: "int", str: "string"}
    device: Object = {"name": name, "attributes": {key: {kinds[type(v)]: v} for key, v in attributes.items()}}
    return {**device, **({"taints": taints} if taints else {})}


def make_slice(node: str, count: int = 0, devices: list[Object] | None = None, **spec: Any) -> Object:
    """The devices of a node: `count` alike, or those given."""
    listed = devices if devices is not None else [make_device(f"gpu-{number}") for number in range(count)]
    body: Object = {
        "driver": DRIVER,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "nodeName": node,
        "devices": listed,
        **spec,
    }
    return _object(RESOURCE_SLICES, f"{node}-gpus", {key: value for key, value in body.items() if value is not None})


def make_taint_rule(name: str, effect: str = "NoSchedule", key: str = "broken", **selector: str) -> Object:
    """A rule that taints the devices with this driver, pool and name; all, if none is given."""
    taint = {"key": key, "effect": effect}
    return _object(DEVICE_TAINT_RULES, name, {"deviceSelector": selector, "taint": taint})


def make_request(
    name: str = "gpu", count: int = 1, device_class: str = "gpu", *expressions: str, **more: Any
) -> Object:
    wanted: Object = {"deviceClassName": device_class, "count": count, **more}
    if expressions:
        wanted["selectors"] = [{"cel": {"expression": one}} for one in expressions]
    return {"name": name, "exactly": wanted}


def make_claim_spec(*requests: Object, **devices: Any) -> Object:
    return {"devices": {"requests": list(requests) or [make_request()], **devices}}


def make_resource_claim(name: str, *requests: Object, **devices: Any) -> Object:
    return _object(RESOURCE_CLAIMS, name, make_claim_spec(*requests, **devices), "default")


def make_claim_template(name: str, *requests: Object, **devices: Any) -> Object:
    return _object(RESOURCE_CLAIM_TEMPLATES, name, {"spec": make_claim_spec(*requests, **devices)}, "default")


def claiming(claim: str = "", template: str = "", name: str = "devices") -> list[Object]:
    """`spec.resourceClaims` of a pod or a PodGroup."""
    field = {"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": template}
    return [{"name": name, **field}]
