"""JobSets whose pods really run: order of start, volumes that are kept or not, Jobs that are restarted."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from echelon.api.objects import meta
from echelon.api.scheme import JOB_SETS, JOBS, VOLUME_CLAIMS, Object
from echelon.api.verbs import DeleteOptions

from .local_plane import LocalPlane, local_plane

STAGES = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: js}
spec:
  replicatedJobs:
  - name: coordinator
    template:
      spec:
        template:
          spec:
            restartPolicy: Never
            containers:
            - name: c
              image: x
              command:
              - sh
              - -c
              - |
                until test -e FOLDER/go; do sleep 0.1; done
                touch FOLDER/up
                until test -e FOLDER/over; do sleep 0.1; done
              startupProbe:
                exec: {command: [test, -e, FOLDER/up]}
                periodSeconds: 1
                timeoutSeconds: 60
                failureThreshold: 90
  - name: trainer
    dependsOn: [{name: coordinator, status: Ready}]
    template:
      spec:
        template:
          spec:
            restartPolicy: Never
            containers: [{name: c, image: x, command: [sh, -c, 'test -e FOLDER/up && touch FOLDER/over']}]
"""

CLAIMS = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: js}
spec:
  volumeClaimPolicies:
  - templates:
    - metadata: {name: kept}
      spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
    retentionPolicy: {whenDeleted: Retain}
  - templates:
    - metadata: {name: gone}
      spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
    retentionPolicy: {whenDeleted: Delete}
  replicatedJobs:
  - name: w
    template:
      spec:
        template:
          spec:
            restartPolicy: Never
            initContainers:
            - name: i
              image: x
              command: [sh, -c, 'echo data > /kept/file; echo data > /gone/file']
              volumeMounts: [{name: kept, mountPath: /kept}, {name: gone, mountPath: /gone}]
            containers:
            - name: c
              image: x
              command: [sh, -c, 'cat /kept/file /gone/file']
              volumeMounts: [{name: kept, mountPath: /kept}, {name: gone, mountPath: /gone}]
"""

RESTARTED = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: js}
spec:
  failurePolicy:
    maxRestarts: 3
    rules: [{name: again, action: RestartJob}]
  replicatedJobs:
  - name: w
    replicas: 2
    template:
      spec:
        backoffLimit: 0
        template:
          spec:
            restartPolicy: Never
            containers:
            - name: c
              image: x
              command: [sh, -c, 'test $INDEX = 0 || test $ATTEMPT != 0 || exit 1; sleep 1']
              env:
              - name: INDEX
                valueFrom: {fieldRef: {fieldPath: "metadata.annotations['jobset.sigs.k8s.io/job-index']"}}
              - name: ATTEMPT
                valueFrom: {fieldRef: {fieldPath: "metadata.annotations['jobset.sigs.k8s.io/job-restart-attempt']"}}
"""


async def until_complete(plane: LocalPlane) -> Object:
    async def done() -> Object | None:
        found = await plane.verbs.get(JOB_SETS, "js", "default")
        assert not meta.condition_is(found, "Failed"), found["status"]
        return found if meta.condition_is(found, "Completed") else None

    found: Object = await plane.until(done, 120)
    return found


@pytest.mark.conformance("JS-E08")
async def test_a_trainer_starts_when_its_coordinator_is_ready(tmp_path: Path) -> None:
    async with local_plane(tmp_path / "data", "names") as plane:
        await plane.apply(STAGES.replace("FOLDER", str(tmp_path)))

        async def jobs() -> int:
            return len((await plane.verbs.list(JOBS, "default")).items)

        await plane.until(jobs)
        await asyncio.sleep(0.7)
        assert await jobs() == 1
        (tmp_path / "go").touch()
        await until_complete(plane)
        assert await jobs() == 2


@pytest.mark.conformance("JS-E11")
async def test_claims_are_directories_that_live_as_long_as_they_should(tmp_path: Path) -> None:
    async with local_plane(tmp_path, "names") as plane:
        await plane.apply(CLAIMS)
        await until_complete(plane)
        files = sorted(path.parent.name.split("-")[0] for path in (tmp_path / "claims").rglob("file"))
        assert files == ["gone", "kept"]
        await plane.verbs.delete(JOB_SETS, "js", "default", DeleteOptions(propagation="Foreground"))
        await plane.gone(JOB_SETS, "js")

        async def left() -> bool:
            claims = (await plane.verbs.list(VOLUME_CLAIMS, "default")).items
            return [meta.name(claim) for claim in claims] == ["kept-js"]

        await plane.until(left)

        async def directories() -> bool:
            return [path.parent.name.split("-")[0] for path in (tmp_path / "claims").rglob("file")] == ["kept"]

        await plane.until(directories)


@pytest.mark.conformance("JS-E14")
async def test_a_job_that_fails_at_first_is_restarted_alone(tmp_path: Path) -> None:
    async with local_plane(tmp_path, "names") as plane:
        await plane.apply(RESTARTED)
        ended = await until_complete(plane)
        status = ended["status"]
        assert status.get("restarts", 0) == 0
        assert sum(map(sum, (one.get("jobRestarts") or [] for one in status["replicatedJobsStatus"]))) == 1, status
