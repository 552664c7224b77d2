"""From submission to a clear reason, on a real control plane whose every node is taken."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from bench.blocked import Reason, time_to_reason
from echelon.api.scheme import COMPOSITE_POD_GROUPS, NAMESPACES, POD_GROUPS
from echelon.client.informer import Caches
from echelon.runtime.clocks import RealClock

from .contenders import echelon, running
from .scenarios import full_cluster, trees_that_do_not_fit
from .stage import Stage

_NAMESPACE = "full"


async def reasons(stage: Stage, scale: float) -> list[Reason]:
    nodes, fillers = full_cluster(scale)
    await stage.nodes(nodes)
    await stage.verbs.create(NAMESPACES, {"metadata": {"name": _NAMESPACE}})
    await stage.pods(fillers, _NAMESPACE)
    caches = Caches(stage.verbs, RealClock())
    for resource in (POD_GROUPS, COMPOSITE_POD_GROUPS):
        caches.of(resource)
    following = asyncio.create_task(caches.run())
    contender = replace(echelon(stage.plane, "--no-leader-elect"), waiting="is ready at")
    told = []
    try:
        async with running(contender, stage.plane.directory) as at_work:
            await at_work.is_waiting()
            await caches.wait_synced()
            await asyncio.sleep(2.0)  # it takes in what is there
            for tree in trees_that_do_not_fit():
                heard = lambda resource, key: caches.of(resource).get(key)  # noqa: E731
                told.append(await time_to_reason(stage.verbs, _NAMESPACE, tree, len(nodes), heard))
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    return told
