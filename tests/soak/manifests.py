"""What people submit in the soak: small objects of every kind, their details drawn from a seeded stream.

Only whole CPUs and GPUs are asked for, so that the checks can count without reading quantities as the product does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from echelon.api import vocabulary as words
from echelon.api.scheme import JOB_SETS, JOBS, PRIORITY_CLASSES, TRAIN_JOBS, Object
from echelon.base.rng import Rng
from echelon.testing.builders import GPU, make_composite, make_node, make_pod, make_pod_group

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
    """Draws manifests; names carry a number, so that a story can be followed."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
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

    def priority(self) -> str:
        return self.pick(("", "", "low", "low", "mid", "mid", "high", "polite"))

    # -- nodes and pods --------------------------------------------------------------------------------

    def node(self, block: int, rack: int, number: int) -> Object:
        name = f"b{block}-r{rack}-n{number}"
        return make_node(name, cpu=8, gpu=4, block=f"b{block}", rack=f"b{block}-r{rack}")

    def _asks(self) -> dict[str, int]:
        """Mostly GPUs, sometimes only CPUs."""
        return {"gpu": self.pick((1, 1, 2, 2, 4)), "cpu": 1} if self.chance(80) else {"cpu": self.between(1, 4)}

    def _script(self) -> dict[str, str]:
        seconds = self.pick((2, 5, 20, 60, 120, 240))
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
        return _classed(pod, self.priority())

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
        return {"metadata": {"annotations": self._script()}, "spec": spec}

    # -- groups without controllers --------------------------------------------------------------------

    def gang(self) -> list[Object]:
        """A PodGroup and its pods."""
        name, priority = self.name("gang"), self.priority()
        size = self.between(1, 4)
        exclusive = self.chance(15)
        group = make_pod_group(
            name,
            gang=size if self.chance(85) else None,
            key=words.RACK if exclusive else self.pick(("", words.RACK, words.BLOCK)),
            mode=self.pick(("all", "single")),
            exclusive=words.RACK if exclusive else "",
        )
        return [_classed(group, priority), *self._members(name, priority, size + self.pick((0, 0, 1)))]

    def tree(self) -> list[Object]:
        """A CompositePodGroup over gangs, sometimes with a level between."""
        name, priority = self.name("tree"), self.priority()
        mode = self.pick(("all", "single"))
        children = self.between(2, 3)
        block = words.BLOCK if self.chance(50) else ""
        root = make_composite(name, gang=self.between(1, children), key=block, mode=mode, workload=name)
        made = [_classed(root, priority)]
        above = name
        if self.chance(30):
            above = f"{name}-mid"
            made[0]["spec"]["schedulingPolicy"] = {"gang": {"minGroupCount": 1}}
            middle = make_composite(above, gang=children, parent=name, workload=name)
            made.append(_classed(middle, priority))
        for child in range(children):
            leaf, size = f"{name}-{child}", self.between(1, 2)
            rack = words.RACK if self.chance(50) else ""
            group = make_pod_group(leaf, gang=size, key=rack, parent=above, workload=name)
            made += [_classed(group, priority), *self._members(leaf, priority, size)]
        return made

    def _members(self, group: str, priority: str, count: int) -> list[Object]:
        asks, script, grace = self._asks(), self._script(), self.pick((0, 5))
        gates = ("wait",) if self.chance(10) else ()
        forever = self.chance(20)
        return [
            _classed(
                make_pod(
                    f"{group}-{number}",
                    group=group,
                    annotations={} if forever else script,
                    grace=grace,
                    gates=gates,
                    restartPolicy="Never",
                    **asks,  # type: ignore[arg-type]
                ),
                priority,
            )
            for number in range(count)
        ]

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
