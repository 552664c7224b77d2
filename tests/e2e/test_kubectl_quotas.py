"""Quotas, limit ranges, events and endpoints as people meet them: through kubectl and the official Python client."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config

from .kubectl import Kubectl


def columns(text: str) -> list[list[str]]:
    return [re.split(r" {2,}", line.strip()) for line in text.splitlines() if line.strip()]


@pytest.mark.conformance("API-101")
def test_a_quota_is_created_described_and_never_exceeded(kubectl: Kubectl) -> None:
    kubectl("create", "namespace", "team")
    kubectl("create", "quota", "q", "-n", "team", "--hard=pods=1,count/secrets=1,requests.cpu=1")
    kubectl("create", "quota", "short", "-n", "team", "--hard=pods=0", "--scopes=Terminating")
    kubectl("create", "secret", "generic", "first", "-n", "team")
    refused = kubectl.run("create", "secret", "generic", "second", "-n", "team")
    assert refused.err.strip() == (
        'error: failed to create secret secrets "second" is forbidden: exceeded quota: q, requested: count/secrets=1, '
        "used: count/secrets=1, limited: count/secrets=1"
    )
    kubectl("wait", "quota/q", "-n", "team", "--for=jsonpath={.status.used.count/secrets}=1", "--timeout=30s")
    assert columns(kubectl("describe", "quota", "q", "-n", "team"))[2:] == [
        ["Resource", "Used", "Hard"],
        ["--------", "----", "----"],
        ["count/secrets", "1", "1"],
        ["pods", "0", "1"],
        ["requests.cpu", "0", "1"],
    ]
    assert "count/secrets  1     1" in kubectl("describe", "namespace", "team")
    printed = columns(kubectl("get", "quota", "-n", "team", "--no-headers"))
    assert printed[0][:2] == ["q", "count/secrets: 1/1, pods: 0/1, requests.cpu: 0/1"]


def test_a_limit_range_is_described_and_completes_pods(kubectl: Kubectl) -> None:
    kubectl("create", "namespace", "limited")
    limit = {"type": "Container", "default": {"cpu": "500m"}, "max": {"cpu": "1"}}
    kubectl(
        "apply",
        manifest={
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "l", "namespace": "limited"},
            "spec": {"limits": [limit]},
        },
    )
    assert columns(kubectl("describe", "limits", "l", "-n", "limited"))[-1] == [
        "Container", "cpu", "-", "1", "500m", "500m", "-",
    ]  # fmt: skip
    kubectl("run", "p", "-n", "limited", "--image=i")
    assert kubectl.object("pod", "p", "-n", "limited")["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "500m"},
        "requests": {"cpu": "500m"},
    }


def test_the_server_has_a_service(kubectl: Kubectl) -> None:
    assert columns(kubectl("get", "service", "kubernetes", "--no-headers"))[0][:5] == [
        "kubernetes", "ClusterIP", "10.0.0.1", "<none>", "443/TCP",
    ]  # fmt: skip
    assert "Endpoints:" in kubectl("describe", "service", "kubernetes")
    shown = columns(kubectl("get", "endpointslices", "--no-headers"))
    assert shown[0][:2] == ["kubernetes", "IPv4"]


@pytest.mark.conformance("API-78")
def test_status_and_finalizers_of_a_namespace_with_the_python_client(kubeconfig: Path) -> None:
    core = client.CoreV1Api(config.new_client_from_config(str(kubeconfig)))
    made: Any = core.create_namespace({"metadata": {"name": "finalized"}})
    made.status.conditions = [
        client.V1NamespaceCondition(type="Mine", status="True", reason="Because", message="by hand")
    ]
    written = core.replace_namespace_status("finalized", made)
    assert [one.type for one in written.status.conditions] == ["Mine"]
    patch = {"status": {"conditions": [{"type": "Mine", "status": "False"}]}}
    assert core.patch_namespace_status("finalized", patch).status.conditions[0].status == "False"
    held: Any = core.read_namespace("finalized")
    held.spec.finalizers.append("example.com/held")
    assert core.replace_namespace_finalize("finalized", held).spec.finalizers == ["kubernetes", "example.com/held"]
    core.delete_namespace("finalized")
    free = core.read_namespace("finalized")
    assert (free.status.phase, free.metadata.deletion_timestamp is not None) == ("Terminating", True)
    free.spec.finalizers = []
    core.replace_namespace_finalize("finalized", free)
    with pytest.raises(client.ApiException) as caught:
        core.read_namespace("finalized")
    assert caught.value.status == 404
