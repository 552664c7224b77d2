"""A world of plain objects in which plans come true: the API server's part in tests of pure decisions.

It creates, merge-patches, deletes (a foreground deletion waits for `finalize`) and writes status, and remembers
the events.  Nothing in it knows JobSets or TrainJobs.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from echelon.api.objects import meta
from echelon.api.scheme import Object, Resource
from echelon.base.instants import to_time
from echelon.decide.plan import Action, ApplyPatch, Create, Delete, Plan

START = 1_800_000_000.0


class PlainApi:
    def __init__(self) -> None:
        self.now = START
        self.objects: dict[tuple[Resource, str], Object] = {}
        self.events: list[tuple[str, str, str]] = []
        #: Names of created objects, in order.
        self.created: list[tuple[str, str]] = []
        self._revision = 0

    def add(self, resource: Resource, obj: Object) -> Object:
        stored = deepcopy(obj)
        name = stored["metadata"]["name"]
        assert (resource, name) not in self.objects, f"{resource.kind} {name} exists"
        self._revision += 1
        stored["metadata"].setdefault("namespace", "default")
        stored["metadata"].setdefault("creationTimestamp", to_time(self.now))
        stored["metadata"].setdefault("uid", f"uid-{self._revision}")
        stored["metadata"]["resourceVersion"] = str(self._revision)
        self.objects[resource, name] = stored
        self.created.append((resource.kind, name))
        return stored

    def find(self, resource: Resource, name: str) -> Object | None:
        return self.objects.get((resource, name))

    def get(self, resource: Resource, name: str) -> Object:
        return self.objects[resource, name]

    def all(self, resource: Resource) -> list[Object]:
        return [obj for (kind, _), obj in sorted(self.objects.items(), key=lambda item: item[0][1]) if kind == resource]

    def names(self, resource: Resource) -> list[str]:
        return [meta.name(obj) for obj in self.all(resource)]

    def owned(self, resource: Resource, owner: Object) -> list[Object]:
        return [obj for obj in self.all(resource) if meta.controlled_by(obj, meta.uid(owner))]

    def edit(self, resource: Resource, name: str, **spec: Any) -> None:
        obj = deepcopy(self.get(resource, name))
        obj["spec"] |= spec
        self.objects[resource, name] = obj

    def plan(self) -> Plan:
        """What the controller under test decides now; each stage has its own."""
        raise NotImplementedError

    def settle(self) -> float | None:
        """Decide until nothing more is to be done; the seconds after which to look again."""
        for _ in range(20):
            plan = self.plan()
            self.enact(plan)
            if not plan.stages and plan.status is None:
                return plan.requeue_after
        raise AssertionError(f"decisions never end: {plan}")

    def enact(self, plan: Plan) -> None:
        for stage in plan.stages:
            for action in stage:
                self._apply(action)
        if plan.status is not None:
            write = plan.status
            stored = self.get(write.resource, meta.name(write.obj))
            self.objects[write.resource, meta.name(write.obj)] = {**stored, "status": deepcopy(write.status)}
        self.events += [(note.type, note.reason, note.message) for note in plan.notes]

    def finalize(self, resource: Resource, *names: str) -> None:
        """Let objects go that a foreground deletion has marked; all of the kind if none is named."""
        for name in names or self.names(resource):
            if meta.deleting(self.get(resource, name)):
                del self.objects[resource, name]

    def reasons(self) -> list[str]:
        return [reason for _, reason, _ in self.events]

    def _apply(self, action: Action) -> None:
        match action:
            case Create(resource, obj, created):
                assert (obj["apiVersion"], obj["kind"]) == (resource.api_version, resource.kind)
                self.add(resource, obj)
                if created is not None:
                    self.events.append((created.type, created.reason, created.message))
            case ApplyPatch(resource, _, name, patch, subresource):
                assert ("status" in patch.body) == (subresource == "status")
                old = self.get(resource, name)
                for precondition in ("uid", "resourceVersion"):
                    stated = patch.body["metadata"].get(precondition)
                    assert stated in (None, old["metadata"][precondition]), f"{precondition} has changed"
                self.objects[resource, name] = merge(old, patch.body)
            case Delete(resource, _, name, uid, propagation):
                obj = self.get(resource, name)
                assert meta.uid(obj) == uid
                if propagation == "Foreground":
                    metadata = {**obj["metadata"], "deletionTimestamp": to_time(self.now)}
                    self.objects[resource, name] = {**obj, "metadata": metadata}
                else:
                    del self.objects[resource, name]


def merge(target: Any, patch: Any) -> Any:
    """JSON merge patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result
