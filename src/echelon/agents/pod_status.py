"""The pod statuses that a node writes: strategic merge patches of `status`, as a kubelet would write them."""

from __future__ import annotations

from typing import Any

from ..api.objects import meta
from ..api.scheme import Object
from ..base.instants import parse as instant
from ..base.instants import to_time

#: Containers that a status tells of: the statuses of thousands would not fit into an object beside their spec.
_MOST_STATUSES = 500
#: 128 + SIGTERM.
TERMINATED_BY_SIGNAL = 143
_BARRIER = "InPlaceRestartBarrier"
_MISCONFIGURED = "CreateContainerConfigError"


def running(pod: Object, now: float, host: str = "") -> Object:
    """All init containers have completed, all containers run; `host` is the address of the node."""
    stamp = to_time(now)
    address = _address(meta.uid(pod))
    status: Object = {
        "phase": "Running",
        "startTime": stamp,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [
            *(_condition(type_, True, now) for type_ in ("PodReadyToStartContainers", "Initialized")),
            *_readiness(pod, not delay(pod), now),
        ],
        "containerStatuses": [
            {**_container(one, {"running": {"startedAt": stamp}}, ready=not _delay(one)), "started": True}
            for one in pod["spec"]["containers"][:_MOST_STATUSES]
        ],
    }
    if host:
        status |= {"hostIP": host, "hostIPs": [{"ip": host}]}
    init = pod["spec"].get("initContainers")
    if init:
        done = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": stamp, "finishedAt": stamp}}
        status["initContainerStatuses"] = [_container(one, done, ready=True) for one in init[:_MOST_STATUSES]]
    return status


def ended(pod: Object, exit_code: int, end: float, now: float) -> Object:
    phase = "Succeeded" if exit_code == 0 else "Failed"
    reason = "PodCompleted" if exit_code == 0 else "PodFailed"
    status: Object = {
        "phase": phase,
        "conditions": [_condition(type_, False, now, reason) for type_ in ("Ready", "ContainersReady")],
        "containerStatuses": [
            {**one, "state": _terminated(one, exit_code, end), "ready": False, "started": False}
            for one in _containers(pod)
        ],
    }
    if "startTime" not in (pod.get("status") or {}):
        status["startTime"] = to_time(now)
    return status


def late(pod: Object, deadline: float, now: float) -> Object:
    """Failed because it was active for longer than it may be."""
    message = "Pod was active on the node longer than the specified deadline"
    return {**ended(pod, TERMINATED_BY_SIGNAL, deadline, now), "reason": "DeadlineExceeded", "message": message}


def refused(pod: Object, message: str, now: float) -> Object:
    """Failed because an annotation is invalid."""
    return {"phase": "Failed", "reason": "InvalidAnnotation", "message": message, "startTime": to_time(now)}


def misconfigured(pod: Object, message: str) -> Object:
    """Waits for ever, because an annotation is invalid."""
    waiting = {"waiting": {"reason": _MISCONFIGURED, "message": message}}
    return {"containerStatuses": [_container(one, waiting, ready=False) for one in pod["spec"]["containers"]]}


def is_misconfigured(pod: Object) -> bool:
    return _waits_for(pod, _MISCONFIGURED)


def _waits_for(pod: Object, reason: str) -> bool:
    states = [one.get("state") or {} for one in (pod.get("status") or {}).get("containerStatuses") or ()]
    return any((state.get("waiting") or {}).get("reason") == reason for state in states)


def waiting_to_restart(pod: Object, exit_code: int, end: float) -> Object:
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}}
    return {
        "conditions": [_condition(type_, False, end, "ContainersNotReady") for type_ in ("Ready", "ContainersReady")],
        "containerStatuses": [
            {**one, "state": waiting, "lastState": _terminated(one, exit_code, end), "ready": False, "started": False}
            for one in _containers(pod)
        ],
    }


def restarted(pod: Object, now: float) -> Object:
    begun = released(pod, now)
    counted = [{**one, "restartCount": one.get("restartCount", 0) + 1} for one in begun["containerStatuses"]]
    return {**begun, "containerStatuses": counted}


def released(pod: Object, now: float) -> Object:
    """The containers run, after they have waited for other pods."""
    begun = {"running": {"startedAt": to_time(now)}}
    ready = not delay(pod)
    return {
        "conditions": _readiness(pod, ready, now),
        "containerStatuses": [{**one, "state": begun, "ready": ready, "started": True} for one in _containers(pod)],
    }


def at_barrier(pod: Object, now: float, host: str = "") -> Object:
    """A new pod whose containers wait for the other pods of its JobSet."""
    begun = running(pod, now, host)
    kept = [one for one in begun["conditions"] if one["type"] not in ("Ready", "ContainersReady")]
    held = [_held(one) for one in begun["containerStatuses"]]
    return {**begun, "conditions": [*kept, *_readiness(pod, False, now)], "containerStatuses": held}


