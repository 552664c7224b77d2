"""The status of a pod on a process node, as a kubelet would write it, from the records of its containers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ....api.objects import meta
from ....api.scheme import Object
from ....base.instants import parse, to_time
from .attempts import Attempt, init_containers, is_sidecar
from .pod_plan import Phase, PodFacts, PodPlan, has_begun
from .probe_state import ProbeHealth

_NOT_RUNNING = ProbeHealth(started=False, ready=False)
_ALIVE = ProbeHealth(started=True, ready=True)


@dataclass(frozen=True)
class Waiting:
    """Why a container has not been started."""

    reason: str
    message: str = ""

    def state(self) -> Object:
        return {"waiting": {"reason": self.reason, **({"message": self.message} if self.message else {})}}


@dataclass(frozen=True)
class Whereabouts:
    """Of a pod: the addresses of its node and its own, "" until it has one; when the node took it."""

    host: str
    address: str
    since: float
    #: Why containers that have not been started were not.
    waiting: Mapping[str, Waiting] = field(default_factory=dict)
    #: Why the pod failed as a whole: reason and message; "" if its containers say it.
    failure: tuple[str, str] = ("", "")


def status_of(pod: Object, facts: PodFacts, plan: PodPlan, where: Whereabouts, *, sandbox: bool) -> Object:
    """Everything but the fields that others write; `sandbox` is whether its shim runs."""
    known = pod.get("status") or {}
    ended: Phase | None = "Failed" if where.failure[0] else plan.ended
    init = [_container(pod, one, facts, plan, where) for one in init_containers(pod)]
    main = [_container(pod, one, facts, plan, where) for one in pod["spec"]["containers"]]
    phase = ended or _phase(pod, facts, main)
    status: Object = {
        "phase": phase,
        "startTime": known.get("startTime") or to_time(where.since),
        "hostIP": where.host,
        "hostIPs": [{"ip": where.host}],
        "conditions": _conditions(pod, facts, main, ended, sandbox=sandbox),
        "containerStatuses": main,
    }
    if init:
        status["initContainerStatuses"] = init
    if where.address:
        status |= {"podIP": where.address, "podIPs": [{"ip": where.address}]}
    if where.failure[0]:
        status |= {"reason": where.failure[0], "message": where.failure[1]}
    return status


def _phase(pod: Object, facts: PodFacts, main: list[Object]) -> Phase:
    if not _is_initialized(pod, facts):
        return "Pending"
    # One that ended once and waits to be started again counts as ended.
    begun = any("waiting" not in one["state"] or one.get("lastState") for one in main)
    return "Running" if begun else "Pending"


def _is_initialized(pod: Object, facts: PodFacts) -> bool:
    if has_begun(pod, facts):
        return True
    for container in init_containers(pod):
        latest = facts.attempts.latest(container["name"])
        if latest is None or latest.past:
            return False
        if is_sidecar(container):
            if not latest.running or not facts.started(container["name"]):
                return False
        elif latest.code != 0:
            return False
    return True


# -- containers ------------------------------------------------------------------------------------------------


def _container(pod: Object, container: Object, facts: PodFacts, plan: PodPlan, where: Whereabouts) -> Object:
    name = container["name"]
    latest, before = facts.attempts.latest(name), facts.attempts.before_latest(name)
    written: Object = {
        "name": name,
        "image": container.get("image", ""),
        "imageID": "",
        "restartCount": latest.number if latest else 0,
        "ready": False,
        "started": False,
        "lastState": {},
    }
    if latest is None:
        return written | {"state": where.waiting.get(name, _not_yet(pod, container, facts)).state()}
    written["containerID"] = container_id(pod, name, latest.number)
    if latest.running:
        health = facts.health.get(name, _ALIVE)
        written |= {"state": {"running": {"startedAt": to_time(latest.started)}}, "started": health.started}
        written["ready"] = health.ready
        if before is not None:
            written["lastState"] = terminated(pod, before)
        return written
    blocked = where.waiting.get(name)
    if blocked is None and name in plan.held_back and not where.failure[0]:
        blocked = _held_back(pod, name, facts, latest)
    if blocked is not None:
        return written | {"state": blocked.state(), "lastState": terminated(pod, latest)}
    written["state"] = terminated(pod, latest)
    if before is not None:
        written["lastState"] = terminated(pod, before)
    # As upstream: an init container that has done its work is ready.
    if container in init_containers(pod) and latest.code == 0 and not is_sidecar(container):
        written["ready"] = True
    return written


def _not_yet(pod: Object, container: Object, facts: PodFacts) -> Waiting:
    waits_for_init = bool(init_containers(pod)) and not _is_initialized(pod, facts)
    first = init_containers(pod)[:1] == [container]
    return Waiting("PodInitializing") if waits_for_init and not first else Waiting("ContainerCreating")


def _held_back(pod: Object, name: str, facts: PodFacts, latest: Attempt) -> Waiting:
    backoff = facts.backoffs.get(name)
    delay = _duration(backoff.delay_after(latest.finished) if backoff else 0.0)
    return Waiting("CrashLoopBackOff", f"back-off {delay} restarting failed container={name} pod={identity(pod)}")


def identity(pod: Object) -> str:
    """A pod as messages of a kubelet name it."""
    return f"{meta.name(pod)}_{meta.namespace(pod)}({meta.uid(pod)})"


def _duration(seconds: float) -> str:
    """As Go writes it: 10s, 1m20s."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def container_id(pod: Object, container: str, attempt: int) -> str:
    return f"process://{meta.uid(pod)}/{container}/{attempt}"


