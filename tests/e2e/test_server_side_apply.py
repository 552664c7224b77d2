"""Server-side apply through real clients: kubectl, lightkube and kubernetes' DynamicClient."""

from __future__ import annotations

import json
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import config, dynamic
from kubernetes.dynamic.exceptions import ConflictError
from lightkube import ApiError, Client
from lightkube.config.kubeconfig import KubeConfig
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap

from .kubectl import Kubectl


def config_map(name: str, labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    metadata = {"name": name, **({"labels": labels} if labels else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def managers(obj: dict[str, Any]) -> dict[str, Any]:
    return {f"{one['manager']} {one['operation']}": one["fieldsV1"] for one in obj["metadata"].get("managedFields", [])}


def owned(kubectl: Kubectl, name: str) -> dict[str, Any]:
    return managers(json.loads(kubectl("get", "cm", name, "-o", "json", "--show-managed-fields")))


def test_kubectl_applies_on_the_server_and_says_who_owns_a_conflict(kubectl: Kubectl) -> None:
    body = config_map("ours", a="1", b="2")
    assert kubectl("apply", "--server-side", manifest=body) == "configmap/ours serverside-applied\n"
    version = kubectl.object("cm", "ours")["metadata"]["resourceVersion"]
    kubectl("apply", "--server-side", manifest=body)
    assert kubectl.object("cm", "ours")["metadata"]["resourceVersion"] == version
    kubectl("patch", "cm", "ours", "--type=merge", "-p", '{"data": {"a": "7"}}')
    refused = kubectl.run("apply", "--server-side", manifest=body)
    assert refused.code == 1
    assert 'Apply failed with 1 conflict: conflict with "kubectl-patch" using v1: .data.a' in refused.err
    kubectl("apply", "--server-side", "--force-conflicts", manifest=body)
    assert kubectl.object("cm", "ours")["data"] == {"a": "1", "b": "2"}
    kubectl("apply", "--server-side", manifest=config_map("ours", a="1"))
    assert kubectl.object("cm", "ours")["data"] == {"a": "1"}


def test_labels_annotations_and_edits_after_an_apply_have_managers_of_their_own(kubectl: Kubectl) -> None:
    kubectl("apply", "--server-side", manifest=config_map("edited", a="1", b="2"))
    kubectl("annotate", "cm", "edited", "note=1")
    kubectl("label", "cm", "edited", "tier=1")
    environment = {**kubectl.environment(), "EDITOR": "sed -i 's/a: .*/a: \"3\"/'"}
    command = kubectl.command("edit", "cm", "edited")
    edited = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert edited.stdout == "configmap/edited edited\n", edited.stderr
    assert owned(kubectl, "edited") == {
        "kubectl Apply": {"f:data": {"f:b": {}}},
        "kubectl-annotate Update": {"f:metadata": {"f:annotations": {".": {}, "f:note": {}}}},
        "kubectl-label Update": {"f:metadata": {"f:labels": {".": {}, "f:tier": {}}}},
        "kubectl-edit Update": {"f:data": {"f:a": {}}},
    }


def test_kubectl_diff_on_the_server_shows_what_an_apply_would_change(kubectl: Kubectl) -> None:
    kubectl("apply", "--server-side", manifest=config_map("compared", a="1"))
    assert kubectl.run("diff", "--server-side", manifest=config_map("compared", a="1")).code == 0
    shown = kubectl.run("diff", "--server-side", manifest=config_map("compared", a="2"))
    assert shown.code == 1
    assert '-  a: "1"\n+  a: "2"\n' in shown.out
    assert kubectl.object("cm", "compared")["data"] == {"a": "1"}


def test_what_kubectl_applied_as_a_client_it_takes_over_on_the_server(kubectl: Kubectl) -> None:
    kubectl("apply", manifest=config_map("moved", a="1", b="2"))
    kubectl("apply", "--server-side", manifest=config_map("moved", a="5"))
    moved = kubectl.object("cm", "moved")
    assert moved["data"] == {"a": "5"}
    last = json.loads(moved["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"])
    assert last["data"] == {"a": "5"}
    assert owned(kubectl, "moved")["kubectl Apply"]["f:data"] == {"f:a": {}}
    assert kubectl("apply", manifest=config_map("moved", a="6")) == "configmap/moved configured\n"


def test_kubectl_prunes_what_is_no_longer_in_the_manifest(kubectl: Kubectl) -> None:
    chosen = ("-l", "app=pruned", "--prune", "--prune-allowlist=core/v1/ConfigMap")
    both = [config_map(name, {"app": "pruned"}, a="1") for name in ("first", "second")]
    kubectl("apply", *chosen, manifest=both)
    assert kubectl("apply", *chosen, manifest=both[:1]) == "configmap/first unchanged\nconfigmap/second pruned\n"


@pytest.mark.parametrize("mode", [[], ["--server-side"]])
def test_kubectl_keeps_an_apply_set(kubectl: Kubectl, mode: list[str]) -> None:
    name = f"set{len(mode)}"
    both = [config_map(f"{name}-{number}") for number in (1, 2)]
    chosen = ["apply", "-n", "default", "--prune", f"--applyset=configmaps/{name}", *mode, "-f", "-"]

    def applied(objects: list[dict[str, Any]]) -> str:
        done = subprocess.run(
            kubectl.command(*chosen),
            input=yaml.safe_dump_all(objects),
            env={**kubectl.environment(), "KUBECTL_APPLYSET": "true"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert f"configmap/{name}-2" in applied(both)
    assert f"configmap/{name}-2 pruned" in applied(both[:1])


def test_lightkube_applies_and_meets_conflicts(kubeconfig: Path) -> None:
    with closing(Client(KubeConfig.from_file(kubeconfig), namespace="default", field_manager="lightkube")) as client:
        ours = ConfigMap(metadata=ObjectMeta(name="light"), data={"a": "1"})
        theirs = ConfigMap(metadata=ObjectMeta(name="light"), data={"a": "2"})
        assert client.apply(ours).data == {"a": "1"}
        with pytest.raises(ApiError, match="conflict with"):
            client.apply(theirs, field_manager="other")
        forced = client.apply(theirs, field_manager="other", force=True)
    assert forced.data == {"a": "2"}
    assert forced.metadata is not None
    assert [one.manager for one in forced.metadata.managedFields or ()] == ["other"]


@pytest.mark.conformance("API-106")
def test_the_dynamic_client_applies_and_meets_conflicts(kubeconfig: Path) -> None:
    with dynamic.DynamicClient(config.new_client_from_config(str(kubeconfig))).client as api:
        maps = dynamic.DynamicClient(api).resources.get(api_version="v1", kind="ConfigMap")
        made = maps.server_side_apply(
            namespace="default", name="dynamic", body=config_map("dynamic", a="1"), field_manager="m1"
        )
        assert made.data.to_dict() == {"a": "1"}
        other = config_map("dynamic", a="2")
        with pytest.raises(ConflictError):
            maps.server_side_apply(namespace="default", name="dynamic", body=other, field_manager="m2")
        forced = maps.server_side_apply(
            namespace="default", name="dynamic", body=other, field_manager="m2", force_conflicts=True
        )
        assert managers(forced.to_dict()) == {"m2 Apply": {"f:data": {"f:a": {}}}}
