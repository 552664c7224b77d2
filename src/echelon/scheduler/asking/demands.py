"""A tree of groups, or a single pod, as a demand for the engine.

Members of one shape and role are one class.  Groups that are not ready are left out, running pods are given as bound:
the engine then finds out whether the minimum is there and what could be added.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from operator import attrgetter

from ...api.scheme import JOBS
from ...api.views.job_views import JobView
from ...engine import Bound, Composite, Demand, Leaf, NodeTerm, PodClass, Requirement, Shape
from ...engine import Group as Wanted
from ..devices.allotments import Allotment
from ..devices.claim_state import UNGIVEN
from ..intake.group_policy import POD_GROUP
from ..intake.group_tree import GroupNode, Member
from ..intake.pod_shape import node_terms

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


def equipped(demand: Demand, claims: Mapping[int, Collection[str]], given: Mapping[str, Allotment]) -> Demand:
    """A demand whose pods have been given devices for their open claims; `claims` are those of each pod."""
    return replace(demand, root=_equipped(demand.root, claims, given))


def _equipped(group: Wanted, claims: Mapping[int, Collection[str]], given: Mapping[str, Allotment]) -> Wanted:
    if not isinstance(group, Leaf):
        return replace(group, children=tuple(_equipped(child, claims, given) for child in group.children))
    classes = [
        replace(one, shape=_with_given(one.shape, [given[key] for key in keys]))
        # Pods of one class have the same claims: what they wait for is part of their shape.
        if (keys := claims.get(one.members[0], ())) and all(key in given for key in keys)
        else one
        for one in group.classes
    ]
    return replace(group, classes=tuple(classes))


def _with_given(shape: Shape, given: Collection[Allotment]) -> Shape:
    reach = [node_terms(one.selector, "")[0] for one in given if one.selector is not None]
    amounts = dict(shape.requests) | dict(need for one in given for need in one.needs)
    return replace(
        shape,
        requests=tuple(sorted(amounts.items())),
        waits=tuple(text for text in shape.waits if not text.endswith(UNGIVEN)),
        devices=(*shape.devices, *reach),
    )


def avoiding(demand: Demand, node: str, members: Collection[int]) -> Demand:
    """A demand whose classes of these members do not go to a node, or "" to none."""
    barred = (NodeTerm(fields=(Requirement("metadata.name", "NotIn", (node,)),)),) if node else ()
    return replace(demand, root=_barred(demand.root, barred, frozenset(members)))


def _barred(group: Wanted, barred: tuple[NodeTerm, ...], members: frozenset[int]) -> Wanted:
    if not isinstance(group, Leaf):
        return replace(group, children=tuple(_barred(child, barred, members) for child in group.children))
    classes = [
        replace(one, shape=replace(one.shape, devices=(*one.shape.devices, barred)))
        if members.intersection(one.members)
        else one
        for one in group.classes
    ]
    return replace(group, classes=tuple(classes))


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
    return Composite(group.id, minimum, present, group.topology, group.preferred)


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
            PodClass(members[0].shape, tuple(m.id for m in members), role) for (_, role), members in classes.items()
        ),
        bound=tuple(Bound(m.id, m.place, m.role) for m in sorted(held, key=_RANK)),
        topology=group.topology,
        preferred=group.preferred,
        exclusive=group.exclusive,
        final_size=None if policy.gang else _final_size(group, jobs),
    )


def _final_size(group: GroupNode, jobs: Jobs) -> int | None:
    """The parallelism of the Job that owns a basic group, if that is more than the pods known now."""
    assert group.view is not None
    owner = group.view.controller
    job = jobs(f"{group.key.namespace}/{owner.name}") if owner and owner.kind == JOBS.kind else None
    if job is None or owner is None or job.uid != owner.uid:
        return None
    size = 1 if job.spec.parallelism is None else job.spec.parallelism
    return size if size > len(group.pending) + len(group.holding) else None
