"""Whatever is wrong with a body, the answer is a refusal: never an accident of ours."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echelon.api import scheme
from echelon.api.errors import ApiError
from echelon.api.scheme import Object, Resource
from echelon.api.verbs import Patch, PatchType, WriteOptions
from echelon.base.clock import ManualClock
from echelon.base.rng import Rng
from echelon.server.objects.object_cache import header_of
from echelon.server.pipeline import Pipeline
from echelon.store.memory import open_memory
from tests.properties.reached import Reached, reaches

CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}, "env": [{"name": "A", "value": "b"}]}
POD_SPEC = {"restartPolicy": "Never", "containers": [CONTAINER], "tolerations": [{"key": "a", "operator": "Exists"}]}
GANG = {"schedulingPolicy": {"gang": {"minCount": 2}}}
JOB_SPEC = {
    "parallelism": 2,
    "completions": 2,
    "completionMode": "Indexed",
    "podFailurePolicy": {"rules": [{"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]}]},
    "scheduling": GANG,
    "template": {"metadata": {"labels": {"x": "y"}}, "spec": POD_SPEC},
}
REPLICATED = [{"name": "a", "replicas": 1, "dependsOn": [], "template": {"spec": JOB_SPEC}}]
RULES = [{"name": "r", "action": "FailJobSet"}]
LEAF = {"name": "leaf", **GANG, "schedulingConstraints": {"topology": [{"key": "a"}]}}
ROOT = {"name": "root", "schedulingPolicy": {"gang": {"minGroupCount": 2}}, "podGroupTemplates": [LEAF]}
NODE_JOB = {"name": "node", "template": {"spec": {"template": {"spec": {"containers": [CONTAINER]}}}}}

BODIES: dict[Resource, Object] = {
    scheme.PODS: {"spec": {**POD_SPEC, "schedulingGroup": {"podGroupName": "g"}}},
    scheme.NODES: {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}, "status": {"capacity": {"cpu": "1"}}},
    scheme.JOBS: {"spec": JOB_SPEC},
    scheme.JOB_SETS: {
        "spec": {"failurePolicy": {"rules": RULES}, "network": {"subdomain": "s"}, "replicatedJobs": REPLICATED}
    },
    scheme.CLUSTER_TRAINING_RUNTIMES: {
        "spec": {"mlPolicy": {"numNodes": 1, "torch": {}}, "template": {"spec": {"replicatedJobs": [NODE_JOB]}}}
    },
    scheme.WORKLOADS_ALPHA: {"spec": {"compositePodGroupTemplates": [ROOT]}},
    scheme.POD_GROUPS: {"spec": {**GANG, "disruptionMode": {"all": {}}, "priorityClassName": ""}},
    scheme.EVENTS: {"involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}, "reason": "r", "count": 1},
    scheme.PRIORITY_CLASSES: {"value": 5, "globalDefault": False},
}
METADATA = {"name": "x", "labels": {"a": "b"}, "finalizers": ["a/b"], "annotations": {"a": "b"}}

WRONG: st.SearchStrategy[Any] = st.sampled_from(
    (None, 5, -1, 1.5, "x", "", True, [], {}, [1], {"a": 1}, "\u0000é", [None], 10**20, {"name": {}})
)


def places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with every key of it."""
    keys = tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in keys:
        yield tree, key
        yield from places(tree[key])


@st.composite
def spoiled(draw: st.DrawFn) -> tuple[Resource, Object]:
    """A good body in which one value was put in the place of another."""
    resource = draw(st.sampled_from(list(BODIES)))
    body = copy.deepcopy({"metadata": METADATA, **BODIES[resource]})
    container, key = draw(st.sampled_from(list(places(body))))
    container[key] = draw(WRONG)
    return resource, body


async def answered(reached: Reached, attempt: Awaitable[object]) -> None:
    """A refusal is fine, unless it says that the fault is ours; any other exception fails the test."""
    code = 200
    try:
        await attempt
    except ApiError as refusal:
        code = refusal.code
    assert code < 500
    reached("accepted" if code == 200 else "refused")


async def attempts(reached: Reached, resource: Resource, body: Object) -> None:
    pipeline = Pipeline(open_memory(header_of), ManualClock(), Rng(1))
    await pipeline.bootstrap()
    namespace = "default" if resource.namespaced else ""
    dry = WriteOptions(dry_run=True)
    await answered(reached, pipeline.create(resource, body, namespace, dry))
    good = {"metadata": METADATA, **BODIES[resource]}
    stored = await pipeline.create(resource, good, namespace)
    for type_ in (PatchType.MERGE, PatchType.STRATEGIC) if resource.builtin else (PatchType.MERGE,):
        await answered(reached, pipeline.patch(resource, "x", Patch(type_, body), namespace, options=dry))
    if isinstance(body.get("metadata"), dict):
        metadata = {**stored["metadata"], **body["metadata"], "name": "x"}
        await answered(reached, pipeline.update(resource, {**body, "metadata": metadata}, namespace, options=dry))


@reaches(accepted=20, refused=50)
@settings(max_examples=120, deadline=None)
@given(spoiled())
def test_no_body_is_answered_with_an_accident(reached: Reached, case: tuple[Resource, Object]) -> None:
    asyncio.run(attempts(reached, *case))


@pytest.mark.parametrize("resource", list(BODIES), ids=lambda r: r.plural)
async def test_unspoiled_bodies_are_accepted(resource: Resource) -> None:
    pipeline = Pipeline(open_memory(header_of), ManualClock(), Rng(1))
    await pipeline.bootstrap()
    good = {"metadata": METADATA, **BODIES[resource]}
    await pipeline.create(resource, good, "default" if resource.namespaced else "")
