"""Deployments: the ReplicaSet that is made, how the old ones shrink while it grows, and which are forgotten."""

from __future__ import annotations

import pytest

from echelon.api.scheme import REPLICA_SETS, Object
from echelon.api.views.replica_views import DeploymentView
from echelon.decide.apps.deployment_sets import new_name
from echelon.decide.plan import Create

from .objects import pod, reference, replica_set, replicated, template
from .rollouts import decided, deployment, sized_for

REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"


# -- the first step ------------------------------------------------------------------------------------------


def test_a_new_template_makes_a_replica_set() -> None:
    kept = {"team": "x", "kubectl.kubernetes.io/last-applied-configuration": "{}", REVISION: "7"}
    owner = deployment(10, "25%", "25%", {"annotations": kept}, minReadySeconds=5, progressDeadlineSeconds=600)
    plan = decided(owner)
    name = new_name(DeploymentView(owner))
    (made,) = plan.created
    hashed = {"pod-template-hash": name.removeprefix("web-")}
    assert made == {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": name,
            "namespace": "default",
            "ownerReferences": [reference(owner)],
            "labels": {"app": "a", **hashed},
            "annotations": {"team": "x", REVISION: "1", **sized_for(10, 13)},
        },
        "spec": {
            "replicas": 10,
            "minReadySeconds": 5,
            "selector": {"matchLabels": {"app": "a", **hashed}},
            "template": {**template("new"), "metadata": {"labels": {"app": "a", **hashed}}},
        },
    }
    assert plan.events == [f"Normal ScalingReplicaSet Scaled up replica set {name} from 0 to 10"]
    progressing = plan.condition("Progressing")
    assert progressing is not None
    assert (progressing["status"], progressing["reason"], progressing["message"]) == (
        "True", "NewReplicaSetCreated", f'Created new replica set "{name}"',
    )  # fmt: skip
    assert plan.plan.status is not None
    assert plan.plan.status.obj["metadata"]["annotations"] == {**kept, REVISION: "1"}


def test_a_refused_creation_is_told_by_event_and_condition() -> None:
    owner = deployment(1, progressDeadlineSeconds=600)
    owner["status"] = {"observedGeneration": 1, "conditions": [{"type": "Available", "status": "False"}]}
    plan = decided(owner).plan
    create = plan.stages[0][0]
    assert isinstance(create, Create)
    assert create.refused is not None
    assert (create.refused.type, create.refused.reason) == ("Warning", "ReplicaSetCreateError")
    assert create.refused.message.endswith(": {error}")
    assert plan.refused is not None
    assert plan.refused.status["observedGeneration"] == 1
    available, progressing = plan.refused.status["conditions"]
    assert available["type"] == "Available"
    assert (progressing["type"], progressing["status"]) == ("Progressing", "False")
    assert (progressing["reason"], progressing["message"]) == ("ReplicaSetCreateError", create.refused.message)


def test_without_a_deadline_nothing_is_said_about_progress() -> None:
    plan = decided(deployment(1))
    assert plan.plan.refused is None
    assert plan.condition("Progressing") is None
    unlimited = decided(deployment(1, progressDeadlineSeconds=2**31 - 1))
    assert unlimited.plan.refused is None
    assert unlimited.condition("Progressing") is None


def test_a_deployment_of_no_replicas_makes_an_empty_replica_set_without_an_event() -> None:
    plan = decided(deployment(0))
    assert [one["spec"]["replicas"] for one in plan.created] == [0]
    assert "minReadySeconds" not in plan.created[0]["spec"]
    assert plan.events == []


@pytest.mark.parametrize(
    ("surge", "old", "size"), [(3, 10, 3), (0, 10, 0), ("25%", 10, 3), (3, 2, 10), (20, 10, 10), (0, 12, 0)]
)
def test_the_first_size_leaves_room_for_the_old_pods(surge: int | str, old: int, size: int) -> None:
    owner = deployment(10, surge, 1)
    (made,) = decided(owner, replica_set(owner, "old", old)).created
    assert made["spec"]["replicas"] == size


def test_the_name_of_a_replica_set_is_never_too_long() -> None:
    long = deployment(1)
    long["metadata"]["name"] = "w" * 253
    name = new_name(DeploymentView(long))
    assert len(name) == 253
    assert name.startswith("www")
    assert name.rpartition("-")[2] == new_name(DeploymentView(deployment(1))).rpartition("-")[2]


def test_a_name_that_another_object_has_is_avoided_at_the_next_sync() -> None:
    owner = deployment(1)
    name = new_name(DeploymentView(owner))
    foreign = replicated("ReplicaSet", name, template=template("new"))
    plan = decided(owner, named={name: foreign})
    assert plan.created == []
    assert plan.status["collisionCount"] == 1
    owner["status"] = plan.status
    assert decided(owner).created[0]["metadata"]["name"] not in (name, "")
    changed = replica_set(deployment(1), name, 1, image="other")
    assert decided(deployment(1), named={name: changed}).status["collisionCount"] == 1


