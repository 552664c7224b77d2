"""The JobSet controller alone on the API, as upstream's integration suite runs it.

There is no Job controller and no garbage collector: a test writes the status of Jobs, without the time of conditions,
and takes the finalizers of deleted Jobs away by hand.  Bodies are what Go clients send: with nulls and empty objects.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from echelon.api.objects import meta
from echelon.api.scheme import JOB_SETS, JOBS, VOLUME_CLAIMS, Object
from echelon.base.instants import to_time
from echelon.controllers.jobset import JobSetController
from tests.controller_plane import ControllerPlane, in_virtual_time

A, B, C = "replicated-job-a", "replicated-job-b", "replicated-job-c"
FOREGROUND = "foregroundDeletion"
Counters = dict[str, int]


def pod_template(**spec: Any) -> Object:
    containers = [{"name": "test-container", "image": "busybox:latest", "resources": {}}]
    return {
        "metadata": {"creationTimestamp": None},
        "spec": {"restartPolicy": "Never", "containers": containers, **spec},
    }


def replicated(name: str, replicas: int = 1, job: Object | None = None, **more: Any) -> Object:
    metadata = {"name": f"{name}-job", "namespace": "default", "creationTimestamp": None}
    spec = {"template": pod_template(), **(job or {})}
    return {"name": name, "replicas": replicas, "template": {"metadata": metadata, "spec": spec}, **more}


def jobset(*entries: Object, name: str = "test-js", **spec: Any) -> Object:
    """Two replicated jobs with one and three Jobs, unless told."""
    jobs = list(entries) or [replicated(A), replicated(B, 3, {"completionMode": "Indexed"})]
    return {
        "apiVersion": JOB_SETS.api_version,
        "kind": JOB_SETS.kind,
        "metadata": {"name": name, "namespace": "default", "creationTimestamp": None},
        "spec": {
            "replicatedJobs": jobs,
            "network": {"enableDNSHostnames": True},
            "successPolicy": {"operator": "All"},
            **spec,
        },
        "status": {"restarts": 0},
    }


class Rig:
    """One JobSet, its Jobs, and what upstream's tests do with them."""

    def __init__(self, plane: ControllerPlane, name: str) -> None:
        self.plane = plane
        self.name = name

    async def settle(self) -> None:
        await self.plane.wait(1)

    # -- what happens ------------------------------------------------------------------------------------

    async def complete(self, *parents: str, count: int | None = None) -> None:
        """Complete the Jobs of these replicated jobs, or all; at most `count` of those that have not."""
        for job in (await self._open(*parents))[:count]:
            conditions = [{"type": type_, "status": "True"} for type_ in ("SuccessCriteriaMet", "Complete")]
            size = job["spec"]["parallelism"]
            await self._write(job, conditions, succeeded=size, completionTime=to_time(self.plane.clock.now()))
        await self.settle()

    async def fail(self, parent: str = "", reason: str = "", message: str = "") -> None:
        """Fail the first Job, of a replicated job if one is named."""
        job = (await self._open(*([parent] if parent else [])))[0]
        target = {"type": "FailureTarget", "status": "True"}
        failed = {"type": "Failed", "status": "True", "reason": reason, "message": message}
        await self._write(job, [target, failed])
        await self.settle()

    async def ready(self, *parents: str) -> None:
        await self._run(*parents, ready=True)

    async def active(self, *parents: str) -> None:
        await self._run(*parents, ready=False)

    async def stopped(self) -> None:
        """What the Job controller says about suspended Jobs."""
        for job in await self.jobs():
            await self._put(job, {"conditions": [{"type": "Suspended", "status": "True"}]})

    async def release(self, count: int) -> None:
        """Let so many deleted Jobs go."""
        for job in [job for job in await self.jobs() if FOREGROUND in job["metadata"].get("finalizers", ())][:count]:
            await self.plane.patch(JOBS, meta.name(job), {"metadata": {"finalizers": None}})
            count -= 1
        assert count == 0, "fewer Jobs were deleted"
        await self.settle()

    async def edit(self, **spec: Any) -> None:
        await self.plane.patch(JOB_SETS, self.name, {"spec": spec})
        await self.settle()

    # -- what is seen ------------------------------------------------------------------------------------

    async def jobs(self) -> list[Object]:
        return sorted(await self.plane.all(JOBS), key=meta.name)

    async def status(self) -> Object:
        found: Object = (await self.plane.get(JOB_SETS, self.name)).get("status") or {}
        return found

    async def condition(self, type_: str) -> tuple[str, str] | None:
        found = meta.find_condition(await self.plane.get(JOB_SETS, self.name), type_)
        return (found["status"], found["reason"]) if found else None

    async def is_active(self) -> bool:
        jobset = await self.plane.get(JOB_SETS, self.name)
        return not any(meta.condition_is(jobset, type_) for type_ in ("Completed", "Failed", "Suspended"))

    async def restarts(self) -> tuple[int, int]:
        status = await self.status()
        return status["restarts"], status.get("restartsCountTowardsMax", 0)

    async def counters(self) -> dict[str, Counters]:
        """The counters of every replicated job that are not zero."""
        plain = ("ready", "succeeded", "failed", "active", "suspended")
        return {
            entry["name"]: {name: entry[name] for name in plain if entry[name]}
            for entry in (await self.status())["replicatedJobsStatus"]
        }

    async def job_counters(self, parent: str, counter: str) -> list[int] | None:
        (entry,) = [one for one in (await self.status())["replicatedJobsStatus"] if one["name"] == parent]
        return entry.get(counter)

    async def attempts(self) -> dict[int, int]:
        """How many Jobs there are by restart attempt."""
        found = [int(meta.labels(job)["jobset.sigs.k8s.io/restart-attempt"]) for job in await self.jobs()]
        return {attempt: found.count(attempt) for attempt in sorted(set(found))}

    async def all_suspended(self) -> list[bool]:
        return sorted({job["spec"]["suspend"] for job in await self.jobs()})

    async def claims(self) -> list[str]:
        return await self.plane.names(VOLUME_CLAIMS)

    # -- parts -------------------------------------------------------------------------------------------

    async def _open(self, *parents: str) -> list[Object]:
        """Jobs that have not ended and are not on their way out."""
        return [
            job
            for job in await self.jobs()
            if (not parents or _parent(job) in parents)
            and not meta.deleting(job)
            and not any(meta.condition_is(job, type_) for type_ in ("Complete", "Failed"))
        ]

    async def _run(self, *parents: str, ready: bool) -> None:
        for job in await self._open(*parents):
            size = job["spec"]["parallelism"]
            await self._put(job, {"active": size} | ({"ready": size} if ready else {}))
        await self.settle()

    async def _write(self, job: Object, conditions: list[Object], **status: Any) -> None:
        old = job.get("status") or {}
        begun = old.get("startTime") or to_time(self.plane.clock.now())
        await self._put(job, {"startTime": begun, "conditions": [*old.get("conditions", ()), *conditions], **status})

    async def _put(self, job: Object, status: Object) -> None:
        current = await self.plane.get(JOBS, meta.name(job))
        await self.plane.api.update(JOBS, {**current, "status": status}, "default", "status")


def _parent(job: Object) -> str:
    return meta.labels(job).get("jobset.sigs.k8s.io/replicatedjob-name", "")


def on_rig(body: Object, story: Callable[[Rig], Awaitable[None]], **options: Any) -> None:
    """Create a JobSet and tell its story."""

    async def scenario(plane: ControllerPlane) -> None:
        made = await plane.create(body)
        rig = Rig(plane, meta.name(made))
        await rig.settle()
        await story(rig)

    in_virtual_time(scenario, controllers=lambda caches: [JobSetController(caches)], bind=False, **options)
