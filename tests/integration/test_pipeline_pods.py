"""Pods through the pipeline: binding, eviction, graceful deletion."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.scheme import POD_DISRUPTION_BUDGETS, PODS, Object
from echelon.api.verbs import DeleteOptions, Patch, PatchType, WatchOptions, WriteOptions
from echelon.base.clock import ManualClock
from echelon.server.pipeline import Pipeline
from echelon.testing.builders import bare_pod


def status(**fields: Any) -> Patch:
    return Patch(PatchType.STRATEGIC, {"status": fields})


async def running(pipeline: Pipeline, name: str = "p") -> Object:
    await pipeline.create(PODS, bare_pod(name, labels={"app": "x"}), "default")
    await pipeline.bind("default", name, "n1")
    return await pipeline.patch(PODS, name, status(phase="Running"), "default", "status")


async def refusal(call: Any) -> ApiError:
    with pytest.raises(ApiError) as refused:
        await call
    return refused.value


@pytest.mark.conformance("API-49", "API-52", "API-61")
async def test_binding_sets_node_and_condition_and_clears_the_nomination(pipeline: Pipeline) -> None:
    await pipeline.create(PODS, bare_pod(), "default")
    waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    patch = status(nominatedNodeName="n9", conditions=[waiting])
    await pipeline.patch(PODS, "p", patch, "default", "status")
    await pipeline.bind("default", "p", "n1", annotations={"example.com/by": "me"})
    bound = await pipeline.get(PODS, "p", "default")
    assert bound["metadata"]["annotations"] == {"example.com/by": "me"}
    assert bound["spec"]["nodeName"] == "n1"
    condition = meta.find_condition(bound, "PodScheduled")
    assert condition == {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2027-01-15T08:00:00Z"}
    assert "nominatedNodeName" not in bound["status"]
    assert bound["metadata"]["generation"] == 1


@pytest.mark.conformance("API-50")
async def test_a_pod_is_bound_once(pipeline: Pipeline) -> None:
    await running(pipeline)
    refused = await refusal(pipeline.bind("default", "p", "n2"))
    assert refused.message == (
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"'
    )
    assert (refused.code, refused.reason, refused.details["kind"]) == (409, "Conflict", "pods/binding")


@pytest.mark.conformance("API-57")
async def test_two_schedulers_bind_one_wins(pipeline: Pipeline) -> None:
    await pipeline.create(PODS, bare_pod(), "default")
    binds = (pipeline.bind("default", "p", node) for node in ("n1", "n2"))
    outcomes = await asyncio.gather(*binds, return_exceptions=True)
    assert [getattr(outcome, "code", None) for outcome in outcomes] == [None, 409]
    assert (await pipeline.get(PODS, "p", "default"))["spec"]["nodeName"] == "n1"


@pytest.mark.conformance("API-51", "API-52", "API-53")
async def test_what_cannot_be_bound(pipeline: Pipeline) -> None:
    await pipeline.create(PODS, bare_pod("gated", schedulingGates=[{"name": "example.com/wait"}]), "default")
    assert (await refusal(pipeline.bind("default", "gated", "n1"))).code == 409
    made = await pipeline.create(PODS, bare_pod("kept"), "default")
    assert (await refusal(pipeline.bind("default", "kept", "n1", uid="other"))).code == 409
    assert (await refusal(pipeline.bind("default", "kept", ""))).code == 422
    assert (await refusal(pipeline.bind("default", "missing", "n1"))).code == 404
    await pipeline.bind("default", "kept", "n1", uid=meta.uid(made), options=WriteOptions(dry_run=True))
    assert await pipeline.get(PODS, "kept", "default") == made
    await pipeline.patch(PODS, "kept", Patch(PatchType.MERGE, {"metadata": {"finalizers": ["a/b"]}}), "default")
    await pipeline.delete(PODS, "kept", "default")
    assert "being deleted" in (await refusal(pipeline.bind("default", "kept", "n1"))).message


@pytest.mark.conformance("API-56")
async def test_a_gang_bound_at_once_is_seen_in_order(pipeline: Pipeline) -> None:
    for n in range(64):
        await pipeline.create(PODS, bare_pod(f"p{n}"), "default")
    options = WatchOptions(resource_version=pipeline.resource_version)
    async with aclosing(pipeline.watch(PODS, options=options)) as events:
        await asyncio.gather(*(pipeline.bind("default", f"p{n}", f"n{n}") for n in range(64)))
        seen = [await anext(events) for _ in range(64)]
    assert {event.type for event in seen} == {"MODIFIED"}
    versions = [int(event.object["metadata"]["resourceVersion"]) for event in seen]
    assert versions == sorted(versions)


@pytest.mark.conformance("API-55")
async def test_conditions_are_merged_by_type(pipeline: Pipeline) -> None:
    await running(pipeline)
    ready = {"type": "Ready", "status": "True"}
    patched = await pipeline.patch(PODS, "p", status(conditions=[ready]), "default", "status")
    assert [c["type"] for c in patched["status"]["conditions"]] == ["Ready", "PodScheduled"]  # as on a real server
    gone = status(conditions=[{"type": "Ready", "$patch": "delete"}])
    patched = await pipeline.patch(PODS, "p", gone, "default", "status")
    assert [c["type"] for c in patched["status"]["conditions"]] == ["PodScheduled"]


@pytest.mark.conformance("API-63")
async def test_an_unbound_pod_is_marked_and_gone_at_once(pipeline: Pipeline) -> None:
    await pipeline.create(PODS, bare_pod(), "default")
    options = WatchOptions(resource_version=pipeline.resource_version)
    async with aclosing(pipeline.watch(PODS, options=options)) as events:
        removed = await pipeline.delete(PODS, "p", "default")
        seen = [await anext(events) for _ in range(2)]
    assert removed["metadata"]["deletionTimestamp"] == "2027-01-15T08:00:00Z"
    assert [(e.type, meta.deleting(e.object)) for e in seen] == [("MODIFIED", True), ("DELETED", True)]
    assert (await refusal(pipeline.get(PODS, "p", "default"))).code == 404


@pytest.mark.conformance("API-64", "API-65")
async def test_a_running_pod_ends_gracefully_and_sooner_if_asked(pipeline: Pipeline, clock: ManualClock) -> None:
    await running(pipeline)

    async def delete(grace: int | None) -> Object:
        marked = await pipeline.delete(PODS, "p", "default", DeleteOptions(grace_period_seconds=grace))
        return {
            key: marked["metadata"][key] for key in ("deletionTimestamp", "deletionGracePeriodSeconds", "generation")
        }

    first = {"deletionTimestamp": "2027-01-15T08:00:30Z", "deletionGracePeriodSeconds": 30, "generation": 2}
    assert await delete(None) == first
    clock.advance(1)
    assert await delete(60) == first
    shorter = {"deletionTimestamp": "2027-01-15T08:00:05Z", "deletionGracePeriodSeconds": 5, "generation": 2}
    assert await delete(5) == shorter
    assert (await pipeline.get(PODS, "p", "default"))["metadata"]["deletionGracePeriodSeconds"] == 5
    await delete(0)
    assert (await refusal(pipeline.get(PODS, "p", "default"))).code == 404


@pytest.mark.conformance("API-66")
async def test_a_pod_that_has_ended_needs_no_grace(pipeline: Pipeline) -> None:
    await running(pipeline)
    await pipeline.patch(PODS, "p", status(phase="Succeeded"), "default", "status")
    await pipeline.delete(PODS, "p", "default")
    assert (await refusal(pipeline.get(PODS, "p", "default"))).code == 404


async def test_a_pod_waits_for_its_finalizer_and_its_grace(pipeline: Pipeline) -> None:
    await running(pipeline)
    await pipeline.patch(PODS, "p", Patch(PatchType.MERGE, {"metadata": {"finalizers": ["a/b"]}}), "default")
    await pipeline.delete(PODS, "p", "default")
    marked = await pipeline.delete(PODS, "p", "default", DeleteOptions(grace_period_seconds=0))
    assert marked["metadata"]["finalizers"] == ["a/b"]
    await pipeline.patch(PODS, "p", Patch(PatchType.MERGE, {"metadata": {"finalizers": None}}), "default")
    assert (await refusal(pipeline.get(PODS, "p", "default"))).code == 404


async def test_taking_off_a_finalizer_does_not_cut_the_grace_short(pipeline: Pipeline) -> None:
    await running(pipeline)
    await pipeline.patch(PODS, "p", Patch(PatchType.MERGE, {"metadata": {"finalizers": ["a/b"]}}), "default")
    await pipeline.delete(PODS, "p", "default")
    await pipeline.patch(PODS, "p", Patch(PatchType.MERGE, {"metadata": {"finalizers": None}}), "default")
    assert meta.deleting(await pipeline.get(PODS, "p", "default"))


async def test_a_deletion_that_a_crash_cut_in_two_is_finished_at_the_next_start(pipeline: Pipeline) -> None:
    await pipeline.create(PODS, bare_pod(), "default")
    access = pipeline._access
    record = access.record(PODS, "p", "default")
    tree = access.trees.of_record(record)
    mark = {"deletionTimestamp": "2027-01-15T08:00:00Z", "deletionGracePeriodSeconds": 0}
    await access.replace(PODS, {**tree, "metadata": {**tree["metadata"], **mark}}, record)
    await pipeline.bootstrap()
    assert (await refusal(pipeline.get(PODS, "p", "default"))).code == 404


@pytest.mark.conformance("API-60")
async def test_eviction_says_why_and_deletes(pipeline: Pipeline) -> None:
    await running(pipeline)
    await pipeline.evict("default", "p")
    evicted = await pipeline.get(PODS, "p", "default")
    assert meta.deleting(evicted)
    condition = meta.find_condition(evicted, "DisruptionTarget")
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("True", "EvictionByEvictionAPI")


async def budget(pipeline: Pipeline, name: str, allowed: int) -> None:
    body = {"metadata": {"name": name}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}}
    await pipeline.create(POD_DISRUPTION_BUDGETS, body, "default")
    counted = {"disruptionsAllowed": allowed, "observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1}
    counted["expectedPods"] = 1
    await pipeline.patch(POD_DISRUPTION_BUDGETS, name, Patch(PatchType.MERGE, {"status": counted}), "default", "status")


@pytest.mark.conformance("API-60")
async def test_eviction_spends_the_budget_and_stops_when_it_is_gone(pipeline: Pipeline) -> None:
    ready = Patch(PatchType.STRATEGIC, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    for name in ("p", "q"):
        await running(pipeline, name)
        await pipeline.patch(PODS, name, ready, "default", "status")
    await budget(pipeline, "b", 1)
    await pipeline.evict("default", "p")
    after = await pipeline.get(POD_DISRUPTION_BUDGETS, "b", "default")
    assert after["status"]["disruptionsAllowed"] == 0
    assert list(after["status"]["disruptedPods"]) == ["p"]
    refused = await refusal(pipeline.evict("default", "q"))
    assert (refused.code, refused.reason) == (429, "TooManyRequests")
    assert "retryAfterSeconds" not in refused.details, "clients would retry by themselves"
    assert refused.details["causes"][0]["reason"] == "DisruptionBudget"
    assert not meta.deleting(await pipeline.get(PODS, "q", "default"))


@pytest.mark.parametrize(
    ("policy", "healthy", "evicted"),
    [("AlwaysAllow", 0, True), ("IfHealthyBudget", 1, True), ("IfHealthyBudget", 0, False), (None, 1, True)],
)
async def test_a_pod_that_is_not_ready_goes_as_its_budget_says(
    pipeline: Pipeline, policy: str | None, healthy: int, evicted: bool
) -> None:
    await running(pipeline)
    not_ready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    await pipeline.patch(PODS, "p", Patch(PatchType.MERGE, not_ready), "default", "status")
    await budget(pipeline, "b", 0)
    spec = Patch(PatchType.MERGE, {"spec": {"unhealthyPodEvictionPolicy": policy}})
    generation = (await pipeline.patch(POD_DISRUPTION_BUDGETS, "b", spec, "default"))["metadata"]["generation"]
    counted = {"status": {"currentHealthy": healthy, "observedGeneration": generation}}
    await pipeline.patch(POD_DISRUPTION_BUDGETS, "b", Patch(PatchType.MERGE, counted), "default", "status")
    if evicted:
        await pipeline.evict("default", "p")
        assert meta.deleting(await pipeline.get(PODS, "p", "default"))
    else:
        assert (await refusal(pipeline.evict("default", "p"))).code == 429


async def test_two_budgets_on_one_pod_are_too_many_to_evict_it(pipeline: Pipeline) -> None:
    await running(pipeline)
    await budget(pipeline, "b", 1)
    await budget(pipeline, "c", 1)
    assert (await refusal(pipeline.evict("default", "p"))).code == 500


async def test_pods_that_do_not_run_are_evicted_without_a_budget(pipeline: Pipeline) -> None:
    await pipeline.create(PODS, bare_pod(), "default")
    await budget(pipeline, "b", 0)
    await pipeline.evict("default", "p")
    assert (await refusal(pipeline.get(PODS, "p", "default"))).code == 404


async def test_tolerations_that_are_replaced_are_completed_as_at_creation(pipeline: Pipeline) -> None:
    made = await pipeline.create(PODS, bare_pod(), "default")
    added = {"key": "example.com/a", "operator": "Exists", "effect": "NoSchedule"}
    changed = {**made, "spec": {**made["spec"], "tolerations": [added]}}
    updated = await pipeline.update(PODS, changed, "default")
    assert updated["spec"]["tolerations"] == [added, *made["spec"]["tolerations"]]
