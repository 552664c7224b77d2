"""What people do: submit, refill, scale, suspend, delete, evict; and the accidents of single pods."""

from __future__ import annotations

from echelon.api.objects import meta
from echelon.api.scheme import (
    COMPOSITE_POD_GROUPS,
    JOB_SETS,
    JOBS,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    TRAIN_JOBS,
    WORKLOADS,
    Object,
)
from echelon.api.verbs import DeleteOptions, Propagation
from echelon.base.rng import Rng

from .api_access import ApiAccess, Event
from .manifests import NAMESPACE
from .pod_rules import APP, APPS

#: Kinds that people submit and take away again.
SUBMITTED = (JOBS, JOB_SETS, TRAIN_JOBS, POD_GROUPS, COMPOSITE_POD_GROUPS, PODS)
TEAM = "team"
HELD = "example.com/held"
_MOST_BUDGETS = 3
#: With no more nodes than this none fails under a group.
_FEWEST_NODES = 5


class UserActions:
    """Events of workloads."""

    def __init__(self, hand: ApiAccess, rng: Rng) -> None:
        self._hand = hand
        self._maker = hand.maker
        self._rng = rng
        #: Pods of groups that no controller looks after, as they were submitted.
        self._members: dict[str, list[Object]] = {}

    def chances(self) -> list[tuple[int, Event]]:
        return [
            (9, self.submit_job),
            (9, self.submit_gang_job),
            (9, self.submit_job_set),
            (4, self.submit_train_job),
            (7, self.submit_gang),
            (6, self.submit_tree),
            (7, self.submit_pod),
            (3, self.submit_elsewhere),
            (5, self.refill),
            (3, self.lose_member),
            (3, self.grow),
            (3, self.move_minimum),
            (2, self.move_group_minimum),
            (2, self.remake_group),
            (3, self.open_gates),
            (6, self.scale),
            (6, self.suspend),
            (8, self.delete),
            (3, self.delete_owned),
            (5, self.evict),
            (3, self.hold_on),
            (2, self.let_go),
            (4, self.fail),
            (2, self.relabel),
            (3, self.set_budget),
            (2, self.drop_budget),
            (2, self.change_budget),
            (2, self.delete_namespace),
        ]

    # -- submitting ------------------------------------------------------------------------------------

    async def submit_job(self) -> str:
        return await self._submit(self._maker.job())

    async def submit_gang_job(self) -> str:
        return await self._submit(self._maker.gang_job())

    async def submit_job_set(self) -> str:
        return await self._submit(self._maker.job_set())

    async def submit_train_job(self) -> str:
        return await self._submit(self._maker.train_job())

    async def submit_gang(self) -> str:
        return await self._submit(*self._maker.gang())

    async def submit_tree(self) -> str:
        return await self._submit(*self._maker.tree())

    async def submit_pod(self) -> str:
        return await self._submit(self._maker.plain_pod())

    async def submit_elsewhere(self) -> str:
        """Into a namespace of its own, which may be going away."""
        team = {"apiVersion": NAMESPACES.api_version, "kind": NAMESPACES.kind, "metadata": {"name": TEAM}}
        if TEAM not in {meta.name(one) for one in await self._hand.all(NAMESPACES)}:
            await self._hand.create(team)
        obj = self._maker.pick((self._maker.gang_job, self._maker.job_set, self._maker.train_job))()
        obj["metadata"]["namespace"] = TEAM
        await self._hand.create(obj)
        return f"submit {obj['kind']} {meta.name(obj)} to {TEAM}"

    async def _submit(self, *objects: Object) -> str:
        first = objects[0]
        said = f"submit {first['kind']} {meta.name(first)}" + (f" and {len(objects) - 1} more" if objects[1:] else "")
        for obj in self._maker.jumbled(objects) if len(objects) > 1 and self._maker.chance(15) else objects:
            group = (obj["spec"].get("schedulingGroup") or {}).get("podGroupName") if obj["kind"] == "Pod" else None
            if group:
                self._members.setdefault(group, []).append(obj)
            await self._hand.create(obj)
            if len(objects) > 1 and self._maker.chance(20):
                await self._hand.clock.sleep(self._rng.below(30) / 10)
        return said

    async def refill(self) -> str:
        """Someone puts back the members that a group without a controller has lost."""
        group = await self._unattended()
        if not group:
            return ""
        there = {meta.name(pod) for pod in await self._hand.all(PODS)}
        missing = [pod for pod in self._members[group] if meta.name(pod) not in there]
        for pod in missing:
            await self._hand.create(pod)
        return f"refill {group} with {len(missing)} pods" if missing else ""

    async def lose_member(self) -> str:
        """A node fails for good under a member of a group without a controller, and someone puts the member back."""
        group = await self._unattended()
        nodes = {meta.name(node) for node in await self._hand.all(NODES)}
        running = [pod for pod in await self._hand.all(PODS) if pod["spec"].get("nodeName") in nodes]
        mine = [pod for pod in running if _group_of(pod) == group and not meta.deleting(pod)]
        if not group or not mine or len(nodes) <= _FEWEST_NODES:
            return ""
        pod = self._maker.pick(mine)
        node = pod["spec"]["nodeName"]
        await self._hand.verbs.delete(NODES, node)
        await self._hand.verbs.delete(PODS, meta.name(pod), NAMESPACE, DeleteOptions(grace_period_seconds=0))
        await self._hand.clock.sleep(self._maker.between(0, 12))
        there = {meta.name(one) for one in await self._hand.all(PODS)}
        for lost in self._members[group]:
            if meta.name(lost) not in there:
                await self._hand.create(lost)
        return f"lose node {node} under {meta.name(pod)}, put back its group"

    async def grow(self) -> str:
        """A gang without a controller gets another member."""
        group = await self._unattended()
        if not group:
            return ""
        pod = self._maker.another(self._members[group][0])
        self._members[group].append(pod)
        await self._hand.create(pod)
        return f"grow {group} by {meta.name(pod)}"

    async def _unattended(self) -> str:
        groups = {meta.name(group): group for group in await self._hand.all(POD_GROUPS)}
        known = [name for name in sorted(self._members) if name in groups and not meta.deleting(groups[name])]
        return self._maker.pick(known) if known else ""

    # -- changing --------------------------------------------------------------------------------------

    async def scale(self) -> str:
        job = self._hand.pick_live(await self._hand.all(JOBS), owned=False)
        if job is None:
            return ""
        width = self._maker.between(0 if self._maker.chance(10) else 1, 4)
        spec = {"parallelism": width}
        if job["spec"].get("completionMode") == "Indexed" and job["spec"]["completions"] == job["spec"]["parallelism"]:
            spec = {"parallelism": max(1, width), "completions": max(1, width)}
        await self._hand.patch(JOBS, job, {"spec": spec})
        return f"scale Job {meta.name(job)} to {width}"

    async def suspend(self) -> str:
        resource = self._maker.pick((JOBS, JOB_SETS, TRAIN_JOBS))
        obj = self._hand.pick_live(await self._hand.all(resource), owned=False)
        if obj is None:
            return ""
        suspended = bool(obj["spec"].get("suspend"))
        await self._hand.patch(resource, obj, {"spec": {"suspend": not suspended}})
        return f"{'resume' if suspended else 'suspend'} {resource.kind} {meta.name(obj)}"

    async def move_minimum(self) -> str:
        groups = [one for one in await self._hand.all(POD_GROUPS) if "gang" in one["spec"]["schedulingPolicy"]]
        group = self._hand.pick_live([one for one in groups if not one["metadata"].get("ownerReferences")])
        if group is None:
            return ""
        count = self._maker.between(1, 4)
        await self._hand.patch(POD_GROUPS, group, {"spec": {"schedulingPolicy": {"gang": {"minCount": count}}}})
        return f"gang {meta.name(group)} needs {count} now"

    async def move_group_minimum(self) -> str:
        groups = [
            one for one in await self._hand.all(COMPOSITE_POD_GROUPS) if "gang" in one["spec"]["schedulingPolicy"]
        ]
        group = self._hand.pick_live([one for one in groups if not one["metadata"].get("ownerReferences")])
        if group is None:
            return ""
        count = self._maker.between(1, 3)
        policy = {"schedulingPolicy": {"gang": {"minGroupCount": count}}}
        await self._hand.patch(COMPOSITE_POD_GROUPS, group, {"spec": policy})
        return f"composite {meta.name(group)} needs {count} groups now"

    async def remake_group(self) -> str:
        """A group is taken away under its pods, whoever protects it, and made anew under its name."""
        resource = self._maker.pick((POD_GROUPS, POD_GROUPS, COMPOSITE_POD_GROUPS))
        mine = [one for one in await self._hand.all(resource) if not one["metadata"].get("ownerReferences")]
        # Without a child the rest of its tree may go where the child is not.
        group = self._hand.pick_live([one for one in mine if not one["spec"].get("parentCompositePodGroupName")])
        if group is None:
            return ""
        await self._hand.verbs.delete(resource, meta.name(group), NAMESPACE)
        if meta.name(group) in {meta.name(one) for one in await self._hand.all(resource)}:
            await self._hand.patch(resource, group, {"metadata": {"finalizers": None}})
        await self._hand.clock.sleep(self._maker.between(0, 3))
        kept = {key: value for key, value in group["metadata"].items() if key in ("name", "namespace", "annotations")}
        await self._hand.create({key: group[key] for key in ("apiVersion", "kind", "spec")} | {"metadata": kept})
        return f"{group['kind']} {meta.name(group)} is another now"

    async def open_gates(self) -> str:
        gated = [pod for pod in await self._hand.all(PODS) if pod["spec"].get("schedulingGates")]
        for pod in gated:
            await self._hand.patch(PODS, pod, {"spec": {"schedulingGates": None}})
        return f"open the gates of {len(gated)} pods" if gated else ""

    async def relabel(self) -> str:
        """A pod that others are near to or far from becomes another, in the middle of its life."""
        pod = self._hand.pick_live(await self._hand.all(PODS))
        if pod is None:
            return ""
        app = self._maker.pick(APPS)
        await self._hand.patch(PODS, pod, {"metadata": {"labels": {APP: app}}})
        return f"pod {meta.name(pod)} is {app} now"

    async def set_budget(self) -> str:
        budgets = await self._hand.all(POD_DISRUPTION_BUDGETS)
        if len(budgets) >= _MOST_BUDGETS:
            return ""
        budget = self._maker.budget()
        await self._hand.create(budget)
        return f"budget {meta.name(budget)} {budget['spec']}"

    async def drop_budget(self) -> str:
        budget = self._hand.pick_live(await self._hand.all(POD_DISRUPTION_BUDGETS))
        if budget is None:
            return ""
        await self._hand.verbs.delete(POD_DISRUPTION_BUDGETS, meta.name(budget), NAMESPACE)
        return f"delete budget {meta.name(budget)}"

    async def change_budget(self) -> str:
        budget = self._hand.pick_live(await self._hand.all(POD_DISRUPTION_BUDGETS))
        if budget is None:
            return ""
        spec = {"minAvailable": None, "maxUnavailable": None, **self._maker.budget()["spec"]}
        await self._hand.patch(POD_DISRUPTION_BUDGETS, budget, {"spec": spec})
        return f"budget {meta.name(budget)} is {spec} now"

    # -- taking away -----------------------------------------------------------------------------------

    async def delete_namespace(self) -> str:
        if TEAM not in {meta.name(one) for one in await self._hand.all(NAMESPACES) if not meta.deleting(one)}:
            return ""
        await self._hand.verbs.delete(NAMESPACES, TEAM)
        return f"delete namespace {TEAM}"

    async def delete(self) -> str:
        resource = self._maker.pick(SUBMITTED)
        objects = [one for one in await self._hand.all(resource) if not meta.deleting(one)]
        # UserActions mostly delete what they made; sometimes a part of it.
        mine = [one for one in objects if not one["metadata"].get("ownerReferences")]
        part = resource in (JOBS, PODS) and self._maker.chance(15)
        choice = objects if part else mine
        if not choice:
            return ""
        obj = self._maker.pick(choice)
        policies: tuple[Propagation, ...] = ("Background", "Background", "Foreground", "Orphan")
        policy = self._maker.pick(policies)
        await self._hand.verbs.delete(resource, meta.name(obj), NAMESPACE, DeleteOptions(policy))
        return f"delete {resource.kind} {meta.name(obj)} ({policy})"

    async def delete_owned(self) -> str:
        """A group or Workload under the hands of its controller."""
        resource = self._maker.pick((POD_GROUPS, POD_GROUPS, COMPOSITE_POD_GROUPS, WORKLOADS))
        objects = [one for one in await self._hand.all(resource) if one["metadata"].get("ownerReferences")]
        obj = self._hand.pick_live(objects)
        if obj is None:
            return ""
        await self._hand.verbs.delete(resource, meta.name(obj), NAMESPACE)
        return f"delete {resource.kind} {meta.name(obj)}, which is not mine"

    async def evict(self) -> str:
        pod = self._hand.pick_live([pod for pod in await self._hand.all(PODS) if pod["spec"].get("nodeName")])
        if pod is None:
            return ""
        await self._hand.verbs.evict(NAMESPACE, meta.name(pod))
        return f"evict {meta.name(pod)}"

    async def hold_on(self) -> str:
        """Somebody wants to be asked before a pod is gone: whoever waits for its place waits for that."""
        pod = self._hand.pick_live([pod for pod in await self._hand.all(PODS) if pod["spec"].get("nodeName")])
        if pod is None:
            return ""
        known = pod["metadata"].get("finalizers") or []
        await self._hand.patch(PODS, pod, {"metadata": {"finalizers": [*known, HELD]}})
        return f"hold on to {meta.name(pod)}"

    async def let_go(self) -> str:
        held = [pod for pod in await self._hand.all(PODS) if HELD in (pod["metadata"].get("finalizers") or ())]
        for pod in held:
            others = [one for one in pod["metadata"]["finalizers"] if one != HELD]
            await self._hand.patch(PODS, pod, {"metadata": {"finalizers": others or None}})
        return f"let go of {len(held)} pods" if held else ""

    async def fail(self) -> str:
        """A container dies."""
        running = [pod for pod in await self._hand.all(PODS) if (pod.get("status") or {}).get("phase") == "Running"]
        pod = self._hand.pick_live(running)
        if pod is None:
            return ""
        await self._hand.patch(PODS, pod, {"status": {"phase": "Failed", "reason": "Accident"}}, status=True)
        return f"fail {meta.name(pod)}"


def _group_of(pod: Object) -> str:
    return str((pod["spec"].get("schedulingGroup") or {}).get("podGroupName") or "")
