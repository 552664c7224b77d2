"""What uses the rights of an installation, in steps of a few seconds: each makes objects in a namespace of its own.

A step ends when the programs have done what it is for; some wait for ever when a right is missing, which the log shows.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from echelon.agents.simulated_volumes import PROVISIONER
from echelon.api.errors import ApiError
from echelon.api.group_kinds import to_own
from echelon.api.objects import meta
from echelon.api.objects.builtin_runtimes import builtin_runtimes
from echelon.api.objects.foreign_gangs import FOREIGN_GANGS
from echelon.api.objects.vocabulary import JOB_SCHEDULING
from echelon.api.schema.decoding import copy_tree
from echelon.api.scheme import (
    CLUSTER_TRAINING_RUNTIMES,
    COMPOSITE_POD_GROUPS,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    JOB_SETS,
    JOBS,
    NAMESPACES,
    NODES,
    OWN_POD_GROUPS,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    TRAIN_JOBS,
    VOLUME_CLAIMS,
    VOLUMES,
    WORKLOADS,
    Object,
    Resource,
    by_kind,
)
from echelon.api.verbs import DeleteOptions, Patch, PatchType, Verbs, WatchOptions
from echelon.client.group_dialect import GroupDialect
from echelon.deploy.admission.kinds import VALIDATING_BINDINGS, VALIDATING_POLICIES
from echelon.testing.builders import (
    composite_template,
    group_template,
    make_composite,
    make_node,
    make_pod,
    make_pod_group,
    make_workload,
)
from echelon.testing.device_builders import (
    claiming,
    make_claim_template,
    make_device_class,
    make_request,
    make_resource_claim,
    make_slice,
)
from tests.integration.test_scheduler_late_volumes import LATE
from tests.integration.test_scheduler_volumes import make_class, make_volume, using

from .job_objects import jobset, plain_job, train_job
from .open_definitions import open_definition
from .test_stages import entry
from .test_stages import jobset as staged
from .waiting import eventually
from .work_places import namespace_with_account

LOCAL, MADE = "rights-local", "rights-made"
HIGH = "rights-high"
_PATIENCE_SECONDS = 180.0


class Place:
    """A namespace of its own for one run of a step."""

    def __init__(self, verbs: Verbs, namespace: str) -> None:
        self.verbs = verbs
        self.namespace = namespace

    async def make(self, *objects: Object) -> None:
        for obj in objects:
            resource = by_kind(obj["apiVersion"], obj["kind"])
            assert resource is not None
            made = copy_tree(obj)
            if resource.namespaced:
                made["metadata"]["namespace"] = self.namespace
            await self.verbs.create(resource, made, self.namespace if resource.namespaced else "")

    async def patch(self, resource: Resource, name: str, body: Object, status: bool = False) -> None:
        patch = Patch(PatchType.MERGE, body)
        await self.verbs.patch(resource, name, patch, self.namespace, "status" if status else "")

    async def bound(self, count: int) -> None:
        async def look() -> int:
            return sum(bool(pod["spec"].get("nodeName")) for pod in await self.pods())

        await eventually(look, count)

    async def pods(self) -> list[Object]:
        return (await self.verbs.list(PODS, self.namespace)).items

    async def has(self, resource: Resource, name: str, condition: str) -> None:
        async def look() -> bool:
            with suppress(ApiError):
                return meta.condition_is(await self.verbs.get(resource, name, self.namespace), condition)
            return False

        await eventually(look)

    async def none(self, resource: Resource) -> None:
        async def look() -> int:
            return len((await self.verbs.list(resource, self.namespace)).items)

        await eventually(look, 0)

    async def finish_pods(self, phase: str = "Succeeded") -> None:
        """What kubelets would do."""
        for pod in await self.pods():
            status: Object = {"phase": phase}
            with suppress(ApiError):
                await self.patch(PODS, meta.name(pod), {"status": status}, status=True)

    async def clear(self) -> None:
        for resource in (TRAIN_JOBS, JOB_SETS, JOBS, POD_GROUPS, WORKLOADS):
            for obj in (await self.verbs.list(resource, self.namespace)).items:
                with suppress(ApiError):
                    await self.verbs.delete(
                        resource, meta.name(obj), self.namespace, DeleteOptions(propagation="Background")
                    )
        for pod in await self.pods():
            with suppress(ApiError):
                await self.verbs.delete(PODS, meta.name(pod), self.namespace, DeleteOptions(grace_period_seconds=0))
        with suppress(ApiError):
            await self.verbs.delete(NAMESPACES, self.namespace)


def pod(name: str, **more: Any) -> Object:
    return make_pod(name, schedulerName="echelon", **more)


# -- the scheduler --------------------------------------------------------------------------------------


async def gang(at: Place) -> None:
    await at.make(make_pod_group("g", gang=2), pod("a", group="g"), pod("b", group="g"))
    await at.bound(2)
    await at.has(POD_GROUPS, "g", "PodGroupInitiallyScheduled")


async def gang_of_a_class(at: Place) -> None:
    """As a user writes it: no admission fills in the priority of our own groups."""
    group = make_pod_group("g", gang=1, namespace=at.namespace)
    group["spec"] = {"schedulingPolicy": group["spec"]["schedulingPolicy"], "priorityClassName": HIGH}
    if isinstance(at.verbs, GroupDialect):
        await at.verbs.create(OWN_POD_GROUPS, to_own(group), at.namespace)
    else:
        await at.make(group)
    await at.make(pod("a", group="g", priorityClassName=HIGH))
    await at.bound(1)


async def tree(at: Place) -> None:
    template = composite_template("top", group_template("leaf", gang=1), gang=1)
    await at.make(make_workload("w", template), make_composite("top", gang=1, workload="w", template="top"))
    await at.make(make_pod_group("leaf", gang=1, parent="top", workload="w", template="leaf"))
    await at.make(pod("a", group="leaf"))
    await at.has(COMPOSITE_POD_GROUPS, "top", "CompositePodGroupInitiallyScheduled")


async def blocked(at: Place) -> None:
    """Too large; told once more in the same words when a node that was larger than the others has gone again."""
    node = f"{at.namespace}-node"
    await at.make(pod("large", cpu=9000))
    await eventually(lambda: _told(at, "has 2k"))
    await at.verbs.create(NODES, make_node(node, cpu=3000))
    try:
        await eventually(lambda: _told(at, "has 3k"))
    finally:
        await at.verbs.delete(NODES, node)
    await eventually(lambda: _told(at, "has 2k", times=2))


async def _told(at: Place, words: str, times: int = 1) -> bool:
    """Whether an event says so; if not, the pod is changed, so that it is decided about once more."""
    events = (await at.verbs.list(EVENTS, at.namespace)).items
    if any(words in one["message"] and one.get("count", 0) >= times for one in events):
        return True
    await at.patch(PODS, "large", {"metadata": {"labels": {"looked": str(time.monotonic_ns())}}})
    await asyncio.sleep(2)
    return False


async def preemption(at: Place) -> None:
    node = f"{at.namespace}-node"
    chosen = {"kubernetes.io/hostname": node}
    await at.verbs.create(NODES, make_node(node, cpu=2))
    try:
        await at.make(pod("low", cpu=2, nodeSelector=chosen))
        await at.bound(1)
        await at.make(pod("high", cpu=2, nodeSelector=chosen, priorityClassName=HIGH))

        async def leaves() -> bool:
            low = [one for one in await at.pods() if meta.name(one) == "low"]
            return not low or meta.deleting(low[0])

        await eventually(leaves)
    finally:
        await at.verbs.delete(NODES, node)


async def refused_binding(at: Place) -> None:
    """A policy of the cluster forbids it, so the pod is read once more."""
    await _forbidden(at)
    await at.make(pod("a"))
    await asyncio.sleep(6)
    assert not any(one["spec"].get("nodeName") for one in await at.pods())


async def free_volume(at: Place) -> None:
    volume = make_volume(f"{at.namespace}-v", "worker-0")
    volume["spec"] |= {"storageClassName": LOCAL, "capacity": {"storage": "1Gi"}}
    await at.make(volume, _claim("c", LOCAL), pod("a", volumes=using("c")))
    await at.bound(1)
    await at.verbs.delete(VOLUMES, f"{at.namespace}-v")


async def made_volume(at: Place) -> None:
    """Nobody makes the volume: what counts is that it is asked for."""
    await at.make(_claim("c", MADE), pod("a", volumes=using("c")))

    async def asked() -> bool:
        claim = await at.verbs.get(VOLUME_CLAIMS, "c", at.namespace)
        return "volume.kubernetes.io/selected-node" in meta.annotations(claim)

    await eventually(asked)


async def volumes_given_back(at: Place) -> None:
    """Of two claims of a gang one is refused, so the volume of the other is free again."""
    await _forbidden(at)
    volume = make_volume(f"{at.namespace}-v", "worker-0")
    volume["spec"] |= {"storageClassName": LOCAL, "capacity": {"storage": "1Gi"}}
    await at.make(volume, _claim("free", LOCAL), _claim("refused", MADE), make_pod_group("g", gang=2))
    taken = asyncio.create_task(_taken_back(at, VOLUMES, f"{at.namespace}-v", "spec", "claimRef"))
    await at.make(pod("a", group="g", volumes=using("free")), pod("b", group="g", volumes=using("refused")))
    await taken
    await at.verbs.delete(VOLUMES, f"{at.namespace}-v")


async def devices_given_back(at: Place) -> None:
    """The same with devices."""
    await _forbidden(at)
    await at.make(make_resource_claim("free"), make_resource_claim("refused"), make_pod_group("g", gang=2))
    taken = asyncio.create_task(_taken_back(at, RESOURCE_CLAIMS, "free", "status", "allocation"))
    await at.make(pod("a", group="g", resourceClaims=claiming("free")))
    await at.make(pod("b", group="g", resourceClaims=claiming("refused")))
    await taken


async def devices(at: Place) -> None:
    await at.make(make_claim_template("one", make_request(count=1)))
    await at.make(pod("a", resourceClaims=claiming(template="one")))
    await at.bound(1)


# -- the controllers ------------------------------------------------------------------------------------


async def jobset_gang(at: Place) -> None:
    made = jobset("js", scheduling={"schedulingPolicy": {"gang": {}}})
    policy = {"templates": [{"metadata": {"name": "data"}, "spec": _claim("data", LOCAL)["spec"]}]}
    made["spec"]["volumeClaimPolicies"] = [policy]
    container = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    await at.make(made)
    await eventually(lambda: _count(at, PODS), 4)
    await at.patch(JOB_SETS, "js", {"spec": {"suspend": True}})
    await at.has(JOB_SETS, "js", "Suspended")
    await at.patch(JOB_SETS, "js", {"spec": {"suspend": False}})
    await eventually(lambda: _count(at, PODS), 4)


async def jobset_tree(at: Place) -> None:
    jobs = {"targetReplicatedJobs": ["workers"], "job": {"schedulingPolicy": {"gang": {}}}}
    await at.make(jobset("js", scheduling={"schedulingPolicy": {"gang": {}}, "replicatedJobs": [jobs]}))
    await eventually(lambda: _count(at, PODS), 4)
    await at.patch(JOB_SETS, "js", {"spec": {"suspend": True}})
    await at.none(COMPOSITE_POD_GROUPS)


async def jobset_restart(at: Place) -> None:
    made = jobset("js", failurePolicy={"maxRestarts": 3}, scheduling={"schedulingPolicy": {"gang": {}}})
    made["spec"]["replicatedJobs"][0]["template"]["spec"]["backoffLimit"] = 0
    await at.make(made)
    await eventually(lambda: _count(at, PODS), 4)
    await at.finish_pods("Failed")

    async def restarts() -> bool:
        return bool((await at.verbs.get(JOB_SETS, "js", at.namespace)).get("status", {}).get("restarts"))

    await eventually(restarts)
    await asyncio.sleep(2)


async def jobset_elastic(at: Place) -> None:
    """Its gang grows with it."""
    made = jobset("js", scheduling={"schedulingPolicy": {"gang": {}}})
    await at.make(made)
    await eventually(lambda: _count(at, PODS), 4)
    entries = copy_tree(made["spec"]["replicatedJobs"])
    entries[0]["template"]["spec"] |= {"parallelism": 3, "completions": 3}
    await at.patch(JOB_SETS, "js", {"spec": {"replicatedJobs": entries}})
    await eventually(lambda: _count(at, PODS), 6)


async def jobset_end(at: Place) -> None:
    made = jobset("js", ttlSecondsAfterFinished=1)
    await at.make(made)
    await eventually(lambda: _count(at, PODS), 4)
    await at.finish_pods()
    await at.none(JOB_SETS)


async def jobset_refused(at: Place) -> None:
    """Its Service is refused by a policy of the cluster, again and again, which one event tells."""
    await _forbidden(at)
    await at.make(jobset("js"))
    await eventually(lambda: _repeated(at))


async def train(at: Place) -> None:
    await at.make(_train("tj", "torch-distributed-gang"))
    await eventually(lambda: _count(at, PODS), 2)
    await at.patch(TRAIN_JOBS, "tj", {"spec": {"suspend": True}})
    await at.has(TRAIN_JOBS, "tj", "Suspended")
    await asyncio.sleep(2)
    await at.patch(TRAIN_JOBS, "tj", {"spec": {"suspend": False}})
    await eventually(lambda: _count(at, PODS), 2)


async def train_mpi(at: Place) -> None:
    """Somebody changes the list of its hosts, which is put right."""
    await at.make(_train("tj", "deepspeed-distributed", numNodes=1))
    await eventually(lambda: _count(at, PODS), 1)
    name = "tj-mpi-hostfile"
    right = (await at.verbs.get(CONFIG_MAPS, name, at.namespace))["data"]
    await at.patch(CONFIG_MAPS, name, {"data": {"hostfile": "elsewhere"}})

    async def hosts() -> Object:
        return dict((await at.verbs.get(CONFIG_MAPS, name, at.namespace))["data"])

    await eventually(hosts, right)


async def train_end(at: Place) -> None:
    made = train_job("tj", "plain-cpu")
    made["spec"]["ttlSecondsAfterFinished"] = 1
    await at.make(made)
    await eventually(lambda: _count(at, PODS), 2)
    await at.finish_pods()
    await at.none(TRAIN_JOBS)


async def train_late(at: Place) -> None:
    """It misses its deadline, so its JobSet goes."""
    made = train_job("tj", "plain-cpu")
    made["spec"]["activeDeadlineSeconds"] = 2
    await at.make(made)
    await at.has(TRAIN_JOBS, "tj", "Failed")
    await at.none(JOB_SETS)


async def train_foreign(at: Place) -> None:
    """Groups of other schedulers, which somebody changes while the TrainJob is suspended."""
    for gang_kind in FOREIGN_GANGS:
        name = f"tj-{gang_kind.policy}"
        made = train_job(name, f"rights-{gang_kind.policy}")
        made["spec"]["suspend"] = True
        await at.make(made)
        kind = Resource(gang_kind.group, gang_kind.version, "podgroups", "PodGroup")

        async def members(kind: Resource = kind, name: str = name) -> int:
            with suppress(ApiError):
                return int((await at.verbs.get(kind, name, at.namespace))["spec"]["minMember"])
            return 0

        await eventually(members, 2)
        await at.patch(kind, name, {"spec": {"minMember": 7}})
        await eventually(members, 2)


async def stages(at: Place) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "50"}}}
    await at.verbs.create(RESOURCE_QUOTAS, quota, at.namespace)
    await at.make(staged("js", entry("work", "1", 4)))
    await eventually(lambda: _count(at, PODS), 1)


async def job_group(at: Place) -> None:
    """A Job of the cluster's own controller that asks for a gang."""
    job = plain_job("job", 2, **{JOB_SCHEDULING: '{"schedulingPolicy": {"gang": {}}}'})
    job["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": "job"}
    await at.make(job)
    await at.has(POD_GROUPS, "job", "PodGroupInitiallyScheduled")


