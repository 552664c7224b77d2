"""What the pods of replicated jobs request: of each, in sum, and at most at the same time.

The most at the same time is the heaviest set of replicated jobs of which none must be complete before another one's
stage begins: a heaviest antichain, found for each resource as a flow (what chains can share is not needed twice).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ....api.objects import pod_amounts
from ....api.objects.subtree import items, mapping
from ....api.scheme import PODS, Object
from ....base import quantity
from ..model import JobSet, ReplicatedJob
from .partition import Stage

Amounts = Mapping[str, str]


def pod_of(js: JobSet, rj: ReplicatedJob) -> Object:
    """A pod as the template will make it, with the requests that the server derives from limits."""
    template = mapping(rj.tree, "spec", "template")
    spec = dict(mapping(template, "spec"))
    for part in ("containers", "initContainers"):
        if part in spec:
            spec[part] = [_with_requests(container) for container in items(spec, part) if isinstance(container, dict)]
    if "overhead" in spec:
        spec["overhead"] = _readable(mapping(spec, "overhead"))
    return {"metadata": {"namespace": js.namespace, "name": rj.name}, "spec": _readable_resources(spec)}


def _with_requests(container: Object) -> Object:
    container = _readable_resources(container)
    limits = mapping(container, "resources", "limits")
    if not limits:
        return container
    resources = mapping(container, "resources")
    return {**container, "resources": {**resources, "requests": {**limits, **mapping(resources, "requests")}}}


def _readable_resources(part: Object) -> Object:
    """Templates are not validated: an amount that is none (its Job will be refused) counts as absent."""
    resources = mapping(part, "resources")
    if not resources:
        return part
    kept = {name: _readable(mapping(resources, name)) for name in ("requests", "limits") if name in resources}
    return {**part, "resources": {**resources, **kept}}


def _readable(amounts: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, amount in amounts.items():
        with suppress(ValueError, TypeError):
            if quantity.exact(amount) >= 0:
                found[name] = quantity.canonical(amount)
    return found


def requests_of(js: JobSet, rj: ReplicatedJob, pods: int) -> dict[str, str]:
    """What so many pods of a replicated job request, with their number."""
    if pods <= 0:
        return {}
    return multiple(pod_amounts.total(pod_of(js, rj)["spec"], "requests") | {PODS.plural: "1"}, pods)


def multiple(amounts: Amounts, count: int) -> dict[str, str]:
    return {name: quantity.times(amount, count) for name, amount in amounts.items()}


def total(many: Iterable[Amounts]) -> dict[str, str]:
    """The sum by resource, in the order of names; what is zero is left out."""
    sums: dict[str, str] = {}
    for amounts in many:
        for name, amount in amounts.items():
            sums[name] = quantity.plus(sums[name], amount) if name in sums else amount
    return {name: sums[name] for name in sorted(sums) if sums[name] != "0"}


def peak(js: JobSet, stages: Sequence[Stage], needs: Mapping[str, Amounts]) -> dict[str, str]:
    """The most of each resource that can be needed at the same time; `needs` by replicated job."""
    sums = total(needs.values())
    later = _later(js, stages)
    return {name: _heaviest(later, needs, name, sums[name]) for name in sums}


def _later(js: JobSet, stages: Sequence[Stage]) -> dict[str, list[str]]:
    """For each replicated job, those whose stage begins only after it is complete."""
    return {
        rj.name: [later.name for stage in stages if stage.after >> position & 1 for later in stage.members]
        for position, rj in enumerate(js.replicated)
    }


def _heaviest(later: Mapping[str, Sequence[str]], needs: Mapping[str, Amounts], resource: str, sum_: str) -> str:
    weights = {name: quantity.exact(needs[name].get(resource, "0")) for name in later}
    return quantity.minus(sum_, f"{_shared(later, weights)}n")


def _shared(later: Mapping[str, Sequence[str]], weights: Mapping[str, int]) -> int:
    """The largest flow from every element, up to its weight, to elements after it, up to theirs."""
    out, taken = dict(weights), dict(weights)
    flow: dict[tuple[str, str], int] = {}
    sent = 0
    while True:
        path = _augmenting(later, out, taken, flow)
        if path is None:
            return sent
        backwards = [flow[sender, receiver] for receiver, sender in zip(path[1::2], path[2::2], strict=False)]
        amount = min(out[path[0]], taken[path[-1]], *backwards)
        for sender, receiver in zip(path[::2], path[1::2], strict=True):
            flow[sender, receiver] = flow.get((sender, receiver), 0) + amount
        for receiver, sender in zip(path[1::2], path[2::2], strict=False):
            flow[sender, receiver] -= amount
        out[path[0]] -= amount
        taken[path[-1]] -= amount
        sent += amount


def _augmenting(
    later: Mapping[str, Sequence[str]],
    out: Mapping[str, int],
    taken: Mapping[str, int],
    flow: Mapping[tuple[str, str], int],
) -> list[str] | None:
    """A shortest path from a sender with something left to a receiver with room: sender, receiver, sender, …"""
    came: dict[tuple[str, str], str] = {}  # (side, element) → the element before
    queue = deque(("sender", name) for name in sorted(out) if out[name])
    started = set(queue)
    senders_of: dict[str, list[str]] = {}
    for (sender, receiver), amount in sorted(flow.items()):
        if amount:
            senders_of.setdefault(receiver, []).append(sender)
    while queue:
        side, name = queue.popleft()
        if side == "receiver" and taken[name]:
            return _way(came, started, name)
        other = "receiver" if side == "sender" else "sender"
        for following in later[name] if side == "sender" else senders_of.get(name, ()):
            step = (other, following)
            if step not in started and step not in came:
                came[step] = name
                queue.append(step)
    return None


def _way(came: Mapping[tuple[str, str], str], started: set[tuple[str, str]], last: str) -> list[str]:
    way, side = [last], "receiver"
    while (side, way[-1]) not in started:
        way.append(came[side, way[-1]])
        side = "sender" if side == "receiver" else "receiver"
    return way[::-1]
