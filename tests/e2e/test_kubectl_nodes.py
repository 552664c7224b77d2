"""Nodes as an administrator meets them through kubectl: how they look, fail, come back, and are drained."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import kubectl as kubectl_module
from tests.e2e.kubectl import Kubectl
from tests.e2e.process import UpProcess

pytestmark = pytest.mark.skipif(kubectl_module.PATH is None, reason="needs kubectl")

#: Six seconds until a lost node is noticed and its pods are evicted.
SPEED = 60
CLUSTER = "pools: [{name: n, counts: {node: 3}, capacity: {cpu: 4, memory: 16Gi}}]\n"


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    folder: Path = tmp_path_factory.mktemp("nodes")
    (folder / "three.yaml").write_text(CLUSTER)
    up = UpProcess(folder / "data", "--speed", str(SPEED), "--cluster", str(folder / "three.yaml"))
    up.start()
    yield Kubectl(up.kubeconfig, folder / "cache")
    up.stop()


def pod(name: str, node: str) -> dict[str, Any]:
    container = {"name": "c", "image": "registry.example/c:1", "command": ["sleep", "infinity"]}
    spec = {"nodeName": node, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.1)


def test_nodes_are_shown_as_real_ones(kubectl: Kubectl) -> None:
    wide = kubectl("get", "nodes", "-o", "wide", "--no-headers").splitlines()
    assert [line.split()[:2] for line in wide] == [["n-n0", "Ready"], ["n-n1", "Ready"], ["n-n2", "Ready"]]
    assert all(line.split()[5].startswith("172.") for line in wide)
    assert len(kubectl("get", "nodes", "-l", "kubernetes.io/os=linux", "-o", "name").splitlines()) == 3
    until(lambda: "HolderIdentity:  n-n0" in kubectl("describe", "node", "n-n0"), "a lease")


def test_a_lost_node_loses_its_pods_and_comes_back(kubectl: Kubectl) -> None:
    kubectl("create", manifest=pod("here", "n-n0"))
    kubectl("wait", "--for=condition=Ready", "pod/here", "--timeout=30s")
    kubectl("annotate", "node", "n-n0", "echelon.dev/node-failure=lost")
    kubectl("wait", "--for=condition=Ready=Unknown", "node/n-n0", "--timeout=30s")
    kubectl("wait", "--for=condition=Ready=False", "pod/here", "--timeout=30s")
    assert kubectl("get", "node", "n-n0", "--no-headers").split()[1] == "NotReady"
    until(lambda: "deletionTimestamp" in kubectl.object("pod", "here")["metadata"], "the eviction")
    kubectl("annotate", "node", "n-n0", "echelon.dev/node-failure-")
    kubectl("wait", "--for=condition=Ready", "node/n-n0", "--timeout=30s")
    kubectl("wait", "--for=delete", "pod/here", "--timeout=30s")
    until(lambda: "taints" not in kubectl.object("node", "n-n0")["spec"], "taints to go")


def test_a_taint_evicts_and_a_cordon_is_a_taint(kubectl: Kubectl) -> None:
    kubectl("create", manifest=pod("tainted", "n-n1"))
    kubectl("wait", "--for=condition=Ready", "pod/tainted", "--timeout=30s")
    kubectl("taint", "nodes", "n-n1", "repair=now:NoExecute")
    kubectl("wait", "--for=delete", "pod/tainted", "--timeout=30s")
    kubectl("taint", "nodes", "n-n1", "repair-")
    kubectl("cordon", "n-n1")
    until(lambda: "node.kubernetes.io/unschedulable:NoSchedule" in kubectl("describe", "node", "n-n1"), "the taint")
    kubectl("uncordon", "n-n1")
    until(lambda: "taints" not in kubectl.object("node", "n-n1")["spec"], "the taint to go")
