"""A namespace with nodes of its own on a real control plane, where Echelon is at work as it is installed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.objects.vocabulary import JOB_SCHEDULING, POD_GROUP
from echelon.api.scheme import (
    NAMESPACES,
    NODES,
    OWN_POD_GROUPS,
    POD_GROUPS,
    PODS,
    SERVICE_ACCOUNTS,
    Object,
    Resource,
)
from echelon.api.verbs import Patch, PatchType, Verbs
from echelon.client.http import HttpVerbs
from echelon.testing.builders import make_node, make_pod, make_pod_group

from .controlplane import ControlPlane, GateSet
from .installed_programs import kubelet_for
from .installing import run
from .job_objects import plain_job
from .removal import remove_all
from .waiting import eventually


@dataclass
class Place:
    """Nodes with the label `pool` and a namespace, all of one name."""

    plane: ControlPlane
    verbs: HttpVerbs
    name: str
    #: What `echelon install` said.
    installed: str = ""

    @property
    def native(self) -> bool:
        return self.plane.gates is GateSet.ALL

    @property
    def groups(self) -> Resource:
        return POD_GROUPS if self.native else OWN_POD_GROUPS

    async def nodes(self, *names: str, cpu: int = 4, labels: dict[str, str] | None = None) -> None:
        for name in names:
            node = make_node(f"{self.name}-{name}", cpu=cpu, labels={"pool": self.name, **(labels or {})})
            await self.verbs.create(NODES, node)

    async def group(self, name: str, pods: int, **spec: Any) -> None:
        """A gang as its user writes it."""
        made = {**make_pod_group(name, gang=pods, namespace=self.name), "apiVersion": self.groups.api_version}
        made["spec"].pop("preemptionPolicy")
        made["spec"] |= spec
        await self.verbs.create(self.groups, made, self.name)

    def member(self, name: str, group: str, **pod: Any) -> Object:
        """A pod of such a gang."""
        return make_pod(
            name, group=group if self.native else "", labels={} if self.native else {POD_GROUP: group},
            namespace=self.name, schedulerName="echelon", restartPolicy="Never", **pod,
        )  # fmt: skip

    def gang_job(self, name: str, pods: int, **scheduling: Any) -> Object:
        """A Job whose pods of one CPU are a gang, said in the form that the server keeps."""
        gang = {"schedulingPolicy": {"gang": {}}, **scheduling}
        job = plain_job(name, pods, **({} if self.native else {JOB_SCHEDULING: json.dumps(gang)}))
        if self.native:
            job["spec"]["scheduling"] = gang
        return job

    async def pods(self, prefix: str) -> list[Object]:
        return [one for one in (await self.verbs.list(PODS, self.name)).items if meta.name(one).startswith(prefix)]

    async def placed(self, prefix: str) -> int:
        return sum(bool(one["spec"].get("nodeName")) for one in await self.pods(prefix))

    async def told(self, prefix: str) -> str:
        """What the group of such a name says about itself."""
        for group in (await self.verbs.list(self.groups, self.name)).items:
            if meta.name(group).startswith(prefix):
                return str((meta.find_condition(group, "PodGroupInitiallyScheduled") or {}).get("message", ""))
        return ""

    async def finish(self, prefix: str) -> None:
        """Let its pods succeed, as their kubelets would report it."""
        for pod in await self.pods(prefix):
            patch = Patch(PatchType.MERGE, {"status": {"phase": "Succeeded"}})
            await self.verbs.patch(PODS, meta.name(pod), patch, self.name, "status")

    async def clear(self, *kinds: Resource) -> None:
        """Take away whatever is left of these kinds, and the nodes."""
        await remove_all(self.verbs, self.name, *kinds, self.groups)
        for node in (await self.verbs.list(NODES)).items:
            await self.verbs.delete(NODES, meta.name(node))


async def namespace_with_account(verbs: Verbs, name: str) -> str:
    """A namespace in which pods can be made: kube-controller-manager has given it its service account."""
    await verbs.create(NAMESPACES, {"metadata": {"name": name}})

    async def has_account() -> bool:
        with suppress(ApiError):
            return bool(await verbs.get(SERVICE_ACCOUNTS, "default", name))
        return False

    await eventually(has_account)
    return name


@asynccontextmanager
async def at_work(place: Place, home: Path) -> AsyncIterator[None]:
    """Its namespace is there, and Echelon's programs run, as `echelon install` says, while the block lasts."""
    await namespace_with_account(place.verbs, place.name)
    async with kubelet_for(place.verbs, place.plane, home) as programs:
        code, place.installed = await run(place.plane, "install")
        assert code == 0, place.installed

        async def started() -> set[str]:
            return set(programs)

        # Where an earlier test has installed it, its pods have been ready since.
        await eventually(started, {"echelon-scheduler", "echelon-controllers"})
        yield
