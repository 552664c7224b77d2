"""A training job on this machine gives way to a more important one, comes back and completes, in real processes.

The cluster has 1,000 simulated nodes besides; nothing of the story may land on them.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from . import kubectl as kubectl_module
from .api_reading import read
from .kubectl import Kubectl
from .process import UpProcess
from .test_process_nodes import client, documents, leftovers, until

pytestmark = pytest.mark.skipif(kubectl_module.PATH is None, reason="no kubectl on PATH")

CLUSTER = """
pools:
  - name: sim
    counts: {block: 10, rack: 10, node: 10}
    capacity: {cpu: 8, memory: 32Gi}
  - name: real
    counts: {node: 1}
    capacity: {cpu: 4, memory: 4Gi}
    runs: processes
"""

#: Goes on from its last step; hears SIGTERM, says so and does not end; in its first life not at all if it is told so.
TRAIN = """
import os, signal, sys, time
path, steps = "/shared/" + os.environ["JOB_COMPLETION_INDEX"], int(sys.argv[1])
story = open(path + ".story", "a")
def say(what):
    print(what, file=story, flush=True)
    print(what, flush=True)
signal.signal(signal.SIGTERM, lambda *_: say(f"SIGTERM {time.time()}"))
step = int(open(path).read()) if os.path.exists(path) else 0
say(f"begin {step}")
last, endless = step + steps, sys.argv[2] == "endless" and step == 0
while endless or step < last:
    step += 1
    with open(path + ".new", "w") as file:
        file.write(str(step))
    os.rename(path + ".new", path)
    say(f"step {step} {time.time()}")
    time.sleep(0.1)
say("done")
"""
BASE = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: low}
value: 1
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 100000
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: low}
spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: high}
spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}
"""
GRACE = 4


def training(name: str, steps: int, *, endless: bool = False) -> Any:
    """Two trainers that fill the process node, as one gang; of the priority of the same name."""
    container = {
        "name": "c",
        "image": "python",
        "command": ["python", "-c", TRAIN, str(steps), "endless" if endless else ""],
        "resources": {"requests": {"cpu": "2"}},
        "volumeMounts": [{"name": "shared", "mountPath": "/shared"}],
    }
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE,
        "priorityClassName": name,
        "nodeSelector": {"echelon.dev/runs": "processes"},
        "containers": [container],
        "volumes": [{"name": "shared", "persistentVolumeClaim": {"claimName": name}}],
    }
    job = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "backoffLimit": 0}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": {"maxRestarts": 3},
            "scheduling": {"schedulingPolicy": {"gang": {}}, "disruptionMode": {"all": {}}},
            "replicatedJobs": [{"name": "w", "template": {"spec": {**job, "template": {"spec": spec}}}}],
        },
    }


def story(data: Path, name: str, index: int) -> list[list[str]]:
    found = list(data.glob(f"claims/default/{name}-*/{index}.story"))
    return [line.split() for line in found[0].read_text().splitlines()] if found else []


def completed(kubectl: Kubectl, name: str) -> Any:
    status = read(kubectl.kubeconfig, "jobsets", name).get("status") or {}
    true = {one["type"] for one in status.get("conditions") or () if one["status"] == "True"}
    assert "Failed" not in true, status
    return status if "Completed" in true else None


@pytest.mark.conformance("API-127")
def test_a_training_job_gives_way_and_comes_back(tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(CLUSTER)
    up = UpProcess(tmp_path / "data", "--cluster", str(cluster))
    up.start()
    try:
        kubectl = client(up, tmp_path)
        assert len(kubectl("get", "nodes", "-o", "name").split()) == 1001
        kubectl("apply", manifest=[*documents(BASE), training("low", 10, endless=True)])
        until(lambda: min(len(story(up.data, "low", index)) for index in (0, 1)) > 10)
        kubectl("apply", manifest=training("high", 10))
        high = until(lambda: completed(kubectl, "high"))
        assert high.get("restarts", 0) == 0
        low = until(lambda: completed(kubectl, "low"))
        assert low["restarts"] == 1
        for index in (0, 1):
            _check_eviction(story(up.data, "low", index))
            assert [line[0] for line in story(up.data, "high", index)] == ["begin", *["step"] * 10, "done"]
        placed = kubectl.object("pods")["items"]
        assert {pod["spec"]["nodeName"] for pod in placed} == {"real-n0"}
        assert up.stop() == 0
        until(lambda: not leftovers(up.data))
    finally:
        up.kill_if_alive()
        for pid in leftovers(up.data):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _check_eviction(lines: list[list[str]]) -> None:
    """It began, was asked to end, went on until its grace was over, and then began again where it had been."""
    words = [line[0] for line in lines]
    again = words.index("begin", 1)
    asked = words.index("SIGTERM")
    assert asked < again
    assert words.count("begin") == 2
    last = lines[again - 1]
    # On a busy machine it hears late, and is killed late.
    assert GRACE / 2 < float(last[-1]) - float(lines[asked][-1]) < GRACE + 20
    assert "done" not in words[:again]
    assert int(lines[again][1]) - int(last[1]) in (0, 1)  # it may have been killed before it told its last step
    assert words[-1] == "done"
