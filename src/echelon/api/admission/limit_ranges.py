"""LimitRanges of a namespace: defaults for containers of new pods; bounds for containers, pods and claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ...base import quantity
from ..errors import forbidden
from ..objects import meta, pod_amounts
from ..objects.subtree import items, mapping
from ..scheme import LIMIT_RANGES, PODS, Object, Resource
from .reader import Reader

ANNOTATION = "kubernetes.io/limit-ranger"
Amounts = Mapping[str, str]
#: (type of limit, resource, bound, requests, limits) → why it is violated, or "".
_Constraint = Callable[[str, str, str, Amounts, Amounts], str]


def complete(pod: Object, reader: Reader) -> None:
    """Set the requests and limits that a container lacks, and say so in an annotation."""
    fill_in(pod, reader.list(LIMIT_RANGES, meta.namespace(pod)))


def fill_in(pod: Object, limit_ranges: Iterable[Object]) -> None:
    """The same for a pod that does not exist yet."""
    for limit_range in limit_ranges:
        defaults: dict[str, dict[str, str]] = {"requests": {}, "limits": {}}
        for item in items(limit_range, "spec", "limits"):
            if item.get("type") == "Container":
                defaults["requests"] |= mapping(item, "defaultRequest")
                defaults["limits"] |= mapping(item, "default")
        told: list[str] = []
        for field, word in (("containers", "container"), ("initContainers", "init container")):
            for container in items(pod, "spec", field):
                told += _complete_container(container, defaults, word)
        if told:
            notes = pod["metadata"].setdefault("annotations", {})
            notes[ANNOTATION] = "LimitRanger plugin set: " + "; ".join(told)


def _complete_container(container: Object, defaults: Mapping[str, Amounts], word: str) -> Iterator[str]:
    for part, single in (("requests", "request"), ("limits", "limit")):
        given = mapping(container, "resources", part)
        missing = {name: amount for name, amount in defaults[part].items() if name not in given}
        if missing:
            container["resources"] = {**mapping(container, "resources"), part: {**given, **missing}}
            yield f"{', '.join(sorted(missing))} {single} for {word} {container.get('name', '')}"


def check(resource: Resource, obj: Object, reader: Reader) -> None:
    """403 if a pod or a claim is outside the bounds of a LimitRange."""
    for limit_range in reader.list(LIMIT_RANGES, meta.namespace(obj)):
        violations: list[str] = []
        for item in items(limit_range, "spec", "limits"):
            violations += _pod(item, obj) if resource is PODS else _claim(item, obj)
        told = list(dict.fromkeys(violations))
        if told:
            raise forbidden(resource, meta.name(obj), told[0] if len(told) == 1 else f"[{', '.join(told)}]")


def _pod(item: Object, pod: Object) -> Iterator[str]:
    kind = item.get("type")
    spec = mapping(pod, "spec")
    if kind == "Container":
        for container in (*items(spec, "containers"), *items(spec, "initContainers")):
            own = mapping(container, "resources")
            yield from _violations(item, mapping(own, "requests"), mapping(own, "limits"))
    elif kind == "Pod":
        requests = pod_amounts.total(spec, "requests", overhead=False)
        yield from _violations(item, requests, pod_amounts.total(spec, "limits", overhead=False))


def _claim(item: Object, claim: Object) -> Iterator[str]:
    """Claims have no limits: the largest amount is one of requests."""
    if item.get("type") != "PersistentVolumeClaim":
        return
    requests = mapping(claim, "spec", "resources", "requests")
    for part, constraint in (("min", _least), ("max", _most_requested)):
        for name, bound in sorted(mapping(item, part).items()):
            if why := constraint("PersistentVolumeClaim", name, bound, requests, {}):
                yield why


def _violations(item: Object, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for part, constraint in _CONSTRAINTS:
        for name, bound in sorted(mapping(item, part).items()):
            if why := constraint(item["type"], name, bound, requests, limits):
                yield why


def _above(amount: Any, bound: str) -> bool:
    return quantity.exact(amount) > quantity.exact(bound)


def _least(kind: str, name: str, bound: str, requests: Amounts, limits: Amounts) -> str:
    words = f"minimum {name} usage per {kind} is {bound}"
    if name not in requests:
        return f"{words}.  No request is specified"
    if _above(bound, requests[name]):
        return f"{words}, but request is {requests[name]}"
    if name in limits and _above(bound, limits[name]):
        return f"{words}, but limit is {limits[name]}"
    return ""


def _most_requested(kind: str, name: str, bound: str, requests: Amounts, limits: Amounts) -> str:
    words = f"maximum {name} usage per {kind} is {bound}"
    if name not in requests:
        return f"{words}.  No request is specified"
    return f"{words}, but request is {requests[name]}" if _above(requests[name], bound) else ""


def _most(kind: str, name: str, bound: str, requests: Amounts, limits: Amounts) -> str:
    words = f"maximum {name} usage per {kind} is {bound}"
    if name not in limits:
        return f"{words}.  No limit is specified"
    if _above(limits[name], bound):
        return f"{words}, but limit is {limits[name]}"
    if name in requests and _above(requests[name], bound):
        return f"{words}, but request is {requests[name]}"
    return ""


def _ratio(kind: str, name: str, bound: str, requests: Amounts, limits: Amounts) -> str:
    words = f"{name} max limit to request ratio per {kind} is {bound}"
    request, limit = quantity.exact(requests.get(name, 0)), quantity.exact(limits.get(name, 0))
    if not request:
        return f"{words}, but no request is specified or request is 0"
    if not limit:
        return f"{words}, but no limit is specified or limit is 0"
    if limit * quantity.exact(1) > request * quantity.exact(bound):
        return f"{words}, but provided ratio is {limit / request:f}"
    return ""


_CONSTRAINTS: tuple[tuple[str, _Constraint], ...] = (
    ("min", _least),
    ("max", _most),
    ("maxLimitRequestRatio", _ratio),
)