STEPS: dict[str, Callable[[Place], Awaitable[None]]] = {
    step.__name__: step
    for step in (
        gang, gang_of_a_class, tree, blocked, preemption, refused_binding, free_volume, made_volume, volumes_given_back,
        devices, devices_given_back,
        jobset_gang, jobset_tree, jobset_restart, jobset_elastic, jobset_end, jobset_refused,
        train, train_mpi, train_end, train_late, train_foreign, stages, job_group,
    )
}  # fmt: skip


async def _forbidden(at: Place) -> None:
    await at.patch(NAMESPACES, at.namespace, {"metadata": {"labels": {"nothing-here": "true"}}})
    await asyncio.sleep(1)  # admission learns of it by a watch


async def _repeated(at: Place) -> bool:
    """Whether an event was told more than once."""
    return any(event.get("count", 0) > 1 for event in (await at.verbs.list(EVENTS, at.namespace)).items)


async def _taken_back(at: Place, resource: Resource, name: str, *path: str) -> None:
    """Wait until an object has had a field and has it no more."""
    namespace = at.namespace if resource.namespaced else ""
    since = (await at.verbs.get(resource, name, namespace))["metadata"]["resourceVersion"]
    had = False
    async with asyncio.timeout(_PATIENCE_SECONDS):
        async for event in at.verbs.watch(resource, namespace, WatchOptions(resource_version=since)):
            if meta.name(event.object) == name:
                has = bool(event.object.get(path[0], {}).get(path[1]))
                if had and not has:
                    return
                had = had or has