def terminated(pod: Object, attempt: Attempt) -> Object:
    said: Object = {
        "exitCode": attempt.code,
        "reason": attempt.reason,
        "startedAt": to_time(attempt.started),
        "finishedAt": to_time(attempt.finished),
        "containerID": container_id(pod, attempt.container, attempt.number),
    }
    if attempt.signal:
        said["signal"] = attempt.signal
    message = attempt.error or attempt.message
    return {"terminated": {**said, "message": message} if message else said}


# -- conditions ------------------------------------------------------------------------------------------------


def _conditions(
    pod: Object, facts: PodFacts, main: list[Object], ended: Phase | None, *, sandbox: bool
) -> list[Object]:
    unready = [one["name"] for one in main if not one["ready"]]
    reason, message = "", ""
    if ended:
        reason = "PodCompleted" if ended == "Succeeded" else "PodFailed"
    elif unready:
        reason, message = "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"
    all_ready = not reason
    gates = [
        gate["conditionType"]
        for gate in pod["spec"].get("readinessGates") or ()
        if not meta.condition_is(pod, gate.get("conditionType", ""))
    ]
    initialized, why = _initialized(pod, facts, ended)
    ready_reason, ready_message = reason, message
    if all_ready and gates:
        listed = " ".join(f'corresponding condition of pod readiness gate "{gate}" does not exist.' for gate in gates)
        ready_reason, ready_message = "ReadinessGatesNotReady", listed
    return [
        _condition(pod, facts.now, "PodReadyToStartContainers", sandbox),
        _condition(pod, facts.now, "Initialized", initialized, *why),
        _condition(pod, facts.now, "Ready", all_ready and not gates, ready_reason, ready_message),
        _condition(pod, facts.now, "ContainersReady", all_ready, reason, message),
    ]


def _initialized(pod: Object, facts: PodFacts, ended: Phase | None) -> tuple[bool, tuple[str, str]]:
    if _is_initialized(pod, facts):
        return True, ("PodCompleted" if ended == "Succeeded" else "", "")
    waiting = []
    for one in init_containers(pod):
        latest = facts.attempts.latest(one["name"])
        if latest is None or latest.past or (latest.code != 0 and not is_sidecar(one)):
            waiting.append(one["name"])
    return False, ("ContainersNotInitialized", f"containers with incomplete status: [{' '.join(waiting)}]")


def _condition(pod: Object, now: float, type_: str, holds: bool, reason: str = "", message: str = "") -> Object:
    status = "True" if holds else "False"
    known = meta.find_condition(pod, type_)
    same = known is not None and known.get("status") == status
    since = known.get("lastTransitionTime") if same and known is not None else None
    made: Object = {"type": type_, "status": status, "lastTransitionTime": since or to_time(now)}
    # A strategic merge keeps what is not named: reasons of the time before are taken away by name.
    for field_, text in (("reason", reason), ("message", message)):
        if text:
            made[field_] = text
        elif known is not None and field_ in known:
            made[field_] = None
    return made


def changes(pod: Object, status: Object) -> Object:
    """The fields that differ from what the pod says; none if nothing does."""
    known = pod.get("status") or {}
    changed = {key: value for key, value in status.items() if key != "conditions" and known.get(key) != value}
    conditions = []
    for condition in status["conditions"]:
        old = meta.find_condition(pod, condition["type"]) or {}
        if any(old.get(field) != value for field, value in condition.items()):
            conditions.append(condition)
    if conditions:
        changed["conditions"] = conditions
    return changed


# -- what a status says --------------------------------------------------------------------------------------------


def is_over(pod: Object) -> bool:
    """Whether all containers have ended for good."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def deadline(pod: Object) -> float | None:
    """When the pod has to end; None if that does not matter."""
    allowed, begin = pod["spec"].get("activeDeadlineSeconds"), (pod.get("status") or {}).get("startTime")
    # The time of the start has whole seconds, cut off: no pod is ended before its time.
    return None if allowed is None or not begin else parse(begin) + 1.0 + float(allowed)


def health_before(pod: Object, name: str, attempt: Attempt) -> ProbeHealth:
    """What the status says of this attempt: whether it has passed its startup probe and hooks, and was ready."""
    status = pod.get("status") or {}
    for one in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        if one.get("name") == name and one.get("restartCount") == attempt.number:
            return ProbeHealth(bool(one.get("started")), bool(one.get("ready")))
    return _NOT_RUNNING
