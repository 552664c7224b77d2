"""Deployments with the real kubectl on a whole plane: create, scale, rollout, get, describe, delete."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import controlplane
from tests.e2e.kubectl import Kubectl
from tests.e2e.process import UpProcess

BINARIES = [
    path
    for path in (shutil.which("kubectl"), str(controlplane.home() / "kubectl"))
    if path is not None and Path(path).is_file()
]
pytestmark = pytest.mark.skipif(not BINARIES, reason="needs kubectl")


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpProcess]:
    process = UpProcess(tmp_path_factory.mktemp("plane") / "data", "--speed", "10")
    process.start()
    yield process
    process.stop()


@pytest.fixture(params=BINARIES, ids=[f"kubectl {number}" for number, _ in enumerate(BINARIES)])
def kubectl(request: pytest.FixtureRequest, up: UpProcess, tmp_path: Path) -> Kubectl:
    return Kubectl(up.kubeconfig, tmp_path / "cache", request.param)


@pytest.fixture
def name(kubectl: Kubectl) -> Iterator[str]:
    made = f"web-{BINARIES.index(kubectl.binary or '')}"
    yield made
    kubectl("delete", "deployment", made, "--ignore-not-found", "--wait=true")


def rolled_out(kubectl: Kubectl, name: str) -> str:
    return kubectl("rollout", "status", f"deployment/{name}", "--timeout=45s")


def lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip()]


@pytest.mark.conformance("API-99", "API-101")
def test_a_deployment_is_created_scaled_and_rolled_back(kubectl: Kubectl, name: str) -> None:
    kubectl("create", "deployment", name, "--image=registry.example/web:1", "--replicas=3")
    assert "successfully rolled out" in rolled_out(kubectl, name)
    assert lines(kubectl("get", "deployment", name, "--no-headers"))[0][:4] == [name, "3/3", "3", "3"]
    wide = kubectl("get", "deployment", name, "-o", "wide")
    assert lines(wide)[0][5:] == ["CONTAINERS", "IMAGES", "SELECTOR"]
    assert lines(wide)[1][-1] == f"app={name}"
    replica_sets = kubectl("get", "rs", "-l", f"app={name}", "--no-headers")
    assert lines(replica_sets)[0][1:4] == ["3", "3", "3"]

    kubectl("scale", f"deployment/{name}", "--replicas=5", "--current-replicas=3")
    rolled_out(kubectl, name)
    assert kubectl("get", "deployment", name, "-o", "jsonpath={.status.readyReplicas}") == "5"
    refused = kubectl.run("scale", f"deployment/{name}", "--replicas=9", "--current-replicas=3")
    assert refused.code != 0
    assert "Expected replicas to be 3, was 5" in refused.err
    shown = kubectl("get", "deployment", name, "--subresource=scale", "-o", "jsonpath={.kind} {.spec.replicas}")
    assert shown == "Scale 5"

    kubectl("set", "image", f"deployment/{name}", "*=registry.example/web:2")
    rolled_out(kubectl, name)
    kubectl("annotate", f"deployment/{name}", "kubernetes.io/change-cause=second")
    assert [line[0] for line in lines(kubectl("rollout", "history", f"deployment/{name}"))[2:]] == ["1", "2"]
    kubectl("rollout", "undo", f"deployment/{name}")
    rolled_out(kubectl, name)
    image = "jsonpath={.spec.template.spec.containers[0].image}"
    assert kubectl("get", "deployment", name, "-o", image) == "registry.example/web:1"
    kubectl("rollout", "undo", f"deployment/{name}", "--to-revision=2")
    rolled_out(kubectl, name)
    assert kubectl("get", "deployment", name, "-o", image) == "registry.example/web:2"
    images = {
        line[1] for line in lines(kubectl("get", "pods", "-l", f"app={name}", "-o", _IMAGES)) if line[0] != "dead"
    }
    assert images == {"registry.example/web:2"}


_IMAGES = (
    "go-template={{range .items}}{{if .metadata.deletionTimestamp}}dead{{else}}live{{end}} "
    "{{(index .spec.containers 0).image}}\n{{end}}"
)


@pytest.mark.conformance("API-99")
def test_a_rollout_is_paused_resumed_and_restarted(kubectl: Kubectl, name: str) -> None:
    kubectl("create", "deployment", name, "--image=registry.example/web:1", "--replicas=2")
    rolled_out(kubectl, name)
    kubectl("rollout", "pause", f"deployment/{name}")
    kubectl("set", "image", f"deployment/{name}", "*=registry.example/web:2")
    kubectl("wait", f"deployment/{name}", "--for=jsonpath={.status.conditions[?(@.type=='Progressing')].reason}="
            "DeploymentPaused", "--timeout=20s")  # fmt: skip
    assert len(lines(kubectl("get", "rs", "-l", f"app={name}", "--no-headers"))) == 1
    kubectl("rollout", "resume", f"deployment/{name}")
    rolled_out(kubectl, name)
    assert len(lines(kubectl("get", "rs", "-l", f"app={name}", "--no-headers"))) == 2
    kubectl("rollout", "restart", f"deployment/{name}")
    rolled_out(kubectl, name)
    assert len(lines(kubectl("get", "rs", "-l", f"app={name}", "--no-headers"))) == 3
    described = kubectl("describe", "deployment", name)
    assert "RollingUpdateStrategy:  25% max unavailable, 25% max surge" in described
    assert "Scaled up replica set" in described
    kubectl("wait", f"deployment/{name}", "--for=condition=Available", "--timeout=20s")
    assert name in kubectl("get", "all")


def test_a_deployment_is_applied_by_client_and_server(kubectl: Kubectl, name: str) -> None:
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "strategy": {"type": "Recreate"},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "registry.example/web:1"}]},
            },
        },
    }
    kubectl("apply", manifest=manifest)
    rolled_out(kubectl, name)
    # retainKeys: the other strategy goes with its type.
    manifest["spec"] = {**manifest["spec"], "strategy": {"type": "RollingUpdate"}, "replicas": 3}  # type: ignore[dict-item]
    kubectl("apply", manifest=manifest)
    rolled_out(kubectl, name)
    before = kubectl.object("deployment", name)
    kubectl("apply", manifest=manifest)
    assert kubectl.object("deployment", name)["metadata"]["generation"] == before["metadata"]["generation"]
    kubectl("apply", "--server-side", manifest=manifest)
    kubectl("scale", f"deployment/{name}", "--replicas=1")
    refused = kubectl.run("apply", "--server-side", "--field-manager=other", manifest=manifest)
    assert refused.code != 0
    assert ".spec.replicas" in refused.err


@pytest.mark.parametrize("kind", ["rs", "rc"])
def test_replica_sets_and_controllers_are_scaled_and_deleted(kubectl: Kubectl, kind: str) -> None:
    name = f"{kind}-{BINARIES.index(kubectl.binary or '')}"
    selector = {"app": name} if kind == "rc" else {"matchLabels": {"app": name}}
    kubectl(
        "create",
        manifest={
            "apiVersion": "v1" if kind == "rc" else "apps/v1",
            "kind": "ReplicationController" if kind == "rc" else "ReplicaSet",
            "metadata": {"name": name},
            "spec": {
                "replicas": 2,
                "selector": selector,
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": "c", "image": "registry.example/web:1"}]},
                },
            },
        },
    )
    kubectl("wait", f"{kind}/{name}", "--for=jsonpath={.status.readyReplicas}=2", "--timeout=30s")
    kubectl("scale", f"{kind}/{name}", "--replicas=3")
    kubectl("wait", f"{kind}/{name}", "--for=jsonpath={.status.readyReplicas}=3", "--timeout=30s")
    assert "3 Running / 0 Waiting" in kubectl("describe", kind, name)
    kubectl("delete", kind, name, "--cascade=foreground")
    deadline = time.monotonic() + 20
    while kubectl("get", "pods", "-l", f"app={name}", "-o", "name"):
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
def test_stateful_sets_and_daemon_sets_are_rolled_out_and_back(kubectl: Kubectl, kind: str) -> None:
    name = f"{kind.lower()}-{BINARIES.index(kubectl.binary or '')}"
    replicas = {"replicas": 2, "serviceName": name} if kind == "StatefulSet" else {}
    kubectl(
        "create",
        manifest={
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name},
            "spec": {
                **replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": "c", "image": "registry.example/web:1"}]},
                },
            },
        },
    )
    target, image = f"{kind}/{name}", "jsonpath={.spec.template.spec.containers[0].image}"
    kubectl("rollout", "status", target, "--timeout=50s")
    nodes = lines(kubectl("get", "nodes", "-o", "name"))
    pods = lines(kubectl("get", "pods", "-l", f"app={name}", "-o", "name"))
    assert len(pods) == (2 if kind == "StatefulSet" else len(nodes))
    kubectl("set", "image", target, "*=registry.example/web:2")
    kubectl("rollout", "status", target, "--timeout=50s")
    assert [line[0] for line in lines(kubectl("rollout", "history", target))[2:]] == ["1", "2"]
    kubectl("rollout", "undo", target)
    kubectl("rollout", "status", target, "--timeout=50s")
    assert kubectl("get", target, "-o", image) == "registry.example/web:1"
    assert name in kubectl("get", "sts" if kind == "StatefulSet" else "ds", "-o", "wide")
    assert "SuccessfulCreate" in kubectl("describe", target)
    kubectl("delete", target, "--cascade=foreground")


def test_a_plane_that_is_killed_goes_on_with_a_rollout(tmp_path: Path) -> None:
    up = UpProcess(tmp_path / "data")
    up.start()
    try:
        kubectl = Kubectl(up.kubeconfig, tmp_path / "cache", BINARIES[0])
        kubectl("create", "deployment", "web", "--image=registry.example/web:1", "--replicas=4")
        rolled_out(kubectl, "web")
        kubectl("set", "image", "deployment/web", "*=registry.example/web:2")
        up.kill()
        up.start()
        rolled_out(kubectl, "web")
        assert kubectl("get", "deployment", "web", "-o", "jsonpath={.status.updatedReplicas}") == "4"
    finally:
        up.stop()
