"""The life of objects through the pipeline: create, read, update, patch; versions, generations, refusals."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from echelon.api.errors import ApiError
from echelon.api.scheme import (
    CONFIG_MAPS,
    JOB_SETS,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    POD_GROUPS_ALPHA,
    PODS,
    PRIORITY_CLASSES,
    Object,
)
from echelon.api.verbs import Patch, PatchType, WriteOptions
from echelon.base.clock import ManualClock
from echelon.base.rng import Rng
from echelon.server.pipeline import Pipeline
from echelon.store.interface import Store
from echelon.testing.builders import bare_pod


def config(name: str = "c", **data: str) -> Object:
    return {"metadata": {"name": name}, "data": data}


def group(name: str = "g", minimum: int = 2) -> Object:
    return {"metadata": {"name": name}, "spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}}}


def merge(**body: Any) -> Patch:
    return Patch(PatchType.MERGE, body)


def version(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])


@pytest.mark.conformance("API-1")
async def test_a_created_pod_has_what_only_the_server_gives(pipeline: Pipeline) -> None:
    sent = bare_pod()
    sent["metadata"] |= {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 9}
    sent["status"] = {"phase": "Running"}
    made = await pipeline.create(PODS, sent, "default")
    metadata = made["metadata"]
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", metadata["uid"])
    assert metadata["creationTimestamp"] == "2027-01-15T08:00:00Z"
    assert (metadata["namespace"], metadata["generation"]) == ("default", 1)
    assert version(made) == int(pipeline.resource_version)
    assert made["status"]["phase"] == "Pending"
    assert await pipeline.get(PODS, "p", "default") == made


@pytest.mark.conformance("API-2")
async def test_a_name_is_taken_once(pipeline: Pipeline) -> None:
    await pipeline.create(PODS, bare_pod(), "default")
    with pytest.raises(ApiError, match='pods "p" already exists') as refused:
        await pipeline.create(PODS, bare_pod(), "default")
    assert (refused.value.code, refused.value.reason) == (409, "AlreadyExists")
    assert refused.value.details == {"name": "p", "kind": "pods"}


@pytest.mark.conformance("API-3")
async def test_what_is_missing_is_not_found(pipeline: Pipeline) -> None:
    with pytest.raises(ApiError, match=r'jobs\.batch "x" not found') as refused:
        await pipeline.get(JOBS, "x", "default")
    assert (refused.value.code, refused.value.details) == (404, {"name": "x", "group": "batch", "kind": "jobs"})


@pytest.mark.conformance("API-5", "API-6")
async def test_an_update_must_be_based_on_the_current_version(pipeline: Pipeline) -> None:
    made = await pipeline.create(CONFIG_MAPS, config(a="1"), "default")
    changed = await pipeline.update(CONFIG_MAPS, {**made, "data": {"a": "2"}}, "default")
    assert version(changed) > version(made)
    with pytest.raises(ApiError, match="the object has been modified") as refused:
        await pipeline.update(CONFIG_MAPS, {**made, "data": {"a": "3"}}, "default")
    assert (refused.value.code, refused.value.reason) == (409, "Conflict")
    assert (await pipeline.get(CONFIG_MAPS, "c", "default"))["data"] == {"a": "2"}


@pytest.mark.conformance("API-7")
async def test_put_without_a_version_is_for_kinds_that_allow_it(pipeline: Pipeline) -> None:
    await pipeline.create(CONFIG_MAPS, config(a="1"), "default")
    assert (await pipeline.update(CONFIG_MAPS, config(a="2"), "default"))["data"] == {"a": "2"}
    await pipeline.create(POD_GROUPS, group(), "default")
    with pytest.raises(ApiError) as refused:
        await pipeline.update(POD_GROUPS, group(), "default")
    assert refused.value.message == (
        'podgroups.scheduling.k8s.io "g" is invalid: metadata.resourceVersion: Invalid value: 0: '
        "must be specified for an update"
    )
    assert (refused.value.code, refused.value.details["kind"]) == (422, "podgroups")


@pytest.mark.conformance("API-8")
async def test_a_write_that_changes_nothing_keeps_the_version(pipeline: Pipeline) -> None:
    made = await pipeline.create(PODS, bare_pod(), "default")
    assert version(await pipeline.update(PODS, made, "default")) == version(made)
    assert version(await pipeline.patch(PODS, "p", merge(metadata={"labels": None}), "default")) == version(made)
    ready = merge(status={"phase": "Running"})
    first = await pipeline.patch(PODS, "p", ready, "default", "status")
    assert version(await pipeline.patch(PODS, "p", ready, "default", "status")) == version(first)
    assert int(pipeline.resource_version) == version(first)


@pytest.mark.conformance("API-9")
async def test_names_are_generated_from_a_prefix(pipeline: Pipeline) -> None:
    made = await pipeline.create(CONFIG_MAPS, {"metadata": {"generateName": "gn-"}}, "default")
    assert re.fullmatch(r"gn-[bcdfghjklmnpqrstvwxz2456789]{5}", made["metadata"]["name"])
    assert made["metadata"]["generateName"] == "gn-"
    long = await pipeline.create(CONFIG_MAPS, {"metadata": {"generateName": "x" * 70}}, "default")
    assert len(long["metadata"]["name"]) == 63


class _NoChoice(Rng):
    """Draws the same suffix every time."""

    def suffix(self, length: int = 5) -> str:
        return "z" * length


async def test_a_generated_name_that_is_always_taken_is_given_up_with_a_time_to_retry(store: Store) -> None:
    pipeline = Pipeline(store, ManualClock(), _NoChoice(1))
    await pipeline.bootstrap()
    await pipeline.create(CONFIG_MAPS, {"metadata": {"generateName": "gn-"}}, "default")
    with pytest.raises(ApiError, match='configmaps "gn-zzzzz" already exists') as refused:
        await pipeline.create(CONFIG_MAPS, {"metadata": {"generateName": "gn-"}}, "default")
    assert refused.value.details["retryAfterSeconds"] == 1


@pytest.mark.conformance("API-10", "API-11")
@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"resourceVersion": "7"}, 400, "resourceVersion should not be set"),
        ({"namespace": "other"}, 400, "does not match the namespace"),
        ({"name": ""}, 422, "name or generateName is required"),
        ({"name": "Not_A_Name"}, 422, "lowercase RFC 1123 subdomain"),
    ],
)
async def test_bad_metadata_is_refused_and_nothing_is_stored(
    pipeline: Pipeline, change: dict[str, str], code: int, message: str
) -> None:
    before = pipeline.resource_version
    sent = config()
    sent["metadata"] |= change
    with pytest.raises(ApiError, match=message) as refused:
        await pipeline.create(CONFIG_MAPS, sent, "default")
    assert refused.value.code == code
    assert pipeline.resource_version == before


@pytest.mark.conformance("API-12")
async def test_a_missing_namespace_is_what_is_not_found(pipeline: Pipeline) -> None:
    with pytest.raises(ApiError, match='namespaces "nowhere" not found') as refused:
        await pipeline.create(PODS, bare_pod(), "nowhere")
    assert refused.value.details["kind"] == "namespaces"


@pytest.mark.conformance("API-13")
async def test_another_uid_means_another_object(pipeline: Pipeline) -> None:
    made = await pipeline.create(CONFIG_MAPS, config(), "default")
    other = {**made, "metadata": {**made["metadata"], "uid": "11111111-1111-4111-8111-111111111111"}}
    with pytest.raises(ApiError, match="UID in precondition") as refused:
        await pipeline.update(CONFIG_MAPS, other, "default")
    assert refused.value.code == 409
    with pytest.raises(ApiError, match=r"metadata\.uid") as refused:
        await pipeline.patch(CONFIG_MAPS, "c", merge(metadata={"uid": other["metadata"]["uid"]}), "default")
    assert refused.value.code == 422


async def test_a_body_of_another_kind_or_version_is_refused(pipeline: Pipeline) -> None:
    with pytest.raises(ApiError, match="cannot be handled as a Pod"):
        await pipeline.create(PODS, {**bare_pod(), "apiVersion": "batch/v1", "kind": "Job"}, "default")
    with pytest.raises(ApiError, match=r"API version in the data \(v2\)"):
        await pipeline.create(PODS, {**bare_pod(), "apiVersion": "v2"}, "default")


@pytest.mark.conformance("API-14", "API-15")
async def test_spec_and_status_are_written_through_different_doors(pipeline: Pipeline) -> None:
    await pipeline.create(PODS, bare_pod(), "default")
    status = {"phase": "Running"}
    main = await pipeline.patch(PODS, "p", merge(metadata={"labels": {"a": "b"}}, status=status), "default")
    assert main["status"]["phase"] == "Pending"
    patch = merge(spec={"nodeName": "n"}, status=status)
    side = await pipeline.patch(PODS, "p", patch, "default", "status")
    assert side["status"]["phase"] == "Running"
    assert "nodeName" not in side["spec"]
    assert side["metadata"]["generation"] == 1


@pytest.mark.conformance("API-16")
async def test_status_of_groups_leaves_metadata_alone_status_of_pods_does_not(pipeline: Pipeline) -> None:
    await pipeline.create(POD_GROUPS, group(), "default")
    await pipeline.create(PODS, bare_pod(), "default")
    patch = merge(metadata={"labels": {"a": "b"}})
    assert "labels" not in (await pipeline.patch(POD_GROUPS, "g", patch, "default", "status"))["metadata"]
    assert (await pipeline.patch(PODS, "p", patch, "default", "status"))["metadata"]["labels"] == {"a": "b"}


@pytest.mark.conformance("API-17")
async def test_nodes_register_with_their_status(pipeline: Pipeline) -> None:
    node = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "8000m"}}}
    assert (await pipeline.create(NODES, node))["status"]["capacity"] == {"cpu": "8"}


async def test_status_of_a_kind_without_one_is_not_found(pipeline: Pipeline) -> None:
    await pipeline.create(CONFIG_MAPS, config(), "default")
    with pytest.raises(ApiError, match="could not find the requested resource") as refused:
        await pipeline.patch(CONFIG_MAPS, "c", merge(data={"a": "b"}), "default", "status")
    assert refused.value.code == 404


@pytest.mark.conformance("API-18", "API-19")
async def test_generation_counts_changes_of_the_spec_alone(pipeline: Pipeline) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    job = {"metadata": {"name": "j"}, "spec": {"completions": 2, "template": template}}
    made = await pipeline.create(JOBS, job, "default")
    assert made["metadata"]["generation"] == 1
    labelled = await pipeline.patch(JOBS, "j", merge(metadata={"labels": {"a": "b"}}), "default")
    assert labelled["metadata"]["generation"] == 1
    suspended = await pipeline.patch(JOBS, "j", merge(spec={"suspend": True}), "default")
    assert suspended["metadata"]["generation"] == 2
    with pytest.raises(ApiError) as refused:
        await pipeline.patch(JOBS, "j", merge(spec={"completions": 3}), "default")
    assert refused.value.code == 422
    assert [cause["field"] for cause in refused.value.details["causes"]] == ["spec.completions"]


@pytest.mark.conformance("API-20")
async def test_unknown_fields_are_dropped_with_a_warning_or_refused(pipeline: Pipeline) -> None:
    heard: list[str] = []
    made = await pipeline.create(PODS, bare_pod(colour="red"), "default", WriteOptions(warn=heard.append))
    assert heard == ['unknown field "spec.colour"']
    assert "colour" not in made["spec"]
    with pytest.raises(ApiError, match=r'strict decoding error: unknown field "spec\.colour"') as refused:
        await pipeline.create(PODS, bare_pod("q", colour="red"), "default", WriteOptions(field_validation="Strict"))
    assert refused.value.code == 400
    with pytest.raises(ApiError, match=r'unknown field "spec\.colour"') as refused:
        await pipeline.patch(
            PODS, "p", merge(spec={"colour": "red"}), "default", options=WriteOptions(field_validation="Strict")
        )
    assert (refused.value.code, refused.value.details["causes"][0]["field"]) == (422, "patch")
    heard.clear()
    await pipeline.create(PODS, bare_pod("r", colour="red"), "default", WriteOptions(False, "Ignore", "", heard.append))
    assert heard == []


@pytest.mark.conformance("API-22")
async def test_dry_runs_answer_as_if_and_store_nothing(pipeline: Pipeline) -> None:
    dry = WriteOptions(dry_run=True)
    before = pipeline.resource_version
    made = await pipeline.create(CONFIG_MAPS, config(), "default", dry)
    assert made["metadata"]["uid"]
    assert "resourceVersion" not in made["metadata"]
    stored = await pipeline.create(CONFIG_MAPS, config(a="1"), "default")
    assert version(stored) == int(before) + 1
    changed = await pipeline.patch(CONFIG_MAPS, "c", merge(data={"a": "2"}), "default", options=dry)
    assert (changed["data"], version(changed)) == ({"a": "2"}, version(stored))
    assert (await pipeline.get(CONFIG_MAPS, "c", "default"))["data"] == {"a": "1"}
    with pytest.raises(ApiError, match="already exists"):
        await pipeline.create(CONFIG_MAPS, config(), "default", dry)


async def test_one_object_is_seen_at_every_version(pipeline: Pipeline) -> None:
    made = await pipeline.create(POD_GROUPS_ALPHA, group(), "default")
    assert made["apiVersion"] == "scheduling.k8s.io/v1alpha3"
    beta = await pipeline.get(POD_GROUPS, "g", "default")
    assert beta["apiVersion"] == "scheduling.k8s.io/v1beta1"
    assert {**beta, "apiVersion": ""} == {**made, "apiVersion": ""}
    patch = merge(metadata={"labels": {"a": "b"}})
    alpha = await pipeline.patch(POD_GROUPS_ALPHA, "g", patch, "default")
    assert alpha["apiVersion"] == "scheduling.k8s.io/v1alpha3"
    assert [item["apiVersion"] for item in (await pipeline.list(POD_GROUPS)).items] == ["scheduling.k8s.io/v1beta1"]


@pytest.mark.conformance("API-54")
async def test_lifting_a_scheduling_gate_changes_the_spec(pipeline: Pipeline) -> None:
    await pipeline.create(PODS, bare_pod(schedulingGates=[{"name": "example.com/wait"}]), "default")
    lifted = {"spec": {"schedulingGates": [{"name": "example.com/wait", "$patch": "delete"}]}}
    patched = await pipeline.patch(PODS, "p", Patch(PatchType.STRATEGIC, lifted), "default")
    assert not patched["spec"].get("schedulingGates")
    assert patched["metadata"]["generation"] == 2


@pytest.mark.conformance("API-58")
async def test_priority_comes_from_the_class(pipeline: Pipeline) -> None:
    await pipeline.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 1000})
    made = await pipeline.create(PODS, bare_pod(priorityClassName="high"), "default")
    assert made["spec"]["priority"] == 1000
    with pytest.raises(ApiError, match="no PriorityClass with name nosuch was found") as refused:
        await pipeline.create(PODS, bare_pod("q", priorityClassName="nosuch"), "default")
    assert refused.value.code == 403


@pytest.mark.conformance("API-59")
async def test_a_group_is_protected_and_starts_without_status(pipeline: Pipeline) -> None:
    made = await pipeline.create(POD_GROUPS, group() | {"status": {"conditions": []}}, "default")
    assert made["metadata"]["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]
    assert "generation" not in made["metadata"]
    assert made["status"] == {}


@pytest.mark.conformance("API-89")
async def test_patches_of_different_fields_never_lose_each_other(pipeline: Pipeline) -> None:
    made = await pipeline.create(CONFIG_MAPS, config(), "default")
    await asyncio.gather(*(pipeline.patch(CONFIG_MAPS, "c", merge(data={f"k{n}": "v"}), "default") for n in range(30)))
    assert len((await pipeline.get(CONFIG_MAPS, "c", "default"))["data"]) == 30
    stale = {"resourceVersion": made["metadata"]["resourceVersion"]}
    with pytest.raises(ApiError, match="the object has been modified") as refused:
        await pipeline.patch(CONFIG_MAPS, "c", merge(metadata=stale, data={"x": "y"}), "default")
    assert refused.value.code == 409


async def test_conditional_updates_race_with_one_winner(pipeline: Pipeline) -> None:
    made = await pipeline.create(CONFIG_MAPS, config(), "default")
    writes = (pipeline.update(CONFIG_MAPS, {**made, "data": {"n": str(n)}}, "default") for n in range(10))
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    assert [o.code for o in outcomes if isinstance(o, ApiError)] == [409] * 9


async def test_put_creates_where_the_kind_allows_it(pipeline: Pipeline) -> None:
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}
    made = await pipeline.update(LEASES, lease, "default")
    assert made["metadata"]["uid"]
    with pytest.raises(ApiError) as refused:
        await pipeline.update(CONFIG_MAPS, config(), "default")
    assert refused.value.code == 404


async def test_objects_handed_out_do_not_change_when_callers_reuse_what_they_sent(pipeline: Pipeline) -> None:
    sent = config(a="1")
    await pipeline.create(CONFIG_MAPS, sent, "default")
    sent["data"]["a"] = "changed"
    assert (await pipeline.get(CONFIG_MAPS, "c", "default"))["data"] == {"a": "1"}


async def test_it_starts_with_the_namespaces_and_classes_of_a_cluster(pipeline: Pipeline, clock: ManualClock) -> None:
    spaces = await pipeline.list(NAMESPACES)
    assert [item["metadata"]["name"] for item in spaces.items] == [
        "default", "kube-node-lease", "kube-public", "kube-system", "kubeflow-system",
    ]  # fmt: skip
    for item in spaces.items:
        assert item["spec"]["finalizers"] == ["kubernetes"]
        assert item["status"]["phase"] == "Active"
        assert item["metadata"]["labels"] == {"kubernetes.io/metadata.name": item["metadata"]["name"]}
    classes = {item["metadata"]["name"]: item["value"] for item in (await pipeline.list(PRIORITY_CLASSES)).items}
    assert classes == {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
    before = pipeline.resource_version
    await pipeline.bootstrap([config("extra") | {"apiVersion": "v1", "kind": "ConfigMap"}
                              | {"metadata": {"name": "extra", "namespace": "default"}}])  # fmt: skip
    assert int(pipeline.resource_version) == int(before) + 1


@pytest.mark.conformance("API-86")
async def test_custom_kinds_refuse_strategic_patches(pipeline: Pipeline) -> None:
    template = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}}
    jobset = {"metadata": {"name": "js"}, "spec": {"replicatedJobs": [{"name": "w", "template": template}]}}
    await pipeline.create(JOB_SETS, jobset, "default")
    with pytest.raises(ApiError) as refused:
        await pipeline.patch(JOB_SETS, "js", Patch(PatchType.STRATEGIC, {"spec": {}}), "default")
    assert refused.value.code == 415


@pytest.mark.timeout(60)
async def test_applies_of_the_same_new_object_wait_for_one_another(pipeline: Pipeline) -> None:
    def applied(manager: str) -> Any:
        body = {"apiVersion": "v1", "kind": "ConfigMap", **config("fresh", **{manager: "x"})}
        options = WriteOptions(field_manager=manager)
        return pipeline.patch(CONFIG_MAPS, "fresh", Patch(PatchType.APPLY, body), "default", options=options)

    await asyncio.gather(*(applied(f"m{number}") for number in range(5)))
    stored = await pipeline.get(CONFIG_MAPS, "fresh", "default")
    assert sorted(stored["data"]) == [f"m{number}" for number in range(5)]
