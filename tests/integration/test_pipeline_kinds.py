"""Every served kind at every version goes through every verb."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import pytest

from echelon.api import scheme
from echelon.api.errors import ApiError
from echelon.api.scheme import RESOURCES, Object, Resource
from echelon.api.verbs import DeleteOptions, Patch, PatchType, WatchOptions
from echelon.server.pipeline import Pipeline

_POD_SPEC: Object = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
_JOB_SPEC: Object = {"template": {"spec": _POD_SPEC}}
_TEMPLATE: Object = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
_REPLICATED_SPEC: Object = {"selector": {"matchLabels": {"app": "x"}}, "template": _TEMPLATE}
_JOBSET_SPEC: Object = {"replicatedJobs": [{"name": "node", "template": {"spec": _JOB_SPEC}}]}
_RUNTIME: Object = {
    "metadata": {"labels": {"trainer.kubeflow.org/framework": "torch"}},
    "spec": {"mlPolicy": {"numNodes": 1, "torch": {}}, "template": {"spec": _JOBSET_SPEC}},
}

_CLAIM_SPEC: Object = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}

#: The least that makes a valid object, for kinds that need something.
_BODIES: dict[str, Object] = {
    "Pod": {"spec": _POD_SPEC},
    "Service": {"spec": {"clusterIP": "None", "selector": {"a": "b"}}},
    "PersistentVolume": {
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}}
    },
    "PersistentVolumeClaim": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "StorageClass": {"provisioner": "kubernetes.io/no-provisioner"},
    "CSIDriver": {"spec": {"attachRequired": True}},
    "CSINode": {"spec": {"drivers": [{"name": "d.example.org", "nodeID": "n"}]}},
    "CSIStorageCapacity": {"storageClassName": "fast"},
    "DeviceClass": {"spec": {}},
    "DeviceTaintRule": {"spec": {"taint": {"key": "broken", "effect": "NoSchedule"}}},
    "ResourceClaim": {"spec": _CLAIM_SPEC},
    "ResourceClaimTemplate": {"spec": {"spec": _CLAIM_SPEC}},
    "ResourceSlice": {
        "spec": {
            "driver": "d.example.org",
            "nodeName": "n",
            "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "g0"}],
        }
    },
    "Event": {"involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}, "reason": "R", "message": "m"},
    "EndpointSlice": {"addressType": "IPv4"},
    "PodTemplate": {"template": {"spec": _POD_SPEC}},
    "ControllerRevision": {"data": {"a": 1}},
    "ReplicationController": {"spec": {"template": _TEMPLATE}},
    "ReplicaSet": {"spec": _REPLICATED_SPEC},
    "Deployment": {"spec": _REPLICATED_SPEC},
    "StatefulSet": {"spec": _REPLICATED_SPEC},
    "DaemonSet": {"spec": _REPLICATED_SPEC},
    "Job": {"spec": _JOB_SPEC},
    "CronJob": {"spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": _JOB_SPEC}}},
    "Ingress": {"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}},
    "IngressClass": {"spec": {"controller": "example.org/c"}},
    "RuntimeClass": {"handler": "h"},
    "PriorityClass": {"value": 7},
    "PodDisruptionBudget": {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}},
    "RoleBinding": {"roleRef": {"kind": "Role", "name": "r"}},
    "ClusterRoleBinding": {"roleRef": {"kind": "ClusterRole", "name": "r"}},
    "Workload": {"spec": {"podGroupTemplates": [{"name": "t", "schedulingPolicy": {"gang": {"minCount": 1}}}]}},
    "PodGroup": {"spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}},
    "CompositePodGroup": {
        "spec": {
            "schedulingPolicy": {"gang": {"minGroupCount": 1}},
            "workloadRef": {"workloadName": "w", "templateName": "root"},
        }
    },
    "JobSet": {"spec": _JOBSET_SPEC},
    "TrainJob": {
        "spec": {"runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": "runtime"}}
    },
    "TrainingRuntime": _RUNTIME,
    "ClusterTrainingRuntime": _RUNTIME,
}


#: An event in the form of events.k8s.io/v1.
_EVENT_V1: Object = {
    "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
    "reason": "R",
    "action": "A",
    "type": "Normal",
    "eventTime": "2026-01-01T00:00:00.000001Z",
    "reportingController": "a.io/b",
    "reportingInstance": "i",
}


def body(resource: Resource, name: str = "x") -> Object:
    least: Object = _EVENT_V1 if resource is scheme.EVENTS_V1 else _BODIES.get(resource.kind, {})
    return {**least, "metadata": {**least.get("metadata", {}), "name": name}}


def ident(resource: Resource) -> str:
    return f"{resource.plural}.{resource.version}"


async def _finish(pipeline: Pipeline, resource: Resource, namespace: str, deleted: Object) -> None:
    """What the controllers would do: take the finalizers off."""
    if deleted["metadata"].get("finalizers"):
        patch = Patch(PatchType.MERGE, {"metadata": {"finalizers": None}})
        await pipeline.patch(resource, "x", patch, namespace)
    elif resource is scheme.NAMESPACES:
        await pipeline.update(resource, {**deleted, "spec": {"finalizers": []}}, subresource="finalize")


#: The name of a CustomResourceDefinition follows from its spec: see test_custom_resources.
_FREELY_NAMED = [resource for resource in RESOURCES if resource is not scheme.CUSTOM_RESOURCE_DEFINITIONS]


@pytest.mark.parametrize("resource", _FREELY_NAMED, ids=ident)
async def test_a_kind_lives_its_whole_life(pipeline: Pipeline, resource: Resource) -> None:
    namespace = "default" if resource.namespaced else ""
    if resource is scheme.TRAIN_JOBS:
        await pipeline.create(scheme.TRAINING_RUNTIMES, body(scheme.TRAINING_RUNTIMES, "runtime"), namespace)
    at = WatchOptions(resource_version=pipeline.resource_version)
    async with aclosing(pipeline.watch(resource, namespace, at)) as events:
        made = await pipeline.create(resource, body(resource), namespace)
        assert (made["apiVersion"], made["kind"]) == (resource.api_version, resource.kind)
        assert ("generation" in made["metadata"]) == resource.has_generation
        listed = await pipeline.list(resource, namespace)
        assert made in listed.items
        labelled = await pipeline.patch(
            resource, "x", Patch(PatchType.MERGE, {"metadata": {"labels": {"a": "b"}}}), namespace
        )
        assert await pipeline.update(resource, labelled, namespace) == labelled
        assert await pipeline.get(resource, "x", namespace) == labelled
        options = DeleteOptions(propagation="Background")
        deleted = await pipeline.delete(resource, "x", namespace, options)
        await _finish(pipeline, resource, namespace, deleted)
        with pytest.raises(ApiError, match="not found"):
            await pipeline.get(resource, "x", namespace)
        types: list[Any] = [(await anext(events)).type]
        while types[-1] != "DELETED":
            types.append((await anext(events)).type)
    assert types[:2] == ["ADDED", "MODIFIED"]
