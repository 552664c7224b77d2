"""Followers that are not where their leader is."""

from __future__ import annotations

import pytest

from echelon.api.scheme import Object
from echelon.api.views.pod_views import PodView
from echelon.decide.nodes.exclusive_placement import reconcile
from echelon.decide.plan import NOTHING, ApplyPatch, Delete, Plan

RACK = "topology.kubernetes.io/rack"
NODE: Object = {"metadata": {"name": "n1", "labels": {RACK: "r1"}}}


def pod(name: str, selector: Object | None = None, **metadata: str) -> PodView:
    spec: Object = {"nodeName": "n1"} | ({} if selector is None else {"nodeSelector": selector})
    return PodView({"metadata": {"name": name, "namespace": "ns", "uid": name, **metadata}, "spec": spec})


def decided(*followers: PodView, node: Object | None = NODE) -> Plan:
    return reconcile(pod("leader"), RACK, node, followers, now=0.0)


@pytest.mark.conformance("JS-U22")
def test_followers_in_the_domain_of_their_leader_stay() -> None:
    assert decided(pod("a", {RACK: "r1"}), pod("b", {RACK: "r1", "disk": "fast"})) == NOTHING


@pytest.mark.conformance("JS-U22")
@pytest.mark.parametrize("selector", [None, {}, {"other": "r1"}, {RACK: "r2"}])
def test_one_that_is_elsewhere_ends_all_followers_with_a_condition_first(selector: Object | None) -> None:
    marked, deleted = decided(pod("a", {RACK: "r1"}), pod("b", selector)).stages
    assert [one.name for one in deleted if isinstance(one, Delete)] == ["a", "b"]
    for one in marked:
        assert isinstance(one, ApplyPatch)
        assert one.subresource == "status"
        body = one.patch.body
        assert isinstance(body, dict)
        (condition,) = body["status"]["conditions"]
        assert (condition["type"], condition["reason"]) == ("DisruptionTarget", "ExclusivePlacementViolation")


@pytest.mark.conformance("JS-U22")
@pytest.mark.parametrize("node", [None, {"metadata": {"name": "n1"}}])
def test_while_the_leaders_domain_is_unknown_nobody_is_deleted_and_it_is_looked_at_again(node: Object | None) -> None:
    plan = decided(pod("a", {RACK: "r2"}), node=node)
    assert plan.stages == ()
    assert plan.requeue_after
    assert [note.reason for note in plan.notes] == ["ExclusivePlacementUnknown"]


@pytest.mark.conformance("JS-U22")
def test_followers_that_are_leaving_already_are_passed_over() -> None:
    assert decided(pod("a", {RACK: "r2"}, deletionTimestamp="2027-01-01T00:00:00Z")) == NOTHING
