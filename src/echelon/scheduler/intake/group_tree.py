"""Trees of groups: each group with its children, and pods at the leaves, with what is known of them now.

    `forest` links and files them ─► GroupNode.counts: present, placed, ready to be tried ─► loop, `demands`

Counts are kept per group and summed on demand, so an event costs the path to its root and not its tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from ...api.objects.vocabulary import INITIALLY_SCHEDULED, KUEUE_PREFERRED_TOPOLOGY, KUEUE_REQUIRED_TOPOLOGY
from ...api.scheme import COMPOSITE_POD_GROUPS, POD_GROUPS, PODS, Object, Resource
from ...api.views.group_views import GroupView
from ...api.views.pod_views import PodView
from ...engine import Exclusive, Identity, Leaf, Shape
from .group_policy import COMPOSITE, POD_GROUP, GroupKey, Policy, Problem
from .object_facts import is_static


@dataclass(slots=True, eq=False)
class Member:
    """A pod that has not ended, with what scheduling needs to know of it."""

    kind: ClassVar[str] = "pod"

    id: int
    uid: str
    pod: PodView
    shape: Shape
    role: str
    priority: int
    #: Order among interchangeable members: completion index, then age, then name.
    rank: tuple[int, str, str]
    group: GroupNode | None = None
    #: Where it is bound, as the API says.
    node: str = ""
    #: Where it was decided to go, while the binding is not confirmed.
    assumed: str = ""
    #: Where room is being made for it.
    nominated: str = ""
    #: Where room is kept for it until others have ended.
    reserved: str = ""
    #: When it was first seen, and when it began to hold its place.
    seen: float = 0.0
    since: float = 0.0
    #: Whether we have begun to evict it.
    evicting: bool = False
    #: When its condition was last written to say why it waits.
    told: float = 0.0
    #: What terms of other pods match.
    identity: Identity = field(default_factory=Identity)
    #: The scheduler that it names; this never changes.
    scheduler: str = ""
    #: Its name never changes; `key` is `namespace/name`.
    name: str = field(init=False)
    namespace: str = field(init=False)
    key: str = field(init=False)
    #: Whether other pods may be evicted for it; this never changes.
    may_preempt: bool = field(init=False)
    #: Whether it is a static pod: its kubelet runs it whatever becomes of the object.  This never changes.
    static: bool = field(init=False)
    #: Whether it is being deleted, and whether scheduling gates hold it.
    deleting: bool = field(init=False)
    gated: bool = field(init=False)

    def __post_init__(self) -> None:
        self.name, self.namespace, self.key = self.pod.name, self.pod.namespace, self.pod.key
        self.may_preempt = self.pod.spec.preemption_policy != "Never"
        self.static = is_static(self.pod)
        self.update(self.pod)

    def update(self, pod: PodView) -> None:
        """Take in a newer version of the pod."""
        self.pod = pod
        self.deleting, self.gated = pod.deleting, bool(pod.spec.scheduling_gates)

    @property
    def obj(self) -> Object:
        return self.pod.obj

    @property
    def path(self) -> str:
        """`namespace/name`."""
        return self.key

    @property
    def title(self) -> str:
        """`Kind/name`."""
        return f"Pod/{self.name}"

    @property
    def resource(self) -> Resource:
        return PODS

    @property
    def oldest(self) -> str:
        """Since when it is pending."""
        return self.rank[1]

    def subtree(self) -> Iterable[GroupNode]:
        """A pod without a group has no groups below it."""
        return ()

    def leaves(self) -> Iterable[GroupNode]:
        return ()

    def pending_pods(self) -> Iterable[Member]:
        return (self,)

    @property
    def place(self) -> str:
        """Where it holds capacity, "" if nowhere."""
        return self.node or self.assumed

    @property
    def spot(self) -> str:
        """Where it takes up room, if only because that is kept for it; "" if nowhere."""
        return self.node or self.assumed or self.nominated or self.reserved

    @property
    def expected(self) -> str:
        """The node that other programs should know to be meant for it; "" if there is none."""
        return self.nominated or self.reserved

    @property
    def leaving(self) -> bool:
        return self.evicting or self.deleting

    @property
    def waiting(self) -> bool:
        """Whether it is to be placed now: not placed, not gated, not being deleted."""
        return not (self.node or self.assumed or self.evicting or self.deleting or self.gated)


class GroupCounts(NamedTuple):
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
    #: Groups, itself included, of which not enough is there.
    unready: int = 0

    def with_child(self, old: GroupCounts, new: GroupCounts, policy: Policy | None) -> GroupCounts:
        """A parent's counts after one of its children changed."""
        present = self.present + new.ready - old.ready
        placed = self.placed + new.holds - old.holds
        ready = policy is not None and present >= policy.minimum
        below = self.unready - (not self.ready) + new.unready - old.unready
        return GroupCounts(
            self.known + new.known - old.known,
            self.waiting + new.waiting - old.waiting,
            self.pending + (new.pending if new.ready else 0) - (old.pending if old.ready else 0),
            present,
            placed,
            ready,
            policy is not None and placed >= policy.minimum,
            below + (not ready),
        )