async def _count(at: Place, resource: Resource) -> int:
    found = (await at.verbs.list(resource, at.namespace)).items
    return sum(not meta.deleting(one) for one in found)


def _claim(name: str, storage_class: str) -> Object:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": storage_class,
    }
    return {"apiVersion": "v1", "kind": VOLUME_CLAIMS.kind, "metadata": {"name": name}, "spec": spec}


def _train(name: str, runtime: str, **trainer: Any) -> Object:
    return train_job(name, runtime, image="busybox", resourcesPerNode={"requests": {"cpu": "1"}}, **trainer)


# -- what all steps need --------------------------------------------------------------------------------


async def new_place(verbs: Verbs, name: str) -> Place:
    return Place(verbs, await namespace_with_account(verbs, name))


async def furnish(verbs: Verbs) -> None:
    """Nodes, classes, definitions of others, a policy that forbids bindings and Services in some namespaces."""
    at = Place(verbs, "default")
    for number in range(2):
        await at.make(make_node(f"worker-{number}", cpu=2000, pods=5000), make_slice(f"worker-{number}", 100))
    await at.make(make_device_class(), make_class(LOCAL, LATE), {**make_class(MADE, LATE), "provisioner": PROVISIONER})
    await verbs.create(PRIORITY_CLASSES, {"metadata": {"name": HIGH}, "value": 1000})
    for gang_kind in FOREIGN_GANGS:
        await verbs.create(
            CUSTOM_RESOURCE_DEFINITIONS, open_definition(gang_kind.group, gang_kind.version, "podgroups", "PodGroup")
        )
    await _forbid(verbs)


