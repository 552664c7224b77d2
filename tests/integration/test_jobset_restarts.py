"""Restarts in place and of single Jobs, through the API, the controllers and simulated nodes."""

from __future__ import annotations

import pytest
import yaml

from echelon.api.objects import meta
from echelon.api.scheme import JOB_SETS, JOBS, PODS, Object
from echelon.runtime import virtual_time
from tests.controller_plane import ControllerPlane, for_training, in_virtual_time

ATTEMPT = "jobset.sigs.k8s.io/in-place-restart-attempt"
EXIT_CODE = "echelon.dev/exit-code"

IN_PLACE = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: js}
spec:
  failurePolicy: {restartStrategy: InPlaceRestart, maxRestarts: 2}
  replicatedJobs:
    - name: workers
      replicas: 2
      template:
        spec:
          parallelism: 2
          completions: 2
          backoffLimit: 2147483647
          podReplacementPolicy: Failed
          template:
            metadata: {annotations: {echelon.dev/run-seconds: "30"}}
            spec:
              restartPolicy: OnFailure
              containers: [{name: train, image: i}]
"""


async def exits_with(plane: ControllerPlane, pod: Object, code: int, after: int = 30) -> None:
    script = {EXIT_CODE: str(code), "echelon.dev/run-seconds": str(after)}
    await plane.patch(PODS, meta.name(pod), {"metadata": {"annotations": script}})


async def barrier(plane: ControllerPlane) -> tuple[int | None, int | None]:
    status = (await plane.get(JOB_SETS, "js"))["status"]
    return status.get("previousInPlaceRestartAttempt"), status.get("currentInPlaceRestartAttempt")


@pytest.mark.conformance("JS-K05", "JS-E13")
def test_all_pods_restart_in_place_when_one_fails() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(yaml.safe_load(IN_PLACE))
        await plane.wait(10)
        before = await plane.pods("Running")
        assert [meta.annotations(pod)[ATTEMPT] for pod in before] == ["0"] * 4
        assert await barrier(plane) == (None, 0)
        await exits_with(plane, before[0], 1, after=15)
        await plane.wait(10)
        await exits_with(plane, before[0], 0)
        after = await plane.pods("Running")
        assert [meta.uid(pod) for pod in after] == [meta.uid(pod) for pod in before]
        assert [meta.annotations(pod)[ATTEMPT] for pod in after] == ["1"] * 4
        assert [pod["status"]["containerStatuses"][0]["restartCount"] for pod in after] == [1] * 4
        assert await barrier(plane) == (0, 1)
        done = await plane.until_condition(JOB_SETS, "js", "Completed")
        assert done["status"]["restarts"] == 0
        assert "InPlaceRestart" in await plane.reasons("js")

    in_virtual_time(story, controllers=for_training)


@pytest.mark.conformance("JS-K05")
def test_restarts_in_place_end_with_their_budget() -> None:
    async def story(plane: ControllerPlane) -> None:
        endless = yaml.safe_load(IN_PLACE)
        template = endless["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
        template["metadata"]["annotations"][EXIT_CODE] = "1"
        await plane.create(endless)
        failed = await plane.until_condition(JOB_SETS, "js", "Failed")
        assert failed["status"]["conditions"][-1]["reason"] == "ReachedMaxRestarts"

        async def quiet() -> bool:
            return not await plane.pods("Running")

        await plane.until(quiet)

    in_virtual_time(story, controllers=for_training)


def test_pods_pass_without_a_barrier_where_it_is_switched_off() -> None:
    async def story(plane: ControllerPlane) -> None:
        free = yaml.safe_load(IN_PLACE)
        free["metadata"]["annotations"] = {"jobset.sigs.k8s.io/disable-in-place-restart": "true"}
        await plane.create(free)
        await plane.until_condition(JOB_SETS, "js", "Completed")
        pods = await plane.pods()
        assert pods
        assert all(ATTEMPT not in meta.annotations(pod) for pod in pods)

    in_virtual_time(story, controllers=for_training)


@pytest.mark.parametrize("writes", range(12, 60, 6))
def test_a_restart_in_place_survives_a_death_at_any_write(writes: int) -> None:
    async def main() -> None:
        plane = ControllerPlane(for_training)
        mortal = await plane.start(writes)
        await plane.create(yaml.safe_load(IN_PLACE))
        await mortal.dead.wait()
        await plane.restart()
        done = await plane.until_condition(JOB_SETS, "js", "Completed")
        assert done["status"]["restarts"] == 0
        await plane.kill()

    virtual_time.run(main())


ONE_JOB = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: js}
spec:
  failurePolicy:
    maxRestarts: 3
    rules: [{name: one, action: ACTION, onJobFailureReasons: [BackoffLimitExceeded]}]
  replicatedJobs:
    - name: workers
      replicas: 3
      template:
        spec:
          backoffLimit: 0
          completions: 1
          parallelism: 1
          template:
            metadata: {annotations: {echelon.dev/run-seconds: "60"}}
            spec: {restartPolicy: Never, containers: [{name: c, image: i}]}
"""


