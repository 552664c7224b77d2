"""pykube-ng: queries, updates that become merge patches, watches, kinds it has no class for."""

from __future__ import annotations

import sys
import time

import pykube

KUBECONFIG, NAMESPACE = sys.argv[1:]
api = pykube.HTTPClient(pykube.KubeConfig.from_file(KUBECONFIG))


def step(name: str, holds: object) -> None:
    assert holds, name
    print(name, flush=True)


step("version", api.version[0] == "1")
namespace = pykube.Namespace(api, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
namespace.create()

made = pykube.ConfigMap(
    api,
    {
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"},
        "metadata": {"name": "map", "namespace": NAMESPACE, "labels": {"a": "b"}},
    },
)  # fmt: skip
made.create()
step("exists", made.exists())
made.obj["data"]["b"] = "2"
made.update()
step("update", made.obj["data"] == {"a": "1", "b": "2"})
made.patch({"data": {"a": None}})
step("merge patch", made.obj["data"] == {"b": "2"})
query = pykube.ConfigMap.objects(api).filter(namespace=NAMESPACE, selector={"a": "b"})
step("query", [found.name for found in query] == ["map"])
events = iter(query.watch())
step("watch begins", next(events).type == "ADDED")
made.delete()
step("watch goes on", next(events).type == "DELETED")
step("not found", pykube.ConfigMap.objects(api, NAMESPACE).get_or_none(name="map") is None)

container = {"name": "c", "image": "busybox", "command": ["sleep", "1"]}
job = pykube.Job(
    api,
    {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work", "namespace": NAMESPACE},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    },
)  # fmt: skip
job.create()
while not job.obj.get("status", {}).get("completionTime"):
    time.sleep(0.1)
    job.reload()
step("job runs to its end", job.obj["status"]["succeeded"] == 1)
job.delete(propagation_policy="Background")

PodGroup = pykube.object_factory(api, "scheduling.k8s.io/v1beta1", "PodGroup")
body = {
    "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": "g", "namespace": NAMESPACE},
    "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
}  # fmt: skip
PodGroup(api, body).create()
step("custom kind", "g" in [found.name for found in PodGroup.objects(api, NAMESPACE)])
namespace.delete()
while namespace.exists():
    time.sleep(0.1)
step("namespace is gone", True)
