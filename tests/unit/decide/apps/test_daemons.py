"""DaemonSets: one pod on every node that should have one, replaced a few at a time when the template changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from echelon.api.scheme import CONTROLLER_REVISIONS, PODS, Object
from echelon.api.views.cluster_views import NodeView
from echelon.api.views.pod_views import PodView
from echelon.api.views.replica_views import ControllerRevisionView, DaemonSetView
from echelon.decide.apps.claimed_sets import ObservedSet
from echelon.decide.apps.daemon_nodes import node_of
from echelon.decide.apps.daemons import reconcile
from echelon.decide.plan import ApplyPatch, Create, Delete, Plan

from .objects import NOW, node, pod, reference, replicated, revision, template


def daemon_set(surge: int | str = 0, unavailable: int | str = 1, metadata: Object | None = None, **spec: Any) -> Object:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    obj = replicated("DaemonSet", "web", metadata, template=template("new"), **{"updateStrategy": rolling, **spec})
    del obj["spec"]["replicas"]
    obj["status"] = {}
    return obj


def daemon(name: str, owner: Object, on: str, image: str = "new", **more: Any) -> Object:
    return pod(name, owner, node=on, labels={"app": "a", "controller-revision-hash": image}, **more)


def decided(
    owner: Object,
    nodes: Sequence[Object],
    *pods: Object,
    old: Sequence[Object] = (),
    revisions: Sequence[Object] | None = None,
    orphan_revisions: Sequence[Object] = (),
    named: Sequence[Object] = (),
    **more: Any,
) -> Plan:
    stored = [*old, revision(owner, "new", 9)] if revisions is None else revisions
    views = [PodView(one) for one in pods]
    by_name = {one["metadata"]["name"]: one for one in named}
    observed = ObservedSet(
        DaemonSetView(owner),
        owned=[one for one in views if one.controlled_by(owner["metadata"]["uid"])],
        orphans=[one for one in views if one.controller is None],
        revisions=[ControllerRevisionView(one) for one in stored],
        orphan_revisions=[ControllerRevisionView(one) for one in orphan_revisions],
        revision_named=lambda name: ControllerRevisionView(by_name[name]) if name in by_name else None,
        **more,
    )
    return reconcile(observed, [NodeView(one) for one in nodes], NOW)


def made(plan: Plan) -> list[str]:
    """The nodes that get a pod."""
    actions = [action for stage in plan.stages for action in stage]
    return [node_of(one.obj) for one in actions if isinstance(one, Create) and one.resource is PODS]


def deleted(plan: Plan, resource: Any = PODS) -> list[str]:
    actions = [action for stage in plan.stages for action in stage]
    return [one.name for one in actions if isinstance(one, Delete) and one.resource is resource]


NODES = [node("n1"), node("n2"), node("n3")]
NO_SCHEDULE: Object = {"key": "k", "effect": "NoSchedule"}
NO_EXECUTE: Object = {"key": "k", "effect": "NoExecute"}


# -- placement -----------------------------------------------------------------------------------------------


def test_every_node_gets_a_pod_of_the_template() -> None:
    owner = daemon_set()
    owner["spec"]["template"]["metadata"] |= {"annotations": {"x": "y"}, "finalizers": ["f/f"]}
    stored = revision(owner, "new", 1)
    stored["data"] = {"spec": {"template": {**owner["spec"]["template"], "$patch": "replace"}}}
    plan = decided(owner, [node("n2"), node("n1")], revisions=[stored])
    assert made(plan) == ["n1", "n2"]
    create = plan.stages[0][0]
    assert isinstance(create, Create)
    assert create.obj["metadata"] == {
        "generateName": "web-",
        "namespace": "default",
        "labels": {"app": "a", "controller-revision-hash": "new"},
        "annotations": {"x": "y"},
        "finalizers": ["f/f"],
        "ownerReferences": [reference(owner)],
    }
    assert create.obj["spec"]["containers"] == [{"name": "c", "image": "new"}]
    assert len(create.obj["spec"]["tolerations"]) == 6
    assert create.created is not None
    assert create.refused is not None
    assert (create.created.type, create.created.reason, create.created.message) == (
        "Normal", "SuccessfulCreate", "Created pod: {name}",
    )  # fmt: skip
    assert (create.refused.type, create.refused.reason, create.refused.message) == (
        "Warning", "FailedCreate", "Error creating: {error}",
    )  # fmt: skip


def test_nodes_that_refuse_pods_get_none_and_keep_or_lose_theirs() -> None:
    owner = daemon_set()
    nodes = [node("n1", NO_SCHEDULE), node("n2", NO_SCHEDULE), node("n3", NO_EXECUTE)]
    plan = decided(owner, nodes, daemon("a", owner, "n2"), daemon("b", owner, "n3"))
    assert made(plan) == []
    assert deleted(plan) == ["b"]
    assert [(note.type, note.reason, note.message) for note in plan.notes] == [
        ("Normal", "SuccessfulDelete", "Deleted pod: b")
    ]


def test_pods_on_nodes_that_are_gone_go_too() -> None:
    owner = daemon_set()
    plan = decided(owner, NODES[:1], daemon("a", owner, "n1"), daemon("b", owner, "n9"))
    assert deleted(plan) == ["b"]
    assert plan.status is not None
    assert plan.status.status["numberMisscheduled"] == 0


def test_a_pod_that_ended_is_deleted_and_replaced_only_when_it_is_gone() -> None:
    owner = daemon_set()
    failed = daemon("a", owner, "n1", phase="Failed")
    plan = decided(owner, NODES[:1], failed)
    assert (deleted(plan), made(plan)) == (["a"], [])
    leaving = daemon("a", owner, "n1", phase="Failed", deleting=True)
    plan = decided(owner, NODES[:1], leaving)
    assert (deleted(plan), made(plan)) == ([], [])
    assert made(decided(owner, NODES[:1])) == ["n1"]


def test_of_two_pods_of_one_template_on_a_node_the_older_stays() -> None:
    owner = daemon_set()
    young, elder = daemon("a", owner, "n1", age=10), daemon("b", owner, "n1", age=20)
    assert deleted(decided(owner, NODES[:1], young, elder)) == ["a"]
    third = daemon("c", owner, "n1", age=5)
    assert deleted(decided(owner, NODES[:1], young, elder, third)) == ["a", "c"]
    # One that ended is no reason for another to stay or go.
    ended = daemon("z", owner, "n1", age=90, phase="Succeeded")
    assert deleted(decided(owner, NODES[:1], young, ended)) == ["z"]


def test_of_two_old_pods_on_a_node_the_older_stays_where_nothing_is_replaced() -> None:
    owner = daemon_set(updateStrategy={"type": "OnDelete"})
    pods = [daemon("a", owner, "n1", "old", age=10), daemon("b", owner, "n1", "old", age=20)]
    assert deleted(decided(owner, NODES[:1], *pods, old=[revision(owner, "old", 1)])) == ["a"]


def test_a_pod_that_waits_for_its_node_counts_there() -> None:
    owner = daemon_set()
    waiting = daemon("a", owner, "", phase="Pending", ready_for=None)
    create = decided(owner, NODES[:1]).stages[0][0]
    assert isinstance(create, Create)
    waiting["spec"] = create.obj["spec"]
    assert made(decided(owner, NODES[:2], waiting)) == ["n2"]


def test_creations_keep_to_the_room_that_there_is_and_are_tried_again() -> None:
    owner = daemon_set()
    plan = decided(owner, NODES, room=2)
    assert made(plan) == ["n1", "n2"]
    assert plan.requeue_after == 10
    assert decided(owner, NODES, room=3).requeue_after is None
    assert made(decided(owner, NODES, namespace_closed=True)) == []
    many = [node(f"n{number:04}") for number in range(501)]
    assert len(made(decided(owner, many))) == 500


def test_a_daemon_set_that_is_deleted_changes_nothing_but_its_status() -> None:
    owner = daemon_set(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    plan = decided(owner, NODES, daemon("a", owner, "n9"))
    assert plan.stages == ()
    assert plan.status is not None


# -- rollout -------------------------------------------------------------------------------------------------


def fleet(owner: Object, *images: str, **more: Any) -> list[Object]:
    return [daemon(f"p{number}", owner, f"n{number}", image, **more) for number, image in enumerate(images, 1)]


def rolled(owner: Object, *pods: Object) -> Plan:
    return decided(owner, NODES, *pods, old=[revision(owner, "old", 1)])


@pytest.mark.parametrize(
    ("unavailable", "gone"),
    [(1, ["p1"]), (2, ["p1", "p2"]), (5, ["p1", "p2", "p3"]), ("34%", ["p1", "p2"]), ("1%", ["p1"]), (0, [])],
)
def test_as_many_old_pods_go_at_once_as_may_be_unavailable(unavailable: int | str, gone: list[str]) -> None:
    owner = daemon_set(unavailable=unavailable)
    assert deleted(rolled(owner, *fleet(owner, "old", "old", "old"))) == gone


def test_pods_that_are_not_available_count_against_the_limit_and_old_ones_of_them_go_first() -> None:
    owner = daemon_set(unavailable=1)
    one, two, three = fleet(owner, "old", "old", "new")
    broken = daemon("p2", owner, "n2", "old", ready_for=None)
    assert deleted(rolled(owner, one, broken, three)) == ["p2"]
    starting = daemon("p3", owner, "n3", "new", ready_for=None)
    assert deleted(rolled(owner, one, two, starting)) == []
    owner = daemon_set(unavailable=2)
    assert deleted(rolled(owner, one, two, starting)) == ["p1"]
    # A node whose pod is on its way out has none.
    leaving = daemon("p3", owner, "n3", "old", deleting=True)
    assert deleted(rolled(owner, one, two, leaving)) == ["p1"]


def test_a_pod_is_available_once_it_has_been_ready_for_long_enough() -> None:
    owner = daemon_set(unavailable=1, minReadySeconds=30)
    one, two = fleet(owner, "old", "old")
    young = daemon("p3", owner, "n3", "new", ready_for=20)
    plan = rolled(owner, one, two, young)
    assert deleted(plan) == []
    assert plan.requeue_after == 10
    assert plan.status is not None
    assert (plan.status.status["numberReady"], plan.status.status["numberAvailable"]) == (3, 2)
    assert deleted(rolled(owner, one, two, daemon("p3", owner, "n3", "new", ready_for=30))) == ["p1"]


def test_a_failed_pod_is_not_counted_twice() -> None:
    owner = daemon_set(unavailable=1)
    one, two, _ = fleet(owner, "old", "old", "old")
    failed = daemon("p3", owner, "n3", "old", phase="Failed")
    assert deleted(rolled(owner, one, two, failed)) == ["p3"]


def test_a_surge_makes_new_pods_beside_old_ones() -> None:
    owner = daemon_set(surge=1, unavailable=0)
    pods = fleet(owner, "old", "old", "old")
    plan = rolled(owner, *pods)
    assert (made(plan), deleted(plan)) == (["n1"], [])
    # While the new one starts, nothing more; once it is available, the old one goes.
    starting = daemon("q1", owner, "n1", "new", ready_for=None, age=1)
    plan = rolled(owner, *pods, starting)
    assert (made(plan), deleted(plan)) == ([], [])
    plan = rolled(owner, *pods, daemon("q1", owner, "n1", "new", age=1))
    assert (made(plan), deleted(plan)) == ([], ["p1"])
    owner = daemon_set(surge="50%", unavailable=0)
    assert made(rolled(owner, *fleet(owner, "old", "old", "old"))) == ["n1", "n2"]
    assert made(rolled(owner, *fleet(owner, "old", "old", "old"), starting)) == ["n2"]


def test_a_surge_replaces_old_pods_that_are_not_available_first() -> None:
    owner = daemon_set(surge=1, unavailable=0)
    one, two, _ = fleet(owner, "old", "old", "old")
    broken = daemon("p3", owner, "n3", "old", ready_for=None)
    assert made(rolled(owner, one, two, broken)) == ["n3"]


def test_old_pods_where_none_may_be_made_are_left_alone() -> None:
    owner = daemon_set(unavailable=3)
    nodes = [node("n1"), node("n2", NO_SCHEDULE)]
    plan = decided(owner, nodes, *fleet(owner, "old", "old"), old=[revision(owner, "old", 1)])
    assert deleted(plan) == ["p1"]


def test_on_delete_replaces_nothing_by_itself() -> None:
    owner = daemon_set(updateStrategy={"type": "OnDelete"})
    pods = fleet(owner, "old", "old", "new")
    assert deleted(rolled(owner, *pods)) == []
    assert made(rolled(owner, *pods[1:])) == ["n1"]


# -- revisions, claims and status ----------------------------------------------------------------------------


def test_a_template_without_a_revision_gets_one_first() -> None:
    owner = daemon_set()
    plan = decided(owner, NODES, revisions=[revision(owner, "old", 4)])
    (create,) = plan.stages[0]
    assert isinstance(create, Create)
    assert create.resource is CONTROLLER_REVISIONS
    assert create.obj["revision"] == 5
    assert made(plan) == []
    assert decided(owner, NODES, revisions=[], namespace_closed=True).empty
    leaving = daemon_set(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert decided(leaving, NODES, revisions=[]).empty


def test_a_revision_name_that_is_taken_is_avoided_at_the_next_sync() -> None:
    owner = daemon_set()
    owner["status"] = {"collisionCount": 2, "numberReady": 1}
    first = decided(owner, NODES, revisions=[]).stages[0][0]
    assert isinstance(first, Create)
    taken = {"metadata": {"name": first.obj["metadata"]["name"]}}
    plan = decided(owner, NODES, revisions=[], named=[taken])
    assert plan.stages == ()
    assert plan.status is not None
    assert plan.status.status == {"collisionCount": 3, "numberReady": 1}
    owner["status"] = plan.status.status
    again = decided(owner, NODES, revisions=[], named=[taken]).stages[0][0]
    assert isinstance(again, Create)
    assert again.obj["metadata"]["name"] != first.obj["metadata"]["name"]


def test_revisions_that_no_pod_has_are_kept_up_to_the_limit() -> None:
    owner = daemon_set(revisionHistoryLimit=1, updateStrategy={"type": "OnDelete"})
    old = [revision(owner, f"r{number}", number) for number in (3, 1, 2)]
    pods = [daemon("p", owner, "n1", "r1")]
    assert deleted(decided(owner, NODES[:1], *pods, old=old), CONTROLLER_REVISIONS) == ["web-r2"]
    assert deleted(decided(owner, NODES[:1], old=old), CONTROLLER_REVISIONS) == ["web-r1", "web-r2"]


def test_pods_and_revisions_without_an_owner_are_adopted_but_not_pods_that_ended() -> None:
    owner = daemon_set()
    orphans = [pod("orphan"), pod("ended", phase="Failed")]
    plan = decided(owner, NODES, *orphans, orphan_revisions=[revision(owner, "r1", 1, controlled=False)])
    assert [one.name for stage in plan.stages for one in stage if isinstance(one, ApplyPatch)] == ["orphan", "web-r1"]
    assert made(plan) == []
    assert made(decided(owner, NODES[:1], pod("ended", phase="Failed"))) == ["n1"]


def test_the_status_counts_nodes() -> None:
    owner = daemon_set(minReadySeconds=30, updateStrategy={"type": "OnDelete"})
    condition = {"type": "Mine", "status": "True"}
    owner["status"] = {"collisionCount": 1, "conditions": [condition]}
    nodes = [*NODES, node("n4"), node("n5"), node("n6", NO_SCHEDULE), node("n7", NO_SCHEDULE)]
    pods = [
        daemon("a", owner, "n1"),
        daemon("b", owner, "n2", "old", ready_for=10),
        daemon("c", owner, "n3", ready_for=None),
        daemon("d", owner, "n4", phase="Failed"),
        daemon("e", owner, "n5", deleting=True),
        daemon("f", owner, "n6"),
        daemon("g", owner, "n8"),
    ]
    plan = decided(owner, nodes, *pods, old=[revision(owner, "old", 1)])
    assert plan.status is not None
    assert plan.status.status == {
        "currentNumberScheduled": 4,
        "numberMisscheduled": 1,
        "desiredNumberScheduled": 5,
        "numberReady": 2,
        "updatedNumberScheduled": 3,
        "numberAvailable": 1,
        "numberUnavailable": 4,
        "observedGeneration": 1,
        "collisionCount": 1,
        "conditions": [condition],
    }
    owner["status"] = plan.status.status
    assert decided(owner, nodes, *pods, old=[revision(owner, "old", 1)]).status is None


def test_counters_of_an_empty_cluster_are_zero_where_the_api_requires_them() -> None:
    plan = decided(daemon_set(), [])
    assert plan.status is not None
    assert plan.status.status == {
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
        "observedGeneration": 1,
    }