@dataclass(slots=True, eq=False)
class GroupNode:
    """A PodGroup or CompositePodGroup, or a name that something refers to."""

    id: int
    key: GroupKey
    view: GroupView | None = None
    policy: Policy | None = None
    parent: GroupNode | None = None
    children: dict[GroupKey, GroupNode] = field(default_factory=dict)
    #: All pods that name it; of these, those that wait for a place and those that hold one and stay.
    members: dict[int, Member] = field(default_factory=dict)
    pending: dict[int, Member] = field(default_factory=dict)
    holding: dict[int, Member] = field(default_factory=dict)
    #: Uids of pods that have succeeded and still exist.
    succeeded: dict[str, None] = field(default_factory=dict)
    #: Kept until a pod of the group or its object changes.
    leaf: Leaf | None = None
    #: What is wrong with its pods as last checked; None if they changed since.
    members_checked: Problem | None = None
    _counts: GroupCounts | None = None
    _in_order: list[GroupNode] | None = None
    #: What the last validation of a root's tree found; None if the tree changed since.
    layout: Problem | None = None

    @property
    def kind(self) -> str:
        return self.key.kind.lower()

    @property
    def path(self) -> str:
        """`namespace/name`."""
        return f"{self.key.namespace}/{self.key.name}"

    @property
    def title(self) -> str:
        """`Kind/name`."""
        return str(self.key)

    @property
    def priority(self) -> int:
        return self.policy.priority if self.policy is not None else 0

    @property
    def scheduler(self) -> str:
        """The scheduler that its pods name, "" without pods."""
        return next((member.scheduler for leaf in self.leaves() for member in leaf.members.values()), "")

    @property
    def oldest(self) -> str:
        """Since when the oldest of its pending pods is pending."""
        return min((member.rank[1] for member in self.pending_pods()), default="")

    def pending_pods(self) -> Iterable[Member]:
        return (member for leaf in self.leaves() for member in leaf.pending.values())

    @property
    def resource(self) -> Resource:
        return COMPOSITE_POD_GROUPS if self.key.kind == COMPOSITE else POD_GROUPS

    @property
    def obj(self) -> Object | None:
        return None if self.view is None else self.view.obj

    @property
    def initially_scheduled(self) -> bool:
        return self.view is not None and self.view.is_true(INITIALLY_SCHEDULED[self.key.kind])

    @property
    def exclusive(self) -> Exclusive | None:
        """Whether a PodGroup takes domains for itself, among groups of its own priority."""
        if self.policy is None or not self.policy.exclusive:
            return None
        return Exclusive(self.policy.exclusive, self.policy.priority)

    @property
    def topology(self) -> str | None:
        """The key of which it needs one domain: as its object says, else as all its pods say to Kueue."""
        if self.policy is None or self.policy.topology:
            return self.policy.topology if self.policy is not None else None
        return self._said_by_pods(KUEUE_REQUIRED_TOPOLOGY) or None

    @property
    def preferred(self) -> tuple[str, ...]:
        """Keys of which it prefers one domain: as its object says, else as all its pods say to Kueue."""
        if self.policy is None or self.policy.preferred:
            return self.policy.preferred if self.policy is not None else ()
        said = self._said_by_pods(KUEUE_PREFERRED_TOPOLOGY)
        return (said,) if said else ()

    def _said_by_pods(self, annotation: str) -> str:
        """The value of an annotation that all its pods have; "" if they differ or have none."""
        values = {member.pod.annotations.get(annotation, "") for member in self.members.values()}
        return values.pop() if len(values) == 1 else ""

    @property
    def in_order(self) -> list[GroupNode]:
        """Its children by key."""
        if self._in_order is None:
            self._in_order = [self.children[key] for key in sorted(self.children)]
        return self._in_order

    def subtree(self) -> Iterable[GroupNode]:
        """This group and all below it, parents first; a cycle is walked once."""
        return (self,) if self.key.kind == POD_GROUP else self._walk()

    def _walk(self) -> Iterator[GroupNode]:
        seen: dict[GroupKey, None] = {}
        stack = [self]
        while stack:
            group = stack.pop()
            if group.key not in seen:
                seen[group.key] = None
                yield group
                stack.extend(reversed(group.in_order))

    def leaves(self) -> Iterable[GroupNode]:
        if self.key.kind == POD_GROUP:
            return (self,)
        return (group for group in self.subtree() if group.key.kind == POD_GROUP)

    @property
    def counts(self) -> GroupCounts:
        """Only for groups whose tree has no cycle."""
        if self._counts is None:
            self._counts = self._count()
        return self._counts

    def _count(self) -> GroupCounts:
        if self.key.kind != POD_GROUP:
            counts, nothing = GroupCounts(unready=1), GroupCounts()
            for child in self.children.values():
                counts = counts.with_child(nothing, child.counts, self.policy)
            return counts
        waiting, placed = len(self.pending), len(self.holding)
        need, present = self.need, waiting + placed
        ready = present >= need
        return GroupCounts(len(self.members), waiting, waiting, present, placed, ready, placed >= need, int(not ready))

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
        return bool(self.succeeded) and self.policy is not None and self.counts.present < self.policy.minimum

    @property
    def is_over(self) -> bool:
        """Whether it has what it needs without any pod: all have succeeded."""
        done = self.counts.holds and not self.counts.waiting
        return done and not any(leaf.pending or leaf.holding for leaf in self.leaves())

    def pods_changed(self) -> None:
        """Pods of this group came, went or changed: it counts anew, its ancestors by the difference."""
        self.leaf = self.members_checked = None
        group, old = self, self._counts
        if old is None:
            return
        new = self._count()
        while new != old:
            group._counts = new
            parent = group.parent
            if parent is None or parent._counts is None:
                return
            group, old, new = parent, parent._counts, parent._counts.with_child(old, new, parent.policy)

    def tree_changed(self) -> None:
        """Its object or its children changed: it and its ancestors count anew when asked."""
        self.leaf = self.members_checked = self._in_order = None
        group: GroupNode | None = self
        while group is not None and group._counts is not None:
            group._counts = None
            group = group.parent


#: What the queue holds: the top of a tree, or a pod without a group.  Both have `id`, `obj`, `resource`,
#: `kind`, `path`, `title`, `priority`, `scheduler`, `oldest`, `subtree`, `leaves` and `pending_pods`.
Root = GroupNode | Member


def cycle_at(start: GroupNode) -> list[GroupNode]:
    """The groups met when going up from one that lies on a cycle."""
    found = [start]
    group = start.parent
    while group is not None and group is not start:
        found.append(group)
        group = group.parent
    return found
