"""Volume claims, elastic Jobs and changed resources of JobSets, through API, controllers and simulated nodes."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.scheme import EVENTS, JOB_SETS, JOBS, POD_GROUPS, PODS, VOLUME_CLAIMS, Object
from echelon.runtime import virtual_time
from tests.controller_plane import ControllerPlane, for_training, in_virtual_time

WITH_CLAIMS = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: volumes}
spec:
  volumeClaimPolicies:
    - templates:
        - metadata: {name: scratch}
          spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}
    - retentionPolicy: {whenDeleted: Retain}
      templates:
        - metadata: {name: model}
          spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}
  replicatedJobs:
    - name: workers
      template:
        spec:
          parallelism: 2
          completions: 2
          template:
            spec:
              initContainers:
                - {name: load, image: i, volumeMounts: [{name: scratch, mountPath: /scratch}]}
              containers:
                - {name: train, image: i, volumeMounts: [{name: model, mountPath: /model}]}
"""


@pytest.mark.conformance("JS-I40", "JS-E11")
def test_claims_are_made_mounted_and_kept_or_deleted() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(yaml.safe_load(WITH_CLAIMS))
        await plane.until_condition(JOB_SETS, "volumes", "Completed")
        assert await plane.names(VOLUME_CLAIMS) == ["model-volumes", "scratch-volumes"]
        for pod in await plane.all(PODS):
            claimed = [one["persistentVolumeClaim"]["claimName"] for one in pod["spec"]["volumes"]]
            assert claimed == ["scratch-volumes", "model-volumes"]
        await plane.delete(JOB_SETS, "volumes")

        async def one_left() -> bool:
            return await plane.names(VOLUME_CLAIMS) == ["model-volumes"]

        await plane.until(one_left)
        kept = await plane.get(VOLUME_CLAIMS, "model-volumes")
        # At once, under the same name: what was kept is used again, what was not is made anew.
        await plane.create(yaml.safe_load(WITH_CLAIMS))
        await plane.until_condition(JOB_SETS, "volumes", "Completed")
        assert meta.uid(await plane.get(VOLUME_CLAIMS, "model-volumes")) == meta.uid(kept)
        assert await plane.names(VOLUME_CLAIMS) == ["model-volumes", "scratch-volumes"]

    in_virtual_time(story, controllers=for_training)


def test_a_jobset_made_again_at_once_waits_for_its_claims_to_go() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(yaml.safe_load(WITH_CLAIMS))
        await plane.until_condition(JOB_SETS, "volumes", "Completed")
        before = await plane.get(VOLUME_CLAIMS, "scratch-volumes")
        await plane.delete(JOB_SETS, "volumes", "Background")
        await plane.create(yaml.safe_load(WITH_CLAIMS))
        await plane.until_condition(JOB_SETS, "volumes", "Completed")
        assert meta.uid(await plane.get(VOLUME_CLAIMS, "scratch-volumes")) != meta.uid(before)

    in_virtual_time(story, controllers=for_training)


@pytest.mark.parametrize("writes", range(1, 25, 2))
def test_claims_and_sizes_survive_a_death_at_any_write(writes: int) -> None:
    async def main() -> None:
        plane = ControllerPlane(for_training)
        mortal = await plane.start(writes)
        await plane.create(yaml.safe_load(WITH_CLAIMS))
        larger = yaml.safe_load(WITH_CLAIMS)["spec"]["replicatedJobs"]
        larger[0]["template"]["spec"] |= {"parallelism": 3, "completions": 3}
        await plane.patch(JOB_SETS, "volumes", {"spec": {"replicatedJobs": larger}})
        await mortal.dead.wait()
        await plane.restart()
        await plane.until_condition(JOB_SETS, "volumes", "Completed")
        assert await plane.names(VOLUME_CLAIMS) == ["model-volumes", "scratch-volumes"]
        assert (await plane.get(JOBS, "volumes-workers-0"))["status"]["succeeded"] == 3
        await plane.kill()

    virtual_time.run(main())


def test_a_claim_that_the_server_refuses_is_told_in_an_event() -> None:
    async def story(plane: ControllerPlane) -> None:
        bad = yaml.safe_load(WITH_CLAIMS)
        del bad["spec"]["volumeClaimPolicies"][0]["templates"][0]["spec"]
        await plane.create(bad)
        await plane.wait(30)
        assert await plane.reasons("volumes") == ["PVCCreationFailed"]
        assert await plane.names(JOBS) == []

    in_virtual_time(story, controllers=for_training)


def workers(size: int, **spec: Any) -> Object:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    template = {"metadata": {"annotations": {"echelon.dev/run-seconds": "60"}}, "spec": pod}
    job = {"parallelism": size, "completions": size, "template": template}
    return {
        "apiVersion": JOB_SETS.api_version,
        "kind": "JobSet",
        "metadata": {"name": "js"},
        "spec": {"replicatedJobs": [{"name": "workers", "template": {"spec": job}}], **spec},
    }


