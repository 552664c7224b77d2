"""The official client, `kubernetes`: typed and dynamic clients, watches, every patch, manifests, leader election."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import yaml
from kubernetes import client, config, dynamic, utils, watch

KUBECONFIG, NAMESPACE = sys.argv[1:]
config.load_kube_config(KUBECONFIG)
core, batch = client.CoreV1Api(), client.BatchV1Api()


def step(name: str, holds: object) -> None:
    assert holds, name
    print(name, flush=True)


def refusal(call: Any, *arguments: Any, **options: Any) -> int:
    try:
        call(*arguments, **options)
    except client.ApiException as refused:
        return int(refused.status)
    return 0


def job(name: str, **options: Any) -> client.V1Job:
    container = client.V1Container(name="main", image="busybox", command=["sleep", "1"])
    spec = client.V1PodSpec(restart_policy="Never", containers=[container])
    metadata = client.V1ObjectMeta(labels={"job": name})
    template = client.V1PodTemplateSpec(metadata=metadata, spec=spec)
    return client.V1Job(metadata=client.V1ObjectMeta(name=name), spec=client.V1JobSpec(template=template, **options))


def namespaces() -> None:
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=NAMESPACE)))
    step("namespace", core.read_namespace(NAMESPACE).status.phase == "Active")
    step("version", client.VersionApi().get_code().git_version.startswith("v1.37"))
    groups = {group.name for group in client.ApisApi().get_api_versions().groups}
    step("groups", {"batch", "scheduling.k8s.io", "rbac.authorization.k8s.io"} <= groups)


def config_maps() -> None:
    metadata = client.V1ObjectMeta(name="map", labels={"made": "typed"})
    made = core.create_namespaced_config_map(NAMESPACE, client.V1ConfigMap(metadata=metadata, data={"a": "1"}))
    made.data["b"] = "2"
    step("replace", core.replace_namespaced_config_map("map", NAMESPACE, made).data == {"a": "1", "b": "2"})
    step("conflict", refusal(core.replace_namespaced_config_map, "map", NAMESPACE, made) == 409)
    step("exists", refusal(core.create_namespaced_config_map, NAMESPACE, {"metadata": {"name": "map"}}) == 409)
    patched = core.patch_namespaced_config_map("map", NAMESPACE, {"data": {"a": None, "c": "3"}})
    step("strategic patch", patched.data == {"b": "2", "c": "3"})
    patched = core.patch_namespaced_config_map("map", NAMESPACE, [{"op": "remove", "path": "/data/b"}])
    step("json patch", patched.data == {"c": "3"})
    listed = core.list_namespaced_config_map(NAMESPACE, label_selector="made=typed", limit=1)
    step("list", [item.metadata.name for item in listed.items] == ["map"])
    core.delete_namespaced_config_map("map", NAMESPACE, dry_run="All")
    step("dry run", core.read_namespaced_config_map("map", NAMESPACE))
    core.delete_collection_namespaced_config_map(NAMESPACE, label_selector="made=typed")
    step("not found", refusal(core.read_namespaced_config_map, "map", NAMESPACE) == 404)


def jobs() -> None:
    stream = watch.Watch()
    seen: list[str] = []

    def follow() -> None:
        for event in stream.stream(core.list_namespaced_pod, NAMESPACE, label_selector="job=work", timeout_seconds=60):
            seen.append(event["object"].status.phase)
            if seen.count("Succeeded") == 2:
                stream.stop()

    follower = threading.Thread(target=follow)
    follower.start()
    batch.create_namespaced_job(NAMESPACE, job("work", completions=2, parallelism=2))
    for event in watch.Watch().stream(batch.list_namespaced_job, NAMESPACE, timeout_seconds=60):
        if event["object"].status.succeeded == 2 and event["object"].status.completion_time:
            break
    follower.join(60)
    step("job runs to its end", batch.read_namespaced_job_status("work", NAMESPACE).status.succeeded == 2)
    step("pods are watched", {"Pending", "Running", "Succeeded"} <= set(seen))
    reasons: set[str] = set()
    while "Completed" not in reasons:  # it is told after the status
        events = core.list_namespaced_event(NAMESPACE, field_selector="involvedObject.name=work").items
        reasons = {event.reason for event in events}
    step("events", "SuccessfulCreate" in reasons)
    batch.delete_namespaced_job("work", NAMESPACE, propagation_policy="Foreground")
    while refusal(batch.read_namespaced_job, "work", NAMESPACE) != 404:
        time.sleep(0.1)
    step("foreground deletion", not core.list_namespaced_pod(NAMESPACE, label_selector="job=work").items)


def pods() -> None:
    spec = {"containers": [{"name": "c", "image": "busybox", "command": ["sleep", "1000"]}]}
    core.create_namespaced_pod(NAMESPACE, {"metadata": {"name": "pod"}, "spec": spec})
    while core.read_namespaced_pod_status("pod", NAMESPACE).status.phase != "Running":
        time.sleep(0.1)
    evicted = client.V1Eviction(metadata=client.V1ObjectMeta(name="pod", namespace=NAMESPACE))
    step("eviction", core.create_namespaced_pod_eviction("pod", NAMESPACE, evicted))
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    step("review", client.AuthorizationV1Api().create_self_subject_access_review(review).status.allowed)


def custom_objects() -> None:
    custom = client.CustomObjectsApi()
    where = ("scheduling.k8s.io", "v1beta1", NAMESPACE, "podgroups")
    body = {
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": "group"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }  # fmt: skip
    custom.create_namespaced_custom_object(*where, body)
    patched = custom.patch_namespaced_custom_object(*where, "group", {"metadata": {"labels": {"a": "b"}}})
    step("custom object", patched["metadata"]["labels"] == {"a": "b"})
    custom.delete_namespaced_custom_object(*where, "group")


def dynamic_client() -> None:
    anything = dynamic.DynamicClient(client.ApiClient())
    maps = anything.resources.get(api_version="v1", kind="ConfigMap")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": "1"}}
    applied = maps.server_side_apply(body=body, name="applied", namespace=NAMESPACE, field_manager="python")
    step("server-side apply", applied.metadata.managedFields[0].manager == "python")
    applied = maps.patch(
        body={"data": {"b": "2"}}, name="applied", namespace=NAMESPACE, content_type="application/merge-patch+json"
    )
    step("dynamic merge patch", applied.data.to_dict() == {"a": "1", "b": "2"})
    found = [event["object"].metadata.name for event in maps.watch(namespace=NAMESPACE, timeout=1)]
    step("dynamic watch", "applied" in found)
    maps.delete(name="applied", namespace=NAMESPACE)
    sets = anything.resources.get(api_version="jobset.x-k8s.io/v1alpha2", kind="JobSet")
    step("dynamic list of a custom kind", sets.get(namespace=NAMESPACE).items == [])


def manifests() -> None:
    documents = [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "v"}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}},
    ]
    utils.create_from_yaml(client.ApiClient(), yaml_objects=yaml.safe_load_all(yaml.safe_dump_all(documents)),
                           namespace=NAMESPACE)  # fmt: skip
    step("manifest", core.read_namespaced_secret("s", NAMESPACE).data == {"k": "dg=="})
    token = core.create_namespaced_service_account_token("a", NAMESPACE, {"spec": {"expirationSeconds": 3600}})
    step("token", token.status.token)


for part in (namespaces, config_maps, jobs, pods, custom_objects, dynamic_client, manifests):
    part()
core.delete_namespace(NAMESPACE)
while refusal(core.read_namespace, NAMESPACE) != 404:
    time.sleep(0.1)
step("namespace is gone", True)
