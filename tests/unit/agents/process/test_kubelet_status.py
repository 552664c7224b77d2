"""The status of a pod from the records of its containers."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.agents.process.rules.attempts import Attempt
from echelon.agents.process.rules.kubelet_status import Waiting, Whereabouts, status_of
from echelon.agents.process.rules.pod_plan import plan
from echelon.agents.process.rules.probe_state import ProbeHealth
from echelon.agents.process.rules.restart_backoff import Backoff
from echelon.api.scheme import Object

from .pods import NOW, facts, pod, ran


def status(made: Object, *attempts: Attempt, where: Whereabouts | None = None, **more: Any) -> Object:
    known = facts(*attempts, **more)
    return status_of(made, known, plan(made, known), where or Whereabouts("h", "a", NOW), sandbox=True)


def condition(found: Object, type_: str) -> tuple[str, str | None]:
    one = next(one for one in found["conditions"] if one["type"] == type_)
    return one["status"], one.get("reason")


def test_a_running_pod_is_ready() -> None:
    found = status(pod(), ran("c"))
    assert (found["phase"], found["podIP"], found["hostIP"]) == ("Running", "a", "h")
    assert condition(found, "Ready") == ("True", None)
    (container,) = found["containerStatuses"]
    assert container["ready"] is container["started"] is True
    assert container["containerID"] == "process://u/c/0"


def test_a_container_that_its_probe_does_not_find_ready_makes_the_pod_unready() -> None:
    found = status(pod("c", "d"), ran("c"), ran("d"), health={"d": ProbeHealth(started=True, ready=False)})
    assert condition(found, "Ready") == condition(found, "ContainersReady") == ("False", "ContainersNotReady")
    assert "[d]" in next(one["message"] for one in found["conditions"] if one["type"] == "Ready")


def test_a_gate_that_is_closed_keeps_the_pod_unready_though_its_containers_are() -> None:
    found = status(pod(readinessGates=[{"conditionType": "example.com/gate"}]), ran("c"))
    assert condition(found, "Ready") == ("False", "ReadinessGatesNotReady")
    assert condition(found, "ContainersReady") == ("True", None)


def test_a_pod_is_pending_while_it_is_initialized() -> None:
    found = status(pod("c", init=({"name": "i", "image": "x"},)), ran("i"))
    assert found["phase"] == "Pending"
    assert condition(found, "Initialized") == ("False", "ContainersNotInitialized")
    assert found["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}


def test_a_container_that_could_not_be_made_says_why() -> None:
    where = Whereabouts("h", "", NOW, {"c": Waiting("InvalidImageName", "say a command")})
    found = status(pod(), where=where)
    assert found["phase"] == "Pending"
    assert "podIP" not in found
    assert found["containerStatuses"][0]["state"]["waiting"] == {
        "reason": "InvalidImageName",
        "message": "say a command",
    }


@pytest.mark.parametrize(
    ("attempt", "expected"),
    [
        (ran("c", 0), {"exitCode": 0, "reason": "Completed"}),
        (ran("c", 3), {"exitCode": 3, "reason": "Error"}),
        (ran("c", 137, signal=9), {"exitCode": 137, "reason": "Error", "signal": 9}),
        (ran("c", 137, signal=9, out_of_memory=True), {"exitCode": 137, "reason": "OOMKilled", "signal": 9}),
        (ran("c", 128, error="no such file"), {"exitCode": 128, "reason": "StartError", "message": "no such file"}),
        (ran("c", 1, message="why"), {"exitCode": 1, "reason": "Error", "message": "why"}),
    ],
)
def test_the_end_of_a_container(attempt: Attempt, expected: Object) -> None:
    found = status(pod(policy="Never"), attempt)
    assert found["phase"] == ("Succeeded" if attempt.code == 0 else "Failed")
    assert found["containerStatuses"][0]["state"]["terminated"].items() >= expected.items()


def test_a_container_in_back_off_is_waiting_and_its_pod_running() -> None:
    found = status(pod(), ran("c", 1, number=3, ago=1), backoffs={"c": Backoff(80, NOW - 2)})
    (container,) = found["containerStatuses"]
    assert found["phase"] == "Running"
    assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert container["state"]["waiting"]["message"].startswith("back-off 1m20s restarting failed container=c")
    assert container["lastState"]["terminated"]["exitCode"] == 1
    assert container["restartCount"] == 3


def test_a_pod_that_failed_as_a_whole_says_why() -> None:
    where = Whereabouts("h", "a", NOW, failure=("DeadlineExceeded", "too long"))
    found = status(pod(), ran("c", 143), where=where)
    assert (found["phase"], found["reason"], found["message"]) == ("Failed", "DeadlineExceeded", "too long")
