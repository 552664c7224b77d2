"""Small trees of groups and pods, fed to a translator as informers would."""

from __future__ import annotations

from itertools import count
from typing import Any

from echelon.api.objects import meta
from echelon.api.objects.vocabulary import DEFAULT_LEVELS
from echelon.api.scheme import Object, by_kind
from echelon.base.clock import ManualClock
from echelon.client.informer import Caches
from echelon.engine import ClusterView
from echelon.scheduler.intake.group_policy import GroupKey
from echelon.scheduler.intake.group_tree import GroupNode, Member, Root
from echelon.scheduler.intake.translate import Translator


class Heard:
    """A listener that remembers."""

    def __init__(self) -> None:
        self.roots: list[str] = []
        self.rooms = 0
        self.left: list[str] = []
        self.homeless: list[str] = []

    def touched(self, root: Root) -> None:
        self.roots.append(root.key.name if isinstance(root, GroupNode) else root.key)

    def room(self) -> None:
        self.rooms += 1

    def gone(self, member: Member) -> None:
        self.left.append(member.key)

    def displaced(self, member: Member) -> None:
        self.homeless.append(member.key)


class Stage:
    """A translator over caches that tests fill by hand."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self._revision = count(1)
        # Nothing is listed or watched: what the caches hold comes through `put`.
        self.caches = Caches(None, self.clock)  # type: ignore[arg-type]
        self.heard = Heard()
        self.view = ClusterView(DEFAULT_LEVELS)
        self.translator = Translator(self.view, self.caches, self.clock, self.heard)
        self.translator.listen()

    def put(self, *objects: Object) -> None:
        """Create or change objects."""
        for obj in objects:
            resource = by_kind(obj["apiVersion"], obj["kind"])
            assert resource is not None
            stamp = {"uid": meta.uid(obj) or f"uid-{meta.name(obj)}", "resourceVersion": str(next(self._revision))}
            self.caches.observe(resource, {**obj, "metadata": {**obj["metadata"], **stamp}})

    def remove(self, obj: Object) -> None:
        """An object is gone, without having been seen leaving."""
        resource = by_kind(obj["apiVersion"], obj["kind"])
        assert resource is not None
        self.caches.of(resource)._remove(meta.key(obj))

    def change(self, obj: Object, **spec: Any) -> Object:
        """The object with some fields of its spec changed, put."""
        changed = {**obj, "spec": {**obj["spec"], **spec}}
        self.put(changed)
        return changed

    def member(self, name: str) -> Member:
        return next(m for m in self.translator.members.values() if meta.name(m.obj) == name)

    def group(self, name: str, kind: str = "PodGroup") -> GroupNode:
        return next(g for g in self.translator.forest.groups() if g.key == GroupKey(kind, "default", name))

    def unit_of(self, pod: str) -> tuple[str, int]:
        """What a pod is evicted with, and at which priority."""
        running = self.view.running(self.member(pod).id)
        assert running is not None
        unit = self.view.unit(running.unit)
        assert unit is not None
        return unit.name, unit.priority