def test_a_replica_set_that_is_not_in_the_cache_yet_is_no_collision() -> None:
    owner = deployment(1)
    name = new_name(DeploymentView(owner))
    plan = decided(owner, named={name: replica_set(owner, name, 1, image="new")})
    assert plan.created == []
    assert "collisionCount" not in plan.status


def test_nothing_is_made_in_a_namespace_that_goes_or_for_a_deployment_that_does() -> None:
    assert decided(deployment(1), namespace_closed=True).created == []
    leaving = decided(deployment(1, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}, progressDeadlineSeconds=60))
    assert leaving.plan.stages == ()
    assert leaving.condition("Progressing") is None
    assert leaving.status["observedGeneration"] == 1


def test_replica_sets_without_an_owner_are_adopted_before_anything_else() -> None:
    owner = deployment(1)
    orphan = replicated("ReplicaSet", "orphan", template=template("new"))
    plan = decided(owner, orphans=[orphan])
    assert list(plan.patches) == ["orphan"]
    assert plan.created == []
    assert plan.plan.status is None


# -- RollingUpdate -------------------------------------------------------------------------------------------

STEPS: list[tuple[str, tuple[int, int, int], list[tuple[int, int]], tuple[int, int], dict[str, int]]] = [
    # what, (replicas, surge, unavailable), old (size, available) oldest first, new (size, available), next sizes
    ("the newest grows as far as the surge", (10, 3, 0), [(10, 10)], (0, 0), {"new": 3}),
    ("the newest grows only as far as wanted", (10, 5, 0), [(3, 3)], (8, 8), {"new": 10}),
    ("one too large shrinks first", (5, 1, 1), [(2, 2)], (8, 8), {"new": 5}),
    ("available pods go as far as allowed", (10, 0, 2), [(10, 10)], (0, 0), {"old0": 8}),
    ("none go while the newest has none available", (10, 3, 0), [(10, 10)], (3, 0), {}),
    ("as many go as are available in place of them", (10, 3, 0), [(10, 10)], (3, 2), {"old0": 8}),
    ("pods that are not available go first", (10, 0, 0), [(5, 5), (5, 2)], (0, 0), {"old1": 4}),
    ("all that are not available go if they may", (10, 0, 3), [(10, 7)], (0, 0), {"old0": 7}),
    ("unavailable ones of several go oldest first", (10, 0, 3), [(5, 3), (5, 3)], (0, 0), {"old0": 3, "old1": 4}),
    ("available ones of several go oldest first", (10, 0, 4), [(3, 3), (7, 7)], (0, 0), {"old0": 0, "old1": 6}),
    ("an old one with none left is passed over", (10, 0, 4), [(0, 0), (10, 10)], (0, 0), {"old1": 6}),
    ("unavailable and available ones go together", (10, 0, 4), [(5, 4), (5, 5)], (0, 0), {"old0": 1}),
    ("the last old one goes", (4, 1, 0), [(1, 1)], (4, 4), {"old0": 0}),
    ("nothing is left to do", (4, 1, 0), [(0, 0)], (4, 4), {}),
    ("no fewer than are wanted stay", (4, 0, 0), [(4, 4)], (0, 0), {"old0": 3}),
    ("a deployment of none ends its old pods", (0, 1, 1), [(3, 3)], (0, 0), {"old0": 0}),
]


@pytest.mark.parametrize(("limits", "old", "new", "sizes"), [one[1:] for one in STEPS], ids=[one[0] for one in STEPS])
def test_a_step_of_a_rolling_update(
    limits: tuple[int, int, int], old: list[tuple[int, int]], new: tuple[int, int], sizes: dict[str, int]
) -> None:
    owner = deployment(*limits)
    sets = [
        replica_set(owner, f"old{number}", size, image=f"old{number}", age=900 - number, available=available)
        for number, (size, available) in enumerate(old)
    ]
    newest = replica_set(owner, "new", new[0], image="new", age=10, available=new[1])
    assert decided(owner, *sets, newest).sizes == sizes


def test_a_step_tells_what_it_scales() -> None:
    owner = deployment(10, 3, 0)
    old, new = replica_set(owner, "old", 10), replica_set(owner, "new", 0, image="new", age=10)
    assert decided(owner, old, new).events == ["Normal ScalingReplicaSet Scaled up replica set new from 0 to 3"]
    new = replica_set(owner, "new", 3, image="new", age=10)
    assert decided(owner, old, new).events == ["Normal ScalingReplicaSet Scaled down replica set old from 10 to 7"]


