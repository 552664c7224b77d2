"""Single events, and what they do to view and forest."""

from __future__ import annotations

import pytest

from echelon.api.objects.vocabulary import REPLICATED_JOB_NAME
from echelon.engine import Exclusive
from echelon.testing.builders import make_budget, make_composite, make_node, make_pod, make_pod_group

from .trees import Stage

RACK = "topology.kubernetes.io/rack"


def test_a_pod_holds_its_node_from_binding_to_its_end() -> None:
    stage = Stage()
    pod = make_pod("p", cpu=2)
    stage.put(make_node("n1"), pod)
    assert stage.view.pods_on("n1") == []
    bound = stage.change(pod, nodeName="n1")
    assert [running.requests for running in stage.view.pods_on("n1")] == [(("cpu", 2000), ("pods", 1))]
    stage.put({**bound, "status": {"phase": "Succeeded"}})
    assert stage.view.pods_on("n1") == []
    assert stage.heard.left == ["default/p"]


def test_a_change_that_scheduling_does_not_read_wakes_no_root() -> None:
    stage = Stage()
    node, group, pod = make_node("n1"), make_pod_group("g"), make_pod("p", group="g", node="n1")
    stage.put(node, group, pod)
    heard = len(stage.heard.roots), stage.heard.rooms
    stage.put({**pod, "status": {"phase": "Running"}}, {**group, "status": {"conditions": []}})
    stage.put({**node, "status": {**node["status"], "conditions": []}})
    assert (len(stage.heard.roots), stage.heard.rooms) == heard


def test_our_own_binding_confirmed_by_the_watch_is_no_news() -> None:
    stage = Stage()
    pod = make_pod("p", group="g")
    stage.put(make_node("n1"), make_pod_group("g"), pod)
    stage.translator.assume({stage.member("p").id: "n1"})
    heard = len(stage.heard.roots)
    stage.change(pod, nodeName="n1")
    assert (stage.member("p").node, stage.member("p").assumed) == ("n1", "")
    assert len(stage.heard.roots) == heard
    assert len(stage.view.pods_on("n1")) == 1


def test_a_failed_binding_gives_the_place_back() -> None:
    stage = Stage()
    stage.put(make_node("n1"), make_pod("p"))
    member = stage.member("p")
    stage.translator.assume({member.id: "n1"})
    assert len(stage.view.pods_on("n1")) == 1
    stage.translator.forget(member)
    assert stage.view.pods_on("n1") == []
    assert member.waiting


def test_a_binding_that_fails_after_its_pod_is_gone_brings_no_pod_back() -> None:
    stage = Stage()
    pod = make_pod("p", group="g")
    stage.put(make_node("n1"), make_pod_group("g"), pod)
    member = stage.member("p")
    stage.translator.assume({member.id: "n1"})
    stage.remove(pod)
    stage.translator.forget(member)
    assert not stage.group("g").pending
    assert stage.view.pods_on("n1") == []


def test_only_those_with_room_kept_on_a_node_lose_it_when_the_node_goes() -> None:
    stage = Stage()
    node = make_node("n1")
    stage.put(node, make_node("n2"), *(make_pod(name) for name in ("bound", "here", "there", "waiting")))
    stage.translator.assume({stage.member("bound").id: "n1"})
    stage.translator.nominate(stage.member("here"), "n1")
    stage.translator.reserve(stage.member("there"), "n2")
    stage.remove(node)
    assert stage.heard.homeless == ["default/here"]


def test_a_namespace_without_pods_wakes_no_root() -> None:
    stage = Stage()
    stage.put(make_node("n1"), make_pod("p", node="n1"))
    heard = stage.heard.rooms
    stage.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other", "labels": {"a": "b"}}})
    assert stage.heard.rooms == heard


def test_a_pod_that_others_have_affinity_to_wakes_them_and_any_other_does_not() -> None:
    stage = Stage()
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}
    follower = make_pod("follower")
    follower["spec"]["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    stage.put(make_node("n1"), follower)
    rooms = stage.heard.rooms
    stage.put(make_pod("web", node="n1", labels={"app": "web"}))
    stage.put(make_pod("elsewhere", node="n1", labels={"app": "db"}, namespace="other"))
    assert stage.heard.rooms == rooms
    stage.put(make_pod("db", node="n1", labels={"app": "db", "more": "yes"}))
    assert stage.heard.rooms == rooms + 1
    stage.remove(follower)
    rooms = stage.heard.rooms
    stage.put(make_pod("db2", node="n1", labels={"app": "db"}))
    assert stage.heard.rooms == rooms


def test_a_pod_that_shrinks_where_it_runs_gives_room() -> None:
    stage = Stage()
    pod = make_pod("p", cpu=4, node="n1")
    stage.put(make_node("n1"), pod)
    rooms = stage.heard.rooms
    stage.change(pod, containers=make_pod("p", cpu=2)["spec"]["containers"])
    assert [running.requests for running in stage.view.pods_on("n1")] == [(("cpu", 2000), ("pods", 1))]
    assert stage.heard.rooms == rooms + 1


def test_what_placement_does_not_read_of_a_node_wakes_no_root() -> None:
    stage = Stage()
    node = make_node("n1")
    stage.put(node)
    rooms = stage.heard.rooms
    stage.change(node, podCIDR="10.0.0.0/24", providerID="cloud://n1")
    assert stage.heard.rooms == rooms


def test_a_kept_place_is_held_until_it_is_withdrawn() -> None:
    stage = Stage()
    stage.put(make_node("n1"), make_pod("p"))
    member = stage.member("p")
    stage.translator.nominate(member, "n1")
    assert len(stage.view.pods_on("n1")) == 1
    assert member.waiting
    stage.translator.withdraw(member)
    assert stage.view.pods_on("n1") == []


@pytest.mark.parametrize(
    ("top", "middle", "leaf", "unit"),
    [
        ("single", "single", "single", "Pod/p"),
        ("single", "single", "all", "PodGroup/leaf"),
        ("single", "all", "all", "CompositePodGroup/middle"),
        ("all", "single", "all", "CompositePodGroup/top"),
    ],
)
def test_a_pod_is_evicted_with_the_highest_ancestor_that_goes_as_one(
    top: str, middle: str, leaf: str, unit: str
) -> None:
    stage = Stage()
    stage.put(make_pod("p", group="leaf", node="n1", priority=7))
    stage.put(make_pod_group("leaf", parent="middle", mode=leaf, priority=7))  # type: ignore[arg-type]
    stage.put(make_composite("middle", parent="top", mode=middle, priority=7))  # type: ignore[arg-type]
    stage.put(make_composite("top", mode=top, priority=7))  # type: ignore[arg-type]
    assert stage.unit_of("p") == (unit, 7)
    assert len(stage.view.units()) == 1


def test_a_pod_that_is_leaving_holds_its_place_but_is_no_victim() -> None:
    stage = Stage()
    pod = make_pod("p", node="n1", group="g")
    stage.put(make_pod_group("g"), pod)
    stage.put({**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}})
    (running,) = stage.view.pods_on("n1")
    assert not running.evictable
    assert not stage.group("g").holding


