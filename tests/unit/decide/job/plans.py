"""One look at a Job, and what follows from it in few words."""

from __future__ import annotations

from typing import Any

from echelon.api.scheme import PODS, Object
from echelon.decide.job.reconcile import reconcile
from echelon.decide.plan import ApplyPatch, Create, Delete, Plan

from .objects import INDEX, NOW, observed

#: A template that brings its own group: the tests here are about pods alone.
PLAIN = {
    "metadata": {"labels": {"app": "x"}},
    "spec": {
        "containers": [{"name": "c"}],
        "restartPolicy": "Never",
        "schedulingGroup": {"podGroupName": "mine"},
    },
}


def plan(the_job: Object, *pods: Object, now: float = NOW, **more: Any) -> Plan:
    the_job["spec"]["template"] = more.pop("template", PLAIN)
    return reconcile(observed(the_job, *pods, **more), now)


def actions(result: Plan, kind: type) -> list[Any]:
    return [action for stage in result.stages for action in stage if isinstance(action, kind)]


def created(result: Plan) -> list[Object]:
    return [action.obj for action in actions(result, Create) if action.resource is PODS]


def deleted(result: Plan) -> list[str]:
    return [action.name for action in actions(result, Delete)]


def stripped(result: Plan) -> list[str]:
    return [action.name for action in actions(result, ApplyPatch)]


def status(result: Plan) -> Object:
    assert result.status is not None
    return result.status.status


def conditions(result: Plan) -> list[tuple[str, str, str]]:
    return [(one["type"], one["status"], one["reason"]) for one in status(result).get("conditions", ())]


def reasons(result: Plan) -> list[str]:
    return [note.reason for note in result.notes]


def indexes(result: Plan) -> list[int]:
    """The completion indexes of the pods that are created."""
    return [int(one["metadata"]["annotations"][INDEX]) for one in created(result)]