def restarted_at_barrier(pod: Object, exit_code: int, now: float) -> Object:
    """The containers have ended, and wait for the other pods before they run again."""
    held = [
        {
            **_held(one),
            "lastState": _terminated(one, exit_code or TERMINATED_BY_SIGNAL, now),
            "restartCount": one.get("restartCount", 0) + 1,
        }
        for one in _containers(pod)
    ]
    return {"conditions": _readiness(pod, False, now), "containerStatuses": held}


def waits_at_barrier(pod: Object) -> bool:
    return _waits_for(pod, _BARRIER)


def _held(container: Object) -> Object:
    waiting = {"waiting": {"reason": _BARRIER, "message": "waits for the other pods of its JobSet"}}
    return {**container, "state": waiting, "ready": False, "started": False}


def became_ready(pod: Object, now: float) -> Object:
    """Readiness probes succeed, a readiness gate opened or closed, or the node was unreachable and is back."""
    return {
        "conditions": _readiness(pod, True, now),
        "containerStatuses": [{**one, "ready": True} for one in _containers(pod)],
    }


# -- reading back --------------------------------------------------------------------------------------------


def running_since(pod: Object) -> float | None:
    """When the running containers started; None if none runs."""
    for container in (pod.get("status") or {}).get("containerStatuses") or ():
        begin = ((container.get("state") or {}).get("running") or {}).get("startedAt")
        if begin:
            return instant(begin)
    return None


def is_observed(pod: Object) -> bool:
    """Whether the status says that it is of the current spec."""
    generation = pod["metadata"].get("generation")
    return generation is None or (pod.get("status") or {}).get("observedGeneration") == generation


def delay(pod: Object) -> float:
    """Seconds from the start of the containers until all are ready: probes succeed when they begin."""
    return max(map(_delay, pod["spec"]["containers"]), default=0.0)


def is_settled(pod: Object) -> bool:
    """Whether the conditions say what holds for a pod whose containers have run for long enough to be ready."""
    said = "True" if _gates_open(pod) else "False"
    return meta.condition_is(pod, "ContainersReady") and meta.condition_is(pod, "Ready", said)


def restarts(pod: Object) -> int:
    return max((one.get("restartCount", 0) for one in _containers(pod)), default=0)


def last_end(pod: Object) -> float:
    ends = [((one.get("lastState") or {}).get("terminated") or {}).get("finishedAt") for one in _containers(pod)]
    return max((instant(end) for end in ends if end), default=0.0)


# -- parts ---------------------------------------------------------------------------------------------------


def _delay(container: Object) -> float:
    probes = (container.get("startupProbe") or {}, container.get("readinessProbe") or {})
    return float(max(probe.get("initialDelaySeconds") or 0 for probe in probes))


def _gates_open(pod: Object) -> bool:
    return all(
        meta.condition_is(pod, gate.get("conditionType", "")) for gate in pod["spec"].get("readinessGates") or ()
    )


def _readiness(pod: Object, ready: bool, now: float) -> list[Object]:
    """`Ready` and `ContainersReady`, written when they change."""
    closed = "ReadinessGatesNotReady" if ready else "ContainersNotReady"
    conditions: list[Object] = []
    for type_, holds in (("Ready", ready and _gates_open(pod)), ("ContainersReady", ready)):
        written = _condition(type_, holds, now, "" if holds else closed)
        if holds and "reason" in (meta.find_condition(pod, type_) or {}):
            written |= {"reason": None, "message": None}  # of the time when it did not hold
        conditions.append(written)
    return conditions


def _containers(pod: Object) -> list[Object]:
    """Container statuses as stored, or those of a pod that never started."""
    stored = (pod.get("status") or {}).get("containerStatuses")
    if stored:
        return list(stored)
    return [_container(one, {}, ready=False) for one in pod["spec"]["containers"][:_MOST_STATUSES]]


def _container(spec: Object, state: Object, *, ready: bool) -> Object:
    image = spec.get("image", "")
    return {
        "name": spec["name"],
        "image": image,
        "imageID": "",
        "state": state,
        "lastState": {},
        "ready": ready,
        "started": ready,
        "restartCount": 0,
    }


def _terminated(container: Object, exit_code: int, end: float) -> Object:
    begin = ((container.get("state") or {}).get("running") or {}).get("startedAt")
    ended_as: dict[str, Any] = {"exitCode": exit_code, "reason": "Error" if exit_code else "Completed"}
    if begin:
        ended_as["startedAt"] = begin
    return {"terminated": {**ended_as, "finishedAt": to_time(end)}}


def _condition(type_: str, holds: bool, now: float, reason: str = "") -> Object:
    stamp = to_time(now)
    made: Object = {"type": type_, "status": "True" if holds else "False", "lastTransitionTime": stamp}
    return {**made, "reason": reason} if reason else made


def _address(uid: str) -> str:
    """An address in 10.0.0.0/8 computed from the uid, so that it stays the same after a restart."""
    digits = int(uid.replace("-", "")[-6:] or "0", 16)
    return f"10.{digits >> 16 & 255}.{digits >> 8 & 255}.{digits & 255}"
