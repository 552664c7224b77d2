"""Exclusive islands and priorities: high takes exactly what it needs, whole JobSets at a time."""

from __future__ import annotations

import asyncio
from pathlib import Path

from echelon.api.objects import meta
from echelon.api.scheme import JOB_SETS, JOBS, PODS, Object
from echelon.api.verbs import WatchOptions
from tests.e2e.harness import NAMESPACE, Echelon, cluster, echelon

ISLAND = "example.com/island"
ISLANDS = """
levels:
  - {name: island, key: example.com/island}
pools:
  - name: tpu
    counts: {island: 2, node: 2}
    capacity: {cpu: 8, memory: 32Gi, google.com/tpu: 4}
"""
CLASSES = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: low}
value: 1
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 100000
"""


def exclusive(name: str, priority: str, replicas: int, seconds: int) -> Object:
    """The shape of the seed: one Job per island, a pod fills a node, disruption restarts uncounted."""
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "annotations": {"alpha.jobset.sigs.k8s.io/exclusive-topology": ISLAND}},
        "spec": {
            "failurePolicy": {
                "maxRestarts": 3,
                "rules": [
                    {
                        "name": "disrupted",
                        "action": "RestartJobSetAndIgnoreMaxRestarts",
                        "onJobFailureReasons": ["PodFailurePolicy"],
                    }
                ],
            },
            "replicatedJobs": [
                {
                    "name": "workers",
                    "replicas": replicas,
                    "template": {
                        "spec": {
                            "parallelism": 2,
                            "completions": 2,
                            "backoffLimit": 0,
                            "podFailurePolicy": {
                                "rules": [{"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]}]
                            },
                            "template": {
                                "metadata": {"annotations": {"echelon.dev/run-seconds": str(seconds)}},
                                "spec": {
                                    "restartPolicy": "Never",
                                    "priorityClassName": priority,
                                    "containers": [
                                        {
                                            "name": "c",
                                            "image": "registry.example/c:1",
                                            "resources": {"limits": {"google.com/tpu": "4"}},
                                        }
                                    ],
                                },
                            },
                        }
                    },
                }
            ],
        },
    }


async def bound_of(e: Echelon, jobset: str) -> list[Object]:
    return [
        pod
        for pod in await e.bound(f"jobset.sigs.k8s.io/jobset-name={jobset}")
        if pod["status"]["phase"] in ("Pending", "Running") and not meta.deleting(pod)
    ]


async def until_bound(e: Echelon, jobset: str, count: int) -> list[Object]:
    async def all_bound() -> list[Object]:
        pods = await bound_of(e, jobset)
        return pods if len(pods) == count else []

    found: list[Object] = await e.until(all_bound, f"{count} pods of {jobset} to be bound")
    return found


async def islands_by_job(e: Echelon, pods: list[Object]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for pod in pods:
        found.setdefault(meta.labels(pod)["job-name"], set()).add(await e.domain(pod, ISLAND))
    return found


async def test_high_takes_one_island_low_restarts_uncounted_and_completes(tmp_path: Path) -> None:
    async with echelon(tmp_path, cluster(ISLANDS)) as e:
        await e.apply(CLASSES)
        await e.create(exclusive("low", "low", replicas=2, seconds=100))
        before = await until_bound(e, "low", 4)
        homes = await islands_by_job(e, before)
        assert sorted(len(one) for one in homes.values()) == [1, 1]
        assert len(set().union(*homes.values())) == 2

        await e.create(exclusive("high", "high", replicas=1, seconds=80))
        high = await until_bound(e, "high", 2)
        taken = await islands_by_job(e, high)
        assert [len(one) for one in taken.values()] == [1]

        low = await e.until_condition(JOB_SETS, "low", "RestartingJobSet")
        assert low["status"]["restarts"] == 1
        assert low["status"].get("restartsCountTowardsMax", 0) == 0

        for name in ("high", "low"):
            await e.until_condition(JOB_SETS, name, "Completed")
        low, high_set = await e.get(JOB_SETS, "low"), await e.get(JOB_SETS, "high")
        assert high_set["status"].get("restarts", 0) == 0
        assert low["status"]["restarts"] >= 1
        assert low["status"].get("restartsCountTowardsMax", 0) == 0


async def test_exactly_the_jobsets_needed_are_evicted_and_as_a_whole(tmp_path: Path) -> None:
    async with echelon(tmp_path, cluster(ISLANDS)) as e:
        await e.apply(CLASSES)
        for name in ("first", "second"):
            await e.create(exclusive(name, "low", replicas=1, seconds=600))
        before = [pod for name in ("first", "second") for pod in await until_bound(e, name, 2)]
        evicted: dict[str, Object] = {}

        async def note_evictions() -> None:
            selector = WatchOptions(label_selector="jobset.sigs.k8s.io/priority=1")
            async for event in e.verbs.watch(PODS, NAMESPACE, selector):
                condition = meta.find_condition(event.object, "DisruptionTarget")
                if condition is not None and condition.get("reason") == "PreemptionByScheduler":
                    evicted[meta.name(event.object)] = event.object

        noting = asyncio.create_task(note_evictions())
        await e.create(exclusive("high", "high", replicas=1, seconds=600))
        await until_bound(e, "high", 2)
        noting.cancel()
        jobs = {meta.labels(pod)["job-name"] for pod in evicted.values()}
        assert len(jobs) == 1, f"more than one Job was evicted: {jobs}"
        whole = {meta.name(pod) for pod in before if meta.labels(pod)["job-name"] in jobs}
        assert set(evicted) == whole


async def test_a_preempted_jobset_leaves_all_its_islands_and_holds_nothing_while_it_waits(tmp_path: Path) -> None:
    async with echelon(tmp_path, cluster(ISLANDS)) as e:
        await e.apply(CLASSES)
        await e.create(exclusive("low", "low", replicas=2, seconds=100))
        await until_bound(e, "low", 4)
        await e.create(exclusive("high", "high", replicas=1, seconds=200))
        await until_bound(e, "high", 2)

        async def low_waits_anew() -> bool:
            pods = await e.list(PODS, "jobset.sigs.k8s.io/jobset-name=low,jobset.sigs.k8s.io/restart-attempt=1")
            return len(pods) == 4

        await e.until(low_waits_anew, "the second attempt of low")

        async def low_holds_nothing() -> bool:
            return not await bound_of(e, "low") and len(await bound_of(e, "high")) == 2

        await e.stays(low_holds_nothing, "low holds an island that is too little for it", cluster_seconds=20)
        for name in ("high", "low"):
            await e.until_condition(JOB_SETS, name, "Completed")


PLAIN_JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: guest}
spec:
  template:
    metadata: {annotations: {echelon.dev/run-seconds: "5"}}
    spec:
      restartPolicy: Never
      priorityClassName: low
      containers:
        - {name: c, image: registry.example/c:1, resources: {limits: {cpu: "1"}}}
"""


