"""Whatever a client leaves out or misplaces, rules and admission answer by a refusal, never by an accident."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from echelon.api import admission, rules, scheme
from echelon.api.errors import ApiError
from echelon.api.schema import kind_schema
from echelon.api.scheme import Object, Resource

from .builders import Cluster, branch, leaf, replicated, runtime, runtime_patch, step, workload

PODS: Object = {
    "containers": [
        {"name": "c", "image": "x", "resources": {"limits": {"a.io/gpu": "1"}}, "ports": [{"containerPort": 1}]}
    ],
    "tolerations": [{"key": "k", "operator": "Exists"}],
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}],
    "schedulingGates": [{"name": "g"}],
}
JOB: Object = {
    "completionMode": "Indexed",
    "completions": 4,
    "parallelism": 2,
    "backoffLimitPerIndex": 1,
    "podFailurePolicy": {"rules": [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [1]}}]},
    "successPolicy": {"rules": [{"succeededIndexes": "0-1", "succeededCount": 1}]},
    "suspend": True,
}
GANG = {"schedulingPolicy": {"gang": {"minCount": 1}}, "schedulingConstraints": {"topology": [{"key": "a"}]}}
RUNTIME = runtime(
    step("dataset-initializer", "dataset-initializer"), step("node", "trainer"), podGroupPolicy={"workload": {}}
)
BODIES: dict[Resource, Object] = {
    scheme.JOBS: {"spec": {**JOB, "scheduling": GANG, "template": {"spec": {**PODS, "restartPolicy": "Never"}}}},
    scheme.JOB_SETS: {
        "spec": {
            "replicatedJobs": [
                replicated("a", PODS, JOB),
                replicated("b", PODS, JOB, dependsOn=[{"name": "a", "status": "Ready"}]),
            ],
            "failurePolicy": {"rules": [{"action": "RestartJob", "targetReplicatedJobs": ["a"]}]},
            "coordinator": {"replicatedJob": "a", "jobIndex": 0},
            "scheduling": {
                "schedulingPolicy": {"gang": {"minGroupCount": 1}},
                "replicatedJobs": [
                    {"targetReplicatedJobs": ["a"], "job": GANG},
                    {"targetReplicatedJobs": ["b"], "job": {}},
                ],
            },
            "suspend": True,
        }
    },
    scheme.TRAIN_JOBS: {
        "spec": {
            "runtimeRef": {"name": "torch"},
            "initializer": {"dataset": {"storageUri": "s3://a/b"}},
            "trainer": {"numNodes": 1, "env": [{"name": "A"}]},
            "runtimePatches": [runtime_patch(pods={"containers": [{"name": "node"}], "nodeSelector": {"a": "b"}})],
            "suspend": True,
        }
    },
    scheme.CLUSTER_TRAINING_RUNTIMES: {"spec": RUNTIME["spec"]},
    scheme.WORKLOADS: {"spec": workload(branch("a", branch("b", leaf("c")), leaf("d")))["spec"]},
    scheme.SERVICES: {"spec": {"ports": [{"port": 1}], "selector": {"a": "b"}, "clusterIP": "None"}},
    scheme.VOLUME_CLAIMS: {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}},
    scheme.VOLUMES: {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1"},
            "local": {"path": "/"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchFields": [{"key": "a", "operator": "In"}]}]}},
        }
    },
    scheme.ENDPOINTS: {
        "subsets": [
            {
                "addresses": [{"ip": "10.0.0.1", "nodeName": "n"}],
                "ports": [{"name": "a", "port": 1, "appProtocol": "b"}],
            }
        ]
    },
    scheme.ENDPOINT_SLICES: {
        "addressType": "IPv4",
        "ports": [{"name": "a", "port": 1}],
        "endpoints": [
            {
                "addresses": ["10.0.0.1"],
                "hostname": "h",
                "nodeName": "n",
                "deprecatedTopology": {"a": "b"},
                "hints": {"forZones": [{"name": "z"}], "forNodes": [{"name": "n"}]},
            }
        ],
    },
    scheme.EVENTS: {
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "ns"},
        "series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000001Z"},
        "eventTime": "2026-01-01T00:00:00.000001Z",
        "reportingComponent": "a.io/b",
        "action": "A",
    },
    scheme.POD_TEMPLATES: {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}}},
    scheme.CONTROLLER_REVISIONS: {"data": {"a": 1}, "revision": 1},
    scheme.RESOURCE_QUOTAS: {
        "spec": {
            "hard": {"pods": "1", "requests.cpu": "500m", "a.b/c": "1"},
            "scopes": ["NotTerminating"],
            "scopeSelector": {
                "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]
            },
        },
        "status": {"hard": {"pods": "1"}, "used": {"pods": "1"}},
    },
    scheme.LIMIT_RANGES: {
        "spec": {
            "limits": [
                {
                    "type": "Container",
                    "min": {"cpu": "1"},
                    "max": {"cpu": "4"},
                    "default": {"cpu": "2"},
                    "defaultRequest": {"cpu": "1"},
                    "maxLimitRequestRatio": {"cpu": "2"},
                }
            ]
        }
    },
    scheme.CRON_JOBS: {
        "spec": {
            "schedule": "0 1-5/2 * jan mon",
            "timeZone": "Etc/UTC",
            "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": 1,
            "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}}},
        }
    },
    scheme.INGRESSES: {
        "spec": {
            "ingressClassName": "c",
            "defaultBackend": {"resource": {"kind": "K", "name": "n"}},
            "tls": [{"hosts": ["a.b"], "secretName": "s"}],
            "rules": [
                {
                    "host": "*.a.b",
                    "http": {
                        "paths": [
                            {
                                "path": "/a",
                                "pathType": "Prefix",
                                "backend": {"service": {"name": "s", "port": {"name": "p"}}},
                            }
                        ]
                    },
                }
            ],
        }
    },
    scheme.INGRESS_CLASSES: {
        "spec": {
            "controller": "a.b/c",
            "parameters": {"apiGroup": "a.b", "kind": "K", "name": "n", "scope": "Namespace", "namespace": "m"},
        }
    },
    scheme.NETWORK_POLICIES: {
        "spec": {
            "podSelector": {"matchLabels": {"a": "b"}},
            "policyTypes": ["Ingress"],
            "ingress": [
                {
                    "ports": [{"port": 1, "endPort": 2, "protocol": "TCP"}, {"port": "p"}],
                    "from": [{"podSelector": {"matchLabels": {"a": "b"}}}, {"ipBlock": {"cidr": "10.0.0.0/8"}}],
                }
            ],
        }
    },
    scheme.RUNTIME_CLASSES: {"handler": "h"},
    scheme.STORAGE_CLASSES: {"provisioner": "a/b", "parameters": {"a": "b"}, "volumeBindingMode": "Immediate"},
    scheme.POD_DISRUPTION_BUDGETS: {"spec": {"minAvailable": "5%", "selector": {"matchLabels": {"a": "b"}}}},
}
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
METADATA: Object = {"name": "x", "uid": "u", "labels": {"a": "b"}, "finalizers": ["a.io/b"], "ownerReferences": [OWNER]}
CLUSTER = Cluster((scheme.CLUSTER_TRAINING_RUNTIMES, RUNTIME))
GONE = object()
WRONG: tuple[Any, ...] = (GONE, None, 5, -1, 1.5, "x", "", True, [], {}, [1], {"a": 1}, [None], 10**20, {"name": {}})


def places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every part of a tree with every key of it."""
    keys = list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in keys:
        yield tree, key
        yield from places(tree[key])


