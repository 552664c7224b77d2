"""Restarts under `--speed`: the cluster clock goes on, so no stored time lies in the future."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from echelon.base.instants import parse
from tests.e2e import kubectl as kubectl_module
from tests.e2e.kubectl import Kubectl
from tests.e2e.process import UpProcess

pytestmark = pytest.mark.skipif(kubectl_module.PATH is None, reason="needs kubectl")

SPEED = 10
#: One node, so that of two Jobs one waits.
ONE_NODE = "pools: [{name: only, counts: {node: 1}, capacity: {cpu: 4, memory: 16Gi}}]\n"


def job(name: str, seconds: int) -> dict[str, Any]:
    container = {"name": "c", "image": "registry.example/c:1", "resources": {"requests": {"cpu": "3"}}}
    annotations = {"echelon.dev/run-seconds": str(seconds)}
    template = {
        "metadata": {"annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template}}


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_after_a_restart_ages_are_valid_the_order_is_kept_and_jobs_end(tmp_path: Path, end: str) -> None:
    (tmp_path / "one.yaml").write_text(ONE_NODE)
    up = UpProcess(tmp_path / "data", "--speed", str(SPEED), "--cluster", str(tmp_path / "one.yaml"))
    up.start()
    kubectl = Kubectl(up.kubeconfig, tmp_path / "cache")
    try:
        time.sleep(5)  # the cluster clock is 45 s ahead now
        kubectl("create", manifest=job("running", 60))
        kubectl("wait", "--for=jsonpath={.status.ready}=1", "job/running", "--timeout=30s")
        kubectl("create", manifest=job("older", 20))
        time.sleep(0.2)
        getattr(up, end)()
        up.start()
        kubectl("create", manifest=job("younger", 20))
        created = [parse(kubectl.object("job", name)["metadata"]["creationTimestamp"]) for name in ("older", "younger")]
        assert created[0] < created[1]
        assert "<invalid>" not in kubectl("get", "nodes,jobs,pods,events,namespaces", "-A")
        kubectl("wait", "--for=condition=Complete", "job/running", "job/older", "job/younger", "--timeout=60s")
        older, younger = (kubectl.object("job", name)["status"]["completionTime"] for name in ("older", "younger"))
        assert parse(older) < parse(younger)
    finally:
        up.stop()
