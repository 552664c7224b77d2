"""StatefulSets: pods with names that stay, made, removed and replaced in order or together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from echelon.api.scheme import CONTROLLER_REVISIONS, PODS, VOLUME_CLAIMS, Object
from echelon.api.views.pod_views import PodView
from echelon.api.views.replica_views import ControllerRevisionView, StatefulSetView
from echelon.decide.apps.claimed_sets import ObservedSet
from echelon.decide.apps.stateful import reconcile
from echelon.decide.apps.stateful_pods import ordinal_of
from echelon.decide.plan import ApplyPatch, Create, Delete, Plan

from .objects import NOW, pod, reference, replicated, revision, template

PARALLEL: Object = {"podManagementPolicy": "Parallel"}


def stateful_set(replicas: int = 3, metadata: Object | None = None, *, current: str = "", **spec: Any) -> Object:
    obj = replicated("StatefulSet", "web", metadata, replicas=replicas, template=template("new"), **spec)
    obj["status"] = {"currentRevision": f"web-{current}"} if current else {}
    return obj


def rolling(partition: int = 0, unavailable: int | str = 1) -> Object:
    update = {"partition": partition, "maxUnavailable": unavailable}
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": update}}


def member(owner: Object, number: int, image: str = "new", **more: Any) -> Object:
    return pod(f"web-{number}", owner, labels={"app": "a", "controller-revision-hash": f"web-{image}"}, **more)


def decided(
    owner: Object,
    *pods: Object,
    old: Sequence[Object] = (),
    revisions: Sequence[Object] | None = None,
    orphan_revisions: Sequence[Object] = (),
    named: Sequence[str] = (),
    claims: Sequence[str] = (),
    **more: Any,
) -> Plan:
    stored = [*old, revision(owner, "new", 9)] if revisions is None else revisions
    views = [PodView(one) for one in pods]
    observed = ObservedSet(
        StatefulSetView(owner),
        owned=[one for one in views if one.controlled_by(owner["metadata"]["uid"])],
        orphans=[one for one in views if one.controller is None],
        revisions=[ControllerRevisionView(one) for one in stored],
        orphan_revisions=[ControllerRevisionView(one) for one in orphan_revisions],
        revision_named=lambda name: ControllerRevisionView({"metadata": {"name": name}}) if name in named else None,
        **more,
    )
    return reconcile(observed, lambda name: name in claims, NOW)


def creations(plan: Plan, resource: Any = PODS) -> list[Object]:
    actions = [action for stage in plan.stages for action in stage]
    return [one.obj for one in actions if isinstance(one, Create) and one.resource is resource]


def made(plan: Plan, resource: Any = PODS) -> list[str]:
    return [one["metadata"]["name"] for one in creations(plan, resource)]


def deleted(plan: Plan, resource: Any = PODS) -> list[str]:
    actions = [action for stage in plan.stages for action in stage]
    return [one.name for one in actions if isinstance(one, Delete) and one.resource is resource]


# -- names and pods ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "ordinal"),
    [("web-0", 0), ("web-12", 12), ("web-2147483647", 2147483647), ("web", None), ("web-x", None), ("other-1", None),
     ("web-db-1", None), ("web-", None), ("web-12345678901", None), ("web--1", None)],
)  # fmt: skip
def test_the_ordinal_of_a_pod_is_the_number_after_the_name_of_its_owner(name: str, ordinal: int | None) -> None:
    assert ordinal_of("web", name) == ordinal


def test_a_pod_has_the_name_labels_host_name_and_claims_of_its_ordinal() -> None:
    claim = {"metadata": {"name": "data", "labels": {"tier": "x"}}, "spec": {"size": 1}}
    other = {"metadata": {"name": "logs"}, "spec": {"size": 2}}
    owner = stateful_set(1, serviceName="peers", volumeClaimTemplates=[claim, other])
    written = owner["spec"]["template"]
    written["metadata"] |= {"annotations": {"x": "y"}, "finalizers": ["f/f"]}
    written["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}, {"name": "scratch", "emptyDir": {}}]
    stored = revision(owner, "new", 1)
    stored["data"] = {"spec": {"template": {**written, "$patch": "replace"}}}
    plan = decided(owner, revisions=[stored], claims=["logs-web-0"])
    (made_pod,) = creations(plan)
    assert made_pod["metadata"] == {
        "name": "web-0",
        "namespace": "default",
        "labels": {
            "app": "a",
            "statefulset.kubernetes.io/pod-name": "web-0",
            "apps.kubernetes.io/pod-index": "0",
            "controller-revision-hash": "web-new",
        },
        "annotations": {"x": "y"},
        "finalizers": ["f/f"],
        "ownerReferences": [reference(owner)],
    }
    assert made_pod["spec"] == {
        "containers": [{"name": "c", "image": "new"}],
        "hostname": "web-0",
        "subdomain": "peers",
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}},
            {"name": "logs", "persistentVolumeClaim": {"claimName": "logs-web-0"}},
            {"name": "scratch", "emptyDir": {}},
        ],
    }
    (made_claim,) = creations(plan, VOLUME_CLAIMS)
    assert made_claim == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data-web-0", "namespace": "default", "labels": {"tier": "x", "app": "a"}},
        "spec": {"size": 1},
    }
    # The claim is there before the pod that wants it.
    assert [len(stage) for stage in plan.stages] == [1, 1]


def test_a_pod_of_a_set_without_service_and_claims_is_the_template() -> None:
    (made_pod,) = creations(decided(stateful_set(1)))
    assert made_pod["spec"] == {"containers": [{"name": "c", "image": "new"}], "hostname": "web-0"}


def test_creations_and_deletions_are_told() -> None:
    create = decided(stateful_set(1)).stages[0][0]
    assert isinstance(create, Create)
    assert create.created is not None
    assert create.refused is not None
    assert (create.created.type, create.created.message) == (
        "Normal", "create Pod web-0 in StatefulSet web successful",
    )  # fmt: skip
    assert (create.refused.type, create.refused.message) == (
        "Warning", "create Pod web-0 in StatefulSet web failed error: {error}",
    )  # fmt: skip
    owner = stateful_set(0)
    assert [(note.type, note.reason, note.message) for note in decided(owner, member(owner, 0)).notes] == [
        ("Normal", "SuccessfulDelete", "delete Pod web-0 in StatefulSet web successful")
    ]


# -- growing -------------------------------------------------------------------------------------------------


def test_in_order_each_pod_waits_until_the_one_before_it_is_available() -> None:
    owner = stateful_set(3)
    assert made(decided(owner)) == ["web-0"]
    assert made(decided(owner, member(owner, 0, ready_for=None))) == []
    assert made(decided(owner, member(owner, 0, deleting=True))) == []
    assert made(decided(owner, member(owner, 0))) == ["web-1"]
    # A gap is filled before anything above it.
    assert made(decided(owner, member(owner, 0), member(owner, 2))) == ["web-1"]


def test_in_order_a_pod_is_available_when_it_has_been_ready_for_long_enough() -> None:
    owner = stateful_set(2, minReadySeconds=30)
    plan = decided(owner, member(owner, 0, ready_for=20))
    assert made(plan) == []
    assert plan.requeue_after == 10
    assert made(decided(owner, member(owner, 0, ready_for=30))) == ["web-1"]
    unknown = member(owner, 0)
    del unknown["status"]["conditions"][0]["lastTransitionTime"]
    plan = decided(owner, unknown)
    assert made(plan) == []
    assert plan.requeue_after == 30


def test_a_pod_that_is_not_running_or_not_ready_is_not_available() -> None:
    owner = stateful_set(2)
    not_ready = member(owner, 0)
    not_ready["status"]["conditions"][0]["status"] = "False"
    assert made(decided(owner, not_ready)) == []
    assert made(decided(owner, member(owner, 0, phase="Pending"))) == []


def test_in_parallel_all_pods_are_made_at_once() -> None:
    owner = stateful_set(3, **PARALLEL)
    assert made(decided(owner)) == ["web-0", "web-1", "web-2"]
    assert made(decided(owner, member(owner, 1, ready_for=None))) == ["web-0", "web-2"]
    assert len(made(decided(stateful_set(600, **PARALLEL)))) == 500


def test_in_parallel_nothing_is_removed_in_a_sync_that_made_all_it_may() -> None:
    owner = stateful_set(500, **PARALLEL)
    plan = decided(owner, member(owner, 700))
    assert len(made(plan)) == 500
    assert deleted(plan) == []
    few = stateful_set(2, **PARALLEL)
    assert deleted(decided(few, *(member(few, number) for number in range(2, 600)))) == [
        f"web-{number}" for number in range(599, 101, -1)
    ]


def test_ordinals_begin_where_they_should() -> None:
    owner = stateful_set(2, ordinals={"start": 5}, **PARALLEL)
    assert made(decided(owner)) == ["web-5", "web-6"]
    assert deleted(decided(owner, member(owner, 4), member(owner, 5), member(owner, 6), member(owner, 7))) == [
        "web-7", "web-4",
    ]  # fmt: skip


def test_a_pod_that_ended_is_deleted_and_made_again_when_it_is_gone() -> None:
    owner = stateful_set(2)
    plan = decided(owner, member(owner, 0, phase="Failed"), member(owner, 1))
    assert (deleted(plan), made(plan)) == (["web-0"], [])
    plan = decided(owner, member(owner, 0, phase="Failed", deleting=True))
    assert (deleted(plan), made(plan)) == ([], [])


def test_creations_keep_to_the_room_that_there_is_and_are_tried_again() -> None:
    owner = stateful_set(3, **PARALLEL)
    plan = decided(owner, room=2)
    assert made(plan) == ["web-0", "web-1"]
    assert plan.requeue_after == 10
    assert decided(owner, room=3).requeue_after is None
    assert made(decided(owner, namespace_closed=True)) == []


# -- shrinking -----------------------------------------------------------------------------------------------


def test_in_order_the_highest_pod_goes_alone_and_the_next_when_it_is_gone() -> None:
    owner = stateful_set(1)
    zero, one, two = (member(owner, number) for number in range(3))
    assert deleted(decided(owner, zero, one, two)) == ["web-2"]
    assert deleted(decided(owner, zero, one, member(owner, 2, deleting=True))) == []
    assert deleted(decided(owner, zero, one)) == ["web-1"]


def test_in_order_nothing_goes_while_a_lower_pod_is_not_available() -> None:
    owner = stateful_set(1)
    assert deleted(decided(owner, member(owner, 0, ready_for=None), member(owner, 1))) == []
    broken = member(owner, 1, ready_for=None)
    # The highest is fine and goes; were it broken too, the lowest broken one alone may go.
    assert deleted(decided(owner, member(owner, 0), broken, member(owner, 2))) == ["web-2"]
    assert deleted(decided(owner, member(owner, 0), broken, member(owner, 2, ready_for=None))) == []
    assert deleted(decided(owner, member(owner, 0), broken)) == ["web-1"]


def test_in_parallel_all_that_are_too_many_go_at_once() -> None:
    owner = stateful_set(1, **PARALLEL)
    pods = [member(owner, 0, ready_for=None), member(owner, 1), member(owner, 2, deleting=True), member(owner, 3)]
    assert deleted(decided(owner, *pods)) == ["web-3", "web-1"]


def test_in_order_pods_are_not_replaced_while_others_are_too_many() -> None:
    owner = stateful_set(1, current="old")
    old = [revision(owner, "old", 1)]
    assert deleted(decided(owner, member(owner, 0, "old"), member(owner, 1, "old"), old=old)) == ["web-1"]
    leaving = member(owner, 1, "old", deleting=True)
    assert deleted(decided(owner, member(owner, 0, "old"), leaving, old=old)) == []
    broken = [member(owner, number, "old", ready_for=None) for number in (1, 2)]
    assert deleted(decided(owner, member(owner, 0, "old"), *broken, old=old)) == []
    parallel = stateful_set(1, current="old", **PARALLEL)
    gone = decided(parallel, member(parallel, 0, "old"), member(parallel, 1, "old"), old=old)
    assert deleted(gone) == ["web-1", "web-0"]


# -- replacing -----------------------------------------------------------------------------------------------


def rolled(owner: Object, *pods: Object) -> list[str]:
    return deleted(decided(owner, *pods, old=[revision(owner, "old", 1)]))


def test_old_pods_are_replaced_one_by_one_from_the_highest() -> None:
    owner = stateful_set(3, current="old")
    zero, one, two = (member(owner, number, "old") for number in range(3))
    assert rolled(owner, zero, one, two) == ["web-2"]
    assert rolled(owner, zero, one, member(owner, 2)) == ["web-1"]
    assert rolled(owner, zero, one, member(owner, 2, ready_for=None)) == []
    assert rolled(owner, *(member(owner, number) for number in range(3))) == []


def test_pods_below_the_partition_keep_their_template() -> None:
    owner = stateful_set(3, current="old", ordinals={"start": 4}, **rolling(partition=2, unavailable=3))
    assert rolled(owner, *(member(owner, number, "old") for number in (4, 5, 6))) == ["web-6"]
    # One that must be made again below the partition is of the template it had, and of the new one above.
    old = [revision(owner, "old", 1)]
    (again,) = creations(decided(owner, member(owner, 4, "old"), member(owner, 6), old=old))
    assert again["metadata"]["labels"]["controller-revision-hash"] == "web-old"
    assert again["spec"]["containers"] == [{"name": "c", "image": "old"}]
    assert "$patch" not in {**again, **again["metadata"], **again["spec"]}
    (newer,) = creations(decided(owner, member(owner, 4, "old"), member(owner, 5, "old"), old=old))
    assert newer["metadata"]["labels"]["controller-revision-hash"] == "web-new"


def test_without_rolling_update_settings_pods_that_are_not_replaced_yet_come_back_as_they_were() -> None:
    owner = stateful_set(2, current="old")
    owner["status"]["currentReplicas"] = 1
    old = [revision(owner, "old", 1)]
    (zero,) = creations(decided(owner, member(owner, 1), old=old))
    assert zero["spec"]["containers"][0]["image"] == "old"
    (one,) = creations(decided(owner, member(owner, 0, "old"), old=old))
    assert one["spec"]["containers"][0]["image"] == "new"


def test_a_set_that_replaces_on_delete_makes_pods_of_the_newest_template_and_deletes_none() -> None:
    owner = stateful_set(2, current="old", updateStrategy={"type": "OnDelete"})
    owner["status"]["currentReplicas"] = 2
    plan = decided(owner, member(owner, 1, "old"), old=[revision(owner, "old", 1)])
    assert deleted(plan) == []
    (zero,) = creations(plan)
    assert zero["spec"]["containers"][0]["image"] == "new"
    assert rolled(owner, member(owner, 0, "old"), member(owner, 1, "old")) == []


@pytest.mark.parametrize(
    ("unavailable", "gone"),
    [(1, ["web-3"]), (2, ["web-3", "web-2"]), ("50%", ["web-3", "web-2"]), ("74%", ["web-3", "web-2"]),
     ("10%", ["web-3"]), (9, ["web-3", "web-2", "web-1", "web-0"])],
)  # fmt: skip
def test_as_many_are_replaced_together_as_may_be_unavailable(unavailable: int | str, gone: list[str]) -> None:
    owner = stateful_set(4, current="old", **rolling(unavailable=unavailable))
    assert rolled(owner, *(member(owner, number, "old") for number in range(4))) == gone


def test_in_parallel_old_pods_that_do_not_work_are_replaced_whatever_the_limit() -> None:
    owner = stateful_set(3, current="old", **PARALLEL)
    broken = [member(owner, 0, "old"), member(owner, 1, "old", ready_for=None), member(owner, 2, "old", ready_for=None)]
    assert rolled(owner, *broken) == ["web-2", "web-1"]
    # New ones that do not work yet use the limit up.
    starting = [member(owner, 0, "old"), member(owner, 1, "old"), member(owner, 2, ready_for=None)]
    assert rolled(owner, *starting) == []
    two = stateful_set(3, current="old", **PARALLEL, **rolling(unavailable=2))
    assert rolled(two, *starting) == ["web-1"]
    # A missing one as well, and one that ended is not deleted twice.
    assert rolled(owner, member(owner, 0, "old"), member(owner, 1, "old")) == []
    ended = member(two, 2, "old", phase="Failed")
    assert rolled(two, member(two, 0, "old"), member(two, 1, "old"), ended) == ["web-2", "web-1"]


# -- revisions and claims ------------------------------------------------------------------------------------


def test_a_template_without_a_revision_gets_one_first() -> None:
    owner = stateful_set(1, metadata={"annotations": {"x": "y"}})
    plan = decided(owner, revisions=[revision(owner, "b", 1, age=100), revision(owner, "a", 4)])
    (create,) = plan.stages[0]
    assert isinstance(create, Create)
    assert create.resource is CONTROLLER_REVISIONS
    name, hashed = create.obj["metadata"]["name"], create.obj["metadata"]["labels"]["controller-revision-hash"]
    assert name == f"web-{hashed}"
    assert create.obj == {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"app": "a", "controller-revision-hash": hashed},
            "annotations": {"x": "y"},
            "ownerReferences": [reference(owner)],
        },
        "data": {"spec": {"template": {**template("new"), "$patch": "replace"}}},
        "revision": 5,
    }
    # In the order in which Go writes it, which clients compare it with.
    assert json.dumps(create.obj["data"], separators=(",", ":")).startswith(
        '{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"image":"new",'
    )
    first = decided(stateful_set(1), revisions=[]).stages[0][0]
    assert isinstance(first, Create)
    assert first.obj["revision"] == 1
    assert "annotations" not in first.obj["metadata"]


def test_nothing_is_stored_for_a_set_or_a_namespace_that_goes() -> None:
    assert decided(stateful_set(1), revisions=[], namespace_closed=True).empty
    leaving = stateful_set(1, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert decided(leaving, revisions=[]).empty
    plan = decided(leaving)
    assert plan.stages == ()
    assert plan.status is not None


def test_a_template_that_comes_back_is_the_newest_revision_again() -> None:
    owner = stateful_set(1)
    plan = decided(owner, revisions=[revision(owner, "old", 3), revision(owner, "new", 2)])
    (patch,) = plan.stages[0]
    assert isinstance(patch, ApplyPatch)
    assert (patch.name, patch.patch.body) == ("web-new", {"metadata": {"uid": "uid-web-new"}, "revision": 4})


def test_a_revision_name_that_is_taken_is_avoided_at_the_next_sync() -> None:
    owner = stateful_set(1)
    owner["status"] = {"collisionCount": 2, "replicas": 1}
    (name,) = made(decided(owner, revisions=[]), CONTROLLER_REVISIONS)
    plan = decided(owner, revisions=[], named=[name])
    assert plan.stages == ()
    assert plan.status is not None
    assert plan.status.status == {"collisionCount": 3, "replicas": 1}
    owner["status"] = plan.status.status
    (other,) = made(decided(owner, revisions=[], named=[name]), CONTROLLER_REVISIONS)
    assert other != name


def test_revisions_that_nothing_uses_are_kept_up_to_the_limit() -> None:
    owner = stateful_set(1, current="r1", revisionHistoryLimit=1, updateStrategy={"type": "OnDelete"})
    old = [revision(owner, f"r{number}", number) for number in (5, 1, 2, 3, 4)]
    plan = decided(owner, member(owner, 0, "r2"), old=old)
    assert deleted(plan, CONTROLLER_REVISIONS) == ["web-r3", "web-r4"]
    roomy = stateful_set(1, current="r1", revisionHistoryLimit=9, updateStrategy={"type": "OnDelete"})
    assert deleted(decided(roomy, member(roomy, 0, "r2"), old=old), CONTROLLER_REVISIONS) == []


def test_pods_of_the_right_name_and_revisions_are_adopted_but_not_pods_that_ended() -> None:
    owner = stateful_set(2)
    orphans = [pod("web-0"), pod("web-1", phase="Failed"), pod("other-1")]
    plan = decided(owner, *orphans, orphan_revisions=[revision(owner, "r1", 1, controlled=False)])
    assert [one.name for stage in plan.stages for one in stage if isinstance(one, ApplyPatch)] == ["web-0", "web-r1"]
    assert made(plan) == []


# -- status --------------------------------------------------------------------------------------------------


def test_the_status_counts_pods_by_revision_readiness_and_availability() -> None:
    owner = stateful_set(5, current="old", minReadySeconds=30, **PARALLEL, **rolling(partition=9))
    condition = {"type": "Mine", "status": "True"}
    owner["status"] |= {"collisionCount": 1, "conditions": [condition]}
    pods = [
        member(owner, 0, "old"),
        member(owner, 1, "old", ready_for=10),
        member(owner, 2, "new"),
        member(owner, 3, "old", deleting=True),
        member(owner, 4, "old", phase="Failed", ready_for=None),
    ]
    plan = decided(owner, *pods, old=[revision(owner, "old", 1)])
    assert plan.status is not None
    assert plan.status.status == {
        "replicas": 5,
        "availableReplicas": 3,
        "readyReplicas": 4,
        "currentReplicas": 2,
        "updatedReplicas": 1,
        "observedGeneration": 1,
        "currentRevision": "web-old",
        "updateRevision": "web-new",
        "collisionCount": 1,
        "conditions": [condition],
    }
    assert plan.requeue_after == 20


def test_the_update_revision_becomes_current_when_all_pods_have_it() -> None:
    owner = stateful_set(2, current="old")
    old = [revision(owner, "old", 1)]
    plan = decided(owner, member(owner, 0), member(owner, 1), old=old)
    assert plan.status is not None
    assert (plan.status.status["currentRevision"], plan.status.status["currentReplicas"]) == ("web-new", 2)
    owner["status"] = plan.status.status
    assert decided(owner, member(owner, 0), member(owner, 1), old=old).status is None


@pytest.mark.parametrize("short", [{"ready_for": None}, {"image": "old"}, {"deleting": True}], ids=str)
def test_the_update_revision_is_not_current_while_a_pod_lacks_it(short: Object) -> None:
    owner = stateful_set(2, current="old")
    plan = decided(owner, member(owner, 0), member(owner, 1, **short), old=[revision(owner, "old", 1)])
    assert plan.status is not None
    assert plan.status.status["currentRevision"] == "web-old"


def test_a_set_that_replaces_on_delete_keeps_its_current_revision() -> None:
    owner = stateful_set(1, current="old", updateStrategy={"type": "OnDelete"})
    plan = decided(owner, member(owner, 0), old=[revision(owner, "old", 1)])
    assert plan.status is not None
    assert plan.status.status["currentRevision"] == "web-old"
    assert "currentReplicas" not in plan.status.status
