"""A JobSet with kubectl: claims that stay, a size that changes, resources of a suspended one, restarts in place."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e import kubectl as kubectl_module
from tests.e2e.kubectl import Kubectl
from tests.e2e.process import UpProcess

pytestmark = pytest.mark.skipif(kubectl_module.PATH is None, reason="needs kubectl")

TRAINING = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: training}
spec:
  volumeClaimPolicies:
    - templates:
        - metadata: {name: scratch}
          spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}
    - retentionPolicy: {whenDeleted: Retain}
      templates:
        - metadata: {name: checkpoints}
          spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 5Gi}}}
  replicatedJobs:
    - name: workers
      template:
        spec:
          parallelism: 2
          completions: 2
          template:
            spec:
              restartPolicy: Never
              containers:
                - name: train
                  image: registry.example/train:1
                  command: [sleep, "600"]
                  resources: {requests: {cpu: "1"}}
                  volumeMounts:
                    - {name: scratch, mountPath: /scratch}
                    - {name: checkpoints, mountPath: /checkpoints}
"""

IN_PLACE = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: steady}
spec:
  failurePolicy: {restartStrategy: InPlaceRestart, maxRestarts: 1}
  replicatedJobs:
    - name: workers
      replicas: 2
      template:
        spec:
          parallelism: 1
          completions: 1
          backoffLimit: 2147483647
          podReplacementPolicy: Failed
          template:
            metadata: {annotations: {echelon.dev/exit-code: "1"}}
            spec:
              restartPolicy: OnFailure
              containers: [{name: train, image: registry.example/train:1, command: [sleep, "120"]}]
"""


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    folder: Path = tmp_path_factory.mktemp("jobset-life")
    up = UpProcess(folder / "data", "--speed", "30")
    up.start()
    yield Kubectl(up.kubeconfig, folder / "cache")
    up.stop()


def until(kubectl: Kubectl, expected: str, *arguments: str) -> None:
    deadline = time.monotonic() + 60
    while (said := kubectl(*arguments).strip()) != expected:
        assert time.monotonic() < deadline, said
        time.sleep(0.2)


RUNNING = ("get", "pods", "--field-selector=status.phase=Running", "-o", "jsonpath={.items[*].spec.nodeName}")


def count_running(kubectl: Kubectl, number: int) -> None:
    deadline = time.monotonic() + 60
    while len(said := kubectl(*RUNNING).split()) != number:
        assert time.monotonic() < deadline, said
        time.sleep(0.2)


def workers(kubectl: Kubectl, **change: object) -> str:
    """A merge patch of the JobSet: its list of replicated jobs goes whole."""
    jobs = json.loads(kubectl("get", "jobset", "training", "-o", "json"))["spec"]["replicatedJobs"]
    spec = jobs[0]["template"]["spec"]
    spec |= {name: value for name, value in change.items() if name != "cpu"}
    if "cpu" in change:
        spec["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = change["cpu"]
    return json.dumps({"spec": {"replicatedJobs": jobs}})


@pytest.mark.conformance("JS-I40", "JS-I64", "JS-K09", "JS-E11")
def test_a_training_as_its_user_sees_it(kubectl: Kubectl) -> None:
    kubectl("apply", manifest=yaml.safe_load(TRAINING))
    count_running(kubectl, 2)
    claims = kubectl("get", "pvc", "-o", "name").split()
    assert claims == ["persistentvolumeclaim/checkpoints-training", "persistentvolumeclaim/scratch-training"]

    # It grows while it runs; a size that makes no sense is refused with the field.
    kubectl("patch", "jobset", "training", "--type=merge", "-p", workers(kubectl, parallelism=4, completions=4))
    count_running(kubectl, 4)
    odd = kubectl.run(
        "patch", "jobset", "training", "--type=merge", "-p", workers(kubectl, parallelism=4, completions=5)
    )
    assert odd.code == 1
    assert "spec.replicatedJobs[0].template.spec.completions: Invalid value: 5: completions must be equal to" in odd.err

    # Requests change while it is suspended, and not otherwise.
    running = kubectl.run("patch", "jobset", "training", "--type=merge", "-p", workers(kubectl, cpu="2"))
    assert "spec.replicatedJobs: Invalid value" in running.err
    kubectl("patch", "jobset", "training", "--type=merge", "-p", '{"spec": {"suspend": true}}')
    count_running(kubectl, 0)
    kubectl("patch", "jobset", "training", "--type=merge", "-p", workers(kubectl, cpu="2"))
    kubectl("patch", "jobset", "training", "--type=merge", "-p", '{"spec": {"suspend": false}}')
    count_running(kubectl, 4)
    requests = kubectl("get", "pods", "-o", "jsonpath={.items[*].spec.containers[0].resources.requests.cpu}")
    assert requests.split() == ["2"] * 4
    until(kubectl, "1", "get", "jobset", "training", "-o", "jsonpath={.status.executionAttempts}")

    # It ends, and is deleted with all but what is to be kept.
    kubectl("wait", "--for=condition=Completed", "jobset/training", "--timeout=60s")
    header, row = kubectl("get", "jobset", "training").splitlines()
    assert row.split()[:2] == ["training", "Completed"], header
    kubectl("delete", "jobset", "training")
    until(kubectl, "persistentvolumeclaim/checkpoints-training", "get", "pvc", "-o", "name")


@pytest.mark.conformance("JS-K05")
def test_restarts_in_place_as_their_user_sees_them(kubectl: Kubectl) -> None:
    kubectl("apply", manifest=yaml.safe_load(IN_PLACE))
    count_running(kubectl, 2)
    each = "{range .items[*]}{.metadata.uid} restarts={.status.containerStatuses[0].restartCount}{'\\n'}{end}"
    pods = ("get", "pods", "-l", "jobset.sigs.k8s.io/jobset-name=steady", "-o", f"jsonpath={each}")
    before = kubectl(*pods)
    assert before.count("restarts=0") == 2
    until(kubectl, "1", "get", "jobset", "steady", "-o", "jsonpath={.status.currentInPlaceRestartAttempt}")
    assert kubectl(*pods) == before.replace("restarts=0", "restarts=1")
    kubectl("wait", "--for=condition=Failed", "jobset/steady", "--timeout=60s")
    events = kubectl("events", "--for", "jobset/steady")
    assert "all pods restart in place and begin attempt 1 together" in events
    assert "jobset failed due to reaching max number of restarts" in events
