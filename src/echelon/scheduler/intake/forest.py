"""The forest: all groups, and the pods in them, linked by name as objects arrive in any order.

    PodGroup, CompositePodGroup events ─┐
                                        ├─► Forest ─► the root of a pod or group, what is pending, what is complete
    pods, filed by their state ─────────┘

A group exists here as soon as anything names it; until its object arrives it has no policy and its tree waits.
The engine knows groups, pods and budgets by numbers; these come from `Ids`.
"""

from __future__ import annotations

from ...api.views.group_views import GroupView
from .group_policy import COMPOSITE, POD_GROUP, GroupKey, policy_of
from .group_tree import GroupNode, Member, Root, cycle_at


class Ids:
    """Opaque integers for the engine, one per thing, in order of appearance."""

    def __init__(self) -> None:
        self._known: dict[object, int] = {}
        self._next = 0

    def of(self, thing: object) -> int:
        number = self._known.get(thing)
        if number is None:
            number = self._known[thing] = self._next
            self._next += 1
        return number

    def drop(self, thing: object) -> None:
        self._known.pop(thing, None)


def _key(group: GroupView) -> GroupKey:
    return GroupKey(group.resource.kind, group.namespace, group.name)


class Forest:
    """All groups and the pods in them."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self._groups: dict[GroupKey, GroupNode] = {}
        self._by_id: dict[int, GroupNode] = {}
        #: (namespace, Workload name) -> the groups that refer to it
        self._of_workload: dict[tuple[str, str], dict[GroupKey, None]] = {}

    def find(self, group: GroupView) -> GroupNode | None:
        return self._groups.get(_key(group))

    def groups(self) -> list[GroupNode]:
        return list(self._groups.values())

    def by_id(self, number: int) -> GroupNode | None:
        return self._by_id.get(number)

    def is_root(self, group: GroupNode) -> bool:
        """Whether a group is still known and still the top of its tree."""
        return group.id in self._by_id and self.root(group) is group

    def refresh(self, view: GroupView) -> None:
        """A newer version of a group's object that says the same about its scheduling."""
        group = self.find(view)
        if group is not None:
            group.view = view

    def of_workload(self, namespace: str, name: str) -> list[GroupNode]:
        return [self._groups[key] for key in self._of_workload.get((namespace, name), {})]

    def put(self, view: GroupView) -> GroupNode:
        """Take in a group's object, new or changed."""
        group = self._named(_key(view))
        if group.policy is not None:
            self._unlink(group)
        group.view = view
        group.policy = policy_of(view)
        group.tree_changed()
        if group.policy.workload:
            self._of_workload.setdefault((group.key.namespace, group.policy.workload), {})[group.key] = None
        if group.policy.parent:
            group.parent = self._named(GroupKey(COMPOSITE, group.key.namespace, group.policy.parent))
            group.parent.children[group.key] = group
            group.parent.tree_changed()
        self.root(group).layout = None
        return group

    def remove(self, view: GroupView) -> GroupNode | None:
        """A group's object is gone; the node stays while children or pods refer to it."""
        group = self.find(view)
        if group is None or group.policy is None:
            return None
        self._unlink(group)
        group.view = group.policy = group.layout = None
        self._prune(group)
        return group

    def _unlink(self, group: GroupNode) -> None:
        """Take a group out of its tree and its Workload."""
        assert group.policy is not None
        self.root(group).layout = None
        group.tree_changed()
        if group.policy.workload:
            workload = group.key.namespace, group.policy.workload
            self._of_workload[workload].pop(group.key, None)
            if not self._of_workload[workload]:
                del self._of_workload[workload]
        parent, group.parent = group.parent, None
        if parent is not None:
            del parent.children[group.key]
            parent.tree_changed()
            self._prune(parent)

    def enter(self, member: Member, group_name: str) -> None:
        """A pod that names a group."""
        group = self._named(GroupKey(POD_GROUP, member.namespace, group_name))
        member.group = group
        group.members[member.id] = member
        self.refile(member)

    def succeed(self, namespace: str, group_name: str, uid: str) -> GroupNode:
        """A pod of a group has succeeded."""
        group = self._named(GroupKey(POD_GROUP, namespace, group_name))
        group.succeeded[uid] = None
        group.pods_changed()
        return group

    def forget(self, namespace: str, group_name: str, uid: str) -> GroupNode | None:
        """A pod is removed that may have succeeded; its group, perhaps no longer known, if that makes a difference."""
        group = self._groups.get(GroupKey(POD_GROUP, namespace, group_name))
        if group is None or uid not in group.succeeded:
            return None
        del group.succeeded[uid]
        group.pods_changed()
        self._prune(group)
        return group

    def leave(self, member: Member) -> None:
        group = member.group
        if group is None:
            return
        for file in (group.members, group.pending, group.holding):
            file.pop(member.id, None)
        group.pods_changed()
        self._prune(group)

    def refile(self, *members: Member) -> None:
        """Put pods where their state belongs, after any change of them."""
        changed: dict[int, GroupNode] = {}
        for member in members:
            group = member.group
            if group is None:
                continue
            placed = bool(member.node or member.assumed)
            if placed or not member.waiting:
                group.pending.pop(member.id, None)
            else:
                group.pending[member.id] = member
            if placed and not member.leaving:
                group.holding[member.id] = member
            else:
                group.holding.pop(member.id, None)
            changed[group.id] = group
        for group in changed.values():
            group.pods_changed()

    def root(self, group: GroupNode) -> GroupNode:
        """The top of a group's tree; of a cycle the group with the smallest key."""
        if group.parent is None:
            return group
        seen: dict[GroupKey, GroupNode] = {}
        while group.parent is not None:
            if group.key in seen:
                return min(cycle_at(group), key=lambda one: one.key)
            seen[group.key] = group
            group = group.parent
        return group

    def root_of(self, member: Member) -> Root:
        """The unit of the queue that a pod belongs to: the top of its tree, or the pod itself."""
        return self.root(member.group) if member.group is not None else member

    def _named(self, key: GroupKey) -> GroupNode:
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = GroupNode(self._ids.of(key), key)
            self._by_id[group.id] = group
        return group

    def _prune(self, group: GroupNode) -> None:
        unused = not (group.view or group.children or group.members or group.succeeded)
        if unused and group.key in self._groups:
            del self._groups[group.key]
            del self._by_id[group.id]
            self._ids.drop(group.key)
