"""The forest: groups, their parents and children, and the pods at the leaves, assembled as objects arrive.

    PodGroup, CompositePodGroup events ─┐
                                        ├─► Forest ─► root of anything, what is pending, whether a quorum is known
    pods, filed by their state ─────────┘

A group exists here as soon as anything names it; until its object arrives it has no policy and its tree waits.
Counts are kept per group and summed on demand, so an event costs the path to its root and not its tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ..api import meta, vocabulary
from ..api.scheme import COMPOSITE_POD_GROUPS, POD_GROUPS, Object, Resource
from ..engine.demand import Identity, Leaf, Shape

COMPOSITE = COMPOSITE_POD_GROUPS.kind
POD_GROUP = POD_GROUPS.kind
#: The condition that says a group was placed once; it stays True from then on.
INITIALLY_SCHEDULED = {POD_GROUP: "PodGroupInitiallyScheduled", COMPOSITE: "CompositePodGroupInitiallyScheduled"}


class GroupKey(NamedTuple):
    """What names a group: children name parents and pods name groups, so uids will not do."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f'{self.kind} "{self.name}"'


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a tree is not scheduled; `waiting` if only something is still missing, otherwise it is wrong."""

    text: str
    waiting: bool = False


@dataclass(frozen=True, slots=True)
class Policy:
    """What a group's object says about its scheduling."""

    #: Pods of a PodGroup, child groups of a CompositePodGroup; 1 for the basic policy.
    minimum: int
    gang: bool
    topology: str | None
    preferred: tuple[str, ...]
    exclusive: str
    #: Whether the whole group is evicted as one.
    whole: bool
    priority: int
    may_preempt: bool
    workload: str
    template: str
    parent: str
    #: Fields of the group itself that placement cannot honour yet.
    unsupported: tuple[str, ...] = ()


def policy_of(group: Object) -> Policy:
    """The policy of a PodGroup or CompositePodGroup; its Workload is not consulted."""
    spec = group["spec"]
    gang = (spec.get("schedulingPolicy") or {}).get("gang")
    minimum = int(gang.get("minCount") or gang.get("minGroupCount") or 1) if gang else 1
    topology = (spec.get("schedulingConstraints") or {}).get("topology") or ()
    workload = spec.get("workloadRef") or {}
    notes = meta.annotations(group)
    preferred = notes.get(vocabulary.PREFERRED_TOPOLOGY, "").split(",")
    return Policy(
        minimum=minimum,
        gang=gang is not None,
        topology=topology[0]["key"] if topology else None,
        preferred=tuple(key.strip() for key in preferred if key.strip()),
        exclusive=notes.get(vocabulary.EXCLUSIVE_TOPOLOGY, ""),
        whole="all" in (spec.get("disruptionMode") or {}),
        priority=int(spec.get("priority") or 0),
        may_preempt=spec.get("preemptionPolicy") != "Never",
        workload=workload.get("workloadName", ""),
        template=workload.get("templateName", ""),
        parent=spec.get("parentCompositePodGroupName") or "",
        unsupported=("PodGroup spec.resourceClaims",) if spec.get("resourceClaims") else (),
    )


@dataclass(slots=True, eq=False)
class Member:
    """A pod that has not ended, with what scheduling needs to know of it."""

    id: int
    uid: str
    obj: Object
    shape: Shape
    role: str
    priority: int
    #: Order among interchangeable members: completion index, then age, then name.
    rank: tuple[int, str, str]
    group: Group | None = None
    #: Where it is bound, as the API says.
    node: str = ""
    #: Where it is on its way to: decided, the binding not yet confirmed.
    assumed: str = ""
    #: Where room is being made for it.
    nominated: str = ""
    #: Where room is kept for it until others have ended.
    reserved: str = ""
    #: When it was first heard of, and when it began to hold its place.
    seen: float = 0.0
    since: float = 0.0
    #: Whether we have begun to evict it.
    evicting: bool = False
    #: When it was last told why it waits.
    told: float = 0.0
    #: What terms of other pods know it by.
    identity: Identity = field(default_factory=Identity)
    #: The scheduler that it names, for good.
    scheduler: str = ""
    #: What it is called, for good: `key` is `namespace/name`.
    name: str = field(init=False)
    namespace: str = field(init=False)
    key: str = field(init=False)

    def __post_init__(self) -> None:
        self.name, self.namespace, self.key = meta.name(self.obj), meta.namespace(self.obj), meta.key(self.obj)

    @property
    def place(self) -> str:
        """Where it holds capacity, "" if nowhere."""
        return self.node or self.assumed

    @property
    def spot(self) -> str:
        """Where it takes up room, if only because that is kept for it; "" if nowhere."""
        return self.node or self.assumed or self.nominated or self.reserved

    @property
    def leaving(self) -> bool:
        return self.evicting or "deletionTimestamp" in self.obj["metadata"]

    @property
    def waiting(self) -> bool:
        """Whether it wants a place now: not placed, not gated, not being deleted."""
        if self.node or self.assumed or self.leaving:
            return False
        return not self.obj["spec"].get("schedulingGates")


