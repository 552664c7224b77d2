"""Gangs that a test submits, and where their pods are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from echelon.api.objects import meta
from echelon.api.scheme import POD_GROUPS, PODS
from echelon.api.verbs import Verbs
from echelon.testing.builders import make_pod, make_pod_group


async def submit_gang(verbs: Verbs, namespace: str, node: str, group: str, scheduler: str = "echelon") -> list[str]:
    """A gang of three that fits on the node; the names of its pods."""
    await verbs.create(POD_GROUPS, make_pod_group(group, gang=3, namespace=namespace), namespace)
    names = [f"{group}-{number}" for number in range(3)]
    for name in names:
        pod = make_pod(
            name, group=group, namespace=namespace, schedulerName=scheduler,
            nodeSelector={"kubernetes.io/hostname": node},
        )  # fmt: skip
        await verbs.create(PODS, pod, namespace)
    return names


def places(verbs: Verbs, namespace: str, names: list[str]) -> Callable[[], Awaitable[set[str]]]:
    async def look() -> set[str]:
        return {(await verbs.get(PODS, name, namespace))["spec"].get("nodeName", "") for name in names}

    return look


async def count_bound(verbs: Verbs, namespace: str, prefix: str = "") -> int:
    """How many pods of such names have a node."""
    pods = (await verbs.list(PODS, namespace)).items
    return sum(meta.name(pod).startswith(prefix) and bool(pod["spec"].get("nodeName")) for pod in pods)
