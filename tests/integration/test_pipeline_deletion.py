"""Deletion through the pipeline: finalizers, propagation policies, preconditions, namespaces."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import Any

import pytest

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.scheme import CONFIG_MAPS, JOBS, NAMESPACES, PODS, Object
from echelon.api.verbs import DeleteOptions, Patch, PatchType, Propagation, WatchOptions
from echelon.server.pipeline import Pipeline
from echelon.testing.builders import bare_pod


def finalizers(*names: str) -> Patch:
    return Patch(PatchType.MERGE, {"metadata": {"finalizers": list(names)}})


async def config(pipeline: Pipeline, *held_by: str) -> Object:
    return await pipeline.create(CONFIG_MAPS, {"metadata": {"name": "c", "finalizers": list(held_by)}}, "default")


async def job(pipeline: Pipeline) -> Object:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    return await pipeline.create(JOBS, {"metadata": {"name": "j"}, "spec": {"template": template}}, "default")


async def refusal(call: Any) -> ApiError:
    with pytest.raises(ApiError) as refused:
        await call
    return refused.value


@pytest.mark.conformance("API-69")
async def test_an_object_that_nothing_holds_is_gone_at_once(pipeline: Pipeline) -> None:
    made = await config(pipeline)
    options = WatchOptions(resource_version=pipeline.resource_version)
    async with aclosing(pipeline.watch(CONFIG_MAPS, options=options)) as events:
        removed = await pipeline.delete(CONFIG_MAPS, "c", "default")
        event = await anext(events)
    assert (meta.uid(removed), meta.deleting(removed)) == (meta.uid(made), False)
    assert (event.type, event.object["metadata"]["resourceVersion"]) == ("DELETED", pipeline.resource_version)
    assert (await refusal(pipeline.delete(CONFIG_MAPS, "c", "default"))).code == 404


async def test_a_status_that_is_written_while_a_pod_goes_does_not_fail_its_deletion(pipeline: Pipeline) -> None:
    """The write finds the pod marked, with nothing to wait for, and takes it with it."""
    patch = Patch(PatchType.MERGE, {"status": {"nominatedNodeName": "n"}})
    for turns in range(6):
        await pipeline.create(PODS, bare_pod("p"), "default")
        deletion = asyncio.create_task(pipeline.delete(PODS, "p", "default", DeleteOptions(grace_period_seconds=0)))
        for _ in range(turns):
            await asyncio.sleep(0)
        with suppress(ApiError):
            await pipeline.patch(PODS, "p", patch, "default", "status")
        assert meta.deleting(await deletion)
        assert (await refusal(pipeline.get(PODS, "p", "default"))).code == 404


@pytest.mark.conformance("API-67")
async def test_the_last_finalizer_takes_the_object_with_it(pipeline: Pipeline) -> None:
    await config(pipeline, "example.com/a", "example.com/b")
    marked = await pipeline.delete(CONFIG_MAPS, "c", "default")
    assert marked["metadata"]["deletionTimestamp"] == "2027-01-15T08:00:00Z"
    await pipeline.patch(CONFIG_MAPS, "c", finalizers("example.com/b"), "default")
    before = int(pipeline.resource_version)
    last = await pipeline.patch(CONFIG_MAPS, "c", finalizers(), "default")
    assert int(last["metadata"]["resourceVersion"]) == int(pipeline.resource_version) == before + 1
    assert (await refusal(pipeline.get(CONFIG_MAPS, "c", "default"))).code == 404


@pytest.mark.conformance("API-68")
async def test_an_object_that_goes_takes_no_new_finalizer_and_blocks_its_name(pipeline: Pipeline) -> None:
    await config(pipeline, "example.com/a")
    await pipeline.delete(CONFIG_MAPS, "c", "default")
    refused = await refusal(pipeline.patch(CONFIG_MAPS, "c", finalizers("example.com/a", "example.com/new"), "default"))
    assert refused.code == 422
    again = await refusal(config(pipeline))
    assert again.message == 'object is being deleted: configmaps "c" already exists'


@pytest.mark.conformance("API-70")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (DeleteOptions(uid="other"), "the UID in the precondition (other) does not match"),
        (DeleteOptions(resource_version="1"), "the ResourceVersion in the precondition (1) does not match"),
    ],
)
async def test_deletion_can_be_conditional(pipeline: Pipeline, options: DeleteOptions, words: str) -> None:
    made = await config(pipeline)
    refused = await refusal(pipeline.delete(CONFIG_MAPS, "c", "default", options))
    assert words in refused.message
    assert (refused.code, refused.details["kind"]) == (409, "ConfigMap")
    right = DeleteOptions(uid=meta.uid(made), resource_version=made["metadata"]["resourceVersion"])
    await pipeline.delete(CONFIG_MAPS, "c", "default", right)


@pytest.mark.conformance("API-72", "API-73")
@pytest.mark.parametrize(
    ("policy", "left"),
    [("Foreground", ["foregroundDeletion"]), ("Orphan", ["orphan"]), (None, ["orphan"])],
)
async def test_policies_are_left_to_the_garbage_collector_as_finalizers(
    pipeline: Pipeline, policy: Propagation | None, left: list[str]
) -> None:
    await job(pipeline)
    marked = await pipeline.delete(JOBS, "j", "default", DeleteOptions(propagation=policy))
    assert marked["metadata"]["finalizers"] == left
    assert marked["metadata"]["generation"] == 2


@pytest.mark.conformance("API-71")
async def test_background_deletion_does_not_wait(pipeline: Pipeline) -> None:
    await job(pipeline)
    await pipeline.delete(JOBS, "j", "default", DeleteOptions(propagation="Background"))
    assert (await refusal(pipeline.get(JOBS, "j", "default"))).code == 404


async def test_a_later_background_deletion_lifts_the_foreground_one(pipeline: Pipeline) -> None:
    await job(pipeline)
    await pipeline.delete(JOBS, "j", "default", DeleteOptions(propagation="Foreground"))
    kept = await pipeline.delete(JOBS, "j", "default")
    assert kept["metadata"]["finalizers"] == ["foregroundDeletion"]
    await pipeline.delete(JOBS, "j", "default", DeleteOptions(propagation="Background"))
    assert (await refusal(pipeline.get(JOBS, "j", "default"))).code == 404


async def test_other_kinds_go_in_the_background_by_default(pipeline: Pipeline) -> None:
    await config(pipeline)
    await pipeline.delete(CONFIG_MAPS, "c", "default")
    assert (await refusal(pipeline.get(CONFIG_MAPS, "c", "default"))).code == 404


@pytest.mark.conformance("API-22")
async def test_a_dry_deletion_deletes_nothing(pipeline: Pipeline) -> None:
    made = await config(pipeline)
    await pipeline.delete(CONFIG_MAPS, "c", "default", DeleteOptions(dry_run=True))
    assert await pipeline.get(CONFIG_MAPS, "c", "default") == made


@pytest.mark.conformance("API-78")
async def test_a_namespace_goes_when_its_controller_lets_it(pipeline: Pipeline) -> None:
    await pipeline.create(NAMESPACES, {"metadata": {"name": "team"}})
    marked = await pipeline.delete(NAMESPACES, "team")
    assert marked["status"]["phase"] == "Terminating"
    assert await pipeline.delete(NAMESPACES, "team") == marked
    refused = await refusal(pipeline.create(CONFIG_MAPS, {"metadata": {"name": "c"}}, "team"))
    assert (refused.code, refused.details["causes"][0]["reason"]) == (403, "NamespaceTerminating")
    unchanged = await pipeline.patch(NAMESPACES, "team", Patch(PatchType.MERGE, {"spec": {"finalizers": []}}))
    assert unchanged["spec"]["finalizers"] == ["kubernetes"]
    await pipeline.update(NAMESPACES, {**marked, "spec": {"finalizers": []}}, subresource="finalize")
    assert (await refusal(pipeline.get(NAMESPACES, "team"))).code == 404


@pytest.mark.conformance("API-79")
@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_namespaces_everybody_needs_stay(pipeline: Pipeline, name: str) -> None:
    refused = await refusal(pipeline.delete(NAMESPACES, name))
    assert (refused.code, refused.reason) == (403, "Forbidden")
