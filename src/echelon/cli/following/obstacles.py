"""What keeps a run from going on: groups and pods that are not placed, controllers that are refused, things on hold.

    events (warnings of controllers) ─► Obstacles ─► Progress: is the run blocked?
    caches (conditions, fields)      ─┘          └─► the last words of a blocked run

A warning counts from the last progress on: what a controller complained about before something moved may be mended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ...api.group_kinds import group_of
from ...api.objects import meta
from ...api.objects.vocabulary import INITIALLY_SCHEDULED, MANAGERS
from ...api.scheme import COMPOSITE_POD_GROUPS, EVENTS, JOB_SETS, POD_GROUPS, PODS, Object, Resource
from ...client.informer import Caches
from ...runtime.config import EMBEDDED_SCHEDULER_NAMES
from .followed_pods import hopeless

#: (object, why) of something that does not move.
Obstacle = tuple[str, str]
#: Warnings about gangs repeat what their groups say.
_ABOUT_GANGS = "Gang"


class Obstacles:
    def __init__(self, caches: Caches, now: Callable[[], float], local_nodes: frozenset[str] = frozenset()) -> None:
        self._caches = caches
        self._now = now
        self._local_nodes = local_nodes
        #: The last complaint of a controller about an object, and when it came.
        self._complaints: dict[tuple[str, str], tuple[float, str]] = {}
        caches.of(EVENTS).add_handler(self._heard)

    def _heard(self, _: Object | None, event: Object | None) -> None:
        if event is None or not is_complaint(event):
            return
        about = event["involvedObject"]
        key = (f"{about.get('kind')}/{about.get('name')}", str(event.get("reason", "")))
        self._complaints[key] = (self._now(), str(event.get("message", "")))

    def all(self, top: Sequence[tuple[Resource, str]], since: float) -> list[Obstacle]:
        """Everything that stands in the way of the submitted objects; complaints from `since` on."""
        complaints = [
            (subject, f"{reason}: {text}") for (subject, reason), (at, text) in self._complaints.items() if at >= since
        ]
        return [*complaints, *self._on_hold(top), *self._groups(), *self._pods(), *self._cannot_start()]

    def _on_hold(self, top: Iterable[tuple[Resource, str]]) -> Iterable[Obstacle]:
        for resource, key in top:
            obj = self._caches.of(resource).get(key)
            manager = MANAGERS.get(resource.kind)
            if obj is None or manager is None:
                continue
            name = f"{resource.kind}/{meta.name(obj)}"
            managed_by = obj["spec"].get("managedBy") or manager
            if managed_by != manager:
                yield name, f"spec.managedBy leaves it to {managed_by}, which does not run here"
            if obj["spec"].get("suspend"):
                yield name, "it is suspended (spec.suspend)"
            jobs = obj["spec"].get("replicatedJobs") if resource is JOB_SETS else None
            if jobs is not None and not any(job["replicas"] for job in jobs):
                yield name, "it has no replicas, so there is nothing to run (spec.replicatedJobs[].replicas)"

    def _groups(self) -> Iterable[Obstacle]:
        for resource in (COMPOSITE_POD_GROUPS, POD_GROUPS):
            for group in self._caches.of(resource).all():
                state = meta.find_condition(group, INITIALLY_SCHEDULED[resource.kind])
                if state is not None and state["status"] == "False":
                    yield f"{resource.kind}/{meta.name(group)}", str(state["message"])

    def _pods(self) -> Iterable[Obstacle]:
        for pod in self._caches.of(PODS).all():
            if pod["spec"].get("nodeName") or meta.deleting(pod):
                continue
            state = meta.find_condition(pod, "PodScheduled")
            scheduler = pod["spec"].get("schedulerName") or EMBEDDED_SCHEDULER_NAMES[0]
            if scheduler not in EMBEDDED_SCHEDULER_NAMES:
                served = " and ".join(EMBEDDED_SCHEDULER_NAMES)
                yield f"Pod/{meta.name(pod)}", f"spec.schedulerName is {scheduler}; the schedulers here are {served}"
            elif state is not None and state["status"] == "False" and not self._group_tells(pod):
                yield f"Pod/{meta.name(pod)}", str(state.get("message", ""))

    def _cannot_start(self) -> Iterable[Obstacle]:
        for pod in self._caches.of(PODS).all():
            if pod["spec"].get("nodeName") in self._local_nodes and not meta.deleting(pod):
                why = hopeless(pod)
                if why:
                    yield f"Pod/{meta.name(pod)}", why

    def _group_tells(self, pod: Object) -> bool:
        """Whether the pod's group says why it waits; a group that was placed once says no more."""
        name = group_of(pod)
        group = self._caches.of(POD_GROUPS).get(f"{meta.namespace(pod)}/{name}") if name else None
        state = meta.find_condition(group, INITIALLY_SCHEDULED[POD_GROUPS.kind]) if group is not None else None
        return state is not None and state["status"] == "False"


def is_complaint(event: Object) -> bool:
    """Whether a controller says that it cannot do what an object asks for."""
    component = str(event.get("reportingComponent") or (event.get("source") or {}).get("component") or "")
    if event.get("type") != "Warning" or str(event.get("reason", "")).startswith(_ABOUT_GANGS):
        return False
    return component.endswith("-controller") or event.get("reason") == "SetAside"
