"""A tree of groups, or a single pod, as a demand for the engine.

Members of one shape and role are one class.  Groups that are not ready are left out, running pods are given as bound:
the engine then finds out whether the minimum is there and what could be added.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from operator import attrgetter

from ...api.scheme import JOBS
from ...api.views.job_views import JobView
from ...engine import Bound, Composite, Demand, Leaf, PodClass, Shape
from ...engine import Group as Wanted
from ..intake.group_policy import POD_GROUP, Policy
from ..intake.group_tree import GroupNode, Member

_RANK = attrgetter("rank")
#: Finds a Job by `namespace/name`.
Jobs = Callable[[str], JobView | None]


def of_pod(member: Member) -> Demand:
    """A pod without a group is a leaf with one member."""
    leaf = Leaf(member.id, 1, (PodClass(member.shape, (member.id,), member.role),))
    return Demand(leaf, member.priority, member.may_preempt)


def of_tree(root: GroupNode, jobs: Jobs, released: Collection[int] = ()) -> Demand:
    """What a tree needs now, or would need if these placed members had to be placed anew.

    A tree that is not ready has held once and is being repaired: its complete parts go on.
    """
    assert root.policy is not None
    wanted = _group(root, jobs, not root.counts.ready, released)
    assert wanted is not None, "asked for a tree that is not ready"
    return Demand(wanted, root.policy.priority, root.policy.may_preempt and _all_may_preempt(root))


def waiting_parts(root: GroupNode, demand: Demand) -> list[GroupNode]:
    """The groups of a tree that wait each for itself: the tree can go on without the others."""
    asked = {leaf.id for leaf in demand.leaves() if leaf.classes}
    return list(_parts(root, asked))


def _parts(group: GroupNode, asked: Collection[int]) -> Iterator[GroupNode]:
    if not any(leaf.id in asked for leaf in group.leaves()):
        return
    assert group.policy is not None
    if group.key.kind == POD_GROUP or (not group.counts.holds and group.policy.minimum >= len(group.children)):
        yield group
        return
    for child in group.in_order:
        yield from _parts(child, asked)


def alone(demand: Demand, part: GroupNode) -> Demand | None:
    """The demand of one part of a tree beside what runs of the others; None if the tree needs more than that."""
    root = _without_others(demand.root, {leaf.id for leaf in part.leaves()})
    return replace(demand, root=root) if root is not None else None


def _without_others(group: Wanted, leaves: Collection[int]) -> Wanted | None:
    if isinstance(group, Leaf):
        if group.id in leaves:
            return group
        bound = len(group.bound)
        return replace(group, classes=(), min_count=min(group.min_count, bound)) if bound else None
    children = [_without_others(child, leaves) for child in group.children]
    present = tuple(child for child in children if child is not None)
    return replace(group, children=present) if len(present) >= group.min_groups else None


def repairable(root: GroupNode) -> bool:
    """Whether a tree ran complete and lost a part: complete parts go on while the lost one comes back (E23)."""
    return root.initially_scheduled and any(leaf.holding and leaf.counts.holds for leaf in root.leaves())


def _all_may_preempt(root: GroupNode) -> bool:
    for leaf in root.leaves():
        for member in leaf.pending.values():
            if not member.may_preempt:
                return False
    return True


def _group(group: GroupNode, jobs: Jobs, repairing: bool, released: Collection[int]) -> Wanted | None:
    assert group.policy is not None
    if group.key.kind == POD_GROUP:
        return _leaf_in_tree(group, jobs, repairing, released)
    if not group.counts.ready and not any(leaf.holding for leaf in group.leaves()):
        return None
    over = [child.key for child in group.in_order if child.is_over]
    children = [_group(child, jobs, repairing, released) for child in group.in_order if child.key not in over]
    present = tuple(child for child in children if child is not None)
    if not present:
        return None
    minimum = max(1, group.policy.minimum - len(over))
    minimum = min(minimum, len(present)) if repairing else minimum
    return Composite(group.id, minimum, present, group.policy.topology, group.policy.preferred)


def _leaf_in_tree(group: GroupNode, jobs: Jobs, repairing: bool, released: Collection[int]) -> Leaf | None:
    """A group that is not ready is left out, unless running pods of it pin the tree to a domain."""
    if not group.counts.ready and not group.holding:
        return None
    again = any(number in released for number in group.holding)
    leaf = _leaf(group, jobs, released) if again else leaf_of(group, jobs)
    if repairing and not group.counts.ready:
        return replace(leaf, min_count=len(leaf.bound), classes=())
    return leaf


def leaf_of(group: GroupNode, jobs: Jobs) -> Leaf:
    """A PodGroup as a leaf; cached until its pods or its object change."""
    if group.leaf is None:
        group.leaf = _leaf(group, jobs)
    return group.leaf


def _leaf(group: GroupNode, jobs: Jobs, released: Collection[int] = ()) -> Leaf:
    policy = group.policy
    assert policy is not None
    held = [member for member in group.holding.values() if member.id not in released]
    again = [member for member in group.holding.values() if member.id in released]
    # Equal shapes are one object: its number says as much as itself and is hashed faster.
    classes: dict[tuple[int, str], list[Member]] = {}
    for member in sorted([*group.pending.values(), *again], key=_RANK):
        classes.setdefault((id(member.shape), member.role), []).append(member)
    return Leaf(
        id=group.id,
        min_count=max(1, group.need),
        classes=tuple(
            PodClass(_limited(members[0].shape, policy), tuple(m.id for m in members), role)
            for (_, role), members in classes.items()
        ),
        bound=tuple(Bound(m.id, m.place, m.role) for m in sorted(held, key=_RANK)),
        topology=policy.topology,
        preferred=policy.preferred,
        exclusive=group.exclusive,
        final_size=None if policy.gang else _final_size(group, jobs),
    )


def _limited(shape: Shape, policy: Policy) -> Shape:
    """A shape with the fields of its group that are not supported."""
    if not policy.unsupported:
        return shape
    return replace(shape, unsupported=(*shape.unsupported, *policy.unsupported))


def _final_size(group: GroupNode, jobs: Jobs) -> int | None:
    """The parallelism of the Job that owns a basic group, if that is more than the pods known now."""
    assert group.view is not None
    owner = group.view.controller
    job = jobs(f"{group.key.namespace}/{owner.name}") if owner and owner.kind == JOBS.kind else None
    if job is None or owner is None or job.uid != owner.uid:
        return None
    size = 1 if job.spec.parallelism is None else job.spec.parallelism
    return size if size > len(group.pending) + len(group.holding) else None
