"""Kubelets at the edge of a real control plane, which has none: they admit pods that fit and refuse the others.

A kubelet counts what it runs, not what schedulers thought: of two pods that were bound to the same room it fails the
second, as `OutOfcpu`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

from echelon.api.errors import ApiError
from echelon.api.objects import meta, pod_amounts
from echelon.api.scheme import PODS, Object
from echelon.api.verbs import DeleteOptions, Patch, PatchType, Verbs
from echelon.base import quantity

_POLL_SECONDS = 0.1


class Kubelets:
    """The kubelets of some nodes, by their CPUs; pods are taken in the order in which they were last written."""

    def __init__(self, verbs: Verbs, namespace: str, cpus: Mapping[str, int]) -> None:
        self._verbs = verbs
        self._namespace = namespace
        self._cpus = dict(cpus)
        #: Names of pods that were refused.
        self.refused: list[str] = []
        self._go_on = asyncio.Event()
        self._go_on.set()

    def add(self, node: str, cpus: int) -> None:
        """A node that came later."""
        self._cpus[node] = cpus

    def pause(self) -> None:
        """Take no pod until `resume`: what is bound meanwhile waits."""
        self._go_on.clear()

    def resume(self) -> None:
        self._go_on.set()

    async def admit_first(self, name: str) -> None:
        """Let a pod run before all others that wait."""
        await self._admit(await self._verbs.get(PODS, name, self._namespace), fits=True)

    async def run(self) -> None:
        while True:
            await self._go_on.wait()
            with suppress(ApiError):
                await self._look()
            await asyncio.sleep(_POLL_SECONDS)

    async def _look(self) -> None:
        pods = (await self._verbs.list(PODS, self._namespace)).items
        used = dict.fromkeys(self._cpus, 0)
        for pod in pods:
            if pod["status"]["phase"] == "Running" and pod["spec"].get("nodeName") in used:
                used[pod["spec"]["nodeName"]] += _cpu(pod)
        for pod in sorted(pods, key=lambda pod: int(pod["metadata"]["resourceVersion"])):
            node = pod["spec"].get("nodeName")
            if node not in used or not self._go_on.is_set():
                continue
            if meta.deleting(pod):
                gone = DeleteOptions(grace_period_seconds=0, uid=meta.uid(pod))
                await self._verbs.delete(PODS, meta.name(pod), self._namespace, gone)
            elif pod["status"]["phase"] == "Pending":
                fits = used[node] + _cpu(pod) <= self._cpus[node] * 1000
                used[node] += _cpu(pod) if fits else 0
                await self._admit(pod, fits=fits)

    async def _admit(self, pod: Object, *, fits: bool) -> None:
        status: Object = {"phase": "Running"}
        if not fits:
            self.refused.append(meta.name(pod))
            status = {"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu"}
        patch = Patch(PatchType.MERGE, {"status": status})
        await self._verbs.patch(PODS, meta.name(pod), patch, self._namespace, "status")


def _cpu(pod: Object) -> int:
    return quantity.parse(pod_amounts.total(pod["spec"], "requests").get("cpu", "0"), "cpu")


@asynccontextmanager
async def kubelets(verbs: Verbs, namespace: str, cpus: Mapping[str, int]) -> AsyncIterator[Kubelets]:
    """At work while the block lasts."""
    made = Kubelets(verbs, namespace, cpus)
    task = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
