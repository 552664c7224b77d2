"""`up --controllers` and `--no-scheduler`: the API alone, for other people's controllers and schedulers."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e import kubectl as kubectl_module
from tests.e2e.kubectl import Kubectl
from tests.e2e.process import UpProcess

pytestmark = pytest.mark.skipif(kubectl_module.PATH is None, reason="needs kubectl")

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "waits"},
    "spec": {"containers": [{"name": "c", "image": "registry.example/c:1"}]},
}


def test_what_is_left_out_does_not_act_and_the_rest_does(tmp_path: Path) -> None:
    up = UpProcess(tmp_path / "data", "--controllers", "*,-job", "--no-scheduler")
    up.start()
    try:
        kubectl = Kubectl(up.kubeconfig, tmp_path / "cache")
        kubectl("create", "job", "idle", "--image=registry.example/c:1")
        kubectl("create", manifest=POD)
        kubectl("create", "namespace", "other")
        deadline = time.monotonic() + 30
        while kubectl.run("get", "serviceaccount", "default", "-n", "other").code:
            assert time.monotonic() < deadline, "the service account controller, which was not left out, does nothing"
            time.sleep(0.1)
        assert "status" not in kubectl.object("job", "idle") or not kubectl.object("job", "idle")["status"]
        assert kubectl("get", "pods", "-o", "name") == "pod/waits\n"
        assert "nodeName" not in kubectl.object("pod", "waits")["spec"]
    finally:
        up.stop()


def test_an_unknown_controller_ends_the_command_with_the_list() -> None:
    command = [sys.executable, "-m", "echelon", "up", "--ephemeral", "--controllers", "job,crons"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "unknown controller crons; known are trainjob, jobset, job," in done.stderr


def test_jobs_without_workloads_run_as_plain_pods_and_kubectl_shows_what_was_dropped(tmp_path: Path) -> None:
    container = {"name": "c", "image": "registry.example/c:1", "command": ["sleep", "1"]}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {
            "scheduling": {"schedulingPolicy": {"gang": {}}},
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }
    up = UpProcess(tmp_path / "data", "--no-job-workloads")
    up.start()
    try:
        kubectl = Kubectl(up.kubeconfig, tmp_path / "cache")
        made = kubectl.run("create", manifest=job)
        assert made.code == 0, made.err
        assert "Warning: spec.scheduling is dropped: this control plane runs Jobs without Workloads" in made.err
        kubectl("wait", "--for=condition=Complete", "job/train", "--timeout=60s")
        assert "scheduling" not in kubectl.object("job", "train")["spec"]
        assert kubectl("get", "workloads,podgroups", "-o", "name") == ""
    finally:
        up.stop()
