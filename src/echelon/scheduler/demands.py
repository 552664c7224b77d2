"""From a tree of groups to what the engine is asked.

`demand_of` asks for the tree as its policies say.  Once the minimum is placed, `insisting` asks for more, one
pending part at a time: a satisfied tree would otherwise never be worth an eviction, nor would anyone learn why its
extras do not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ..api import meta
from ..api.scheme import JOBS, Object
from ..engine.demand import Bound, Composite, Demand, Exclusive, Leaf, PodClass, Shape
from ..engine.demand import Group as Wanted
from .hierarchy import POD_GROUP, Group, Member

#: Finds a Job by `namespace/name`.
Jobs = Callable[[str], Object | None]


def of_pod(member: Member) -> Demand:
    """A pod without a group is a leaf of one."""
    leaf = Leaf(member.id, 1, (PodClass(member.shape, (member.id,), member.role),))
    return Demand(leaf, member.priority, _willing(member))


def of_tree(root: Group, jobs: Jobs, *, repairing: bool) -> Demand:
    """What a tree needs now; `repairing` when it once held and some part of it is not complete again yet."""
    assert root.policy is not None
    wanted = _group(root, jobs, repairing)
    assert wanted is not None, "asked for a tree that is not ready"
    willing = root.policy.may_preempt and all(_willing(m) for leaf in root.leaves() for m in leaf.pending.values())
    return Demand(wanted, root.policy.priority, willing)


def repairable(root: Group) -> bool:
    """A tree that ran whole and lost a part: what is complete may go on while the part comes back (E23)."""
    return root.initially_scheduled and any(leaf.tally.holds for leaf in root.leaves())


def _willing(member: Member) -> bool:
    return str(member.obj["spec"].get("preemptionPolicy")) != "Never"


def _group(group: Group, jobs: Jobs, repairing: bool) -> Wanted | None:
    assert group.policy is not None
    if group.key.kind == POD_GROUP:
        return _leaf_in_tree(group, jobs, repairing)
    if not group.tally.ready and not any(leaf.holding for leaf in group.leaves()):
        return None
    children = [_group(child, jobs, repairing) for child in group.in_order]
    present = tuple(child for child in children if child is not None)
    if not present:
        return None
    minimum = min(group.policy.minimum, len(present)) if repairing else group.policy.minimum
    return Composite(group.id, minimum, present, group.policy.topology, group.policy.preferred)


def _leaf_in_tree(group: Group, jobs: Jobs, repairing: bool) -> Leaf | None:
    """A group that is not ready is left out, unless pods of its run and hold the tree to a domain."""
    if not group.tally.ready and not group.holding:
        return None
    leaf = leaf_of(group, jobs)
    if repairing and not group.tally.ready:
        return replace(leaf, min_count=len(leaf.bound), classes=())
    return leaf


def leaf_of(group: Group, jobs: Jobs) -> Leaf:
    """A PodGroup; kept until its pods or its object change."""
    if group.leaf is not None:
        return group.leaf
    policy = group.policy
    assert policy is not None
    classes: dict[tuple[Shape, str], list[Member]] = {}
    for member in sorted(group.pending.values(), key=lambda m: m.rank):
        shape = member.shape
        if policy.unsupported:
            shape = replace(shape, unsupported=(*shape.unsupported, *policy.unsupported))
        classes.setdefault((shape, member.role), []).append(member)
    group.leaf = Leaf(
        id=group.id,
        min_count=policy.minimum,
        classes=tuple(PodClass(shape, tuple(m.id for m in ms), role) for (shape, role), ms in classes.items()),
        bound=tuple(Bound(m.id, m.place, m.role) for m in sorted(group.holding.values(), key=lambda m: m.rank)),
        topology=policy.topology,
        preferred=policy.preferred,
        exclusive=Exclusive(policy.exclusive, policy.priority) if policy.exclusive else None,
        final_size=None if policy.gang else _final_size(group, jobs),
    )
    return group.leaf


def _final_size(group: Group, jobs: Jobs) -> int | None:
    """How many pods the Job that owns a basic group will run at a time, if that is more than are known now."""
    assert group.obj is not None
    owner = meta.controller_of(group.obj)
    job = jobs(f"{group.key.namespace}/{owner['name']}") if owner and owner["kind"] == JOBS.kind else None
    if job is None or owner is None or meta.uid(job) != owner["uid"]:
        return None
    size = int(job["spec"].get("parallelism", 1))
    return size if size > len(group.pending) + len(group.holding) else None


@dataclass(frozen=True, slots=True)
class Insistence:
    """A demand that holds only if `group` gains something."""

    group: int
    demand: Demand


def insisting(demand: Demand) -> Iterator[Insistence]:
    """For a demand that already holds: one stronger demand per pending part, whole parts before single pods."""
    for group, stronger in _stronger(demand.root):
        yield Insistence(group, replace(demand, root=stronger))


def holds(group: Wanted) -> bool:
    """Whether bound members alone satisfy a group."""
    if isinstance(group, Leaf):
        return len(group.bound) >= group.min_count
    return sum(map(holds, group.children)) >= group.min_groups


def _stronger(group: Wanted) -> Iterator[tuple[int, Wanted]]:
    if isinstance(group, Leaf):
        pending = sum(len(one.members) for one in group.classes)
        for more in dict.fromkeys((pending, 1)) if pending else ():
            yield group.id, replace(group, min_count=len(group.bound) + more)
        return
    held = [holds(child) for child in group.children]
    # What is neither held nor asked for stays only as far as its running pods pin the domain.
    still = tuple(map(_still, group.children))
    for at, child in enumerate(group.children):
        others = (*still[:at], *still[at + 1 :])
        if held[at]:
            for gaining, stronger in _stronger(child):
                yield gaining, replace(group, min_groups=sum(held), children=(stronger, *others))
        elif _wants(child):
            yield child.id, replace(group, min_groups=sum(held) + 1, children=(child, *others))


def _wants(group: Wanted) -> bool:
    if isinstance(group, Leaf):
        return bool(group.classes)
    return any(map(_wants, group.children))


def _still(group: Wanted) -> Wanted:
    """A group with nothing pending: what runs of it."""
    if isinstance(group, Leaf):
        return replace(group, classes=())
    return replace(group, children=tuple(map(_still, group.children)))
