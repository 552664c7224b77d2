"""Deployments, ReplicaSets, ReplicationControllers and their scale, on our server and on a real one."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.errors import ApiError
from echelon.api.scheme import (
    DAEMON_SETS,
    DEPLOYMENTS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Object,
    Resource,
)
from echelon.api.verbs import Patch, PatchType, WriteOptions

from .conftest import Side
from .waiting import eventually

KINDS = [DEPLOYMENTS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS]
TEMPLATE: Object = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


def spec_of(resource: Resource, **more: Any) -> Object:
    selector = {"app": "a"} if resource is REPLICATION_CONTROLLERS else {"matchLabels": {"app": "a"}}
    return {"selector": selector, "template": TEMPLATE, **more}


async def create(side: Side, namespace: str, resource: Resource, name: str = "x", **spec: Any) -> Object:
    body = {"metadata": {"name": name}, "spec": spec_of(resource, **spec)}
    return await side.verbs.create(resource, body, namespace)


def scale_body(name: str = "x", **spec: Any) -> Object:
    return {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name}, "spec": spec}


def without_identity(scale: Object) -> Object:
    gone = ("uid", "resourceVersion", "creationTimestamp", "namespace")
    return {**scale, "metadata": {k: v for k, v in scale["metadata"].items() if k not in gone}}


@pytest.mark.parametrize("resource", KINDS, ids=lambda one: one.kind)
async def test_put_on_scale_changes_the_replicas_alone(side: Side, namespace: str, resource: Resource) -> None:
    made = await create(side, namespace, resource, replicas=2)
    answer = await side.verbs.update(resource, scale_body(replicas=3), namespace, "scale")
    assert {field: value for field, value in without_identity(answer).items() if field != "status"} == scale_body(
        replicas=3
    )
    assert answer["status"]["selector"] == "app=a"
    assert answer["metadata"]["uid"] == made["metadata"]["uid"]
    now = await side.verbs.get(resource, "x", namespace)
    assert now["spec"] == {**made["spec"], "replicas": 3}
    assert now["metadata"]["generation"] == 2
    none = await side.verbs.update(resource, scale_body(replicas=0), namespace, "scale")
    assert none["spec"] == {}
    assert (await side.verbs.get(resource, "x", namespace))["spec"]["replicas"] == 0


@pytest.mark.parametrize("type_", [PatchType.MERGE, PatchType.STRATEGIC, PatchType.JSON])
async def test_patches_of_scale(side: Side, namespace: str, type_: PatchType) -> None:
    await create(side, namespace, DEPLOYMENTS)
    body: Any = {"spec": {"replicas": 5}}
    if type_ is PatchType.JSON:
        body = [{"op": "replace", "path": "/spec/replicas", "value": 5}]
    answer = await side.verbs.patch(DEPLOYMENTS, "x", Patch(type_, body), namespace, "scale")
    assert answer["spec"] == {"replicas": 5}
    assert answer["kind"] == "Scale"


async def test_a_scale_that_cannot_be_is_refused(side: Side, namespace: str) -> None:
    await create(side, namespace, DEPLOYMENTS)
    for body, code, text in (
        (
            scale_body(replicas=-1),
            422,
            'Scale.autoscaling "x" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0',
        ),
        (scale_body("y", replicas=1), 404, 'deployments.apps "y" not found'),
        ({**scale_body(replicas=1), "kind": "Deployment"}, 400, "Deployment"),
    ):
        with pytest.raises(ApiError) as refused:
            await side.verbs.update(DEPLOYMENTS, body, namespace, "scale")
        assert refused.value.code == code
        assert text in refused.value.message
    for field, value in (("resourceVersion", "1"), ("uid", "another")):
        body = scale_body(replicas=4)
        body["metadata"][field] = value
        with pytest.raises(ApiError) as refused:
            await side.verbs.update(DEPLOYMENTS, body, namespace, "scale")
        assert refused.value.reason == "Conflict"
    unchanged = await side.verbs.get(DEPLOYMENTS, "x", namespace)
    assert unchanged["metadata"]["generation"] == 1
    await eventually(lambda: _scales_as_read(side, namespace))


async def _scales_as_read(side: Side, namespace: str) -> bool:
    """Whether the version that was read is still the newest: controllers of the real server write the status."""
    body = scale_body(replicas=4)
    read = await side.verbs.get(DEPLOYMENTS, "x", namespace)
    body["metadata"]["resourceVersion"] = read["metadata"]["resourceVersion"]
    try:
        await side.verbs.update(DEPLOYMENTS, body, namespace, "scale")
    except ApiError as error:
        if error.reason != "Conflict":
            raise
        return False
    return True


def owners(obj: Object) -> dict[tuple[str, str, str], Any]:
    return {
        (one["manager"], one["operation"], one.get("subresource", "")): (one["apiVersion"], one["fieldsV1"])
        for one in obj["metadata"]["managedFields"]
    }


async def test_an_apply_of_scale_owns_the_replicas_of_the_object(side: Side, namespace: str) -> None:
    async def apply(manager: str, body: Object, *, force: bool = False, scale: bool = True) -> Object:
        options = WriteOptions(field_manager=manager, force=force)
        patch = Patch(PatchType.APPLY, body)
        return await side.verbs.patch(DEPLOYMENTS, "x", patch, namespace, "scale" if scale else "", options)

    whole = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}}
    await apply("m1", {**whole, "spec": spec_of(DEPLOYMENTS, replicas=2)}, scale=False)
    with pytest.raises(ApiError) as refused:
        await apply("m2", scale_body(replicas=3))
    assert [cause["field"] for cause in refused.value.details["causes"]] == [".spec.replicas"]
    assert '"m1"' in refused.value.message
    # Nothing of another value is taken: both own it.
    await apply("m2", scale_body(replicas=2))
    shared = owners(await side.verbs.get(DEPLOYMENTS, "x", namespace))
    assert shared["m2", "Apply", "scale"] == ("apps/v1", {"f:spec": {"f:replicas": {}}})
    assert "f:replicas" in shared["m1", "Apply", ""][1]["f:spec"]
    await apply("m2", scale_body(replicas=3), force=True)
    now = await side.verbs.get(DEPLOYMENTS, "x", namespace)
    assert now["spec"]["replicas"] == 3
    assert "f:replicas" not in owners(now)["m1", "Apply", ""][1]["f:spec"]
    assert owners(now)["m2", "Apply", "scale"] == ("apps/v1", {"f:spec": {"f:replicas": {}}})
    await side.verbs.update(
        DEPLOYMENTS, scale_body(replicas=4), namespace, "scale", WriteOptions(field_manager="m3")
    )  # fmt: skip
    after = owners(await side.verbs.get(DEPLOYMENTS, "x", namespace))
    assert after["m3", "Update", "scale"] == ("apps/v1", {"f:spec": {"f:replicas": {}}})
    assert ("m2", "Apply", "scale") not in after
    with pytest.raises(ApiError) as refused:
        await apply("m1", {**whole, "spec": spec_of(DEPLOYMENTS, replicas=2)}, scale=False)
    assert [cause["field"] for cause in refused.value.details["causes"]] == [".spec.replicas"]


async def test_defaults(side: Side, namespace: str) -> None:
    deployment = await create(side, namespace, DEPLOYMENTS)
    spec = deployment["spec"]
    assert {field: value for field, value in spec.items() if field not in ("template", "selector")} == {
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
    }
    assert deployment["metadata"]["generation"] == 1
    replica_set = await create(side, namespace, REPLICA_SETS)
    assert set(replica_set["spec"]) == {"replicas", "selector", "template"}
    assert replica_set["status"] == {"replicas": 0}
    stateful = (await create(side, namespace, STATEFUL_SETS))["spec"]
    assert {field: value for field, value in stateful.items() if field not in ("template", "selector")} == {
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "podManagementPolicy": "OrderedReady",
        "serviceName": "",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 1}},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
    }
    daemons = await create(side, namespace, DAEMON_SETS)
    assert {field: value for field, value in daemons["spec"].items() if field not in ("template", "selector")} == {
        "revisionHistoryLimit": 10,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
    }
    assert daemons["metadata"]["annotations"] == {"deprecated.daemonset.template.generation": "1"}
    assert daemons["status"] == {
        "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0,
    }  # fmt: skip
    bare = {"metadata": {"name": "bare"}, "spec": {"template": TEMPLATE}}
    controller = await side.verbs.create(REPLICATION_CONTROLLERS, bare, namespace)
    assert controller["spec"]["selector"] == {"app": "a"}
    assert controller["metadata"]["labels"] == {"app": "a"}
    assert controller["spec"]["replicas"] == 1


WRONG: list[tuple[Resource, Object, str]] = [
    (DEPLOYMENTS, {"replicas": -1}, "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
    (DEPLOYMENTS, {"selector": None}, "spec.selector: Required value"),
    (DEPLOYMENTS, {"selector": {}}, "spec.selector: Invalid value: {}: empty selector is invalid for deployment"),
    (
        DEPLOYMENTS,
        {"selector": {"matchLabels": {"app": "b"}}},
        'spec.template.metadata.labels: Invalid value: {"app":"a"}: `selector` does not match template `labels`',
    ),
    (
        DEPLOYMENTS,
        {"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}},
        "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
    ),
    (
        DEPLOYMENTS,
        {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}},
        'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "0%": may not be 0 when `maxSurge` is 0',
    ),
    (
        DEPLOYMENTS,
        {"strategy": {"rollingUpdate": {"maxUnavailable": "101%"}}},
        'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%',
    ),
    (
        DEPLOYMENTS,
        {"strategy": {"rollingUpdate": {"maxSurge": "many"}}},
        'spec.strategy.rollingUpdate.maxSurge: Invalid value: "many": a valid percent string must be a numeric '
        "string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
    ),
    (
        DEPLOYMENTS,
        {"progressDeadlineSeconds": 5, "minReadySeconds": 5},
        "spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds",
    ),
    (
        REPLICA_SETS,
        {"template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}},
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
    ),
    (
        REPLICA_SETS,
        {"template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "activeDeadlineSeconds": 5}}},
        "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported",
    ),
    (REPLICA_SETS, {"minReadySeconds": -1}, "spec.minReadySeconds: Invalid value: -1: must be greater than or equal"),
    (DAEMON_SETS, {"selector": {}}, "spec.selector: Invalid value: {}: empty selector is invalid for daemonset"),
    (
        DAEMON_SETS,
        {"updateStrategy": {"rollingUpdate": {"maxSurge": 1}}},
        "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero",
    ),
    (
        DAEMON_SETS,
        {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}},
        "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0",
    ),
    (
        DAEMON_SETS,
        {"selector": {"matchLabels": {"app": "b"}}},
        'spec.template.metadata.labels: Invalid value: {"app":"a"}: `selector` does not match template `labels`',
    ),
    (
        STATEFUL_SETS,
        {"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}},
        "only allowed for updateStrategy 'RollingUpdate'",
    ),
    (STATEFUL_SETS, {"selector": {}}, "spec.selector: Invalid value: {}: empty selector is invalid for statefulset"),
    (STATEFUL_SETS, {"ordinals": {"start": -1}}, "spec.ordinals.start: Invalid value: -1: must be greater than or"),
    (
        STATEFUL_SETS,
        {"updateStrategy": {"rollingUpdate": {"partition": -1}}},
        "spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0",
    ),
    (
        STATEFUL_SETS,
        {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "101%"}}},
        'spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%',
    ),
    (
        STATEFUL_SETS,
        {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Never"}},
        'RetentionPolicy.whenScaled: Unsupported value: "Never": supported values: "Retain", "Delete"',
    ),
    (REPLICATION_CONTROLLERS, {"template": None}, "spec.template: Required value"),
    (REPLICATION_CONTROLLERS, {"replicas": -1}, "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
]


@pytest.mark.parametrize(("resource", "change", "text"), WRONG, ids=lambda one: getattr(one, "kind", None))
async def test_what_cannot_be_is_refused_in_the_same_words(
    side: Side, namespace: str, resource: Resource, change: Object, text: str
) -> None:
    with pytest.raises(ApiError) as refused:
        await create(side, namespace, resource, **change)
    assert refused.value.code == 422
    assert text in refused.value.message


async def test_what_may_change(side: Side, namespace: str) -> None:
    for resource in (DEPLOYMENTS, REPLICA_SETS):
        made = await create(side, namespace, resource)
        changed = {**made["spec"], "selector": {"matchLabels": {"other": "b"}}}
        changed["template"] = {**TEMPLATE, "metadata": {"labels": {"other": "b"}}}
        with pytest.raises(ApiError) as refused:
            # Without its version, because the controllers of the real server write the status meanwhile.
            await side.verbs.update(resource, {"metadata": {"name": "x"}, "spec": changed}, namespace)
        assert "spec.selector: Invalid value" in refused.value.message
        assert "field is immutable" in refused.value.message
    annotated = {"metadata": {"annotations": {"a": "1"}}}
    patch = Patch(PatchType.MERGE, annotated)
    assert (await side.verbs.patch(DEPLOYMENTS, "x", patch, namespace))["metadata"]["generation"] == 2
    assert (await side.verbs.patch(REPLICA_SETS, "x", patch, namespace))["metadata"]["generation"] == 1


async def test_a_status_that_cannot_be_is_refused(side: Side, namespace: str) -> None:
    for resource in KINDS:
        await create(side, namespace, resource)
        for status, text in (
            ({"replicas": -1}, "status.replicas: Invalid value: -1"),
            ({"replicas": 1, "readyReplicas": 2}, "status.readyReplicas: Invalid value: 2: cannot be greater than"),
            (
                {"replicas": 2, "readyReplicas": 1, "availableReplicas": 2},
                "status.availableReplicas: Invalid value: 2: cannot be greater than ",
            ),
        ):
            with pytest.raises(ApiError) as refused:
                await side.verbs.patch(resource, "x", Patch(PatchType.MERGE, {"status": status}), namespace, "status")
            assert refused.value.code == 422
            assert text in refused.value.message
        good = {"status": {"replicas": 2, "readyReplicas": 1}, "spec": {"replicas": 7}}
        after = await side.verbs.patch(resource, "x", Patch(PatchType.MERGE, good), namespace, "status")
        assert (after["status"]["readyReplicas"], after["spec"]["replicas"]) == (1, 1)
