"""Whether a tree may be scheduled at all.

Checked when a tree is first decided and after every change of its groups or its Workload.  A problem is reported on
every group of the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ...api.views.group_views import GroupTemplate, WorkloadSpec, WorkloadView
from ...base.paths import spoken
from ...engine import ClusterView
from ..intake.group_policy import Problem
from ..intake.group_tree import GroupNode, Member, cycle_at

MAX_LEVELS = 4
#: The tree was checked and is valid.
SOUND = Problem("")


#: Finds a Workload by namespace and name.
Workloads = Callable[[str, str], WorkloadView | None]


def problem_of(root: GroupNode, workloads: Workloads) -> Problem | None:
    """What is wrong with the groups of a tree, the simplest cause first; None if nothing is."""
    if root.parent is not None:
        names = [str(group.key) for group in cycle_at(root)]
        cycle = " → ".join([*names, names[0]])
        return Problem(f"the tree has no root: spec.parentCompositePodGroupName forms the cycle {cycle}")
    if root.obj is None:
        return _missing(root)
    own = _too_deep(root) or _several_workloads(root) or _mixed_priorities(root) if root.children else None
    return own or _not_its_workload(root, workloads)


def members_problem(root: GroupNode, answered: Collection[str]) -> Problem | None:
    """What is wrong with the pods of a tree: all must have its priority and one scheduler, one of `answered`."""
    first: Member | None = None
    for leaf in root.leaves():
        if leaf.members_checked is None:
            leaf.members_checked = _pods_problem(leaf, answered) or SOUND
        if leaf.members_checked is not SOUND:
            return leaf.members_checked
        own = next((member for member in leaf.members.values() if not member.leaving), None)
        if own is not None and first is not None and (problem := _disagree(first, own, answered)):
            return problem
        first = first or own
    return None


def _pods_problem(leaf: GroupNode, answered: Collection[str]) -> Problem | None:
    if leaf.policy is None:
        return None  # nothing to compare with yet
    priority = leaf.policy.priority
    first: Member | None = None
    for member in leaf.members.values():
        if member.leaving:
            continue
        if member.priority != priority:
            return Problem(
                f"Pod/{member.name} has priority {member.priority}, but its group {leaf.key} has priority {priority}"
            )
        first = first or member
        if problem := _disagree(first, member, answered):
            return problem
    return None


def _disagree(one: Member, other: Member, answered: Collection[str]) -> Problem | None:
    if one.scheduler == other.scheduler or not (one.scheduler in answered or other.scheduler in answered):
        return None
    return Problem(
        f"pods of one tree have different spec.schedulerName: Pod/{one.name} has {one.scheduler}, "
        f"Pod/{other.name} has {other.scheduler}"
    )


def domains_problem(root: GroupNode, view: ClusterView) -> Problem | None:
    """Running pods must be in one domain of every key above them, or there is no domain to add pods to."""
    for group in root.subtree():
        key = group.topology
        if key is None:
            continue
        found: dict[tuple[str, ...] | None, Member] = {}
        for leaf in group.leaves():
            for member in leaf.holding.values():
                if view.node(member.place) is not None:
                    found.setdefault(view.domain_of(member.place, key), member)
        if len(found) > 1 or None in found:
            where = (f"Pod/{member.name} in {spoken(domain) if domain else 'none'}" for domain, member in found.items())
            return Problem(f"{group.key} needs all pods in one domain of {key}, but has {', '.join(where)}")
    return None


def _missing(root: GroupNode) -> Problem:
    """The top of the tree is named by others but does not exist."""
    for child in root.in_order:
        text = f"waiting for {root.key}, the parent of {child.key}, to be created"
        return Problem(f"{text}; fix: create CompositePodGroup {root.key.name}", waiting=True)
    text = f"waiting for {root.key}, the group of its pods, to be created"
    return Problem(f"{text}; fix: create PodGroup {root.key.name}", waiting=True)


def _too_deep(root: GroupNode) -> Problem | None:
    level, row = 1, [root]
    while row:
        if level > MAX_LEVELS:
            return Problem(
                f"{row[0].key} is at level {level} below {root.key}, but a tree has at most {MAX_LEVELS} levels"
            )
        row = [child for group in row for child in group.in_order]
        level += 1
    return None


def _several_workloads(root: GroupNode) -> Problem | None:
    for group in root.subtree():
        assert group.policy is not None
        assert root.policy is not None
        if group.policy.workload != root.policy.workload:
            return Problem(
                f"{group.key} belongs to Workload/{group.policy.workload}, "
                f"but its root {root.key} to Workload/{root.policy.workload}"
            )
    return None


def _mixed_priorities(root: GroupNode) -> Problem | None:
    for group in root.subtree():
        assert group.policy is not None
        assert root.policy is not None
        if group.policy.priority != root.policy.priority:
            return Problem(
                f"{group.key} has priority {group.policy.priority}, "
                f"but its root {root.key} has priority {root.policy.priority}"
            )
    return None


def _not_its_workload(root: GroupNode, workloads: Workloads) -> Problem | None:
    """If the Workload exists, every group's template must be in it, below its parent's template."""
    assert root.policy is not None
    name = root.policy.workload
    workload = workloads(root.key.namespace, name) if name else None
    if workload is None:
        return None
    above = _parent_templates(workload)
    for group in root.subtree():
        assert group.policy is not None
        template = group.policy.template
        if template not in above:
            return Problem(f"{group.key} uses the template {template}, which Workload/{name} does not have")
        if group.parent is not None and group.parent.policy is not None:
            wanted = group.parent.policy.template
            if above[template] != wanted:
                return Problem(
                    f"{group.key} uses the template {template}, which Workload/{name} does not have below "
                    f"{wanted}, the template of its parent {group.parent.key}"
                )
    return None


def _parent_templates(workload: WorkloadView) -> dict[str, str]:
    """The name of each template with that of its parent template, "" at the top."""
    above: dict[str, str] = {}
    stack: list[tuple[WorkloadSpec | GroupTemplate, str]] = [(workload.spec, "")]
    while stack:
        holder, name = stack.pop()
        for template in holder.pod_group_templates:
            above[template.name] = name
        for template in holder.composite_pod_group_templates:
            above[template.name] = name
            stack.append((template, template.name))
    return above