class Tally(NamedTuple):
    """What a group amounts to, its whole subtree included."""

    #: Pods that name a group of it, those that want a place, and those of these that can be tried: a child that is
    #: not ready counts none.
    known: int = 0
    waiting: int = 0
    pending: int = 0
    #: Members or children that are there, and those that are placed.
    present: int = 0
    placed: int = 0
    #: Whether enough is there to try, and whether what is placed satisfies it.
    ready: bool = False
    holds: bool = False

    def with_child(self, old: Tally, new: Tally, policy: Policy | None) -> Tally:
        """A parent's tally after one of its children changed."""
        present = self.present + new.ready - old.ready
        placed = self.placed + new.holds - old.holds
        return Tally(
            self.known + new.known - old.known,
            self.waiting + new.waiting - old.waiting,
            self.pending + (new.pending if new.ready else 0) - (old.pending if old.ready else 0),
            present,
            placed,
            policy is not None and present >= policy.minimum,
            policy is not None and placed >= policy.minimum,
        )


@dataclass(slots=True, eq=False)
class Group:
    """A PodGroup or CompositePodGroup, or a name that something refers to."""

    id: int
    key: GroupKey
    obj: Object | None = None
    policy: Policy | None = None
    parent: Group | None = None
    children: dict[GroupKey, Group] = field(default_factory=dict)
    #: All pods that name it; of these, those that want a place and those that have one and stay.
    members: dict[int, Member] = field(default_factory=dict)
    pending: dict[int, Member] = field(default_factory=dict)
    holding: dict[int, Member] = field(default_factory=dict)
    #: Uids of pods that have done their part: they succeeded and are still to be seen.
    succeeded: dict[str, None] = field(default_factory=dict)
    #: Kept until a pod of the group or its object changes.
    leaf: Leaf | None = None
    #: What is wrong with its pods, as found when last looked at; None if nobody has looked since a change.
    members_checked: Problem | None = None
    _tally: Tally | None = None
    _in_order: list[Group] | None = None
    #: What the last look at the layout of a root found; None means nobody has looked since a change.
    layout: Problem | None = None

    @property
    def resource(self) -> Resource:
        return COMPOSITE_POD_GROUPS if self.key.kind == COMPOSITE else POD_GROUPS

    @property
    def initially_scheduled(self) -> bool:
        return self.obj is not None and meta.condition_is(self.obj, INITIALLY_SCHEDULED[self.key.kind])

    @property
    def in_order(self) -> list[Group]:
        """Its children by key."""
        if self._in_order is None:
            self._in_order = [self.children[key] for key in sorted(self.children)]
        return self._in_order

    def subtree(self) -> Iterable[Group]:
        """This group and all below it, parents first; a cycle is walked once."""
        return (self,) if self.key.kind == POD_GROUP else self._walk()

    def _walk(self) -> Iterator[Group]:
        seen: dict[GroupKey, None] = {}
        stack = [self]
        while stack:
            group = stack.pop()
            if group.key not in seen:
                seen[group.key] = None
                yield group
                stack.extend(reversed(group.in_order))

    def leaves(self) -> Iterable[Group]:
        if self.key.kind == POD_GROUP:
            return (self,)
        return (group for group in self.subtree() if group.key.kind == POD_GROUP)

    @property
    def tally(self) -> Tally:
        """Only for groups whose tree has no cycle."""
        if self._tally is None:
            self._tally = self._count()
        return self._tally

    def _count(self) -> Tally:
        if self.key.kind != POD_GROUP:
            tally, nothing = Tally(), Tally()
            for child in self.children.values():
                tally = tally.with_child(nothing, child.tally, self.policy)
            return tally
        waiting, placed = len(self.pending), len(self.holding)
        need, present = self.need, waiting + placed
        return Tally(len(self.members), waiting, waiting, present, placed, present >= need, placed >= need)

    @property
    def need(self) -> int:
        """How many pods a PodGroup must hold now.

        Late in a gang's life there are fewer pods than its minimum, because others have succeeded: those count.  As
        long as there are enough without them it is a gang like any other.
        """
        live = len(self.pending) + len(self.holding)
        if self.policy is None:
            return live + 1
        if live >= self.policy.minimum:
            return self.policy.minimum
        return max(0, self.policy.minimum - len(self.succeeded))

    @property
    def leans(self) -> bool:
        """Whether it can be tried only because others have succeeded; more pods may still be on their way."""
        return bool(self.succeeded) and self.policy is not None and self.tally.present < self.policy.minimum

    @property
    def is_over(self) -> bool:
        """Whether it has what it needs without any pod: all have succeeded."""
        done = self.tally.holds and not self.tally.waiting
        return done and not any(leaf.pending or leaf.holding for leaf in self.leaves())

    def pods_changed(self) -> None:
        """Pods of this group came, went or changed: it counts anew, its ancestors by the difference."""
        self.leaf = self.members_checked = None
        group, old = self, self._tally
        if old is None:
            return
        new = self._count()
        while new != old:
            group._tally = new
            parent = group.parent
            if parent is None or parent._tally is None:
                return
            group, old, new = parent, parent._tally, parent._tally.with_child(old, new, parent.policy)

    def tree_changed(self) -> None:
        """Its object or its children changed: it and its ancestors count anew when asked."""
        self.leaf = self.members_checked = self._in_order = None
        group: Group | None = self
        while group is not None and group._tally is not None:
            group._tally = None
            group = group.parent


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


