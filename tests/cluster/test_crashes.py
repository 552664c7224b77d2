"""A scheduler process that is killed while it binds: whoever comes next leaves every gang whole."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.scheme import NODES, POD_GROUPS, PODS
from echelon.api.verbs import DeleteOptions, Verbs
from echelon.deploy.options import SCHEDULER
from echelon.testing.builders import make_node, make_pod, make_pod_group

from .conftest import Side
from .gangs import count_bound
from .process import echelon

GANGS, MEMBERS = 50, 3
ROUNDS = 20 if os.environ.get("ECHELON_LONG") else 2
#: On a machine that has a core for everyone who wants one; where they share, it takes them longer in proportion.
_WHOLE_SECONDS = 10.0
_PATIENCE_SECONDS = 240.0


def _whole_seconds() -> float:
    return _WHOLE_SECONDS * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


async def submit(verbs: Verbs, namespace: str, node: str) -> None:
    """Gangs that all fit on one node, whose pods come before the groups, so that binding begins in a burst."""
    await verbs.create(NODES, make_node(node, cpu=GANGS * MEMBERS, memory="1Ti", pods=GANGS * MEMBERS))
    pods = [
        make_pod(
            f"g{gang}-{member}", group=f"g{gang}", namespace=namespace, schedulerName="echelon",
            nodeSelector={"kubernetes.io/hostname": node},
        )
        for gang in range(GANGS)
        for member in range(MEMBERS)
    ]  # fmt: skip
    await asyncio.gather(*(verbs.create(PODS, pod, namespace) for pod in pods))
    groups = [make_pod_group(f"g{gang}", gang=MEMBERS, namespace=namespace) for gang in range(GANGS)]
    await asyncio.gather(*(verbs.create(POD_GROUPS, group, namespace) for group in groups))


async def remove(verbs: Verbs, namespace: str, node: str) -> None:
    now = DeleteOptions(grace_period_seconds=0)
    for resource in (PODS, POD_GROUPS):
        for obj in (await verbs.list(resource, namespace)).items:
            with suppress(ApiError):
                await verbs.delete(resource, meta.name(obj), namespace, now)
    await verbs.delete(NODES, node)


@pytest.mark.long
@pytest.mark.parametrize("chance", range(ROUNDS))
async def test_gangs_are_whole_soon_after_a_death_while_binding(
    side: Side, namespace: str, chance: int, record_property: Callable[[str, object], None]
) -> None:
    node = f"{namespace}-node"
    command = ("scheduler", "--no-leader-elect", "--kubeconfig", side.acting_as(SCHEDULER).kubeconfig)
    await submit(side.verbs, namespace, node)
    async with echelon(*command) as first:
        # A little later in every round, so that death comes at many moments; from half on it would come too late.
        await _until_bound(side.verbs, namespace, 1 + chance * GANGS * MEMBERS // (2 * ROUNDS))
        await first.end(signal.SIGKILL)
    record_property("bound at death", await count_bound(side.verbs, namespace))
    begin = time.monotonic()
    async with echelon(*command) as second:
        await second.says("is ready at")
        await _until_bound(side.verbs, namespace, GANGS * MEMBERS)
        record_property("seconds until whole", time.monotonic() - begin)
        assert time.monotonic() - begin < _whole_seconds()
        await _all_say_so(side.verbs, namespace, begin)
        assert await second.end() == 0
    await remove(side.verbs, namespace, node)


async def _until_bound(verbs: Verbs, namespace: str, wanted: int) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while (count := await count_bound(verbs, namespace)) < wanted:
        assert time.monotonic() < deadline, f"only {count} of {wanted} pods are bound"


async def _all_say_so(verbs: Verbs, namespace: str, begin: float) -> None:
    while True:
        groups = (await verbs.list(POD_GROUPS, namespace)).items
        waiting = [meta.name(one) for one in groups if not meta.condition_is(one, "PodGroupInitiallyScheduled")]
        if not waiting:
            return
        assert time.monotonic() - begin < _whole_seconds(), f"not said to be scheduled: {waiting}"
        await asyncio.sleep(0.05)
