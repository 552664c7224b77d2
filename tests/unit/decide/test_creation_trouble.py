"""Objects that cannot be made, told on the object that needs them."""

from __future__ import annotations

from echelon.api.scheme import JOB_SETS, JOBS, PODS, TRAIN_JOBS, Object
from echelon.api.views.job_views import JobView
from echelon.decide import creation_trouble
from echelon.decide.plan import Draft, Note, Plan
from echelon.decide.status_draft import StatusDraft

NOW = 1_800_000_000.0


def owner(*conditions: Object) -> Object:
    return {"metadata": {"name": "j"}, "status": {"active": 1, "conditions": list(conditions)}}


def told(obj: Object, *hindered: str) -> Plan:
    status = StatusDraft(JOBS, obj, NOW)
    creation_trouble.tell(status, [Note(JOBS, obj, "Warning", "Taken", text) for text in hindered])
    return status.finish(Draft())


def said(plan: Plan) -> tuple[str, str, str]:
    assert plan.status is not None
    (one,) = plan.status.status["conditions"]
    assert one["type"] == "CreationFailed"
    return one["status"], one["reason"], one["message"]


def test_the_first_hindrance_is_told_with_the_number_of_the_others() -> None:
    assert said(told(owner(), "a is taken")) == ("True", "Taken", "a is taken")
    assert said(told(owner(), "a is taken", "b is taken")) == ("True", "Taken", "a is taken (and 1 more)")
    assert said(told(owner(), "a", "b", "c")) == ("True", "Taken", "a (and 2 more)")


def test_a_condition_ends_when_everything_is_made_and_none_is_made_of_nothing() -> None:
    stuck = owner({"type": "CreationFailed", "status": "True", "reason": "Taken", "message": "a"})
    assert said(told(stuck)) == ("False", "Created", "everything that was missing is made")
    assert told(owner()).empty
    over = owner({"type": "CreationFailed", "status": "False", "reason": "Created", "message": "x"})
    assert told(over).empty


def refused(obj: Object) -> Object | None:
    draft = Draft()
    creation_trouble.if_refused(JOBS, obj, draft, NOW)
    write = draft.done().refused
    return None if write is None else write.status


def test_a_refusal_is_told_in_the_words_of_the_server_until_something_is_made() -> None:
    found = refused(owner())
    assert found is not None
    assert found["active"] == 1
    ((condition),) = found["conditions"]
    assert (condition["status"], condition["reason"], condition["message"]) == ("True", "Refused", "{error}")
    assert refused(owner({"type": "CreationFailed", "status": "True", "reason": "Refused", "message": "quota"})) is None
    assert refused(owner({"type": "CreationFailed", "status": "False", "reason": "Created", "message": "x"}))


def test_whose_an_object_is() -> None:
    free: Object = {"metadata": {"name": "p"}}
    assert creation_trouble.whose(PODS, free) == "Pod p exists and has no owner"
    reference = {"kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    taken = {"metadata": {"name": "p", "ownerReferences": [reference]}}
    assert creation_trouble.whose(PODS, taken) == "Pod p exists and belongs to ReplicaSet web"


def job(name: str, *conditions: Object) -> JobView:
    return JobView({"metadata": {"name": name}, "status": {"conditions": list(conditions)}})


def test_a_jobset_repeats_what_the_first_of_its_jobs_lacks() -> None:
    lacking = {"type": "CreationFailed", "status": "True", "reason": "Refused", "message": "quota"}
    fine = {"type": "CreationFailed", "status": "False", "reason": "Created", "message": "x"}
    obj = owner()
    status = StatusDraft(JOB_SETS, obj, NOW)
    above = [(TRAIN_JOBS, {"metadata": {"name": "tj"}})]
    jobs = [job("d", lacking), job("c", lacking), job("b", fine), job("a")]
    assert creation_trouble.repeat(status, jobs, above)
    plan = status.finish(Draft())
    assert said(plan)[0] == "True"
    assert said(plan)[2] == "Job c: quota"
    assert [(note.obj["metadata"]["name"], note.type, note.message) for note in plan.notes] == [
        ("j", "Warning", "Job c: quota"),
        ("tj", "Warning", "Job c: quota"),
    ]
    # What is said already is not told again; and Jobs that lack nothing are not repeated.
    assert plan.status is not None
    again = StatusDraft(JOB_SETS, {**obj, "status": plan.status.status}, NOW)
    assert creation_trouble.repeat(again, jobs, above)
    assert again.finish(Draft()).empty
    assert not creation_trouble.repeat(StatusDraft(JOB_SETS, obj, NOW), jobs[2:], above)
