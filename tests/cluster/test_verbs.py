"""Every verb of the HTTPS transport, on our server and on a real one: same calls, same answers, same refusals."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import aclosing
from typing import Any

import pytest

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.scheme import CONFIG_MAPS, LEASES, NODES, POD_DISRUPTION_BUDGETS, POD_GROUPS, PODS, Object
from echelon.api.verbs import (
    DeleteOptions,
    ListOptions,
    Patch,
    PatchType,
    Verbs,
    WatchEvent,
    WatchOptions,
    WriteOptions,
)
from echelon.testing.builders import make_budget, make_node, make_pod, make_pod_group

from .conftest import Side


@pytest.fixture
def verbs(side: Side) -> Verbs:
    return side.verbs


def config_map(name: str, **more: Any) -> Object:
    return {"metadata": {"name": name, "labels": {"a": "b"}}, "data": {"k": "v"}, **more}


def listed_by(label: str) -> ListOptions:
    """Every namespace of a real cluster has a ConfigMap of its own that no test made."""
    return ListOptions(label_selector=label)


async def refusal(call: Awaitable[Any]) -> ApiError:
    with pytest.raises(ApiError) as refused:
        await call
    return refused.value


async def first_event(verbs: Verbs, namespace: str, options: WatchOptions) -> WatchEvent:
    async with asyncio.timeout(180), aclosing(verbs.watch(CONFIG_MAPS, namespace, options)) as events:
        return await anext(events)


async def test_objects_are_created_read_listed_and_updated(verbs: Verbs, namespace: str) -> None:
    made = await verbs.create(CONFIG_MAPS, config_map("m"), namespace)
    assert (made["kind"], made["apiVersion"]) == ("ConfigMap", "v1")
    assert await verbs.get(CONFIG_MAPS, "m", namespace) == made
    listed = await verbs.list(CONFIG_MAPS, namespace, listed_by("a=b"))
    assert listed.items == [made]
    assert int(listed.resource_version) >= int(made["metadata"]["resourceVersion"])
    updated = await verbs.update(CONFIG_MAPS, {**made, "data": {"k": "w"}}, namespace)
    assert (updated["data"], meta.uid(updated)) == ({"k": "w"}, meta.uid(made))


async def test_pages_go_on_where_they_ended(verbs: Verbs, namespace: str) -> None:
    for index in range(3):
        await verbs.create(CONFIG_MAPS, config_map(f"m-{index}"), namespace)
    first = await verbs.list(CONFIG_MAPS, namespace, ListOptions(limit=2))
    token = first.continue_token
    names = [meta.name(item) for item in first.items]
    while token:
        page = await verbs.list(CONFIG_MAPS, namespace, ListOptions(limit=2, continue_token=token))
        token = page.continue_token
        names += [meta.name(item) for item in page.items]
    assert first.remaining is not None
    assert [name for name in names if name.startswith("m-")] == ["m-0", "m-1", "m-2"]


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (PatchType.JSON, [{"op": "replace", "path": "/data/k", "value": "w"}]),
        (PatchType.MERGE, {"data": {"k": "w"}}),
        (PatchType.STRATEGIC, {"data": {"k": "w"}}),
    ],
    ids=str,
)
async def test_patches_of_every_sort(verbs: Verbs, namespace: str, kind: PatchType, body: Any) -> None:
    await verbs.create(CONFIG_MAPS, config_map("m"), namespace)
    patched = await verbs.patch(CONFIG_MAPS, "m", Patch(kind, body), namespace)
    assert patched["data"] == {"k": "w"}


async def test_strategic_patches_join_conditions_by_type(verbs: Verbs, namespace: str) -> None:
    await verbs.create(POD_GROUPS, make_pod_group("g", gang=2, namespace=namespace), namespace)
    for type_ in ("PodGroupInitiallyScheduled", "DisruptionTarget"):
        condition = meta.condition(type_, "True", "Said", "so", 1_800_000_000.0)
        patch = Patch(PatchType.STRATEGIC, {"status": {"conditions": [condition]}})
        group = await verbs.patch(POD_GROUPS, "g", patch, namespace, "status")
    assert sorted(one["type"] for one in group["status"]["conditions"]) == [
        "DisruptionTarget", "PodGroupInitiallyScheduled",
    ]  # fmt: skip


async def test_patch_that_names_another_uid_is_refused(verbs: Verbs, namespace: str) -> None:
    await verbs.create(CONFIG_MAPS, config_map("m"), namespace)
    patch = Patch(PatchType.MERGE, {"metadata": {"uid": "11111111-1111-4111-8111-111111111111"}, "data": {}})
    error = await refusal(verbs.patch(CONFIG_MAPS, "m", patch, namespace))
    assert (error.code, error.reason) == (422, "Invalid")


async def test_watch_tells_what_is_there_marks_it_and_goes_on(verbs: Verbs, namespace: str) -> None:
    await verbs.create(CONFIG_MAPS, config_map("first"), namespace)
    options = WatchOptions(
        label_selector="a=b", allow_bookmarks=True, send_initial_events=True, resource_version_match="NotOlderThan",
    )  # fmt: skip
    seen = []
    async with asyncio.timeout(180), aclosing(verbs.watch(CONFIG_MAPS, namespace, options)) as events:
        async for event in events:
            seen.append((event.type, event.object["metadata"].get("name")))
            if event.type == "BOOKMARK" and len(seen) == 2:
                await verbs.create(CONFIG_MAPS, config_map("second"), namespace)
            if event.type == "ADDED" and len(seen) == 3:
                await verbs.delete(CONFIG_MAPS, "first", namespace)
            if event.type == "DELETED":
                break
    assert seen == [("ADDED", "first"), ("BOOKMARK", None), ("ADDED", "second"), ("DELETED", "first")]


async def test_watch_from_a_version_tells_what_came_after(verbs: Verbs, namespace: str) -> None:
    first = await verbs.create(CONFIG_MAPS, config_map("first"), namespace)
    await verbs.create(CONFIG_MAPS, config_map("second"), namespace)
    options = WatchOptions(resource_version=first["metadata"]["resourceVersion"], label_selector="a=b")
    event = await first_event(verbs, namespace, options)
    assert (event.type, meta.name(event.object), event.object["kind"]) == ("ADDED", "second", "ConfigMap")


async def test_watch_ends_by_itself_when_its_time_is_over(verbs: Verbs, namespace: str) -> None:
    async with asyncio.timeout(180):
        options = WatchOptions(label_selector="a=b", timeout_seconds=1)
        assert [event async for event in verbs.watch(CONFIG_MAPS, namespace, options)] == []


async def test_watch_from_something_that_is_no_version_is_refused(verbs: Verbs, namespace: str) -> None:
    options = WatchOptions(resource_version="not-a-version", timeout_seconds=5)
    error = await refusal(first_event(verbs, namespace, options))
    assert error.code in (400, 500)  # the latter on a real server
    assert "not-a-version" in str(error)


async def test_deletion_keeps_its_preconditions(verbs: Verbs, namespace: str) -> None:
    made = await verbs.create(CONFIG_MAPS, config_map("m"), namespace)
    error = await refusal(
        verbs.delete(CONFIG_MAPS, "m", namespace, DeleteOptions(uid="11111111-1111-4111-8111-111111111111"))
    )
    assert (error.code, error.reason) == (409, "Conflict")
    await verbs.delete(CONFIG_MAPS, "m", namespace, DeleteOptions(uid=meta.uid(made)))
    error = await refusal(verbs.get(CONFIG_MAPS, "m", namespace))
    assert (error.code, error.reason, error.details["kind"]) == (404, "NotFound", "configmaps")


async def test_pods_are_bound_once_reported_on_and_evicted(verbs: Verbs, namespace: str) -> None:
    await verbs.create(NODES, make_node(f"{namespace}-n"))
    pod = await verbs.create(PODS, make_pod("p", namespace=namespace), namespace)
    await verbs.bind(namespace, "p", f"{namespace}-n", uid=meta.uid(pod))
    bound = await verbs.get(PODS, "p", namespace)
    assert bound["spec"]["nodeName"] == f"{namespace}-n"
    assert meta.condition_is(bound, "PodScheduled")
    again = await refusal(verbs.bind(namespace, "p", f"{namespace}-n", uid=meta.uid(pod)))
    assert (again.code, again.reason) == (409, "Conflict")
    running = Patch(PatchType.STRATEGIC, {"status": {"phase": "Running"}})
    assert (await verbs.patch(PODS, "p", running, namespace, "status"))["status"]["phase"] == "Running"
    await verbs.evict(namespace, "p", DeleteOptions(grace_period_seconds=0))
    assert (await refusal(verbs.get(PODS, "p", namespace))).code == 404
    await verbs.delete(NODES, f"{namespace}-n")


async def test_binding_of_another_pod_under_the_name_is_refused(verbs: Verbs, namespace: str) -> None:
    await verbs.create(PODS, make_pod("p", namespace=namespace), namespace)
    error = await refusal(verbs.bind(namespace, "p", "n", uid="11111111-1111-4111-8111-111111111111"))
    assert (error.code, error.reason) == (409, "Conflict")


async def test_eviction_against_a_budget_is_refused_for_now(verbs: Verbs, namespace: str) -> None:
    await verbs.create(PODS, make_pod("p", node="n", namespace=namespace, labels={"app": "x"}), namespace)
    ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    await verbs.patch(PODS, "p", Patch(PatchType.STRATEGIC, ready), namespace, "status")
    budget = make_budget("b", {"app": "x"}, min_available=1, namespace=namespace)
    await verbs.create(POD_DISRUPTION_BUDGETS, budget, namespace)
    error = await refusal(verbs.evict(namespace, "p"))
    assert (error.code, error.reason) == (429, "TooManyRequests")
    assert error.details["causes"][0]["reason"] == "DisruptionBudget"


async def test_refusals_are_the_same_exceptions(verbs: Verbs, namespace: str) -> None:
    made = await verbs.create(CONFIG_MAPS, config_map("m"), namespace)
    await verbs.update(CONFIG_MAPS, {**made, "data": {}}, namespace)
    stale = await refusal(verbs.update(CONFIG_MAPS, {**made, "data": {"k": "x"}}, namespace))
    assert (stale.code, stale.reason) == (409, "Conflict")
    twice = await refusal(verbs.create(CONFIG_MAPS, config_map("m"), namespace))
    assert (twice.code, twice.reason, str(twice)) == (409, "AlreadyExists", 'configmaps "m" already exists')
    bare = {"metadata": {"name": "p"}, "spec": {"containers": []}}
    invalid = await refusal(verbs.create(PODS, bare, namespace))
    assert (invalid.code, invalid.reason) == (422, "Invalid")
    assert "spec.containers" in [cause["field"] for cause in invalid.details["causes"]]
    lease = {"metadata": {"name": "l"}, "spec": {"leaseDurationSeconds": 0}}
    assert (await refusal(verbs.create(LEASES, lease, namespace))).code == 422
    nowhere = await refusal(verbs.create(CONFIG_MAPS, config_map("m"), "no-such-namespace"))
    assert (nowhere.code, nowhere.reason) == (404, "NotFound")


async def test_unknown_fields_are_warned_of_or_refused(verbs: Verbs, namespace: str) -> None:
    heard: list[str] = []
    await verbs.create(CONFIG_MAPS, config_map("m", nosuch=1), namespace, WriteOptions(warn=heard.append))
    assert heard == ['unknown field "nosuch"']
    strict = WriteOptions(field_validation="Strict")
    error = await refusal(verbs.create(CONFIG_MAPS, config_map("n", nosuch=1), namespace, strict))
    assert error.code == 400
    assert 'unknown field "nosuch"' in str(error)


async def test_dry_runs_leave_nothing(verbs: Verbs, namespace: str) -> None:
    await verbs.create(CONFIG_MAPS, config_map("m"), namespace, WriteOptions(dry_run=True))
    assert (await refusal(verbs.get(CONFIG_MAPS, "m", namespace))).code == 404
