"""The official Python client against the embedded server."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config, watch

from echelon.testing.builders import bare_pod


@pytest.fixture
def core(kubeconfig: Path) -> Any:
    return client.CoreV1Api(config.new_client_from_config(str(kubeconfig)))


def test_create_list_watch_replace_and_delete(core: Any) -> None:
    created = core.create_namespaced_pod("default", bare_pod("py-1", labels={"made-by": "python"}))
    assert created.status.phase == "Pending"
    listed = core.list_namespaced_pod("default", label_selector="made-by=python")
    assert [item.metadata.name for item in listed.items] == ["py-1"]

    seen: list[tuple[str, str]] = []
    streaming = watch.Watch()

    def follow() -> None:
        version = listed.metadata.resource_version
        for event in streaming.stream(
            core.list_namespaced_pod, "default", label_selector="made-by=python", resource_version=version,
            timeout_seconds=90,
        ):  # fmt: skip
            seen.append((event["type"], event["object"].metadata.name))
            if event["type"] == "DELETED":
                streaming.stop()

    follower = threading.Thread(target=follow)
    follower.start()
    created.metadata.labels["more"] = "yes"
    core.replace_namespaced_pod("py-1", "default", created)
    core.patch_namespaced_pod("py-1", "default", {"metadata": {"annotations": {"a": "b"}}})
    core.delete_namespaced_pod("py-1", "default", grace_period_seconds=0)
    follower.join(timeout=90)
    # An unbound pod is marked and removed at once; how many steps that takes is the server's business.
    assert seen[0] == ("MODIFIED", "py-1")
    assert seen[-1] == ("DELETED", "py-1")
    assert not core.list_namespaced_pod("default", label_selector="made-by=python").items


def test_custom_objects(kubeconfig: Path) -> None:
    custom = client.CustomObjectsApi(config.new_client_from_config(str(kubeconfig)))
    where = ("scheduling.k8s.io", "v1beta1", "default", "podgroups")
    body = {
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": "py"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }  # fmt: skip
    custom.create_namespaced_custom_object(*where, body)
    found = custom.get_namespaced_custom_object(*where, "py")
    assert found["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}
    with pytest.raises(client.ApiException) as refused:
        custom.create_namespaced_custom_object(*where, body)
    assert refused.value.status == 409