def test_exclusive_groups_hold_domains_at_their_priority() -> None:
    stage = Stage()
    stage.put(make_pod_group("g", exclusive=RACK, priority=5), make_pod("p", group="g", node="n1", priority=5))
    (running,) = stage.view.pods_on("n1")
    assert running.exclusive == Exclusive(RACK, 5)
    assert running.group == stage.group("g").id


def test_roles_come_from_the_controller_or_else_the_replicated_job() -> None:
    stage = Stage()
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "job-uid"}
    stage.put(make_pod("a", owner=owner), make_pod("b", labels={REPLICATED_JOB_NAME: "driver"}), make_pod("c"))
    assert [stage.member(name).role for name in "abc"] == ["job-uid", "driver", ""]


def test_a_budget_without_a_status_is_worked_out_from_the_pods_it_covers() -> None:
    stage = Stage()
    stage.put(*(make_pod(f"p{n}", node="n1", labels={"app": "a"}) for n in range(3)), make_pod("other", node="n1"))
    budget = make_budget("b", {"app": "a"}, min_available=2)
    stage.put(budget)
    running = {r.pod: r for r in stage.view.pods_on("n1")}
    (number,) = running[stage.member("p0").id].budgets
    assert running[stage.member("other").id].budgets == ()
    found = stage.view.budget(number)
    assert found is not None
    assert found.allowed == 1
    stage.put({**budget, "status": {"disruptionsAllowed": 3, "observedGeneration": 0}})
    found = stage.view.budget(number)
    assert found is not None
    assert found.allowed == 3


@pytest.mark.parametrize(("amount", "allowed"), [("50%", 2), ("100%", 0), (1, 3), (9, 0)])
def test_shares_of_a_budget_are_rounded_for_the_pods(amount: int | str, allowed: int) -> None:
    stage = Stage()
    stage.put(make_budget("b", {"app": "a"}, min_available=amount))
    stage.put(*(make_pod(f"p{n}", node="n1", labels={"app": "a"}) for n in range(4)))
    (number,) = stage.view.pods_on("n1")[0].budgets
    found = stage.view.budget(number)
    assert found is not None
    assert found.allowed == allowed


def test_a_lost_node_is_told_to_the_preemptors_that_wait_for_it() -> None:
    stage = Stage()
    node = make_node("n1")
    stage.put(node, make_pod("p"))
    stage.translator.nominate(stage.member("p"), "n1")
    stage.remove(node)
    assert stage.heard.homeless == ["default/p"]


def test_events_name_the_root_of_the_tree_they_concern() -> None:
    stage = Stage()
    stage.put(make_composite("top"), make_composite("middle", parent="top"), make_pod_group("leaf", parent="middle"))
    stage.heard.roots.clear()
    stage.put(make_pod("p", group="leaf"))
    assert stage.heard.roots == ["top"]


def test_what_changed_in_a_pod_together_with_our_binding_counts() -> None:
    stage = Stage()
    pod = make_pod("p", cpu=2)
    stage.put(make_node("n1"), pod)
    stage.translator.assume({stage.member("p").id: "n1"})
    stage.change(pod, nodeName="n1", containers=make_pod("p", cpu=3)["spec"]["containers"])
    assert [running.requests for running in stage.view.pods_on("n1")] == [(("cpu", 3000), ("pods", 1))]


def test_a_budget_no_longer_counts_a_pod_that_has_got_other_labels() -> None:
    stage = Stage()
    pods = [make_pod(name, node="n1", labels={"app": "a"}) for name in ("one", "two")]
    stage.put(make_budget("b", {"app": "a"}, min_available=1), *pods)
    (number,) = stage.view.pods_on("n1")[0].budgets
    stage.put({**pods[1], "metadata": {**pods[1]["metadata"], "labels": {"app": "b"}}})
    found = stage.view.budget(number)
    assert found is not None
    assert found.allowed == 0