def test_a_step_writes_the_size_it_was_made_for_and_only_what_changes() -> None:
    owner = deployment(10, 3, 0)
    old = replica_set(owner, "old", 10, annotations={REVISION: "1", **sized_for(10, 13)})
    new = replica_set(owner, "new", 0, image="new", age=10, annotations={REVISION: "2"})
    assert decided(owner, old, new).patches == {
        "new": {
            "metadata": {"uid": "uid-new", "resourceVersion": "7", "annotations": sized_for(10, 13)},
            "spec": {"replicas": 3},
        }
    }


def test_the_newest_follows_annotations_and_min_ready_seconds_of_the_deployment() -> None:
    owner = deployment(1, metadata={"annotations": {"team": "x", HISTORY: "9"}}, minReadySeconds=30)
    new = replica_set(owner, "new", 1, image="new", annotations={REVISION: "1", "own": "y"})
    assert decided(owner, new).patches["new"] == {
        "metadata": {"uid": "uid-new", "resourceVersion": "7", "annotations": {"team": "x"}},
        "spec": {"minReadySeconds": 30},
    }


def test_of_replica_sets_with_the_same_template_the_oldest_is_the_newest_revision() -> None:
    owner = deployment(2, 1, 0)
    twin, first = (replica_set(owner, name, 2, image="new", age=age) for name, age in (("twin", 10), ("first", 20)))
    plan = decided(owner, twin, first)
    assert plan.sizes == {"twin": 0}


# -- revisions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "has", "revision", "history"),
    [
        ({"old": "3"}, {REVISION: "1"}, "4", "1"),
        ({"old": "3"}, {REVISION: "1", HISTORY: "0"}, "4", "0,1"),
        ({"old": "3"}, {}, "4", None),
        ({"old": "3"}, {REVISION: "4", HISTORY: "2"}, "4", "2"),
        ({"old": "3", "older": "5"}, {REVISION: "4"}, "6", "4"),
        ({}, {}, "1", None),
        ({"old": "x"}, {}, "1", None),
        ({"old": str(2**63 - 1)}, {}, str(2**63), None),
        ({"old": str(2**63)}, {}, "1", None),
        ({"old": "3"}, {REVISION: "x"}, "x", None),
        ({"old": "3"}, {REVISION: "1", HISTORY: ",".join(["1234"] * 400)}, "4", ",".join(["1234"] * 399 + ["1"])),
        ({"old": "3"}, {REVISION: "10", HISTORY: "2"}, "10", "2"),
    ],
)
def test_the_newest_has_the_highest_revision_and_remembers_those_it_had(
    old: dict[str, str], has: Object, revision: str, history: str | None
) -> None:
    owner = deployment(1)
    sets = [replica_set(owner, name, 0, image=name, annotations={REVISION: text}) for name, text in old.items()]
    plan = decided(owner, *sets, replica_set(owner, "new", 1, image="new", age=1, annotations=has))
    written = plan.patches.get("new", {}).get("metadata", {}).get("annotations", {})
    found = {**has, **written}
    assert found[REVISION] == revision
    assert found.get(HISTORY) == history
    assert plan.plan.status is not None
    assert plan.plan.status.obj["metadata"]["annotations"][REVISION] == revision


def test_a_history_of_exactly_2000_characters_is_kept_whole() -> None:
    owner = deployment(1)
    known = ",".join(["1234"] * 399 + ["123"])
    new = replica_set(owner, "new", 1, image="new", annotations={REVISION: "1", HISTORY: known})
    old = replica_set(owner, "old", 0, annotations={REVISION: "3"})
    found = decided(owner, old, new).patches["new"]["metadata"]["annotations"][HISTORY]
    assert found == f"{known},1"
    assert len(found) == 2000


# -- Recreate ------------------------------------------------------------------------------------------------

RECREATE: Object = {"type": "Recreate"}


def test_recreate_ends_all_old_pods_before_it_makes_new_ones() -> None:
    owner = deployment(3, strategy=RECREATE)
    plan = decided(owner, replica_set(owner, "a", 2, image="a"), replica_set(owner, "b", 1, image="b"))
    assert plan.sizes == {"a": 0, "b": 0}
    assert plan.created == []
    # Pods are counted until they are gone, also by the ReplicaSet that has seen nothing of it yet.
    old = replica_set(owner, "a", 0, there=1, available=1)
    assert decided(owner, old).created == []
    empty = replica_set(owner, "a", 0)
    assert decided(owner, empty, pods=[pod("p", empty, deleting=True)]).created == []
    ended = decided(owner, empty, pods=[pod("p", empty, phase="Failed")])
    assert [one["spec"]["replicas"] for one in ended.created] == [3]


