"""What is to be done next for a pod on its node, as a kubelet's sync of a pod decides it.

init containers in order, sidecars among them stay ─► all containers together ─► restarts by policy and back-off
─► all have ended ─► sidecars stop, last first ─► Succeeded or Failed
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ....api.scheme import Object
from .attempts import Attempts, init_containers, is_sidecar
from .probe_state import ProbeHealth
from .restart_backoff import Backoff

Phase = Literal["Pending", "Running", "Succeeded", "Failed"]
_NEW = Backoff()
_ALIVE = ProbeHealth(started=True, ready=True)


@dataclass(frozen=True)
class PodFacts:
    """Everything that is known about a pod on its node."""

    attempts: Attempts
    now: float
    health: Mapping[str, ProbeHealth] = field(default_factory=dict)
    backoffs: Mapping[str, Backoff] = field(default_factory=dict)
    #: Whether the pod has a sandbox.
    sandbox: bool = True

    def started(self, container: str) -> bool:
        return self.health.get(container, _ALIVE).started


@dataclass
class PodPlan:
    #: Containers to start, each with the number of the attempt.
    start: list[tuple[str, int]] = field(default_factory=list)
    #: Sidecars to stop.
    stop: list[str] = field(default_factory=list)
    #: Containers that wait for the end of their back-off → when that is.
    held_back: dict[str, float] = field(default_factory=dict)
    #: Whether the pod has ended, and how; None while it has not.
    ended: Literal["Succeeded", "Failed"] | None = None

    @property
    def wake_at(self) -> float | None:
        return min(self.held_back.values(), default=None)


def plan(pod: Object, facts: PodFacts) -> PodPlan:
    made = PodPlan()
    if not facts.sandbox and facts.attempts.of_container and not _runs_again(pod, facts):
        made.ended = _outcome(pod, facts)
        return made
    initialized = has_begun(pod, facts)
    for container in init_containers(pod):
        if not _init_container(pod, container, facts, made, initialized):
            return made
    for container in pod["spec"]["containers"]:
        _container(pod, container, facts, made)
    if not made.start and not made.held_back and _all_ended(pod, facts):
        _wind_up(pod, facts, made)
    return made


def has_begun(pod: Object, facts: PodFacts) -> bool:
    """Whether the containers proper were started in the sandbox that the pod has now."""
    latest = [facts.attempts.latest(one["name"]) for one in pod["spec"]["containers"]]
    return any(one is not None and not one.past for one in latest)


def _init_container(pod: Object, container: Object, facts: PodFacts, made: PodPlan, initialized: bool) -> bool:
    """Whether the next container may start."""
    name = container["name"]
    latest = facts.attempts.latest(name)
    if latest is None:
        made.start.append((name, 0))
        return initialized
    if latest.past and (is_sidecar(container) or not initialized):
        made.start.append((name, latest.number + 1))
        return initialized
    if is_sidecar(container):
        if not latest.running:
            if initialized and _all_ended(pod, facts) and not _any_restart(pod, facts):
                return True
            _restart(name, facts, made)
            return initialized
        return initialized or facts.started(name)
    if latest.running:
        return False
    if latest.code == 0 or initialized:
        return True
    if not will_restart(pod, container, latest.code or 0):
        if _no_sidecar_runs(pod, facts, made):
            made.ended = "Failed"
        return False
    _restart(name, facts, made)
    return False


def _container(pod: Object, container: Object, facts: PodFacts, made: PodPlan) -> None:
    latest = facts.attempts.latest(container["name"])
    if latest is None:
        made.start.append((container["name"], 0))
    elif not latest.running and will_restart(pod, container, latest.code or 0):
        _restart(container["name"], facts, made)


def will_restart(pod: Object, container: Object, code: int) -> bool:
    """Whether a container that ended with this code is started again."""
    for rule in container.get("restartPolicyRules") or ():
        if rule.get("action") == "Restart" and _matches(rule.get("exitCodes") or {}, code):
            return True
    policy = container.get("restartPolicy") or pod["spec"].get("restartPolicy", "Always")
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def _matches(codes: Object, code: int) -> bool:
    listed = code in (codes.get("values") or ())
    return listed if codes.get("operator") == "In" else not listed


def _restart(name: str, facts: PodFacts, made: PodPlan) -> None:
    latest = facts.attempts.latest(name)
    assert latest is not None
    due = facts.backoffs.get(name, _NEW).restart_at(latest.finished)
    if due <= facts.now:
        made.start.append((name, latest.number + 1))
    else:
        made.held_back[name] = due


def _any_restart(pod: Object, facts: PodFacts) -> bool:
    for container in pod["spec"]["containers"]:
        latest = facts.attempts.latest(container["name"])
        if latest is None or (not latest.running and will_restart(pod, container, latest.code or 0)):
            return True
    return False


def _all_ended(pod: Object, facts: PodFacts) -> bool:
    latest = [facts.attempts.latest(one["name"]) for one in pod["spec"]["containers"]]
    return all(one is not None and not one.running for one in latest)


def _no_sidecar_runs(pod: Object, facts: PodFacts, made: PodPlan) -> bool:
    """Stops the last sidecar that runs; those before it follow when it has ended."""
    for container in reversed(init_containers(pod)):
        latest = facts.attempts.latest(container["name"])
        if is_sidecar(container) and latest is not None and latest.running:
            made.stop.append(container["name"])
            return False
    return True


def _wind_up(pod: Object, facts: PodFacts, made: PodPlan) -> None:
    if _no_sidecar_runs(pod, facts, made):
        made.ended = _outcome(pod, facts)


def _outcome(pod: Object, facts: PodFacts) -> Literal["Succeeded", "Failed"]:
    latest = [facts.attempts.latest(one["name"]) for one in pod["spec"]["containers"]]
    return "Succeeded" if all(one is not None and one.code == 0 for one in latest) else "Failed"


def _runs_again(pod: Object, facts: PodFacts) -> bool:
    """Whether a pod whose sandbox is gone gets another one: as upstream, never if its policy is Never."""
    return pod["spec"].get("restartPolicy") != "Never" and _any_restart(pod, facts)
