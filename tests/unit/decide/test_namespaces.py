"""The deletion of a namespace: what goes first, what is told, and when it is over."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from echelon.api.scheme import CONFIG_MAPS, JOBS, PODS, Object, Resource
from echelon.api.views.cluster_views import NamespaceView
from echelon.base.instants import to_time
from echelon.decide.namespaces import reconcile
from echelon.decide.plan import NOTHING, ApplyPatch, Delete, Plan

NOW = 1_800_000_000.0


def namespace(marked: float | None = NOW, finalizers: Sequence[str] = ("kubernetes",)) -> Object:
    metadata: Object = {"name": "ns", "uid": "u"}
    metadata |= {"deletionTimestamp": to_time(marked)} if marked is not None else {}
    return {"metadata": metadata, "spec": {"finalizers": list(finalizers)}, "status": {"phase": "Terminating"}}


def held(name: str, *finalizers: str, deleting: bool = False) -> Object:
    metadata: Object = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "finalizers": list(finalizers)}
    return {"metadata": metadata | ({"deletionTimestamp": to_time(NOW)} if deleting else {})}


def decided(obj: Object, contents: dict[Resource, list[Object]] | None = None, now: float = NOW + 60) -> Plan:
    return reconcile(NamespaceView(obj), contents or {}, now)


def conditions(plan: Plan) -> dict[str, tuple[str, str]]:
    assert plan.status is not None
    assert plan.status.status["phase"] == "Terminating"
    return {one["type"]: (one["status"], one["message"]) for one in plan.status.status["conditions"]}


def test_a_namespace_that_is_not_deleted_or_held_by_others_only_is_left_alone() -> None:
    assert decided(namespace(None)) == NOTHING
    assert decided(namespace(None, ["other"])) == NOTHING
    assert decided(namespace(finalizers=["other"])) == NOTHING


def test_pods_go_before_what_they_use() -> None:
    contents = {CONFIG_MAPS: [held("a")], PODS: [held("p"), held("q", deleting=True)]}
    (stage,) = decided(namespace(), contents).stages
    assert stage == (Delete(PODS, "ns", "p", "uid-p"),)
    (stage,) = decided(namespace(), {CONFIG_MAPS: [held("a")], PODS: [], JOBS: [held("j")]}).stages
    assert [(one.resource, one.name) for one in stage if isinstance(one, Delete)] == [(CONFIG_MAPS, "a"), (JOBS, "j")]


def test_while_pods_are_going_nothing_else_goes() -> None:
    assert decided(namespace(), {CONFIG_MAPS: [held("a")], PODS: [held("p", deleting=True)]}).stages == ()


def test_at_most_500_objects_go_at_a_time() -> None:
    (stage,) = decided(namespace(), {CONFIG_MAPS: [held(f"a{number}") for number in range(501)]}).stages
    assert len(stage) == 500


def test_what_remains_is_told_by_kind_and_finalizer() -> None:
    contents = {
        PODS: [held("p", "x/hold", deleting=True), held("q", "x/hold", "y/hold", deleting=True), held("r", "z/hold")],
        JOBS: [held("j", deleting=True)],
    }
    said = conditions(decided(namespace(), contents))
    assert said["NamespaceContentRemaining"] == (
        "True",
        "Some resources are remaining: jobs.batch has 1 resource instances, pods. has 2 resource instances",
    )
    assert said["NamespaceFinalizersRemaining"] == (
        "True",
        "Some content in the namespace has finalizers remaining: "
        "x/hold in 2 resource instances, y/hold in 1 resource instances",
    )
    assert [status for status, _ in said.values()] == ["False", "False", "False", "True", "True"]


def test_a_status_that_says_all_already_is_not_written_again() -> None:
    contents = {PODS: [held("p", "x/hold", deleting=True)]}
    first = decided(namespace(), contents)
    assert first.status is not None
    assert decided({**namespace(), "status": first.status.status}, contents, NOW + 90).status is None


@pytest.mark.parametrize(("passed", "wait"), [(0, 2), (0.5, 1.5), (1.5, 0.5), (2, None), (60, None)])
def test_an_empty_namespace_is_let_go_once_nothing_can_arrive_any_more(passed: float, wait: float | None) -> None:
    plan = decided(namespace(finalizers=["a", "kubernetes", "b"]), now=NOW + passed)
    assert plan.requeue_after == (None if wait is None else pytest.approx(wait))
    if wait is not None:
        assert plan.stages == ()
        assert set(conditions(plan).values()) >= {("False", "All content successfully removed")}
        return
    ((patch,),) = plan.stages
    assert isinstance(patch, ApplyPatch)
    assert (patch.name, patch.subresource, patch.gone_is_fine) == ("ns", "finalize", True)
    assert patch.patch.body == {"metadata": {"uid": "u"}, "spec": {"finalizers": ["a", "b"]}}