def test_recreate_gives_the_new_template_its_full_size_at_once() -> None:
    owner = deployment(3, strategy=RECREATE)
    new = replica_set(owner, "new", 0, image="new")
    plan = decided(owner, new)
    assert plan.sizes == {"new": 3}
    assert plan.patches["new"]["metadata"]["annotations"] == {REVISION: "1", **sized_for(3, 3)}


# -- the history ---------------------------------------------------------------------------------------------


def finished(owner: Object, **more: object) -> Object:
    wanted = owner["spec"]["replicas"]
    counts = dict.fromkeys(("replicas", "updatedReplicas", "availableReplicas"), wanted)
    return {**counts, "observedGeneration": 1, **more}


@pytest.mark.parametrize("strategy", ["RollingUpdate", "Recreate"])
def test_old_revisions_beyond_the_limit_go_when_the_rollout_is_complete(strategy: str) -> None:
    owner = deployment(2, revisionHistoryLimit=1, strategy={"type": strategy})
    # The age does not matter where revisions tell.
    old = [
        replica_set(owner, f"r{number}", 0, image=f"r{number}", age=10 * number, annotations={REVISION: str(number)})
        for number in (3, 1, 2)
    ]
    new = replica_set(owner, "new", 2, image="new", age=5, annotations={REVISION: "4"})
    owner["status"] = finished(owner)
    plan = decided(owner, *old, new)
    assert plan.deleted == ["r1", "r2"]
    assert all(one.resource is REPLICA_SETS for one in plan.plan.stages[0])


@pytest.mark.parametrize(
    "short",
    [{"updatedReplicas": 1}, {"replicas": 3}, {"availableReplicas": 1}, {"observedGeneration": 0}],
    ids=lambda short: next(iter(short)),
)
def test_old_revisions_stay_while_the_rollout_is_not_complete(short: Object) -> None:
    owner = deployment(2, revisionHistoryLimit=0)
    owner["status"] = finished(owner, **short)
    sets = [replica_set(owner, "old", 0), replica_set(owner, "new", 2, image="new", age=1)]
    assert decided(owner, *sets).deleted == []


@pytest.mark.parametrize(
    "busy",
    [{"there": 1}, {"status": {"observedGeneration": 0}}, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}],
)
def test_an_old_revision_that_has_pods_or_is_not_settled_stays(busy: Object) -> None:
    owner = deployment(2, revisionHistoryLimit=0)
    owner["status"] = finished(owner)
    given = dict(busy)
    metadata = given.pop("metadata", {})
    old = replica_set(owner, "old", 0, **given)
    old["metadata"] |= metadata
    assert decided(owner, old, replica_set(owner, "new", 2, image="new", age=1)).deleted == []


def test_a_paused_deployment_forgets_old_revisions_but_not_those_with_pods() -> None:
    owner = deployment(2, revisionHistoryLimit=0, paused=True)
    sets = [replica_set(owner, "old", 0), replica_set(owner, "new", 2, image="new", age=1)]
    assert decided(owner, *sets).deleted == ["old"]
    running = [replica_set(owner, "old", 2, there=0, available=0), replica_set(owner, "x", 0, image="x")]
    assert decided(owner, *running).deleted == ["x"]


def test_a_deployment_that_is_scaled_keeps_its_history_for_now() -> None:
    owner = deployment(3, revisionHistoryLimit=0)
    sets = [
        replica_set(owner, "old", 0),
        replica_set(owner, "new", 2, image="new", age=1, annotations=sized_for(2, 4)),
    ]
    plan = decided(owner, *sets)
    assert plan.deleted == []
    assert plan.sizes == {"new": 3}


def test_a_status_that_says_nothing_yet_is_no_complete_rollout() -> None:
    owner = deployment(1, revisionHistoryLimit=0)
    sets = [replica_set(owner, "old", 0), replica_set(owner, "new", 1, image="new", age=1)]
    assert decided(owner, *sets).deleted == []


def test_fewer_revisions_than_the_limit_all_stay() -> None:
    owner = deployment(2, revisionHistoryLimit=2)
    owner["status"] = finished(owner)
    sets = [replica_set(owner, "old", 0), replica_set(owner, "new", 2, image="new", age=1)]
    assert decided(owner, *sets).deleted == []


@pytest.mark.parametrize("limit", [None, 2**31 - 1])
def test_without_a_limit_every_revision_stays(limit: int | None) -> None:
    owner = deployment(2, revisionHistoryLimit=limit)
    owner["status"] = finished(owner)
    sets = [replica_set(owner, f"r{number}", 0, image=f"r{number}") for number in range(15)]
    assert decided(owner, *sets, replica_set(owner, "new", 2, image="new", age=1)).deleted == []