@pytest.mark.conformance("JS-E14", "JS-I24", "JS-I25")
@pytest.mark.parametrize(("action", "counted"), [("RestartJob", [0, 1, 0]), ("RestartJobAndIgnoreMaxRestarts", None)])
def test_only_the_job_that_failed_runs_again(action: str, counted: list[int] | None) -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(yaml.safe_load(ONE_JOB.replace("ACTION", action)))
        await plane.wait(10)
        jobs = {meta.name(job): meta.uid(job) for job in await plane.all(JOBS)}
        (failing,) = [pod for pod in await plane.pods() if meta.name(pod).startswith("js-workers-1-")]
        await exits_with(plane, failing, 1)
        done = await plane.until_condition(JOB_SETS, "js", "Completed")
        status = done["status"]
        assert (status["restarts"], status.get("restartsCountTowardsMax", 0)) == (0, 0)
        (entry,) = status["replicatedJobsStatus"]
        assert entry["jobRestarts"] == [0, 1, 0]
        assert entry.get("jobRestartsCountTowardsMax") == counted
        anew = {name for name, uid in jobs.items() if meta.uid(await plane.get(JOBS, name)) != uid}
        assert anew == {"js-workers-1"}
        assert meta.labels(await plane.get(JOBS, "js-workers-1"))["jobset.sigs.k8s.io/job-restart-attempt"] == "1"
        assert f"{action}FailurePolicyAction" in await plane.reasons("js")

    in_virtual_time(story, controllers=for_training)


def test_a_finished_job_that_is_deleted_does_not_run_again() -> None:
    async def story(plane: ControllerPlane) -> None:
        pipeline = yaml.safe_load(ONE_JOB.replace("ACTION", "RestartJob"))
        (workers,) = pipeline["spec"]["replicatedJobs"]
        waits = [{"name": "workers", "status": "Complete"}]
        pipeline["spec"]["replicatedJobs"] = [workers, {**workers, "name": "report", "replicas": 1, "dependsOn": waits}]
        await plane.create(pipeline)
        await plane.wait(5)
        await plane.until_condition(JOBS, "js-workers-0", "Complete")
        await plane.wait(10)
        assert await plane.find(JOBS, "js-report-0") is not None
        await plane.delete(JOBS, "js-workers-0")
        await plane.wait(10)
        assert await plane.find(JOBS, "js-workers-0") is None
        done = await plane.until_condition(JOB_SETS, "js", "Completed")
        assert [one["succeeded"] for one in done["status"]["replicatedJobsStatus"]] == [3, 1]

    in_virtual_time(story, controllers=for_training)


@pytest.mark.conformance("JS-K03")
@pytest.mark.parametrize("writes", range(5, 50, 5))
def test_a_sequence_goes_on_after_a_death_in_the_middle(writes: int) -> None:
    async def main() -> None:
        plane = ControllerPlane(for_training)
        mortal = await plane.start(writes)
        stages = yaml.safe_load(ONE_JOB.replace("ACTION", "RestartJob"))
        (one,) = stages["spec"]["replicatedJobs"]
        first = {**one, "name": "first", "replicas": 1}
        waits = [{"name": "first", "status": "Complete"}]
        stages["spec"]["replicatedJobs"] = [first, {**one, "name": "second", "replicas": 2, "dependsOn": waits}]
        await plane.create(stages)
        await mortal.dead.wait()
        await plane.restart()
        done = await plane.until_condition(JOB_SETS, "js", "Completed")
        assert done["status"]["restarts"] == 0
        starts = {meta.name(job): job["status"]["startTime"] for job in await plane.all(JOBS)}
        ended = (await plane.get(JOBS, "js-first-0"))["status"]["completionTime"]
        assert all(starts[name] >= ended for name in ("js-second-0", "js-second-1"))
        await plane.kill()

    virtual_time.run(main())


@pytest.mark.conformance("JS-E12")
def test_one_restart_of_the_whole_is_enough() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(yaml.safe_load(ONE_JOB.replace("ACTION", "RestartJobSet")))
        await plane.wait(10)
        (failing,) = [pod for pod in await plane.pods() if meta.name(pod).startswith("js-workers-1-")]
        await exits_with(plane, failing, 1)
        status = (await plane.until_condition(JOB_SETS, "js", "Completed"))["status"]
        assert (status["restarts"], status["restartsCountTowardsMax"]) == (1, 1)
        (entry,) = status["replicatedJobsStatus"]
        assert "jobRestarts" not in entry
        assert "jobRestartsCountTowardsMax" not in entry

    in_virtual_time(story, controllers=for_training)


@pytest.mark.conformance("JS-K08")
def test_pods_say_which_run_they_belong_to() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(yaml.safe_load(ONE_JOB.replace("ACTION", "RestartJobSet")))

        async def runs() -> tuple[int, set[str]]:
            await plane.wait(15)
            pods = await plane.pods("Running")
            said = {meta.annotations(pod)["jobset.sigs.k8s.io/execution-attempt"] for pod in pods}
            return (await plane.get(JOB_SETS, "js"))["status"]["executionAttempts"], said

        assert await runs() == (0, {"0"})
        await plane.patch(JOB_SETS, "js", {"spec": {"suspend": True}})
        await plane.wait(15)
        await plane.patch(JOB_SETS, "js", {"spec": {"suspend": False}})
        assert await runs() == (1, {"1"})
        await exits_with(plane, (await plane.pods("Running"))[0], 1)
        await plane.wait(50)
        assert await runs() == (2, {"2"})

    in_virtual_time(story, controllers=for_training)