async def test_a_plain_job_of_equal_priority_waits_outside_and_reads_who_owns_the_islands(tmp_path: Path) -> None:
    async with echelon(tmp_path, cluster(ISLANDS)) as e:
        await e.apply(CLASSES)
        await e.create(exclusive("owner", "low", replicas=2, seconds=200))
        await until_bound(e, "owner", 4)
        await e.apply(PLAIN_JOB)

        async def told() -> Object | None:
            for pod in await e.list(PODS, "job-name=guest"):
                condition = meta.find_condition(pod, "PodScheduled")
                if condition is not None and "nodeName" not in pod["spec"]:
                    return condition
            return None

        condition = await e.until(told, "the guest to be told why it waits")
        assert (
            "fits none of 4 nodes: they are in islands that JobSet/owner at its own priority has alone"
            in (condition["message"])
        )
        assert "evict JobSet/owner (priority 1)" in condition["message"]

        async def outside() -> bool:
            return not await e.bound("job-name=guest")

        await e.stays(outside, "the guest entered an island of the owner", cluster_seconds=20)
        await e.until_condition(JOB_SETS, "owner", "Completed")
        await e.until_condition(JOBS, "guest", "Complete")


def of_priority(obj: Object, name: str, priority: str) -> Object:
    """A replicated job of another name and priority, as one that a JobSet has."""
    (entry,) = exclusive(meta.name(obj), priority, replicas=1, seconds=20)["spec"]["replicatedJobs"]
    return {**entry, "name": name}


async def test_replicated_jobs_of_two_priorities_and_more_than_eight_of_them_run(tmp_path: Path) -> None:
    islands = ISLANDS.replace("island: 2", "island: 10").replace("node: 2", "node: 4")
    async with echelon(tmp_path, cluster(islands)) as e:
        await e.apply(CLASSES)
        jobset = exclusive("many", "low", replicas=1, seconds=20)
        kinds = [("high", 0), *(("low", number) for number in range(9))]
        jobset["spec"]["replicatedJobs"] = [of_priority(jobset, f"{kind}-{n}", kind) for kind, n in kinds]
        await e.create(jobset)
        pods = await until_bound(e, "many", 20)
        homes = await islands_by_job(e, pods)
        assert [len(one) for one in homes.values()] == [1] * 10
        low = [home for job, (home,) in homes.items() if "-low-" in job]
        assert len(set(low)) == 9
        await e.until_condition(JOB_SETS, "many", "Completed")


async def test_equal_priority_never_preempts(tmp_path: Path) -> None:
    async with echelon(tmp_path, cluster(ISLANDS)) as e:
        await e.apply(CLASSES)
        await e.create(exclusive("first", "low", replicas=2, seconds=120))
        await until_bound(e, "first", 4)
        await e.create(exclusive("second", "low", replicas=1, seconds=5))

        async def second_waits() -> bool:
            return not await bound_of(e, "second") and len(await bound_of(e, "first")) == 4

        await e.stays(second_waits, "the second of equal priority got in or disturbed the first", cluster_seconds=10)
        for name in ("first", "second"):
            done = await e.until_condition(JOB_SETS, name, "Completed")
            assert done["status"].get("restarts", 0) == 0
