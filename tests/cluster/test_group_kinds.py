"""The kinds of scheduling.k8s.io as objects: every verb, both versions, on our server and on a real one."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.scheme import POD_GROUPS, POD_GROUPS_ALPHA, WORKLOADS, WORKLOADS_ALPHA, Object, Resource
from echelon.api.verbs import ListOptions, Patch, PatchType, Verbs, WatchOptions
from echelon.testing.builders import group_template, make_pod_group, make_workload

from .conftest import Side

_LABELLED = {"metadata": {"labels": {"team": "a"}}}
KINDS = pytest.mark.parametrize(
    ("resource", "other"),
    [(WORKLOADS, WORKLOADS_ALPHA), (POD_GROUPS, POD_GROUPS_ALPHA)],
    ids=["workloads", "podgroups"],
)


@pytest.fixture
def verbs(side: Side) -> Verbs:
    return side.verbs


def _example(resource: Resource, namespace: str, name: str = "one") -> Object:
    if resource.kind == WORKLOADS.kind:
        made = make_workload(name, group_template("t", gang=2), namespace=namespace)
    else:
        made = make_pod_group(name, gang=2, namespace=namespace)
    return {**made, "apiVersion": resource.api_version}


async def _next_types(verbs: Verbs, resource: Resource, namespace: str, since: str, count: int) -> list[str]:
    """What a watch from a version on tells of the object `one`."""
    types: list[str] = []
    options = WatchOptions(resource_version=since)
    async with asyncio.timeout(60), aclosing(verbs.watch(resource, namespace, options)) as events:
        async for event in events:
            types.append(event.type)
            if len(types) == count:
                break
    return types


@pytest.mark.conformance("SCH-201")
@KINDS
async def test_every_verb_is_served(verbs: Verbs, namespace: str, resource: Resource, other: Resource) -> None:
    made = await verbs.create(resource, _example(resource, namespace), namespace)
    assert (made["kind"], made["apiVersion"]) == (resource.kind, "scheduling.k8s.io/v1beta1")
    since = made["metadata"]["resourceVersion"]
    assert await verbs.get(resource, "one", namespace) == made
    labelled = await verbs.patch(resource, "one", Patch(PatchType.MERGE, _LABELLED), namespace)
    assert meta.labels(labelled) == {"team": "a"}
    updated = {**labelled, "metadata": {**labelled["metadata"], "labels": {"team": "b"}}}
    await verbs.update(resource, updated, namespace)
    found = await verbs.list(resource, namespace, ListOptions(label_selector="team=b"))
    assert [meta.name(one) for one in found.items] == ["one"]
    if resource is POD_GROUPS:
        await verbs.patch(resource, "one", Patch(PatchType.MERGE, {"metadata": {"finalizers": None}}), namespace)
    await verbs.delete(resource, "one", namespace)
    with pytest.raises(ApiError) as gone:
        await verbs.get(resource, "one", namespace)
    assert gone.value.code == 404
    changes = 4 if resource is POD_GROUPS else 3
    assert await _next_types(verbs, resource, namespace, since, changes) == ["MODIFIED"] * (changes - 1) + ["DELETED"]


@pytest.mark.conformance("SCH-201")
@KINDS
async def test_both_versions_are_one_object(verbs: Verbs, namespace: str, resource: Resource, other: Resource) -> None:
    made = await verbs.create(other, _example(other, namespace), namespace)
    assert made["apiVersion"] == "scheduling.k8s.io/v1alpha3"
    read = await verbs.get(resource, "one", namespace)
    assert read["apiVersion"] == "scheduling.k8s.io/v1beta1"
    assert read["spec"] == made["spec"]
    assert read["metadata"]["uid"] == made["metadata"]["uid"]
    assert await verbs.get(other, "one", namespace) == made


@pytest.mark.conformance("SCH-66")
async def test_a_group_below_a_parent_names_its_workload(verbs: Verbs, namespace: str) -> None:
    child = make_pod_group("child", gang=2, parent="root", workload="w", namespace=namespace)
    made = await verbs.create(POD_GROUPS, child, namespace)
    assert made["spec"]["parentCompositePodGroupName"] == "root"
    orphan = {**child, "metadata": {**child["metadata"], "name": "orphan"}}
    orphan["spec"] = {name: value for name, value in child["spec"].items() if name != "workloadRef"}
    with pytest.raises(ApiError) as refused:
        await verbs.create(POD_GROUPS, orphan, namespace)
    assert refused.value.code == 422
    assert "spec.workloadRef" in str(refused.value)


@pytest.mark.conformance("SCH-201")
async def test_a_condition_is_written_through_the_status_alone(verbs: Verbs, namespace: str) -> None:
    made = await verbs.create(POD_GROUPS, _example(POD_GROUPS, namespace), namespace)
    said = meta.condition("PodGroupInitiallyScheduled", "False", "Unschedulable", "no room", 1_700_000_000.0)
    whole = {**made, "spec": {**made["spec"], "schedulingPolicy": {"gang": {"minCount": 5}}}}
    written = await verbs.update(POD_GROUPS, {**whole, "status": {"conditions": [said]}}, namespace, "status")
    assert written["status"]["conditions"][0]["message"] == "no room"
    assert written["spec"] == made["spec"]
    plain = {**written, "status": {}}
    again = await verbs.update(POD_GROUPS, plain, namespace)
    assert again["status"] == written["status"]
