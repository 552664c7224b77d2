"""What people submit in the soak: small objects of every kind, their details drawn from a seeded stream.

Only whole CPUs and GPUs are asked for, so that the checks can count without reading quantities as the product does.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, TypeVar

from echelon.api.objects import vocabulary as words
from echelon.api.scheme import JOB_SETS, JOBS, POD_DISRUPTION_BUDGETS, PRIORITY_CLASSES, TRAIN_JOBS, Object
from echelon.base.rng import Rng
from echelon.testing.builders import GPU, Mode, make_composite, make_node, make_pod, make_pod_group

from . import pod_rules
from .pod_rules import Wish

T = TypeVar("T")
NAMESPACE = "default"
#: Class name -> value and policy; no class means 0.
CLASSES: dict[str, tuple[int, str]] = {
    "low": (10, "PreemptLowerPriority"),
    "polite": (50, "Never"),
    "mid": (100, "PreemptLowerPriority"),
    "high": (1000, "PreemptLowerPriority"),
}
_RUNTIMES = ("plain-cpu", "torch-distributed", "torch-distributed-gang", "torchtune-llama3.2-1b-gang")


def priority_classes() -> list[Object]:
    return [
        {
            "apiVersion": PRIORITY_CLASSES.api_version,
            "kind": PRIORITY_CLASSES.kind,
            "metadata": {"name": name},
            "value": value,
            "preemptionPolicy": policy,
        }
        for name, (value, policy) in CLASSES.items()
    ]


class Maker:
    """Draws manifests; names carry a number, so that a story can be followed.

    Of a hundred pods and templates, `choosy` wish for more than room.
    """

    def __init__(self, rng: Rng, choosy: int = 0) -> None:
        self._rng = rng
        self._choosy = choosy
        self._count = 0

    def name(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def pick(self, things: Sequence[T]) -> T:
        return things[self._rng.below(len(things))]

    def chance(self, percent: int) -> bool:
        return self._rng.below(100) < percent

    def between(self, low: int, high: int) -> int:
        return low + self._rng.below(high - low + 1)

    def jumbled(self, things: Sequence[T]) -> list[T]:
        """In another order."""
        left, found = list(things), []
        while left:
            found.append(left.pop(self._rng.below(len(left))))
        return found

    def wish(self) -> Wish:
        return pod_rules.draw(self.pick) if self.chance(self._choosy) else Wish(self.pick(pod_rules.APPS))

    def mode(self) -> Mode:
        modes: tuple[Mode, ...] = ("all", "single")
        return self.pick(modes)

    def priority(self) -> str:
        return self.pick(("", "", "low", "low", "mid", "mid", "high", "polite"))

    # -- nodes and pods --------------------------------------------------------------------------------

    def node(self, block: int, rack: int, number: int) -> Object:
        name = f"b{block}-r{rack}-n{number}"
        labels = {pod_rules.DISK: "hdd" if number % 2 else "ssd"}
        return make_node(name, cpu=8, gpu=4, block=f"b{block}", rack=f"b{block}-r{rack}", labels=labels)

    def _asks(self) -> dict[str, int]:
        """Mostly GPUs, sometimes only CPUs."""
        return {"gpu": self.pick((1, 1, 2, 2, 4)), "cpu": 1} if self.chance(80) else {"cpu": self.between(1, 4)}

    def _script(self) -> dict[str, str]:
        seconds = self.pick((2, 10, 60, 120, 240, 600))
        fails = "1" if self.chance(12) else "0"
        return {words.RUN_SECONDS: str(seconds), words.EXIT_CODE: fails}

    def plain_pod(self) -> Object:
        forever = self.chance(30)
        pod = make_pod(
            self.name("pod"),
            **self._asks(),  # type: ignore[arg-type]
            annotations={} if forever else self._script(),
            grace=self.pick((0, 5, 30)),
            restartPolicy="Never",
        )
        return _classed(self.wish().give(pod), self.priority())

    def another(self, pod: Object) -> Object:
        """One more like this."""
        like = copy.deepcopy(pod)
        like["metadata"]["name"] = self.name(f"{pod['metadata']['name']}-x")
        return like

    def budget(self) -> Object:
        amounts: tuple[Object, ...] = (
            {"minAvailable": 1},
            {"minAvailable": 2},
            {"minAvailable": "50%"},
            {"maxUnavailable": 0},
            {"maxUnavailable": 1},
            {"maxUnavailable": "30%"},
        )
        selector = {"matchLabels": {pod_rules.APP: self.pick(pod_rules.APPS)}}
        return _object(POD_DISRUPTION_BUDGETS, self.name("budget"), {"selector": selector, **self.pick(amounts)})

    def _template(self, priority: str) -> Object:
        asks = self._asks()
        requests = {"cpu": str(asks["cpu"])} | ({GPU: str(asks["gpu"])} if "gpu" in asks else {})
        limits = {GPU: requests[GPU]} if GPU in requests else {}
        spec: Object = {
            "restartPolicy": self.pick(("Never", "Never", "OnFailure")),
            "terminationGracePeriodSeconds": self.pick((0, 5, 30)),
            "containers": [{"name": "main", "image": "train:1", "resources": {"requests": requests, "limits": limits}}],
        }
        if priority:
            spec["priorityClassName"] = priority
        return self.wish().give({"metadata": {"annotations": self._script()}, "spec": spec})

    # -- groups without controllers --------------------------------------------------------------------

    def gang(self) -> list[Object]:
        """A PodGroup and its pods."""
        name, priority = self.name("gang"), self.priority()
        size = self.between(1, 4)
        exclusive = self.chance(15)
        group = make_pod_group(
            name,
            gang=size if self.chance(85) else None,
            key=words.RACK if exclusive else self.pick(("", "", words.RACK, words.BLOCK)),
            mode=self.mode(),
            exclusive=words.RACK if exclusive else "",
            preferred=(words.RACK, words.BLOCK) if self.chance(15) else (),
        )
        return [_classed(group, priority), *self._members(name, priority, size + self.pick((0, 0, 1)))]

    def tree(self) -> list[Object]:
        """CompositePodGroups over gangs, of up to four levels; who is evicted as one is drawn at every level."""
        name, priority = self.name("tree"), self.priority()
        levels = self.pick((0, 0, 0, 1, 1, 2))
        children = self.between(2, 3)
        key = words.BLOCK if self.chance(50) else ""
        minimum = None if self.chance(15) else 1 if levels else self.between(1, children)
        made = [make_composite(name, gang=minimum, key=key, mode=self.mode(), workload=name)]
        above = name
        for level in range(levels):
            below = f"{name}-mid{level}"
            minimum = 1 if level + 1 < levels else self.between(1, children)
            made.append(make_composite(below, gang=minimum, parent=above, mode=self.mode(), workload=name))
            above = below
        for child in range(children):
            made += self._branch(f"{name}-{child}", above, name, priority)
        return [_classed(one, priority) for one in made]

    def _branch(self, leaf: str, parent: str, workload: str, priority: str) -> list[Object]:
        size = self.between(1, 2)
        group = make_pod_group(
            leaf,
            gang=size if self.chance(90) else None,
            key=words.RACK if self.chance(50) else "",
            parent=parent,
            workload=workload,
            mode=self.mode(),
        )
        return [group, *self._members(leaf, priority, size)]

    def _members(self, group: str, priority: str, count: int) -> list[Object]:
        asks, script, grace, wish = self._asks(), self._script(), self.pick((0, 5)), self.wish()
        gates = ("wait",) if self.chance(10) else ()
        forever = self.chance(20)
        pods = [
            make_pod(
                f"{group}-{number}",
                group=group,
                annotations={} if forever else dict(script),
                grace=grace,
                gates=gates,
                restartPolicy="Never",
                **asks,  # type: ignore[arg-type]
            )
            for number in range(count)
        ]
        return [_classed(wish.give(pod), priority) for pod in pods]

    # -- jobs ------------------------------------------------------------------------------------------

    def job(self) -> Object:
        width = self.between(1, 4)
        spec: Object = {
            "parallelism": width,
            "completions": width if self.chance(60) else self.between(1, 6),
            "backoffLimit": self.pick((0, 1, 3)),
            "suspend": self.chance(10),
            "template": self._template(self.priority()),
        }
        if self.chance(50):
            spec |= {"completionMode": "Indexed"}
        if self.chance(70):
            spec["ttlSecondsAfterFinished"] = self.pick((0, 30, 200))
        if self.chance(25):
            spec["podFailurePolicy"] = self._failure_policy()
            spec["template"]["spec"]["restartPolicy"] = "Never"
        if self.chance(10):
            spec["activeDeadlineSeconds"] = self.between(20, 200)
        return _object(JOBS, self.name("job"), spec)

    def gang_job(self) -> Object:
        width = self.between(1, 4)
        scheduling: Object = {"schedulingPolicy": {"gang": {}} if self.chance(80) else {"basic": {}}}
        if self.chance(60):
            scheduling["disruptionMode"] = {"all": {}} if self.chance(70) else {"single": {}}
        if self.chance(50):
            scheduling["schedulingConstraints"] = _within(self.pick((words.RACK, words.BLOCK)))
        spec: Object = {
            "parallelism": width,
            "completions": width,
            "completionMode": "Indexed",
            "backoffLimit": self.pick((0, 2, 3)),
            "suspend": self.chance(10),
            "scheduling": scheduling,
            "template": self._template(self.priority()),
        }
        if self.chance(70):
            spec["ttlSecondsAfterFinished"] = self.pick((0, 30, 200))
        return _object(JOBS, self.name("gangjob"), spec)

    def _failure_policy(self) -> Object:
        action = self.pick(("FailJob", "Ignore", "Count"))
        return {"rules": [{"action": action, "onPodConditions": [{"type": "DisruptionTarget"}]}]}

    # -- jobsets and trainjobs -------------------------------------------------------------------------

    def _replicated(self, name: str, priority: str, replicas: int) -> Object:
        width = self.between(1, 3)
        template = self._template(priority)
        spec: Object = {
            "parallelism": width,
            "completions": width,
            "completionMode": "Indexed",
            "backoffLimit": self.pick((0, 2)),
            "template": template,
        }
        if self.chance(40):
            template["spec"]["restartPolicy"] = "Never"
            spec["podFailurePolicy"] = self._failure_policy()
        return {"name": name, "replicas": replicas, "template": {"spec": spec}}

    def job_set(self) -> Object:
        """Free, one gang, gangs per Job, a gang of gangs, or exclusive; sometimes in order."""
        priority = self.priority()
        workers = self._replicated("workers", priority, self.between(1, 2))
        entries = [workers]
        if self.chance(40):
            entries.append(self._replicated("driver", priority, 1))
        spec: Object = {"replicatedJobs": entries, "suspend": self.chance(10)}
        metadata: Object = {}
        shape = self.pick(("free", "gang", "per-job", "tree", "tree", "exclusive", "exclusive"))
        if shape == "exclusive":
            metadata["annotations"] = {words.JOBSET_EXCLUSIVE_TOPOLOGY: words.RACK}
        elif shape != "free":
            spec["scheduling"] = self._grouping(shape, [entry["name"] for entry in entries])
        if len(entries) > 1 and self.chance(40):
            entries[1]["dependsOn"] = [{"name": "workers", "status": self.pick(("Complete", "Ready"))}]
        spec["failurePolicy"] = self._restarts()
        if self.chance(70):
            spec["ttlSecondsAfterFinished"] = self.pick((0, 30, 200))
        return _object(JOB_SETS, self.name("set"), spec, metadata)

    def _grouping(self, shape: str, names: list[str]) -> Object:
        mode = {"all": {}} if self.chance(60) else {"single": {}}
        if shape == "gang":
            return {"schedulingPolicy": {"gang": {}}, "disruptionMode": mode}
        job: Object = {"schedulingPolicy": {"gang": {}}}
        if self.chance(60):
            job["schedulingConstraints"] = _within(words.RACK)
        entries: list[Object] = [{"targetReplicatedJobs": [name], "job": job} for name in names]
        if shape == "per-job":
            return {"replicatedJobs": entries}
        scheduling: Object = {"schedulingPolicy": {"gang": {}}, "disruptionMode": mode, "replicatedJobs": entries}
        if self.chance(60):
            scheduling["schedulingConstraints"] = _within(words.BLOCK)
        return scheduling

    def _restarts(self) -> Object:
        policy: Object = {"maxRestarts": self.between(0, 2)}
        if self.chance(50):
            policy["rules"] = [
                {
                    "name": "preempted",
                    "action": "RestartJobSetAndIgnoreMaxRestarts",
                    "onJobFailureReasons": ["PodFailurePolicy"],
                }
            ]
        return policy

    def train_job(self) -> Object:
        runtime = self.pick(_RUNTIMES)
        spec: Object = {"runtimeRef": {"name": runtime}, "trainer": {"numNodes": self.between(1, 3)}}
        if runtime.startswith("torchtune"):
            spec["initializer"] = {
                "dataset": {"storageUri": "hf://team/data"},
                "model": {"storageUri": "hf://team/model"},
            }
        elif self.chance(50):
            amounts = {GPU: str(self.between(1, 2))}
            spec["trainer"]["resourcesPerNode"] = {"requests": amounts, "limits": amounts}
        if self.chance(10):
            spec["suspend"] = True
        return _object(TRAIN_JOBS, self.name("train"), spec)


def _object(resource: Any, name: str, spec: Object, metadata: Object | None = None) -> Object:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "namespace": NAMESPACE, **(metadata or {})},
        "spec": spec,
    }


def _within(key: str) -> Object:
    return {"topology": [{"key": key}]}


def _classed(obj: Object, priority: str) -> Object:
    """With a class, which also says whether it preempts."""
    obj["spec"].pop("preemptionPolicy", None)
    if priority:
        obj["spec"]["priorityClassName"] = priority
    return obj
