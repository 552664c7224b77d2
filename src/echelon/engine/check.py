"""An independent judge of verdicts: plain arithmetic over the records, sharing no code with the search.

`problems` lists everything that is wrong with a verdict; an empty list means it holds.  That no placement exists
is judged only as far as counting goes: a leaf that is said to lack room must lack it in every domain it may use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .check_company import company
from .demand import Composite, Demand, Group, Leaf, NodeTerm, Requirement, Shape, Taint, Toleration, given
from .verdict import Blocked, Domain, Evict, Loss, Placed, Verdict
from .view import ClusterView, Node, Running

Amounts = dict[str, int]


def problems(view: ClusterView, demand: Demand, verdict: Verdict, now: float) -> list[str]:
    """What is wrong with a verdict on this demand and this view."""
    match verdict:
        case Placed():
            return list(_placement(view, demand, verdict, frozenset()))
        case Evict():
            return list(_eviction(view, demand, verdict, now))
        case Blocked():
            return [*_blocked(demand, verdict), *_room_denied(view, demand, verdict)]


def loss_of(view: ClusterView, units: tuple[int, ...], now: float) -> Loss:
    """What evicting these units costs."""
    pods = [pod for unit in units for pod in view.pods_of(unit) if pod.evictable]
    covered: dict[int, int] = {}
    for pod in pods:
        for budget_id in pod.budgets:
            covered[budget_id] = covered.get(budget_id, 0) + 1
    violations = 0
    for budget_id, number in covered.items():
        budget = view.budget(budget_id)
        if budget is not None:
            violations += max(0, number - max(0, budget.allowed))
    priorities = [unit.priority for unit in map(view.unit, units) if unit is not None]
    work = sum(max(0, int((now - pod.started) * 1000)) for pod in pods)
    return Loss(violations, max(priorities), work, len(units), tuple(sorted(units)))


# ---- placements


def _placement(view: ClusterView, demand: Demand, placed: Placed, gone: frozenset[int]) -> Iterator[str]:
    """Problems of a placement on the view without the units in `gone`."""
    shapes = {member: pods.shape for leaf in demand.leaves() for pods in leaf.classes for member in pods.members}
    for member, name in placed.assignment.items():
        node = view.node(name)
        if member not in shapes:
            yield f"member {member} was not asked for"
        elif node is None:
            yield f"member {member} is on the unknown node {name}"
        elif not _fits(shapes[member], node):
            yield f"member {member} may not be on node {name}"
    yield from _overcommitted(view, placed.assignment, shapes, gone)
    if shapes and not placed.assignment:
        yield "nothing is placed although members wait"
    if demand.root.id not in placed.groups:
        yield "the root does not hold"
    yield from _group(demand.root, placed, True)
    yield from _topology(view, demand.root, placed)
    yield from _exclusive(view, demand, placed, gone)
    staying = [pod for pod in view.all_running() if not _leaves(pod, gone)]
    yield from company(view, placed.assignment, shapes, staying, (_selected, _tolerated))


def _overcommitted(
    view: ClusterView, assignment: Mapping[int, str], shapes: Mapping[int, Shape], gone: frozenset[int]
) -> Iterator[str]:
    wanted: dict[str, Amounts] = {}
    for member, name in assignment.items():
        for resource, amount in shapes[member].requests if member in shapes else ():
            sums = wanted.setdefault(name, {})
            sums[resource] = sums.get(resource, 0) + amount
    for name, sums in sorted(wanted.items()):
        node = view.node(name)
        if node is None:
            continue
        staying = [pod for pod in view.pods_on(name) if not _leaves(pod, gone)]
        for resource, amount in sorted(sums.items()):
            used = sum(dict(pod.requests).get(resource, 0) for pod in staying)
            if amount > 0 and used + amount > node.allocatable.get(resource, given(resource)):
                yield f"node {name} is over-committed in {resource}"


def _leaves(pod: Running, gone: frozenset[int]) -> bool:
    return pod.unit in gone and pod.evictable


def _group(group: Group, placed: Placed, parent_holds: bool) -> Iterator[str]:
    holds = group.id in placed.groups
    if holds and not parent_holds:
        yield f"group {group.id} holds below a parent that does not"
    if isinstance(group, Composite):
        children = sum(child.id in placed.groups for child in group.children)
        if holds and children < group.min_groups:
            yield f"group {group.id} has {children} of {group.min_groups} children"
        for child in group.children:
            yield from _group(child, placed, holds)
        return
    new = sum(member in placed.assignment for pods in group.classes for member in pods.members)
    if holds and new + len(group.bound) < group.min_count:
        yield f"group {group.id} has {new + len(group.bound)} of {group.min_count} pods"
    if new and not holds:
        yield f"group {group.id} has pods but does not hold"


def _nodes_below(group: Group, placed: Placed) -> list[str]:
    if isinstance(group, Composite):
        return [name for child in group.children for name in _nodes_below(child, placed)]
    new = [placed.assignment[m] for pods in group.classes for m in pods.members if m in placed.assignment]
    return new + [bound.node for bound in group.bound]


def _domain(view: ClusterView, name: str, key: str) -> tuple[str | None, ...] | None:
    """Identity of the domain a node is in: every value from the widest level down to the key."""
    node = view.node(name)
    if node is None or not node.labels.get(key):
        return None
    levels = view.options.levels
    if key not in levels:
        return (node.labels[key],)
    return tuple(node.labels.get(level) for level in levels[: levels.index(key) + 1])


def _topology(view: ClusterView, group: Group, placed: Placed) -> Iterator[str]:
    if group.id not in placed.groups:
        return
    names = [name for name in _nodes_below(group, placed) if view.node(name) is not None]
    if group.topology is not None and names:
        domains = {_domain(view, name, group.topology) for name in names}
        if len(domains) != 1 or None in domains:
            yield f"group {group.id} is spread over {len(domains)} domains of {group.topology}"
        elif not placed.domains.get(group.id):
            yield f"group {group.id} has no domain of {group.topology}"
    chosen = placed.domains.get(group.id, ())
    outside = [name for name in names if not _lies_in(view, name, chosen)]
    if outside:
        yield f"group {group.id} is said to be in {chosen} but is on {outside[0]}"
    if isinstance(group, Composite):
        for child in group.children:
            yield from _topology(view, child, placed)


def _lies_in(view: ClusterView, name: str, domain: Domain) -> bool:
    """Whether a node has the values of a domain: those of levels from the widest down, then those of other keys."""
    node = view.node(name)
    assert node is not None
    levels = view.options.levels
    path = [node.labels[level] for level in levels if node.labels.get(level)]
    others = [value for key, value in node.labels.items() if key not in levels]
    same = 0
    while same < min(len(path), len(domain)) and path[same] == domain[same]:
        same += 1
    return all(value in others for value in domain[same:])


def _exclusive(view: ClusterView, demand: Demand, placed: Placed, gone: frozenset[int]) -> Iterator[str]:
    holders: dict[object, set[int]] = {}
    for pod in view.all_running():
        if pod.exclusive is not None and not _leaves(pod, gone):
            domain = _domain(view, pod.node, pod.exclusive.key)
            if domain is not None:
                holders.setdefault((pod.exclusive, domain), set()).add(pod.group)
    for leaf in demand.leaves():
        new = [placed.assignment[m] for pods in leaf.classes for m in pods.members if m in placed.assignment]
        if leaf.exclusive is None or not new:
            continue
        domains = {_domain(view, name, leaf.exclusive.key) for name in new}
        if len(domains) != 1 or None in domains:
            yield f"exclusive group {leaf.id} is spread over {len(domains)} domains"
        for domain in domains:
            others = holders.setdefault((leaf.exclusive, domain), set()) - {leaf.id}
            if others:
                yield f"group {leaf.id} shares the domain {domain} with group {min(others)}"
            holders[leaf.exclusive, domain].add(leaf.id)


# ---- evictions


def _eviction(view: ClusterView, demand: Demand, evict: Evict, now: float) -> Iterator[str]:
    if not evict.units or len(set(evict.units)) != len(evict.units):
        yield "an eviction names units, each once"
        return
    for unit_id in evict.units:
        unit = view.unit(unit_id)
        if unit is None or not any(pod.evictable for pod in view.pods_of(unit_id)):
            yield f"unit {unit_id} has nothing to evict"
        elif unit.priority >= demand.priority:
            yield f"unit {unit_id} has priority {unit.priority}, which is not below {demand.priority}"
    if not demand.may_preempt:
        yield "the demand may not preempt"
    if evict.loss != loss_of(view, evict.units, now):
        yield f"the loss is {loss_of(view, evict.units, now)}, not {evict.loss}"
    gone = frozenset(evict.units)
    yield from _placement(view, demand, evict.placement, gone)
    for unit_id in evict.units:
        if not list(_placement(view, demand, evict.placement, gone - {unit_id})):
            yield f"unit {unit_id} could be spared"


def _blocked(demand: Demand, blocked: Blocked) -> Iterator[str]:
    needs: dict[int, int] = {}
    stack: list[Group] = [demand.root]
    while stack:
        group = stack.pop()
        needs[group.id] = group.min_count if isinstance(group, Leaf) else group.min_groups
        if isinstance(group, Composite):
            stack.extend(group.children)
    told = {shortage.group for shortage in blocked.shortages}
    for missing in sorted(needs.keys() - told):
        yield f"group {missing} has no shortage"
    for shortage in blocked.shortages:
        if shortage.group not in needs:
            yield f"group {shortage.group} is not in the tree"
        elif shortage.need < needs[shortage.group]:
            yield f"group {shortage.group} needs {needs[shortage.group]}, not {shortage.need}"
        if any(count.have > shortage.have for count in shortage.tried):
            yield f"group {shortage.group} has a better domain than its best"


def _room_denied(view: ClusterView, demand: Demand, blocked: Blocked) -> Iterator[str]:
    """Leaves that are said to find no room although pods of one of their shapes alone would do."""
    short = {shortage.group: shortage.need for shortage in blocked.shortages if shortage.have < shortage.need}
    within = {shortage.group: shortage.within for shortage in blocked.shortages}
    for leaf in demand.leaves():
        if leaf.id not in short or leaf.exclusive is not None or leaf.bound:
            continue
        for pods in leaf.classes:
            if len(pods.members) < short[leaf.id] or pods.shape.tied:
                continue
            for domain, room in _room(view, pods.shape, leaf.topology, within[leaf.id]).items():
                if room >= short[leaf.id]:
                    yield f"group {leaf.id} finds room for {room} pods in {domain}"


def _room(view: ClusterView, shape: Shape, key: str | None, within: Domain) -> dict[object, int]:
    """Pods of a shape that each domain of a key takes within another; all of that is one if there is no key."""
    found: dict[object, int] = {}
    for name in view.node_names():
        node, domain = view.node(name), _domain(view, name, key) if key else ()
        if node is None or domain is None or not _fits(shape, node):
            continue
        if within and not _lies_in(view, name, within):
            continue
        used: Amounts = {}
        for pod in view.pods_on(name):
            for resource, amount in pod.requests:
                used[resource] = used.get(resource, 0) + amount
        wanted = [(resource, amount) for resource, amount in shape.requests if amount > 0]
        have = [node.allocatable.get(resource, given(resource)) - used.get(resource, 0) for resource, _ in wanted]
        free = [left // amount for left, (_, amount) in zip(have, wanted, strict=True)]
        found[domain] = found.get(domain, 0) + max(0, min(free, default=0))
    return found


# ---- node fit, once more


def _fits(shape: Shape, node: Node) -> bool:
    reached = all(any(_matches(term, node) for term in terms) for terms in shape.volumes)
    return not shape.unsupported and not shape.waits and reached and _tolerated(shape, node) and _selected(shape, node)


def _tolerated(shape: Shape, node: Node) -> bool:
    taints = [taint for taint in node.taints if taint.effect != "PreferNoSchedule"]
    if node.unschedulable:
        taints.append(Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"))
    return all(any(_covers(toleration, taint) for toleration in shape.tolerations) for taint in taints)


def _selected(shape: Shape, node: Node) -> bool:
    chosen = all(node.labels.get(key) == value for key, value in shape.node_selector)
    return chosen and (shape.node_terms is None or any(_matches(term, node) for term in shape.node_terms))


def _covers(toleration: Toleration, taint: Taint) -> bool:
    right_effect = toleration.effect in ("", taint.effect)
    if toleration.operator == "Exists":
        return right_effect and toleration.key in ("", taint.key)
    return right_effect and (toleration.key, toleration.value) == (taint.key, taint.value)


def _matches(term: NodeTerm, node: Node) -> bool:
    if not term.labels and not term.fields:
        return False
    names = {"metadata.name": node.name}
    return all(_holds(requirement, node.labels) for requirement in term.labels) and all(
        requirement.operator in ("In", "NotIn") and requirement.key in names and _holds(requirement, names)
        for requirement in term.fields
    )


def _holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    try:
        number, limit = int(value or ""), int(requirement.values[0])
    except (ValueError, IndexError):
        return False
    return number > limit if requirement.operator == "Gt" else number < limit
