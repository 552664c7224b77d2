"""Table cells of pods: status, ready containers, restarts.

The precedence is that of kubectl: deletion, then init containers, then the reasons of containers, then the phase.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....api.objects import meta
from ....api.scheme import Object
from .durations import since

_Status = Mapping[str, Any]


def _status(pod: Object) -> _Status:
    return pod.get("status") or {}


def _restartable_inits(pod: Object) -> set[str]:
    """Names of sidecars: init containers with restartPolicy Always."""
    spec = pod.get("spec") or {}
    return {c["name"] for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"}


def ready(pod: Object, _now: float) -> str:
    spec, status = pod.get("spec") or {}, _status(pod)
    sidecars = _restartable_inits(pod)
    counted = list(status.get("containerStatuses") or ())
    counted += [c for c in status.get("initContainerStatuses") or () if c["name"] in sidecars]
    total = len(spec.get("containers") or ()) + len(sidecars)
    return f"{sum(1 for c in counted if c.get('ready'))}/{total}"


def restarts(pod: Object, now: float) -> str:
    status, sidecars = _status(pod), _restartable_inits(pod)
    counted = list(status.get("containerStatuses") or ())
    inits = list(status.get("initContainerStatuses") or ())
    # While init containers run, their restarts are the ones that matter.
    shows_inits = bool(_init_reason(pod)) and not meta.condition_is(pod, "Initialized") and not _ends(pod)
    counted = inits if shows_inits else counted + [c for c in inits if c["name"] in sidecars]
    total = sum(int(c.get("restartCount") or 0) for c in counted)
    ends = [((c.get("lastState") or {}).get("terminated") or {}).get("finishedAt") for c in counted]
    last = max((end for end in ends if end), default=None)
    return f"{total} ({since(last, now)} ago)" if total and last else str(total)


def reason(pod: Object, _now: float) -> str:
    """The Status column."""
    status = _status(pod)
    word = str(status.get("reason") or status.get("phase") or "")
    scheduled = meta.find_condition(pod, "PodScheduled")
    if scheduled and scheduled.get("reason") == "SchedulingGated":
        word = "SchedulingGated"
    initializing = _init_reason(pod)
    if initializing and not meta.condition_is(pod, "Initialized"):
        word = initializing
    elif not initializing:
        word = _container_reason(pod, word)
    return _ends(pod) or word


def _ends(pod: Object) -> str:
    """What the Status column says of a pod that is being deleted, "" of others."""
    status = _status(pod)
    if not meta.deleting(pod):
        return ""
    if status.get("reason") == "NodeLost":
        return "Unknown"
    return "" if status.get("phase") in ("Succeeded", "Failed") else "Terminating"


def _init_reason(pod: Object) -> str:
    """`Init:…` for the first init container that has not completed, "" if all have."""
    sidecars = _restartable_inits(pod)
    total = len((pod.get("spec") or {}).get("initContainers") or ())
    for index, container in enumerate(_status(pod).get("initContainerStatuses") or ()):
        state = container.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting") or {}
        if ended is not None and ended.get("exitCode") == 0:
            continue
        if container["name"] in sidecars and container.get("started"):
            continue
        if ended is not None:
            return f"Init:{_ended(ended)}"
        if waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{total}"
    return ""


def _ended(ended: Mapping[str, Any]) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _container_reason(pod: Object, word: str) -> str:
    """The reason of the first container that has one; `Completed` only if no container runs."""
    running, failing = False, ""
    for container in reversed(_status(pod).get("containerStatuses") or ()):
        state = container.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            word = str(waiting["reason"])
        elif ended is not None:
            word = _ended(ended)
            if ended.get("exitCode"):
                failing = word
        elif container.get("ready") and state.get("running") is not None:
            running = True
    if word == "Completed" and running:
        if failing:
            return failing
        return "Running" if meta.condition_is(pod, "Ready") else "NotReady"
    return word


def ip(pod: Object, _now: float) -> str:
    addresses = _status(pod).get("podIPs") or ()
    first = addresses[0].get("ip") if addresses else _status(pod).get("podIP")
    return first or "<none>"


def readiness_gates(pod: Object, _now: float) -> str:
    gates = (pod.get("spec") or {}).get("readinessGates") or ()
    if not gates:
        return "<none>"
    return f"{sum(1 for gate in gates if meta.condition_is(pod, gate['conditionType']))}/{len(gates)}"
