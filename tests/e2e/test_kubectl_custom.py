"""A custom kind through the real kubectl and the dynamic client: defined, applied, explained, scaled, deleted."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config, dynamic

from tests.integration.test_custom_resources import crontab, definition, version

from .kubectl import PATH, Kubectl
from .process import UpProcess

SCALE = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.labelSelector",
}
COLUMNS = [
    {"name": "Spec", "type": "string", "jsonPath": ".spec.cronSpec"},
    {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"},
    {"name": "Image", "type": "string", "jsonPath": ".spec.image", "priority": 1},
]


def described() -> dict[str, Any]:
    made = version(subresources={"status": {}, "scale": SCALE}, additionalPrinterColumns=COLUMNS)
    schema = made["schema"]["openAPIV3Schema"]
    schema["description"] = "Runs a command at times."
    schema["properties"]["spec"]["properties"]["cronSpec"]["description"] = "When it runs."
    return definition(made, shortNames=["ct"], categories=["all"])


@pytest.fixture(scope="module")
def defined(kubectl: Kubectl) -> Kubectl:
    kubectl("apply", manifest=described())
    kubectl("wait", "--for=condition=Established", "crd/crontabs.stable.example.com", "--timeout=2s")
    kubectl("api-resources", "--cached=false")  # short names are looked up in what kubectl keeps of the API
    return kubectl


@pytest.mark.conformance("API-104")
def test_kubectl_applies_prints_and_patches_custom_objects(defined: Kubectl) -> None:
    assert "crontab.stable.example.com/a created" in defined("apply", manifest=crontab(image="a"))
    assert "unchanged" in defined("apply", manifest=crontab(image="a"))
    assert "configured" in defined("apply", manifest=crontab(image="b", replicas=2))
    assert defined("get", "ct").split() == ["NAME", "SPEC", "REPLICAS", "a", "*", "*", "2"]
    assert defined("get", "crontabs", "-o", "wide").split()[-1] == "b"
    assert "crontab.stable.example.com/a" in defined("get", "all", "-o", "name")
    patched = defined("patch", "ct", "a", "--type=merge", "-p", '{"spec":{"replicas":3}}')
    assert "patched" in patched
    assert defined.object("crontab.v1.stable.example.com", "a")["spec"]["replicas"] == 3
    defined("patch", "ct", "a", "--type=json", "-p", '[{"op":"remove","path":"/spec/image"}]')
    assert "image" not in defined.object("ct", "a")["spec"]
    refused = defined.run("patch", "ct", "a", "--type=merge", "-p", '{"spec":{"replicas":99}}')
    assert "spec.replicas: Invalid value: 99: spec.replicas in body should be less than or equal to 10" in refused.err
    assert "Kind: CronTab" in " ".join(defined("describe", "ct", "a").split())
    defined("delete", "ct", "a")


def test_kubectl_refuses_fields_that_the_schema_does_not_name(defined: Kubectl) -> None:
    refused = defined.run("apply", manifest=crontab("b", nosuch=1))
    assert refused.code == 1
    assert 'strict decoding error: unknown field "spec.nosuch"' in refused.err
    warned = defined.run("apply", "--validate=warn", manifest=crontab("b", nosuch=1))
    assert 'Warning: unknown field "spec.nosuch"' in warned.err
    defined("delete", "ct", "b")


def test_kubectl_explains_custom_kinds(defined: Kubectl) -> None:
    told = defined("explain", "ct")
    assert "Runs a command at times." in told
    assert "GROUP:      stable.example.com" in told
    field = defined("explain", "crontabs.spec.cronSpec")
    assert "When it runs." in field
    assert "<string>" in field
    assert "crontabs" in defined("api-resources", "--api-group=stable.example.com")


def test_kubectl_scales_and_waits_for_custom_objects(defined: Kubectl) -> None:
    defined("create", manifest=crontab("s", replicas=1))
    assert "scaled" in defined("scale", "ct", "s", "--replicas=4")
    assert defined.object("ct", "s")["spec"]["replicas"] == 4
    defined("patch", "ct", "s", "--subresource=status", "--type=merge", "-p", '{"status":{"replicas":4}}')
    defined("wait", "ct/s", "--for=jsonpath={.status.replicas}=4", "--timeout=5s")
    defined("delete", "ct", "s")


def test_custom_objects_are_applied_on_the_server_and_conflicts_are_told(defined: Kubectl) -> None:
    wanted = crontab("x", image="a", ports=[{"name": "web", "number": 80}])
    defined("apply", "--server-side", manifest=wanted)
    more = crontab("x", ports=[{"name": "admin", "number": 81}])
    del more["spec"]["cronSpec"]
    defined("apply", "--server-side", "--field-manager=other", manifest=more)
    found = defined.object("ct", "x", "--show-managed-fields")
    assert [port["name"] for port in found["spec"]["ports"]] == ["web", "admin"]
    assert {one["manager"] for one in found["metadata"]["managedFields"]} == {"kubectl", "other"}
    conflict = copy.deepcopy(wanted)
    conflict["spec"]["ports"][0]["number"] = 90
    refused = defined.run("apply", "--server-side", "--field-manager=other", manifest=conflict)
    assert 'conflict with "kubectl"' in refused.err
    assert '.spec.ports[name="web"].number' in refused.err
    defined("delete", "ct", "x")


def test_a_deleted_definition_is_gone_for_kubectl(kubectl: Kubectl) -> None:
    other = definition(plural="others", singular="other", kind="Other", listKind="OtherList")
    kubectl("create", manifest=other)
    kubectl("delete", "crd", "others.stable.example.com", "--wait", "--timeout=10s")
    assert "the server doesn't have a resource type" in kubectl.run("get", "others").err


def test_the_dynamic_client_reads_writes_and_watches_custom_objects(defined: Kubectl) -> None:
    api = config.new_client_from_config(str(defined.kubeconfig))
    try:
        crontabs = dynamic.DynamicClient(api).resources.get(api_version="stable.example.com/v1", kind="CronTab")
        crontabs.create(body=crontab("d", replicas=2), namespace="default")
        patch = {"spec": {"replicas": 5}}
        kind = "application/merge-patch+json"
        changed = crontabs.patch(body=patch, name="d", namespace="default", content_type=kind)
        assert changed.spec.replicas == 5
        seen = [event["object"].metadata.name for event in crontabs.watch(namespace="default", timeout=1)]
        assert seen == ["d"]
        assert crontabs.status.get(name="d", namespace="default").spec.replicas == 5
        crontabs.delete(name="d", namespace="default")
        typed = client.CustomObjectsApi(api)
        assert typed.list_cluster_custom_object("stable.example.com", "v1", "crontabs")["items"] == []
    finally:
        api.close()


@pytest.mark.skipif(PATH is None, reason="no kubectl on PATH")
def test_custom_kinds_survive_a_kill(tmp_path: Path) -> None:
    plane = UpProcess(tmp_path / "data", "--no-scheduler")
    plane.start()
    kubectl = Kubectl(plane.kubeconfig, tmp_path / "cache")
    kubectl("apply", manifest=described())
    kubectl("apply", manifest=crontab(replicas=3))
    plane.kill()
    plane.start()
    try:
        assert kubectl.object("crontabs", "a")["spec"]["replicas"] == 3
        listed = json.loads(kubectl("get", "--raw", "/apis/stable.example.com/v1"))
        assert [one["name"] for one in listed["resources"]] == ["crontabs", "crontabs/scale", "crontabs/status"]
        kubectl("create", manifest=crontab("b"))
        kubectl("delete", "crd", "crontabs.stable.example.com", "--timeout=10s")
    finally:
        plane.stop()