class Forest:
    """All groups and the pods in them."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self._groups: dict[GroupKey, Group] = {}
        self._by_id: dict[int, Group] = {}
        #: (namespace, Workload name) -> the groups that refer to it
        self._of_workload: dict[tuple[str, str], dict[GroupKey, None]] = {}

    def find(self, kind: str, obj: Object) -> Group | None:
        return self._groups.get(GroupKey(kind, meta.namespace(obj), meta.name(obj)))

    def groups(self) -> list[Group]:
        return list(self._groups.values())

    def by_id(self, number: int) -> Group | None:
        return self._by_id.get(number)

    def is_root(self, group: Group) -> bool:
        """Whether a group is still known and still the top of its tree."""
        return group.id in self._by_id and self.root(group) is group

    def refresh(self, kind: str, obj: Object) -> None:
        """A newer version of a group's object that says the same about its scheduling."""
        group = self.find(kind, obj)
        if group is not None:
            group.obj = obj

    def of_workload(self, namespace: str, name: str) -> list[Group]:
        return [self._groups[key] for key in self._of_workload.get((namespace, name), {})]

    def put(self, kind: str, obj: Object) -> Group:
        """Take in a group's object, new or changed."""
        group = self._named(GroupKey(kind, meta.namespace(obj), meta.name(obj)))
        if group.policy is not None:
            self._unlink(group)
        group.obj = obj
        group.policy = policy_of(obj)
        group.tree_changed()
        if group.policy.workload:
            self._of_workload.setdefault((group.key.namespace, group.policy.workload), {})[group.key] = None
        if group.policy.parent:
            group.parent = self._named(GroupKey(COMPOSITE, group.key.namespace, group.policy.parent))
            group.parent.children[group.key] = group
            group.parent.tree_changed()
        self.root(group).layout = None
        return group

    def remove(self, kind: str, obj: Object) -> Group | None:
        """A group's object is gone; the name stays while children or pods refer to it."""
        group = self.find(kind, obj)
        if group is None or group.policy is None:
            return None
        self._unlink(group)
        group.obj = group.policy = group.layout = None
        self._prune(group)
        return group

    def _unlink(self, group: Group) -> None:
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
        group = self._named(GroupKey(POD_GROUP, meta.namespace(member.obj), group_name))
        member.group = group
        group.members[member.id] = member
        self.refile(member)

    def succeed(self, namespace: str, group_name: str, uid: str) -> Group:
        """A pod of a group has done its part."""
        group = self._named(GroupKey(POD_GROUP, namespace, group_name))
        group.succeeded[uid] = None
        group.pods_changed()
        return group

    def forget(self, namespace: str, group_name: str, uid: str) -> Group | None:
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
        changed: dict[int, Group] = {}
        for member in members:
            group = member.group
            if group is not None:
                placed = bool(member.node or member.assumed)
                _file(group.pending, member, not placed and member.waiting)
                _file(group.holding, member, placed and not member.leaving)
                changed[group.id] = group
        for group in changed.values():
            group.pods_changed()

    def root(self, group: Group) -> Group:
        """The top of a group's tree; of a cycle the group with the smallest key."""
        seen: dict[GroupKey, Group] = {}
        while group.parent is not None:
            if group.key in seen:
                return min(cycle_at(group), key=lambda one: one.key)
            seen[group.key] = group
            group = group.parent
        return group

    def _named(self, key: GroupKey) -> Group:
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(self._ids.of(key), key)
            self._by_id[group.id] = group
        return group

    def _prune(self, group: Group) -> None:
        unused = not (group.obj or group.children or group.members or group.succeeded)
        if unused and group.key in self._groups:
            del self._groups[group.key]
            del self._by_id[group.id]
            self._ids.drop(group.key)


def _file(file: dict[int, Member], member: Member, belongs: bool) -> None:
    if belongs:
        file[member.id] = member
    else:
        file.pop(member.id, None)


def cycle_at(start: Group) -> list[Group]:
    """The groups met when going up from one that lies on a cycle."""
    found = [start]
    group = start.parent
    while group is not None and group is not start:
        found.append(group)
        group = group.parent
    return found
