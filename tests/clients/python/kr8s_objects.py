"""kr8s: objects, their own methods, watches, waiting for conditions, kinds it has no class for."""

from __future__ import annotations

import sys
import threading

import kr8s
from kr8s.objects import ConfigMap, Job, Node, Pod, new_class

KUBECONFIG, NAMESPACE = sys.argv[1:]


def step(name: str, holds: object) -> None:
    assert holds, name
    print(name, flush=True)


api = kr8s.api(kubeconfig=KUBECONFIG, namespace=NAMESPACE)
step("version", api.version()["minor"].startswith("37"))
step("resources", {"Pod", "Job", "PodGroup"} <= {entry["kind"] for entry in api.api_resources()})
namespace = kr8s.objects.Namespace({"metadata": {"name": NAMESPACE}}, api=api)
namespace.create()

made = ConfigMap({"metadata": {"name": "map", "namespace": NAMESPACE}, "data": {"a": "1"}}, api=api)
made.create()
step("exists", made.exists())
made.patch({"data": {"b": "2"}})
step("merge patch", made.data == {"a": "1", "b": "2"})
made.label(colour="red")
made.annotate(note="hello")
step("label", [found.name for found in api.get("configmaps", label_selector="colour=red")] == ["map"])
step("get by name", ConfigMap.get("map", namespace=NAMESPACE, api=api).annotations["note"] == "hello")

seen: list[str] = []


def follow() -> None:
    for event, _ in api.watch("configmaps", label_selector="colour=red"):
        seen.append(event)
        if event == "DELETED":
            return


follower = threading.Thread(target=follow)
follower.start()
while not seen:
    made.refresh()
made.patch([{"op": "replace", "path": "/data/a", "value": "3"}], type="json")
step("json patch", made.data["a"] == "3")
made.delete()
made.wait("delete")
follower.join(30)
step("watch", seen == ["ADDED", "MODIFIED", "DELETED"])
step("not found", not made.exists())

container = {"name": "c", "image": "busybox", "command": ["sleep", "1"]}
template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
job = Job({"metadata": {"name": "work", "namespace": NAMESPACE}, "spec": {"template": template}}, api=api)
job.create()
job.wait("condition=Complete", timeout=60)
step("job runs to its end", job.status.succeeded == 1)
job.delete(propagation_policy="Background")

pod = Pod.gen(name="pod", namespace=NAMESPACE, image="busybox", command=["sleep", "1000"])
pod.api = api
pod.create()
pod.wait("condition=Ready", timeout=60)
step("pod is ready", pod.ready())
nodes = list(Node.list(api=api))
step("nodes", nodes)
nodes[0].cordon()
nodes[0].refresh()
step("cordon", nodes[0].unschedulable)
nodes[0].uncordon()

PodGroup = new_class(kind="PodGroup", version="scheduling.k8s.io/v1beta1", namespaced=True)
spec = {"schedulingPolicy": {"gang": {"minCount": 3}}}
group = PodGroup({"metadata": {"name": "group", "namespace": NAMESPACE}, "spec": spec}, api=api)
group.create()
step("custom kind", group.spec.schedulingPolicy.gang.minCount == 3)
group.delete()
namespace.delete()
namespace.wait("delete", timeout=60)
step("namespace is gone", not namespace.exists())