@pytest.mark.conformance("JS-I64", "JS-G09")
@pytest.mark.parametrize(("before", "after"), [(2, 4), (4, 2)])
@pytest.mark.parametrize("gang", [False, True])
def test_an_elastic_jobset_is_resized_while_it_runs(before: int, after: int, gang: bool) -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(workers(before, **({"scheduling": {}} if gang else {})))
        await plane.wait(10)
        assert len(await plane.pods("Running")) == before
        await plane.patch(JOB_SETS, "js", {"spec": {"replicatedJobs": workers(after)["spec"]["replicatedJobs"]}})
        await plane.wait(10)
        assert len(await plane.pods("Running")) == after
        for group in await plane.all(POD_GROUPS):
            assert group["spec"]["schedulingPolicy"]["gang"]["minCount"] == after
        done = await plane.until_condition(JOB_SETS, "js", "Completed")
        assert done["status"]["restarts"] == 0
        assert (await plane.get(JOBS, "js-workers-0"))["status"]["succeeded"] == after
        with pytest.raises(ApiError) as refused:
            await plane.patch(JOB_SETS, "js", {"spec": {"replicatedJobs": workers(9)["spec"]["replicatedJobs"]}})
        assert "terminal state" in str(refused.value)

    in_virtual_time(story, controllers=for_training, scheduler=gang)


def test_a_size_that_a_job_refuses_is_told_in_an_event() -> None:
    async def story(plane: ControllerPlane) -> None:
        one = workers(4)
        limits = {"backoffLimitPerIndex": 1, "maxFailedIndexes": 3}
        one["spec"]["replicatedJobs"][0]["template"]["spec"] |= limits
        await plane.create(one)
        await plane.wait(10)
        changed = one["spec"]["replicatedJobs"]
        changed[0]["template"]["spec"] |= {"parallelism": 2, "completions": 2}
        await plane.patch(JOB_SETS, "js", {"spec": {"replicatedJobs": changed}})
        await plane.wait(10)
        assert await plane.reasons("js") == ["JobScalingFailed"]
        (event,) = [one for one in await plane.all(EVENTS) if one["reason"] == "JobScalingFailed"]
        assert "spec.maxFailedIndexes" in event["message"]

    in_virtual_time(story, controllers=for_training)


@pytest.mark.conformance("JS-I65", "JS-W37")
def test_without_the_feature_a_jobset_keeps_its_size() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(workers(2))
        with pytest.raises(ApiError) as refused:
            await plane.patch(JOB_SETS, "js", {"spec": {"replicatedJobs": workers(4)["spec"]["replicatedJobs"]}})
        assert refused.value.code == 422
        assert "spec.replicatedJobs: Invalid value" in str(refused.value)
        assert "field is immutable" in str(refused.value)

    in_virtual_time(story, controllers=for_training, disabled_features=frozenset({"ElasticJobSet"}))


@pytest.mark.conformance("JS-K09")
@pytest.mark.parametrize("ran_before", [False, True])
def test_resources_of_a_suspended_jobset_reach_its_pods(ran_before: bool) -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(workers(2, suspend=not ran_before))
        await plane.wait(10)
        adapted = workers(2)["spec"]["replicatedJobs"]
        container = adapted[0]["template"]["spec"]["template"]["spec"]["containers"][0]
        container["resources"] = {"requests": {"cpu": "1500m", "memory": "1024Mi"}, "limits": {"memory": "2Gi"}}
        await plane.patch(JOB_SETS, "js", {"spec": {"suspend": True, "replicatedJobs": adapted}})
        await plane.wait(10)
        assert not await plane.pods()
        await plane.patch(JOB_SETS, "js", {"spec": {"suspend": False}})
        await plane.wait(10)
        pods = await plane.pods()
        assert [pod["spec"]["containers"][0]["resources"] for pod in pods] == [
            {"requests": {"cpu": "1500m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
        ] * 2
        await plane.until_condition(JOB_SETS, "js", "Completed")

    in_virtual_time(story, controllers=for_training)


@pytest.mark.conformance("JS-K09")
def test_resources_that_the_server_refuses_are_told_in_an_event() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(workers(2, suspend=True))
        await plane.wait(5)
        adapted = workers(2)["spec"]["replicatedJobs"]
        container = adapted[0]["template"]["spec"]["template"]["spec"]["containers"][0]
        container["resources"] = {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}
        await plane.patch(JOB_SETS, "js", {"spec": {"suspend": False, "replicatedJobs": adapted}})
        await plane.wait(10)
        assert "FailedResourcePropagation" in await plane.reasons("js")

    in_virtual_time(story, controllers=for_training)
