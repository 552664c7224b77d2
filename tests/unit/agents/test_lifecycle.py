"""What a simulated node does with a pod, step by step and from any stored state."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.agents.pod_lifecycle import Remove, Wait, WriteStatus, next_step, read_script
from echelon.api.scheme import Object
from echelon.base.instants import to_time

NOW = 1_800_000_000.0
JOB = [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}]


def bound_pod(command: list[str] | None = None, owners: list[Object] | None = None, **spec: Any) -> Object:
    container: Object = {"name": "c", "image": "x"}
    if command is not None:
        container["command"] = command
    return {
        "metadata": {
            "name": "p",
            "namespace": "ns",
            "uid": "aaaaaaaa-0000-4000-8000-0000000a0b0c",
            "ownerReferences": owners or [],
            "annotations": spec.pop("annotations", {}),
        },
        "spec": {"nodeName": "n0", "restartPolicy": "Never", "containers": [container], **spec},
        "status": {"phase": "Pending"},
    }


def advance(the_pod: Object, now: float) -> Object:
    """The pod after the status write that is due now."""
    step = next_step(the_pod, now)
    assert isinstance(step, WriteStatus), step
    return {**the_pod, "status": {**the_pod["status"], **step.status}}


def deleted(the_pod: Object, at: float, grace: int = 30) -> Object:
    mark = {"deletionTimestamp": to_time(at + grace), "deletionGracePeriodSeconds": grace}
    return {**the_pod, "metadata": {**the_pod["metadata"], **mark}}


def exit_code(the_pod: Object) -> int:
    code: int = the_pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"]
    return code


@pytest.mark.parametrize(
    ("the_pod", "seconds"),
    [
        (bound_pod(["sleep", "30"]), 30),
        (bound_pod(["sh", "-c", "echo hi; sleep 2m && exit 0"]), 120),
        (bound_pod(["sleep", "infinity"]), None),
        (bound_pod(["sh", "-c", "while true; do sleep 1; done"], JOB), None),
        (bound_pod(["sh", "-c", "while true\ndo\n  date; sleep 1\ndone"], JOB), None),
        (bound_pod(["/bin/sh", "-c", "set -e; while :; do :; done"], JOB), None),
        (bound_pod(["bash", "-c", "while [ 1 ]; do sleep 5; done"], JOB), None),
        (bound_pod(["sh", "-c", "until false; do sleep 1; done"], JOB), None),
        (bound_pod(["bash", "-c", "for ((;;)); do sleep 1; done"], JOB), None),
        (bound_pod(["tail", "-f", "/dev/null"], JOB), None),
        (bound_pod(["sh", "-c", "tail -n 1 -F log"], JOB), None),
        (bound_pod(["sh", "-c", "echo while true is long"], JOB), 5),
        (bound_pod(["sh", "-c", "while read x; do sleep 3; done"], JOB), 3),
        (bound_pod(["sh", "-c", "sleep 3; echo; (sleep 2m)"], JOB), 123),
        (bound_pod(["sh", "-c", "sleep 3x; sleep $N"], JOB), 5),
        (bound_pod(["sleep", "30"], annotations={"echelon.dev/run-seconds": "7"}), 7),
        (bound_pod(["oversleep", "3"], JOB), 5),
        (bound_pod(owners=JOB), 5),
        (bound_pod(), None),
    ],
)
def test_how_long_a_pod_runs(the_pod: Object, seconds: float | None) -> None:
    assert read_script(the_pod).seconds == seconds


def test_a_bound_pod_runs_ready_and_ends_after_its_time() -> None:
    begun = advance(bound_pod(owners=JOB, initContainers=[{"name": "i"}]), NOW)
    status = begun["status"]
    assert status["phase"] == "Running"
    assert status["podIP"] == "10.10.11.12"
    assert {one["type"]: one["status"] for one in status["conditions"]}["Ready"] == "True"
    assert status["containerStatuses"][0]["started"] is status["containerStatuses"][0]["ready"] is True
    assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    assert next_step(begun, NOW + 2) == Wait(3)
    done = advance(begun, NOW + 5)
    assert done["status"]["phase"] == "Succeeded"
    assert done["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"] == to_time(NOW + 5)
    assert next_step(done, NOW + 6) is None


def test_a_late_look_still_finds_the_true_end() -> None:
    begun = advance(bound_pod(owners=JOB), NOW)
    done = advance(begun, NOW + 1000)
    assert done["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"] == to_time(NOW + 5)


def test_a_pod_ends_with_the_code_it_is_told() -> None:
    begun = advance(bound_pod(owners=JOB, annotations={"echelon.dev/exit-code": "3"}), NOW)
    done = advance(begun, NOW + 5)
    assert (done["status"]["phase"], exit_code(done)) == ("Failed", 3)


def test_a_pod_without_an_end_runs_on() -> None:
    assert next_step(advance(bound_pod(), NOW), NOW + 1e6) is None


@pytest.mark.parametrize(("grace", "stops_after"), [(30, 1), (0, 0)])
def test_a_deleted_pod_stops_within_a_second_and_is_failed_then_removed(grace: int, stops_after: int) -> None:
    doomed = deleted(advance(bound_pod(), NOW), NOW + 10, grace)
    if stops_after:
        assert next_step(doomed, NOW + 10) == Wait(stops_after)
    stopped = advance(doomed, NOW + 10 + stops_after)
    assert (stopped["status"]["phase"], exit_code(stopped)) == ("Failed", 143)
    assert next_step(stopped, NOW + 12) == (Remove() if grace else Wait(8))


def test_a_deleted_pod_that_had_ended_by_itself_keeps_its_success() -> None:
    begun = advance(bound_pod(owners=JOB), NOW)
    assert advance(deleted(begun, NOW + 6), NOW + 100)["status"]["phase"] == "Succeeded"


def test_a_pod_deleted_before_it_ran_is_failed() -> None:
    assert advance(deleted(bound_pod(), NOW), NOW + 1)["status"]["phase"] == "Failed"


def test_a_removed_pod_held_by_a_finalizer_is_left_alone() -> None:
    stopped = advance(deleted(advance(bound_pod(), NOW), NOW, 0), NOW + 1)
    stopped["metadata"]["finalizers"] = ["example.com/held"]
    assert next_step(stopped, NOW + 100) is None


def test_a_removal_that_a_crash_cut_short_is_asked_for_again() -> None:
    stopped = advance(deleted(advance(bound_pod(), NOW), NOW, 0), NOW + 1)
    assert next_step(stopped, NOW + 4) == Wait(6)
    assert next_step(stopped, NOW + 10) == Remove()


def test_a_failing_container_restarts_in_place_with_growing_pauses() -> None:
    running = advance(bound_pod(owners=JOB, restartPolicy="OnFailure", annotations={"echelon.dev/exit-code": "1"}), NOW)
    waiting = advance(running, NOW + 5)
    assert waiting["status"]["phase"] == "Running"
    assert waiting["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert next_step(waiting, NOW + 5) == Wait(10)
    again = advance(waiting, NOW + 15)
    assert again["status"]["containerStatuses"][0]["restartCount"] == 1
    assert next_step(advance(again, NOW + 20), NOW + 20) == Wait(20)


def test_an_annotation_that_cannot_be_followed_fails_the_pod_and_says_so() -> None:
    refused = advance(bound_pod(annotations={"echelon.dev/run-seconds": "soon"}), NOW)
    assert refused["status"]["phase"] == "Failed"
    assert refused["status"]["message"] == (
        "metadata.annotations[echelon.dev/run-seconds]: 'soon' must be a number from 0 to 1e+09"
    )


def test_a_container_status_without_a_restart_count_counts_from_zero() -> None:
    waiting = {"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    the_pod = {**bound_pod(), "status": {"phase": "Running", "containerStatuses": [waiting]}}
    assert advance(the_pod, NOW)["status"]["containerStatuses"][0]["restartCount"] == 1


def test_a_pod_of_thousands_of_containers_has_a_status_that_fits_beside_its_spec_and_ends() -> None:
    pod = bound_pod(owners=JOB)
    pod["spec"]["containers"] = [{"name": f"c{index}", "image": "i"} for index in range(5_000)]
    running = advance(pod, NOW)
    assert len(running["status"]["containerStatuses"]) == 500
    assert advance(running, NOW + 1_000)["status"]["phase"] == "Succeeded"


def test_a_pod_is_ready_when_its_probes_have_begun() -> None:
    the_pod = bound_pod(["sleep", "60"])
    the_pod["spec"]["containers"][0]["readinessProbe"] = {"initialDelaySeconds": 20}
    begun = advance(the_pod, NOW)
    (status,) = begun["status"]["containerStatuses"]
    assert (status["ready"], status["started"]) == (False, True)
    assert conditions(begun) == {"Ready": "False", "ContainersReady": "False"}
    assert next_step(begun, NOW + 5) == Wait(15)
    ready = advance(begun, NOW + 20)
    assert ready["status"]["containerStatuses"][0]["ready"]
    assert conditions(ready) == {"Ready": "True", "ContainersReady": "True"}
    assert next_step(ready, NOW + 20) == Wait(40)


def test_a_pod_is_ready_while_its_readiness_gates_are_open() -> None:
    begun = advance(bound_pod(["sleep", "infinity"], readinessGates=[{"conditionType": "example.org/gate"}]), NOW)
    assert conditions(begun) == {"Ready": "False", "ContainersReady": "True"}
    assert next_step(begun, NOW) is None

    def gated(the_pod: Object, status: str) -> Object:
        gate = {"type": "example.org/gate", "status": status}
        return {**the_pod, "status": {**the_pod["status"], "conditions": [*the_pod["status"]["conditions"], gate]}}

    opened = advance(gated(begun, "True"), NOW + 1)
    assert conditions(opened) == {"Ready": "True", "ContainersReady": "True"}
    assert conditions(advance(gated(opened, "False"), NOW + 2)) == {"Ready": "False", "ContainersReady": "True"}


def conditions(the_pod: Object) -> dict[str, str]:
    listed = the_pod["status"]["conditions"]
    return {one["type"]: one["status"] for one in listed if one["type"] in ("Ready", "ContainersReady")}


def test_a_pod_that_is_active_for_too_long_fails() -> None:
    begun = advance(bound_pod(["sleep", "60"], activeDeadlineSeconds=5), NOW)
    assert next_step(begun, NOW) == Wait(5)
    late = advance(begun, NOW + 5)
    assert (late["status"]["phase"], late["status"]["reason"]) == ("Failed", "DeadlineExceeded")
    in_time = advance(bound_pod(["sleep", "5"], activeDeadlineSeconds=60), NOW)
    assert advance(in_time, NOW + 100)["status"]["phase"] == "Succeeded"


def test_the_status_says_which_generation_of_the_pod_it_is_of() -> None:
    the_pod = bound_pod(["sleep", "infinity"])
    the_pod["metadata"]["generation"] = 1
    begun = advance(the_pod, NOW)
    assert begun["status"]["observedGeneration"] == 1
    assert next_step(begun, NOW) is None
    begun["metadata"]["generation"] = 2
    assert advance(begun, NOW)["status"]["observedGeneration"] == 2
