"""What a Job or JobSet says about gangs that are not placed, and when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from echelon.api.scheme import JOB_SETS, JOBS, Object
from echelon.api.views.group_views import CompositePodGroupView, GroupView, PodGroupView
from echelon.api.views.job_views import JobView
from echelon.api.views.pod_views import PodView
from echelon.base.instants import to_time
from echelon.decide import gang_trouble
from echelon.decide.gang_trouble import Gangs
from echelon.decide.plan import Draft, Plan
from echelon.decide.status_draft import StatusDraft

NOW = 1_800_000_000.0
GANG: Object = {"schedulingPolicy": {"gang": {"minCount": 2}}}
INITIALLY = {"PodGroup": "PodGroupInitiallyScheduled", "CompositePodGroup": "CompositePodGroupInitiallyScheduled"}


def condition(type_: str, status: str, reason: str = "", message: str = "", ago: float = 60) -> Object:
    since = to_time(NOW - ago)
    return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}


def group(
    name: str,
    *conditions: Object,
    spec: Object = GANG,
    deleting: bool = False,
    parent: str = "",
    view: type[GroupView] = PodGroupView,
) -> GroupView:
    metadata: Object = {"name": name, "namespace": "ns", "uid": f"uid-{name}"}
    metadata |= {"deletionTimestamp": to_time(NOW)} if deleting else {}
    above = {"parentCompositePodGroupName": parent} if parent else {}
    return view({"metadata": metadata, "spec": {**spec, **above}, "status": {"conditions": list(conditions)}})


def unplaced(message: str = "no room", ago: float = 60, kind: str = "PodGroup") -> Object:
    return condition(INITIALLY[kind], "False", "Unschedulable", message, ago)


def job(name: str, *conditions: Object, joins: str = "", suspend: bool = False) -> JobView:
    pods: Object = {"schedulingGroup": {"podGroupName": joins}} if joins else {}
    return JobView(
        {
            "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}"},
            "spec": {"suspend": suspend, "template": {"spec": pods}},
            "status": {"conditions": list(conditions)},
        }
    )


def pod(name: str, scheduled: Object | None = None, joins: str = "g", on: str = "", deleting: bool = False) -> PodView:
    metadata: Object = {"name": name, "namespace": "ns", "uid": f"uid-{name}"}
    metadata |= {"deletionTimestamp": to_time(NOW)} if deleting else {}
    spec = {"schedulingGroup": {"podGroupName": joins}, **({"nodeName": on} if on else {})}
    return PodView({"metadata": metadata, "spec": spec, "status": {"conditions": [scheduled] if scheduled else []}})


def waiting(message: str = "no room", ago: float = 60) -> Object:
    return condition("PodScheduled", "False", "Unschedulable", message, ago)


def told(gangs: Gangs, *before: Object, now: float = NOW, also: Sequence[tuple[Any, Object]] = ()) -> Plan:
    status = StatusDraft(JOBS, {"metadata": {"name": "j"}, "status": {"conditions": list(before)}}, now)
    draft = Draft()
    gang_trouble.tell(gangs, status, draft, now, also)
    return status.finish(draft)


def said(plan: Plan) -> tuple[str, str, str] | None:
    """The condition that is written; None if it stays as it was."""
    if plan.status is None:
        return None
    found = next(one for one in plan.status.status["conditions"] if one["type"] == "GangPending")
    return found["status"], found["reason"], found["message"]


PLACED = group("g", condition(INITIALLY["PodGroup"], "True"))


@pytest.mark.parametrize(
    "quiet",
    [
        PLACED,
        group("g"),
        group("g", unplaced(), spec={"schedulingPolicy": {"basic": {}}}),
        group("g", condition("DisruptionTarget", "False", "PreemptedByScheduler", "over")),
    ],
    ids=["placed", "not seen by the scheduler", "no gang", "a disruption that is over"],
)
def test_groups_that_are_fine_are_not_talked_about(quiet: GroupView) -> None:
    plan = told(Gangs([quiet]))
    assert plan.empty
    assert plan.requeue_after is None


@pytest.mark.parametrize(
    ("trouble", "reason", "message"),
    [
        (group("g", unplaced()), "GangUnschedulable", "no room"),
        (group("g", condition("DisruptionTarget", "True", "PreemptedByScheduler", "by x")), "GangPreempted", "by x"),
        (group("g", condition("DisruptionTarget", "True", "ReleasedByScheduler", "late")), "GangReleased", "late"),
        (
            group("g", unplaced(), deleting=True),
            "GangDeleted",
            "it was deleted, and stays until its last pod has ended",
        ),
    ],
)
def test_a_gang_in_trouble_is_told_by_condition_and_event(trouble: GroupView, reason: str, message: str) -> None:
    plan = told(Gangs([trouble]), also=[(JOB_SETS, {"metadata": {"name": "above"}})])
    assert said(plan) == ("True", reason, f"PodGroup g: {message}")
    assert [(note.obj["metadata"]["name"], note.type, note.reason, note.message) for note in plan.notes] == [
        ("j", "Warning", reason, f"PodGroup g: {message}"),
        ("above", "Warning", reason, f"PodGroup g: {message}"),
    ]


def test_a_group_of_groups_is_told_like_one_of_pods() -> None:
    above = group("top", unplaced(kind="CompositePodGroup"), view=CompositePodGroupView)
    assert said(told(Gangs([above]))) == ("True", "GangUnschedulable", "CompositePodGroup top: no room")


@pytest.mark.parametrize(("ago", "wait"), [(0, 5), (4, 1), (5, None), (60, None)])
def test_a_new_gang_has_some_seconds_to_be_placed(ago: float, wait: float | None) -> None:
    plan = told(Gangs([group("g", unplaced(ago=ago))]))
    assert plan.requeue_after == wait
    assert (said(plan) is None) is (wait is not None)


def test_a_condition_without_a_time_is_taken_at_its_word() -> None:
    bare = unplaced()
    del bare["lastTransitionTime"]
    assert said(told(Gangs([group("g", bare)]))) == ("True", "GangUnschedulable", "PodGroup g: no room")


def test_the_worst_is_told_with_the_number_of_those_like_it() -> None:
    preempted = condition("DisruptionTarget", "True", "PreemptedByScheduler", "by x")
    groups = [group("d", unplaced()), group("c", preempted), group("b", preempted), group("a", unplaced())]
    assert said(told(Gangs(groups))) == ("True", "GangPreempted", "PodGroup b (and 1 more like it): by x")
    assert said(told(Gangs(groups[:2]))) == ("True", "GangPreempted", "PodGroup c: by x")


def test_an_object_that_another_speaks_for_points_to_it() -> None:
    groups = [group("g", unplaced()), group("h", unplaced())]
    assert said(told(Gangs(groups, spokesman="JobSet/top"))) == (
        "True", "GangUnschedulable",
        "PodGroup g is not placed; the condition GangPending of JobSet/top says why",
    )  # fmt: skip
    # Lost members are told by the Job that has lost them.
    lost = Gangs([PLACED], spokesman="JobSet/top", pods=[pod("p", waiting())])
    assert said(told(lost)) == ("True", "GangIncomplete", "PodGroup g: 1 pod waits: no room")


# -- the same again, and the end of it -----------------------------------------------------------------------

BEFORE = condition("GangPending", "True", "GangUnschedulable", "PodGroup g: no room", ago=100)


def test_what_was_told_is_not_told_again() -> None:
    assert told(Gangs([group("g", unplaced())]), BEFORE).empty


def test_another_text_for_the_same_reason_waits_for_a_quiet_while_to_pass() -> None:
    gangs = Gangs([group("g", unplaced("less room"))], quiet_until=NOW + 9)
    early = told(gangs, BEFORE)
    assert early.empty
    assert early.requeue_after == 9
    for now in (NOW + 9, NOW + 20):
        late = told(gangs, BEFORE, now=now)
        assert said(late) == ("True", "GangUnschedulable", "PodGroup g: less room")
        assert late.requeue_after is None
    assert said(told(Gangs([group("g", unplaced("less room"))]), BEFORE)) is not None


def test_another_reason_is_told_at_once() -> None:
    gangs = Gangs([group("g", deleting=True)], quiet_until=NOW + 9)
    plan = told(gangs, BEFORE)
    assert plan.requeue_after is None
    assert [note.reason for note in plan.notes] == ["GangDeleted"]
    again = condition("GangPending", "False", "GangScheduled", "the gang is placed")
    quiet = Gangs([group("g", unplaced("less room"))], quiet_until=NOW + 9)
    assert said(told(quiet, again)) == ("True", "GangUnschedulable", "PodGroup g: less room")


def test_a_gang_that_is_placed_ends_the_condition_with_an_event() -> None:
    plan = told(Gangs([PLACED]), BEFORE, also=[(JOB_SETS, {"metadata": {"name": "above"}})])
    assert said(plan) == ("False", "GangScheduled", "the gang is placed")
    assert [(note.type, note.reason) for note in plan.notes] == [("Normal", "GangScheduled")] * 2
    assert told(Gangs([PLACED]), condition("GangPending", "False", "GangReleased", "x")).empty


def test_an_object_that_ended_says_that_nothing_is_to_be_placed() -> None:
    status = StatusDraft(JOBS, {"metadata": {}, "status": {"conditions": [BEFORE]}}, NOW)
    gang_trouble.clear(status, "Ended")
    plan = status.finish(Draft())
    assert said(plan) == ("False", "Ended", "no gang is to be placed")
    assert plan.notes == ()
    calm = StatusDraft(JOBS, {"metadata": {}, "status": {}}, NOW)
    gang_trouble.clear(calm, "Ended")
    assert calm.finish(Draft()).empty


# -- lost members --------------------------------------------------------------------------------------------


def test_members_that_a_placed_gang_has_lost_are_told_by_the_first_of_them() -> None:
    pods = [pod("b", waiting("too big")), pod("a", waiting()), pod("c", on="n1"), pod("d", waiting(), deleting=True)]
    assert said(told(Gangs([PLACED], pods=pods))) == ("True", "GangIncomplete", "PodGroup g: 2 pods wait: no room")


@pytest.mark.parametrize(
    "fine",
    [
        pod("a", on="n1"),
        pod("a", waiting(), on="n1"),
        pod("a"),
        pod("a", condition("PodScheduled", "True")),
        pod("a", waiting(), joins="other"),
        pod("a", waiting(), deleting=True),
    ],
    ids=["bound", "bound just now", "not looked at", "scheduled", "of another group", "leaving"],
)
def test_pods_that_do_not_wait_are_no_lost_members(fine: PodView) -> None:
    assert told(Gangs([PLACED], pods=[fine])).empty


def test_a_lost_member_has_some_seconds_to_be_placed_again() -> None:
    plan = told(Gangs([PLACED], pods=[pod("a", waiting(ago=2))]))
    assert plan.empty
    assert plan.requeue_after == 3


def test_pods_without_a_gang_and_pods_of_a_gang_that_is_not_placed_are_no_lost_members() -> None:
    basic = group("g", spec={"schedulingPolicy": {"basic": {}}})
    assert told(Gangs([basic], pods=[pod("a", waiting())])).empty
    unplaced_gang = Gangs([group("g", unplaced())], pods=[pod("a", waiting("too big"))])
    assert said(told(unplaced_gang)) == ("True", "GangUnschedulable", "PodGroup g: no room")


# -- what a JobSet repeats -----------------------------------------------------------------------------------


def pending(reason: str) -> Object:
    return condition("GangPending", "True", reason, "as the Job says")


def test_a_jobset_repeats_what_jobs_say_of_gangs_of_their_own_and_of_lost_members() -> None:
    own = job("a", pending("GangUnschedulable"))
    assert said(told(Gangs(below=[own]))) == ("True", "GangUnschedulable", "Job a: as the Job says")
    lost = job("b", pending("GangIncomplete"), joins="g")
    assert said(told(Gangs(below=[lost]))) == ("True", "GangIncomplete", "Job b: as the Job says")
    # A Job in a group of the JobSet only points to what the JobSet says.
    assert told(Gangs(below=[job("c", pending("GangUnschedulable"), joins="g")])).empty
    over = job("d", condition("GangPending", "False", "GangScheduled", "placed"))
    assert told(Gangs(below=[over, job("e")])).empty
    both = Gangs([group("g", unplaced())], below=[own, lost])
    assert said(told(both)) == ("True", "GangUnschedulable", "Job a (and 1 more like it): as the Job says")


def test_groups_are_in_use_by_jobs_that_run_with_all_above_them() -> None:
    top = group("top", view=CompositePodGroupView)
    mid = group("mid", parent="top", view=CompositePodGroupView)
    groups = [top, mid, group("a", parent="mid"), group("b", parent="mid"), group("c"), group("d")]
    jobs = [job("1", joins="b"), job("2", joins="a"), job("3", joins="c", suspend=True), job("4"), job("5", joins="x")]
    used = gang_trouble.in_use(Gangs(groups, spokesman="s"), jobs)
    assert [one.name for one in used.groups] == ["a", "mid", "top", "b"]
    assert used.below == jobs
    assert used.spokesman == "s"


def test_the_owner_that_is_told_too_is_one_of_the_right_kind() -> None:
    owned = job("a")
    owner = {"apiVersion": "v", "kind": "JobSet", "name": "js", "uid": "u", "controller": True}
    controlled = JobView({"metadata": {**owned.obj["metadata"], "ownerReferences": [owner]}})
    assert gang_trouble.owner_of(controlled, JOB_SETS) == [
        (JOB_SETS, {"metadata": {"name": "js", "namespace": "ns", "uid": "u"}})
    ]
    assert gang_trouble.owner_of(controlled, JOBS) == []
    assert gang_trouble.owner_of(owned, JOB_SETS) == []


def test_a_plan_tells_something_new_if_the_condition_changes() -> None:
    plan = told(Gangs([group("g", unplaced())]))
    assert plan.status is not None
    assert gang_trouble.was_told({}, plan)
    assert not gang_trouble.was_told({"status": plan.status.status}, plan)
    assert not gang_trouble.was_told({}, Plan())
