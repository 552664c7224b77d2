"""lightkube: typed objects, apply, patches, watches, generic resources, waiting."""

from __future__ import annotations

import sys

from lightkube import ApiError, Client, KubeConfig
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.batch_v1 import JobSpec
from lightkube.models.core_v1 import Container, PodSpec, PodTemplateSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import ConfigMap, Namespace, Pod
from lightkube.types import PatchType

KUBECONFIG, NAMESPACE = sys.argv[1:]


def step(name: str, holds: object) -> None:
    assert holds, name
    print(name, flush=True)


client = Client(KubeConfig.from_file(KUBECONFIG), namespace=NAMESPACE, field_manager="lightkube")
client.create(Namespace(metadata=ObjectMeta(name=NAMESPACE)))

made = client.create(ConfigMap(metadata=ObjectMeta(name="map", labels={"a": "b"}), data={"a": "1"}))
made.data["b"] = "2"
step("replace", client.replace(made).data == {"a": "1", "b": "2"})
step("strategic patch", client.patch(ConfigMap, "map", {"data": {"c": "3"}}).data["c"] == "3")
step("merge patch", "c" not in client.patch(ConfigMap, "map", {"data": {"c": None}}, patch_type=PatchType.MERGE).data)
removal = [{"op": "remove", "path": "/data/b"}]
step("json patch", client.patch(ConfigMap, "map", removal, patch_type=PatchType.JSON).data == {"a": "1"})
step("list", [found.metadata.name for found in client.list(ConfigMap, labels={"a": "b"})] == ["map"])
version = client.get(ConfigMap, "map").metadata.resourceVersion
client.delete(ConfigMap, "map")
events = client.watch(ConfigMap, labels={"a": "b"}, resource_version=version)
step("watch", next(iter(events))[0] == "DELETED")
try:
    client.get(ConfigMap, "map")
except ApiError as refused:
    step("not found", refused.status.code == 404)

applied = client.apply(ConfigMap(metadata=ObjectMeta(name="applied"), data={"a": "1"}))
step("server-side apply", applied.metadata.managedFields[0].manager == "lightkube")
try:
    client.apply(ConfigMap(metadata=ObjectMeta(name="applied"), data={"a": "2"}), field_manager="other")
except ApiError as refused:
    step("apply conflict", refused.status.reason == "Conflict")

container = Container(name="c", image="busybox", command=["sleep", "1"])
template = PodTemplateSpec(spec=PodSpec(restartPolicy="Never", containers=[container]))
client.create(Job(metadata=ObjectMeta(name="work"), spec=JobSpec(template=template)))
done = client.wait(Job, "work", for_conditions=["Complete"])
step("job runs to its end", done.status.succeeded == 1)
step("pods", [pod.status.phase for pod in client.list(Pod, labels={"job-name": "work"})] == ["Succeeded"])
client.delete(Job, "work")

PodGroup = create_namespaced_resource("scheduling.k8s.io", "v1beta1", "PodGroup", "podgroups")
spec = {"schedulingPolicy": {"gang": {"minCount": 3}}}
group = client.create(PodGroup(metadata=ObjectMeta(name="group"), spec=spec))
step("custom kind", group.spec["schedulingPolicy"]["gang"]["minCount"] == 3)
client.deletecollection(PodGroup)
client.delete(Namespace, NAMESPACE)
for event, found in client.watch(Namespace):
    if event == "DELETED" and found.metadata.name == NAMESPACE:
        break
step("namespace is gone", True)