def good(resource: Resource) -> Object:
    body = copy.deepcopy({"metadata": METADATA, **BODIES[resource]})
    if resource.namespaced:
        body["metadata"]["namespace"] = "ns"
    return body


def typed(resource: Resource, body: Object) -> Object:
    """What the server hands to the rules: decoded and defaulted, with no value of a wrong type."""
    obj = kind_schema.decode(resource, body).obj
    kind_schema.apply_defaults(resource, obj)
    if any(problem.reason == "FieldValueTypeInvalid" for problem in kind_schema.check(resource, obj)):
        raise ApiError(422, "Invalid", "")
    obj["metadata"] = {**METADATA, **obj["metadata"]}
    return obj


@st.composite
def spoiled(draw: st.DrawFn) -> tuple[Resource, Object]:
    resource = draw(st.sampled_from(list(BODIES)))
    body = good(resource)
    part, key = draw(st.sampled_from(list(places({**body, "metadata": body["metadata"]}))))
    wrong = draw(st.sampled_from(WRONG))
    if wrong is GONE:
        del part[key]
    else:
        part[key] = copy.deepcopy(wrong)
    return resource, body


@settings(max_examples=250, deadline=None)
@given(spoiled())
def test_every_question_has_an_answer(case: tuple[Resource, Object]) -> None:
    resource, body = case
    old = typed(resource, good(resource))
    rules.default(resource, old, None)
    with suppress(ApiError):
        created = typed(resource, body)
        changed = copy.deepcopy(created)
        rules.default(resource, created, None)
        rules.prepare_create(resource, created, 0.0)
        rules.validate_create(resource, created)
        rules.default(resource, changed, old)
        rules.prepare_update(resource, changed, old)
        rules.validate_update(resource, changed, old)
        with suppress(ApiError):
            admission.admit_create(resource, created, CLUSTER)
        admission.admit_update(resource, changed, old, CLUSTER)