async def furnish_runtimes(verbs: Verbs) -> None:
    """Once the kinds are there."""
    runtimes = {meta.name(one): one for one in builtin_runtimes()}
    wanted = [copy_tree(runtimes[name]) for name in ("torch-distributed-gang", "deepspeed-distributed", "plain-cpu")]
    for gang_kind in FOREIGN_GANGS:
        wanted.append(_runtime(runtimes["plain-cpu"], f"rights-{gang_kind.policy}"))
        wanted[-1]["spec"]["podGroupPolicy"] = {gang_kind.policy: {}}
    for runtime in wanted:
        await verbs.create(CLUSTER_TRAINING_RUNTIMES, runtime)


def _runtime(like: Object, name: str) -> Object:
    made: Object = copy_tree(like)
    made["metadata"] = {"name": name, "labels": meta.labels(like)}
    return made


async def _forbid(verbs: Verbs) -> None:
    api = "admissionregistration.k8s.io/v1"

    def rule(group: str, operation: str, *resources: str) -> Object:
        return {"apiGroups": [group], "apiVersions": ["v1"], "operations": [operation], "resources": list(resources)}

    rules = [
        rule("", "CREATE", "pods/binding", "services"),
        rule("", "UPDATE", "persistentvolumeclaims"),
        rule("resource.k8s.io", "UPDATE", "resourceclaims/status"),
    ]
    # Of devices only those of one claim are refused.
    allowed = "request.resource.resource == 'resourceclaims' && object.metadata.name != 'refused'"
    policy = {
        "apiVersion": api,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "nothing-here"},
        "spec": {
            "matchConstraints": {"resourceRules": rules},
            "validations": [{"expression": allowed, "message": "nothing is made here", "reason": "Invalid"}],
        },
    }
    chosen = {"namespaceSelector": {"matchLabels": {"nothing-here": "true"}}}
    binding = {
        "apiVersion": api,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "nothing-here"},
        "spec": {"policyName": "nothing-here", "validationActions": ["Deny"], "matchResources": chosen},
    }
    await verbs.create(VALIDATING_POLICIES, policy)
    await verbs.create(VALIDATING_BINDINGS, binding)
