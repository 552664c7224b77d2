"""`echelon run` ends with code 3 and says why, whoever cannot go on: scheduler, controllers, or what is on hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.test_cli import echelon

JOBSET = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train}
spec:
  replicatedJobs:
  - name: workers
    replicas: 1
    template:
      spec:
        parallelism: 1
        completions: 1
        template:
          spec:
            restartPolicy: Never
            containers: [{name: c, image: "registry.example/c:1", command: [sleep, "2"]}]
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: 2
  completions: 2
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: "registry.example/c:1", command: [sleep, "2"]}]
"""
QUOTA = """
apiVersion: v1
kind: ResourceQuota
metadata: {name: none}
spec: {hard: {pods: "0"}}
---
"""
FOREIGN_JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: train-workers-0}
spec:
  suspend: true
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: "registry.example/c:1"}]
---
"""
FOREIGN_JOBSET = JOBSET.replace("replicatedJobs:", "suspend: true\n  replicatedJobs:") + "---\n"
TRAINJOB = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: train}
spec:
  runtimeRef: {name: torch-distributed}
  trainer: {numNodes: 1}
"""
CASES = {
    "quota": (QUOTA + JOB, ["Job/train", "FailedCreate", "exceeded quota: none"]),
    "suspended": (
        JOB.replace("parallelism: 2", "suspend: true\n  parallelism: 2"),
        ["Job/train", "it is suspended (spec.suspend)"],
    ),
    "managed elsewhere": (
        JOB.replace("parallelism: 2", "managedBy: example.com/other\n  parallelism: 2"),
        ["Job/train", "example.com/other, which does not run here"],
    ),
    "unknown scheduler": (
        JOB.replace("restartPolicy", "schedulerName: volcano\n      restartPolicy"),
        ["Pod/train-", "spec.schedulerName is volcano"],
    ),
    "a Job of somebody else under a name of the JobSet": (
        FOREIGN_JOB + JOBSET,
        ["JobSet/train", "Job train-workers-0 exists and has no owner"],
    ),
    "a JobSet of somebody else under the name of the TrainJob": (
        FOREIGN_JOBSET + TRAINJOB,
        ["TrainJob/train", "JobSet train exists and"],
    ),
    "nothing to run": (
        JOBSET.replace("replicas: 1", "replicas: 0"),
        ["JobSet/train", "it has no replicas"],
    ),
    "service refused": (
        QUOTA.replace("pods", "services").replace('"0"', '"1"') + JOBSET,
        ["JobSet/train", "HeadlessServiceCreationFailed", "exceeded quota: none"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_in_which_nothing_can_move_ends_with_3_and_says_why(case: str, tmp_path: Path) -> None:
    text, expected = CASES[case]
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(text)
    done = echelon("run", manifest, "--speed", "20", COLUMNS="400")
    assert done.returncode == 3, done.stdout + done.stderr
    _, _, last_words = done.stdout.partition("blocked: no progress for 5 s")
    for words in expected:
        assert words in last_words, done.stdout


def test_warnings_are_told_once_as_they_come(tmp_path: Path) -> None:
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(QUOTA + JOB)
    done = echelon("run", manifest, "--speed", "20", COLUMNS="400")
    told = [line for line in done.stdout.splitlines() if "  warning " in line]
    assert len(told) == 1, done.stdout
    assert "Job/train" in told[0]
    assert "FailedCreate: Error creating: " in told[0]


def test_a_job_that_waits_between_attempts_is_not_blocked(tmp_path: Path) -> None:
    manifest = tmp_path / "manifest.yaml"
    failing = 'metadata: {annotations: {echelon.dev/exit-code: "1", echelon.dev/run-seconds: "1"}}\n    spec:'
    manifest.write_text(
        JOB.replace("spec:\n      restart", f"{failing}\n      restart").replace(
            "spec:\n  par", "spec:\n  backoffLimit: 2\n  par"
        )
    )
    done = echelon("run", manifest, "--speed", "20")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "BackoffLimitExceeded" in done.stdout


def test_a_cron_job_is_not_followed_and_the_run_says_so(tmp_path: Path) -> None:
    job = JOB.partition("spec:\n")[2].replace("\n", "\n    ")
    head = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: nightly}\n"
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(f'{head}spec:\n  schedule: "@daily"\n  jobTemplate:\n    spec:\n    {job}')
    done = echelon("run", manifest, "--speed", "20", COLUMNS="400")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "starts Jobs on its schedule; a run follows what ends, echelon up keeps it" in done.stdout
