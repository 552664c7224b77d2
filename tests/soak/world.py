"""One cluster's life, told by a seed: what people do to it, and what befalls it.

    World.step ─► one event (submit, scale, suspend, delete, evict, nodes, storms, crashes) ─► some time passes
    World.quiet ─► no more events; waits until nothing moves any more

People speak to the API itself; scheduler, controllers and nodes each speak through a layer of faults.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from echelon.api import meta
from echelon.api.errors import ApiError
from echelon.api.scheme import (
    COMPOSITE_POD_GROUPS,
    JOB_SETS,
    JOBS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    TRAIN_JOBS,
    Object,
    Resource,
    by_kind,
)
from echelon.api.verbs import DeleteOptions, Patch, PatchType, Propagation
from echelon.base.rng import Rng
from echelon.testing.virtual import PROCESSES, Name, VirtualPlane

from .faults import FaultyVerbs, Weather
from .manifests import NAMESPACE, Maker, priority_classes

Tell = Callable[[str], None]

#: Kinds that people submit and take away again.
_SUBMITTED = (JOBS, JOB_SETS, TRAIN_JOBS, POD_GROUPS, COMPOSITE_POD_GROUPS, PODS)
_CROWD = 30
_TEAM = "team"
#: Long enough for every back-off to have ended.
_STILL_SECONDS = 150.0
_PATIENCE_SECONDS = 7200.0


class World:
    """People, weather and accidents around one plane."""

    def __init__(self, plane: VirtualPlane, seed: int, tell: Tell) -> None:
        self.plane = plane
        self.weather = Weather(plane.clock)
        self._rng = Rng(seed)
        self._maker = Maker(self._rng)
        self._tell = tell
        #: Pods of groups that no controller looks after, as they were submitted.
        self._members: dict[str, list[Object]] = {}
        #: Processes that are down, and when they come back.
        self._down: dict[Name, float] = {}
        #: How each process speaks to the API; one of them may have a burning fuse.
        self._ways: dict[Name, FaultyVerbs] = {}
        self._burning: Name | None = None
        chances: list[tuple[int, Callable[[], Awaitable[str]]]] = [
            (9, self._submit_job),
            (9, self._submit_gang_job),
            (9, self._submit_job_set),
            (4, self._submit_train_job),
            (6, self._submit_gang),
            (5, self._submit_tree),
            (6, self._submit_pod),
            (4, self._submit_elsewhere),
            (5, self._refill),
            (3, self._move_minimum),
            (3, self._open_gates),
            (6, self._scale),
            (6, self._suspend),
            (9, self._delete),
            (5, self._evict),
            (4, self._fail_pod),
            (3, self._add_node),
            (3, self._remove_node),
            (6, self._cordon),
            (3, self._taint),
            (2, self._delete_namespace),
            (6, self._storm),
            (6, self._crash),
        ]
        #: Seeds have characters: plain, cramped, stormy, or full of trees.
        self._cramped = seed % 4 == 1
        often: tuple[Callable[[], Awaitable[str]], ...] = ()
        if seed % 4 == 2:
            often = (self._storm, self._crash, self._crash)
        elif seed % 4 == 3:
            often = (self._submit_tree, self._submit_job_set, self._submit_gang, self._refill, self._evict)
        self._events = [event for weight, event in chances for _ in range(weight + 12 * often.count(event))]

    async def begin(self) -> None:
        for one in priority_classes():
            await self._create(one)
        for block in range(1 if self._cramped else 2):
            for rack in range(2):
                for number in range(2):
                    await self._create(self._maker.node(block, rack, number))
        for name in PROCESSES:
            self._start(name)

    async def step(self) -> None:
        """One event, and some time."""
        await self._bury()
        for name in [name for name, back in self._down.items() if back <= self.plane.clock.now()]:
            self._start(name)
        crowded = await self._is_crowded()
        event = self._delete if crowded else self._maker.pick(self._events)
        try:
            said = await event()
        except ApiError as error:
            # People make mistakes and come too late; the server said no, that is all.
            said = f"{event.__name__.strip('_')}: refused: {error}"
        self._tell(said)
        await self.plane.clock.sleep(self._pause())

    async def quiet(self, each: Callable[[], Awaitable[None]]) -> None:
        """Wait until nothing has been written for a while, with all processes up; `each` runs every few seconds."""
        await self._bury()
        for name in list(self._down):
            self._start(name)
        self._tell("quiet")
        still_since, revision, end = self.plane.clock.now(), "", self.plane.clock.now() + _PATIENCE_SECONDS
        while self.plane.clock.now() - still_since < _STILL_SECONDS:
            assert self.plane.clock.now() < end, f"still busy after {_PATIENCE_SECONDS:g} s without any event"
            await self.plane.clock.sleep(10)
            await each()
            now = str(self.plane.store.revision)
            if now != revision:
                still_since, revision = self.plane.clock.now(), now

    def _pause(self) -> float:
        """Often none or an instant, sometimes minutes."""
        kind = self._rng.below(10)
        if kind < 2:
            return 0.0
        if kind < 5:
            return self._rng.below(100) / 100
        return float(self._rng.below(20)) if kind < 9 else float(20 + self._rng.below(100))

    # -- submitting ------------------------------------------------------------------------------------

    async def _submit_job(self) -> str:
        return await self._submit(self._maker.job())

    async def _submit_gang_job(self) -> str:
        return await self._submit(self._maker.gang_job())

    async def _submit_job_set(self) -> str:
        return await self._submit(self._maker.job_set())

    async def _submit_train_job(self) -> str:
        return await self._submit(self._maker.train_job())

    async def _submit_gang(self) -> str:
        return await self._submit(*self._maker.gang())

    async def _submit_tree(self) -> str:
        return await self._submit(*self._maker.tree())

    async def _submit_pod(self) -> str:
        return await self._submit(self._maker.plain_pod())

    async def _submit_elsewhere(self) -> str:
        """Into a namespace of its own, which may be going away."""
        team = {"apiVersion": NAMESPACES.api_version, "kind": NAMESPACES.kind, "metadata": {"name": _TEAM}}
        if _TEAM not in {meta.name(one) for one in await self._all(NAMESPACES)}:
            await self._create(team)
        obj = self._maker.pick((self._maker.gang_job, self._maker.job_set, self._maker.train_job))()
        obj["metadata"]["namespace"] = _TEAM
        await self._create(obj)
        return f"submit {obj['kind']} {meta.name(obj)} to {_TEAM}"

    async def _submit(self, *objects: Object) -> str:
        for obj in objects:
            await self._create(obj)
            group = (obj["spec"].get("schedulingGroup") or {}).get("podGroupName") if obj["kind"] == "Pod" else None
            if group:
                self._members.setdefault(group, []).append(obj)
            if len(objects) > 1 and self._maker.chance(20):
                await self.plane.clock.sleep(self._rng.below(30) / 10)
        first = objects[0]
        return f"submit {first['kind']} {meta.name(first)}" + (f" and {len(objects) - 1} more" if objects[1:] else "")

    async def _create(self, obj: Object) -> None:
        resource = by_kind(obj["apiVersion"], obj["kind"])
        assert resource is not None
        await self.plane.verbs.create(resource, obj, meta.namespace(obj))

    async def _refill(self) -> str:
        """Someone puts back the members that a group without a controller has lost."""
        groups = {meta.name(group): group for group in await self._all(POD_GROUPS)}
        there = {meta.name(pod) for pod in await self._all(PODS)}
        known = [name for name in sorted(self._members) if name in groups and not meta.deleting(groups[name])]
        if not known:
            return "refill: no group"
        group = self._maker.pick(known)
        missing = [pod for pod in self._members[group] if meta.name(pod) not in there]
        for pod in missing:
            await self._create(pod)
        return f"refill {group} with {len(missing)} pods"

    # -- changing --------------------------------------------------------------------------------------

    async def _scale(self) -> str:
        job = self._pick_live(await self._all(JOBS), owned=False)
        if job is None:
            return "scale: no Job"
        width = self._maker.between(0 if self._maker.chance(10) else 1, 4)
        spec = {"parallelism": width}
        if job["spec"].get("completionMode") == "Indexed" and job["spec"]["completions"] == job["spec"]["parallelism"]:
            spec = {"parallelism": max(1, width), "completions": max(1, width)}
        await self._patch(JOBS, job, {"spec": spec})
        return f"scale Job {meta.name(job)} to {width}"

    async def _suspend(self) -> str:
        resource = self._maker.pick((JOBS, JOB_SETS, TRAIN_JOBS))
        obj = self._pick_live(await self._all(resource), owned=False)
        if obj is None:
            return f"suspend: no {resource.kind}"
        suspended = bool(obj["spec"].get("suspend"))
        await self._patch(resource, obj, {"spec": {"suspend": not suspended}})
        return f"{'resume' if suspended else 'suspend'} {resource.kind} {meta.name(obj)}"

    async def _move_minimum(self) -> str:
        groups = [group for group in await self._all(POD_GROUPS) if "gang" in group["spec"]["schedulingPolicy"]]
        group = self._pick_live([one for one in groups if not one["metadata"].get("ownerReferences")])
        if group is None:
            return "move minimum: no gang"
        count = self._maker.between(1, 4)
        await self._patch(POD_GROUPS, group, {"spec": {"schedulingPolicy": {"gang": {"minCount": count}}}})
        return f"gang {meta.name(group)} needs {count} now"

    async def _open_gates(self) -> str:
        gated = [pod for pod in await self._all(PODS) if pod["spec"].get("schedulingGates")]
        for pod in gated:
            await self._patch(PODS, pod, {"spec": {"schedulingGates": None}})
        return f"open the gates of {len(gated)} pods"

    async def _delete_namespace(self) -> str:
        await self.plane.verbs.delete(NAMESPACES, _TEAM)
        return f"delete namespace {_TEAM}"

    async def _delete(self) -> str:
        resource = self._maker.pick(_SUBMITTED)
        objects = [one for one in await self._all(resource) if not meta.deleting(one)]
        # People mostly delete what they made; sometimes a part of it.
        mine = [one for one in objects if not one["metadata"].get("ownerReferences")]
        part = resource in (JOBS, PODS) and self._maker.chance(15)
        choice = objects if part else mine
        if not choice:
            return f"delete: no {resource.kind}"
        obj = self._maker.pick(choice)
        policies: tuple[Propagation, ...] = ("Background", "Background", "Foreground", "Orphan")
        policy = self._maker.pick(policies)
        await self.plane.verbs.delete(resource, meta.name(obj), NAMESPACE, DeleteOptions(policy))
        return f"delete {resource.kind} {meta.name(obj)} ({policy})"

    async def _evict(self) -> str:
        pod = self._pick_live([pod for pod in await self._all(PODS) if pod["spec"].get("nodeName")])
        if pod is None:
            return "evict: no pod"
        await self.plane.verbs.evict(NAMESPACE, meta.name(pod))
        return f"evict {meta.name(pod)}"

    async def _fail_pod(self) -> str:
        """A container dies."""
        running = [pod for pod in await self._all(PODS) if (pod.get("status") or {}).get("phase") == "Running"]
        pod = self._pick_live(running)
        if pod is None:
            return "fail: no pod"
        body = {"status": {"phase": "Failed", "reason": "Accident"}}
        await self._patch(PODS, pod, body, status=True)
        return f"fail {meta.name(pod)}"

    # -- nodes -----------------------------------------------------------------------------------------

    async def _add_node(self) -> str:
        there = {meta.name(node) for node in await self._all(NODES)}
        if len(there) > (5 if self._cramped else 10):
            return "add node: enough"
        block, rack = self._maker.between(0, 1), self._maker.between(0, 1)
        free = [n for n in range(4) if f"b{block}-r{rack}-n{n}" not in there]
        if not free:
            return "add node: rack is full"
        node = self._maker.node(block, rack, free[0])
        await self._create(node)
        return f"add node {meta.name(node)}"

    async def _remove_node(self) -> str:
        nodes = await self._all(NODES)
        if len(nodes) <= (3 if self._cramped else 5):
            return "lose node: few enough"
        node = self._maker.pick(nodes)
        await self.plane.verbs.delete(NODES, meta.name(node))
        return f"lose node {meta.name(node)}"

    async def _cordon(self) -> str:
        node = self._maker.pick(await self._all(NODES))
        cordoned = bool((node.get("spec") or {}).get("unschedulable"))
        await self._patch(NODES, node, {"spec": {"unschedulable": None if cordoned else True}})
        return f"{'uncordon' if cordoned else 'cordon'} {meta.name(node)}"

    async def _taint(self) -> str:
        node = self._maker.pick(await self._all(NODES))
        tainted = bool((node.get("spec") or {}).get("taints"))
        taints = None if tainted else [{"key": "repair", "effect": "NoSchedule"}]
        await self._patch(NODES, node, {"spec": {"taints": taints}})
        return f"{'untaint' if tainted else 'taint'} {meta.name(node)}"

    # -- weather and accidents -------------------------------------------------------------------------

    async def _storm(self) -> str:
        seconds = self._maker.between(2, 40)
        self.weather.storm(seconds)
        return f"storm for {seconds} s"

    async def _crash(self) -> str:
        """A process dies, at once or in the middle of whatever it does next."""
        name = self._maker.pick(PROCESSES)
        if name in self._down or self._burning is not None:
            return f"crash: {name} is down or another is dying"
        calls = self._maker.pick((0, 1, 2, 3, 5, 8, 13))
        self._ways[name].fuse = calls
        self._burning = name
        return f"crash {name} after {calls} calls"

    async def _bury(self) -> None:
        """What was dying is dead now; it comes back sooner or later."""
        if self._burning is None:
            return
        name, self._burning = self._burning, None
        await self.plane.kill(name)
        self._down[name] = self.plane.clock.now() + self._maker.pick((0, 0, 1, 10, 30))

    def _start(self, name: Name) -> None:
        self._down.pop(name, None)
        way = FaultyVerbs(self.plane.verbs, self.plane.clock, self.weather, Rng(self._rng.word()))
        self._ways[name] = way
        self.plane.start(name, lambda _: way)

    @property
    def whole(self) -> bool:
        """Whether everything is up and the weather is fine."""
        return not self._down and self._burning is None and not self.weather.stormy

    # -- means -----------------------------------------------------------------------------------------

    async def _all(self, resource: Resource) -> list[Object]:
        return (await self.plane.verbs.list(resource, NAMESPACE if resource.namespaced else "")).items

    async def _patch(self, resource: Resource, obj: Object, body: Object, *, status: bool = False) -> None:
        patch = Patch(PatchType.MERGE, body)
        await self.plane.verbs.patch(resource, meta.name(obj), patch, meta.namespace(obj), "status" if status else "")

    async def _is_crowded(self) -> bool:
        return sum([len(await self._all(kind)) for kind in _SUBMITTED if kind is not PODS]) > _CROWD

    def _pick_live(self, objects: list[Object], *, owned: bool = True) -> Object | None:
        live = [
            one
            for one in objects
            if not meta.deleting(one)
            and (owned or meta.controller_of(one) is None)
            and not any(meta.condition_is(one, done) for done in ("Complete", "Failed", "Completed"))
        ]
        return self._maker.pick(live) if live else None
