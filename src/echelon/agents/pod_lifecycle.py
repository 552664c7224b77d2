"""What a simulated node does next with one pod: a pure function of the stored pod and the time.

    bound ─► Running ─► (restarts in place, as its restartPolicy says) ─► Succeeded | Failed
               └── deleted: stops within a second, Failed unless it had ended by itself ─► removed

`simulated_nodes` calls `next_step` for every bound pod.  Every end is computed from a start time in the pod's stored
status, so a restarted plane computes the same ends.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from ..api.objects import meta
from ..api.objects.vocabulary import EXIT_CODE, RUN_SECONDS
from ..api.scheme import Object
from ..base.instants import parse as instant
from . import pod_status

_JOB_POD_SECONDS = 5.0
_STOP_SECONDS = 1.0
_FIRST_RESTART_SECONDS = 10.0
_LAST_RESTART_SECONDS = 300.0
_TERMINAL = ("Succeeded", "Failed")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
#: What is read of a command; a command can be a megabyte long.
_MOST_WORDS, _MOST_LETTERS = 1_000, 20_000
#: Where a word of a shell command begins.
_WORD = r"(?:^|[\s;&|/({])"
_SLEEP = re.compile(_WORD + r"sleep\s+(\d+(?:\.\d+)?)([smhd]?)(?![\w.])")
_ENDLESS = re.compile(
    _WORD
    + r"""(?:
        while\s+(?:true|:|1|\[\[?\s+(?:1|true)\s+\]\]?)\s*(?:;|$)
      | until\s+(?:false|!\s*true)\s*(?:;|$)
      | for\s*\(\(\s*;\s*;\s*\)\)
      | sleep\s+inf(?:inity)?(?!\w)
      | sshd\s[^;&|]{0,80}?(?<=\s)-[a-zA-Z]*D
      | tail\s[^;&|]{0,80}?(?<=\s)(?:-[fF]|--follow)(?!\w)
    )""",
    re.VERBOSE | re.MULTILINE,
)
#: After this long a pod that was deleted without grace should be gone.
_REMOVED_SECONDS = 10.0


@dataclass(frozen=True)
class WriteStatus:
    status: Object


@dataclass(frozen=True)
class Remove:
    """All containers have ended; delete the pod without a grace period."""


@dataclass(frozen=True)
class Wait:
    seconds: float


Step = WriteStatus | Remove | Wait | None


@dataclass(frozen=True)
class Script:
    """How long each run of the pod lasts (None: without end) and its exit code."""

    seconds: float | None
    exit_code: int


@dataclass(frozen=True)
class Host:
    """The node of a pod."""

    address: str = ""
    ready: bool = True


class BadScript(ValueError):
    """An annotation with an invalid value."""


def next_step(pod: Object, now: float, host: Host = Host()) -> Step:
    """What to do next for a pod that is bound to a simulated node; None: nothing until the pod changes."""
    step = _next_step(pod, now, host)
    generation = pod["metadata"].get("generation")
    if isinstance(step, WriteStatus) and generation is not None:
        return WriteStatus({**step.status, "observedGeneration": generation})
    return step


def _removal(pod: Object, now: float) -> Step:
    """Without grace the server is removing it; if it is still there later, whoever asked for that has crashed."""
    if pod["metadata"].get("deletionGracePeriodSeconds") != 0:
        return Remove()
    if pod["metadata"].get("finalizers"):
        return None
    late = instant(pod["metadata"]["deletionTimestamp"]) + _REMOVED_SECONDS
    return Remove() if now >= late else Wait(late - now)


def _next_step(pod: Object, now: float, host: Host) -> Step:
    phase = (pod.get("status") or {}).get("phase", "Pending")
    if phase in _TERMINAL:
        return _removal(pod, now) if meta.deleting(pod) else None
    try:
        script = read_script(pod)
    except BadScript as error:
        if pod["spec"].get("restartPolicy", "Always") == "Always" and not meta.deleting(pod):
            # Failed, it would be replaced by another one with the same annotation, again and again.
            status = pod_status.misconfigured(pod, str(error))
            return None if pod_status.is_misconfigured(pod) else WriteStatus(status)
        return WriteStatus(pod_status.refused(pod, str(error), now))
    if meta.deleting(pod):
        return _stop(pod, script, now)
    if phase == "Pending":
        return WriteStatus(pod_status.running(pod, now, host.address))
    step = _run(pod, script, now)
    if host.ready and not isinstance(step, WriteStatus):
        return _settle_readiness(pod, step, now)
    return step


def _settle_readiness(pod: Object, step: Step, now: float) -> Step:
    """Say that a running pod is ready once it is."""
    begin = pod_status.running_since(pod)
    if begin is None:
        return step
    if pod_status.is_settled(pod):
        return step if pod_status.is_observed(pod) else WriteStatus({})
    wait = begin + pod_status.delay(pod) - now
    if wait <= 0:
        return WriteStatus(pod_status.became_ready(pod, now))
    return Wait(min(wait, step.seconds) if isinstance(step, Wait) else wait)


def read_script(pod: Object) -> Script:
    annotations = meta.annotations(pod)
    return Script(_run_seconds(pod, annotations), int(_number(annotations, EXIT_CODE, 0, 255)))


def _run_seconds(pod: Object, annotations: Mapping[str, str]) -> float | None:
    """As docs/reference/simulated-nodes.md says: the annotation, else a guess from the commands, else by the owner."""
    if RUN_SECONDS in annotations:
        return _number(annotations, RUN_SECONDS, 0, 1e9)
    guesses = [_guess(container) for container in pod["spec"]["containers"]]
    asked = [seconds for seconds in guesses if seconds is not None]
    if asked:
        longest = max(asked)
        return None if longest == float("inf") else longest
    owner = meta.controller_of(pod)
    return _JOB_POD_SECONDS if owner is not None and owner["kind"] == "Job" else None


def _number(annotations: Mapping[str, str], key: str, low: float, high: float) -> float:
    text = annotations.get(key, "0")
    if not re.fullmatch(r"\d+(\.\d+)?", text) or not low <= float(text) <= high:
        raise BadScript(f"metadata.annotations[{key}]: {text!r} must be a number from {low:g} to {high:g}")
    return float(text)


def _guess(container: Mapping[str, Any]) -> float | None:
    """How long a command runs: without end, the sum of its sleeps, or None if it has none."""
    first = islice(chain(container.get("command") or (), container.get("args") or ()), _MOST_WORDS)
    words = " ".join(first)[:_MOST_LETTERS]
    if _ENDLESS.search(words):
        return float("inf")
    sleeps = [float(number) * _UNITS[unit] for number, unit in _SLEEP.findall(words)]
    return sum(sleeps) if sleeps else None


def _end(pod: Object, script: Script) -> float | None:
    """When the current run ends by itself; None if nothing runs or the run has no end."""
    begin = pod_status.running_since(pod)
    return None if begin is None or script.seconds is None else begin + script.seconds


def failed_run(pod: Object, now: float) -> int | None:
    """The exit code of a run that has failed by now; None if it goes on or has succeeded."""
    try:
        script = read_script(pod)
    except BadScript:
        return None
    end = _end(pod, script)
    return script.exit_code if script.exit_code and end is not None and end <= now else None


def _run(pod: Object, script: Script, now: float) -> Step:
    if pod_status.running_since(pod) is None:
        wait = _restart_at(pod) - now
        return WriteStatus(pod_status.restarted(pod, now)) if wait <= 0 else Wait(wait)
    end, deadline = _end(pod, script), _deadline(pod)
    if deadline is not None and deadline <= now and (end is None or deadline < end):
        return WriteStatus(pod_status.late(pod, deadline, now))
    if end is None or end > now:
        first = min((one for one in (end, deadline) if one is not None), default=None)
        return None if first is None else Wait(first - now)
    policy = pod["spec"].get("restartPolicy", "Always")
    if policy == "Always" or (policy == "OnFailure" and script.exit_code != 0):
        return WriteStatus(pod_status.waiting_to_restart(pod, script.exit_code, end))
    return WriteStatus(pod_status.ended(pod, script.exit_code, end, now))


def _deadline(pod: Object) -> float | None:
    """When the pod has been active for too long."""
    allowed, begin = pod["spec"].get("activeDeadlineSeconds"), (pod.get("status") or {}).get("startTime")
    return None if allowed is None or not begin else instant(begin) + float(allowed)


def _restart_at(pod: Object) -> float:
    """10, 20, 40 … 300 seconds after the last end."""
    doublings = min(pod_status.restarts(pod), 5)
    delay: float = min(_FIRST_RESTART_SECONDS * 2**doublings, _LAST_RESTART_SECONDS)
    return pod_status.last_end(pod) + delay


def _stop(pod: Object, script: Script, now: float) -> Step:
    grace = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
    asked = instant(pod["metadata"]["deletionTimestamp"]) - grace
    stop = asked + min(_STOP_SECONDS, grace)
    end = _end(pod, script)
    if end is not None and end <= min(stop, now):
        return WriteStatus(pod_status.ended(pod, script.exit_code, end, now))
    if stop > now:
        return Wait(stop - now)
    return WriteStatus(pod_status.ended(pod, pod_status.TERMINATED_BY_SIGNAL, stop, now))
