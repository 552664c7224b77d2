"""Rules of Echelon's own group kinds that their definitions leave open: formats of names, and a Workload as a whole.

What `api.rules.scheduling` and `api.rules.workload` say and `api.group_definitions` has as limits and rules is not said
again.  A tree of templates is at most four levels deep, so rules about all of it are written out level by level.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...api.objects.vocabulary import EXCLUSIVE_TOPOLOGY, PREFERRED_TOPOLOGY
from ...api.rules.grouping import FROZEN
from ...api.rules.workload import COMPOSITES, LISTS, MAX_DEPTH
from ...api.scheme import COMPOSITE_POD_GROUPS, OWN_GROUP_KINDS, POD_GROUPS, WORKLOADS
from .cel_rule import CelRule, RuleSet, Variable
from .formats import dns1123_label, dns1123_subdomain, label_key

#: Names of a tree are compared each with each, up to this number.
_MOST_NAMES = 400


_FORMATS = {"subdomain": dns1123_subdomain, "label": dns1123_label}


def _optional(path: str, form: str) -> CelRule:
    """A field of the spec that has a format if it is there."""
    value = f"object.spec.?{path.replace('.', '.?')}"
    valid = _FORMATS[form](f"{value}.value()")
    return CelRule(f"spec.{path}", f"must be a DNS-1123 {form}", f"!{value}.hasValue() || {valid}")


def _keys(annotation: str) -> CelRule:
    listed = f"object.metadata.?annotations[?'{annotation}'].orValue('').split(',').map(k, k.trim())"
    return CelRule(
        f"metadata.annotations[{annotation}]",
        "must be keys of node labels",
        f"{listed}.all(k, k == '' || {label_key('k')})",
    )


_GROUP_RULES = (
    _optional("parentCompositePodGroupName", "subdomain"),
    _optional("workloadRef.workloadName", "subdomain"),
    _optional("workloadRef.templateName", "label"),
    _optional("priorityClassName", "subdomain"),
    CelRule(
        "spec.schedulingConstraints.topology[].key",
        "must be the key of a node label",
        f"object.spec.?schedulingConstraints.?topology.orValue([]).all(t, {label_key('t.key')})",
    ),
    CelRule(
        "spec.resourceClaims[].name",
        "must be a DNS-1123 label",
        f"object.spec.?resourceClaims.orValue([]).all(c, {dns1123_label('c.name')})",
    ),
    _keys(EXCLUSIVE_TOPOLOGY),
    _keys(PREFERRED_TOPOLOGY),
)


def _texts(holder: str, text: str, depth: int = 1) -> str:
    """CEL: a text for every template below a holder, `t` in `text`, joined by commas."""
    parts = [f"{holder}.?{field}.orValue([]).map(t, {text}).join(',')" for field in LISTS]
    if depth < MAX_DEPTH:
        below = f"t{depth}"
        parts.append(f"{holder}.?{COMPOSITES}.orValue([]).map({below}, {_texts(below, text, depth + 1)}).join(',')")
    return f"[{', '.join(parts)}].join(',')"


def _with_children(holder: str, depth: int = 1) -> str:
    """CEL: every composite template below a holder has a template below it."""
    one = f"t{depth}"
    has_child = " || ".join(f"size({one}.?{field}.orValue([])) > 0" for field in LISTS)
    inner = f" && {_with_children(one, depth + 1)}" if depth < MAX_DEPTH - 1 else ""
    return f"{holder}.?{COMPOSITES}.orValue([]).all({one}, ({has_child}){inner})"


_TREE_VARIABLES = (
    Variable("names", f"{_texts('object.spec', 't.name')}.split(',').filter(n, n != '')"),
    Variable(
        "priorities",
        _texts("object.spec", "t.?priorityClassName.orValue('') + '/' + string(t.?priority.orValue(-9))")
        + ".split(',').filter(n, n != '')",
    ),
)
_TREE_RULES = (
    CelRule(
        "spec",
        "names of templates must be unique in the whole Workload",
        f"size(variables.names) > {_MOST_NAMES} || variables.names.all(n, variables.names.exists_one(m, m == n))",
    ),
    CelRule(
        "spec",
        "names of templates must be DNS-1123 labels",
        f"variables.names.all(n, {dns1123_label('n')})",
    ),
    CelRule(
        "spec",
        "detected multiple priority configurations",
        "variables.priorities.all(p, p == variables.priorities[0])",
    ),
    CelRule(
        f"spec.{COMPOSITES}[]",
        "must have at least one child PodGroupTemplate or CompositePodGroupTemplate",
        _with_children("object.spec"),
    ),
)
_CONTROLLER_RULES = tuple(
    CelRule(
        f"spec.controllerRef.{field}",
        "may not contain '/' or '%'",
        f"!object.spec.?controllerRef.?{field}.orValue('').matches('[/%]')",
    )
    for field in ("kind", "name")
)


def _shape_rules() -> Iterator[CelRule]:
    """One rule for every list that a tree can have: no templates come or go, and of each only the minimum changes."""
    for depth in range(MAX_DEPTH):
        for field in LISTS:
            if depth + (field == COMPOSITES) < MAX_DEPTH:
                path = "spec." + "".join(f"{COMPOSITES}[]." for _ in range(depth)) + field
                detail = "templates may not be added or removed, and only the minimum of a gang may change"
                yield CelRule(path, detail, _kept(field, depth))


def _kept(field: str, depth: int, level: int = 0) -> str:
    new, old = (f"n{level}", f"o{level}") if level else ("object.spec", "oldObject.spec")
    if level < depth:
        one, other = f"n{level + 1}", f"o{level + 1}"
        inner = _kept(field, depth, level + 1)
        pairs = f"{old}.?{COMPOSITES}.orValue([]).all({other}, {other}.name != {one}.name || {inner})"
        return f"{new}.?{COMPOSITES}.orValue([]).all({one}, {pairs})"
    now, was = f"{new}.?{field}.orValue([])", f"{old}.?{field}.orValue([])"
    frozen = " && ".join(f"t.?{name} == u.?{name}" for name in (*FROZEN, "schedulingPolicy.?basic"))
    gang = "t.?schedulingPolicy.?gang.hasValue() == u.?schedulingPolicy.?gang.hasValue()"
    return f"(size({now}) == size({was}) && {now}.all(t, {was}.exists(u, u.name == t.name && {frozen} && {gang})))"


def _rule_set(name: str, kinds: tuple[str, ...], operation: str, rules: tuple[CelRule, ...]) -> RuleSet:
    group = OWN_GROUP_KINDS[WORKLOADS]
    variables = _TREE_VARIABLES if _TREE_RULES[0] in rules else ()
    return RuleSet(name, group.group, group.version, kinds, (operation,), variables, rules)


_GROUPS = tuple(OWN_GROUP_KINDS[one].plural for one in (POD_GROUPS, COMPOSITE_POD_GROUPS))
_WORKLOADS = (OWN_GROUP_KINDS[WORKLOADS].plural,)
OWN_GROUP_RULES = (
    _rule_set("group-create", _GROUPS, "CREATE", _GROUP_RULES),
    _rule_set("workload-create", _WORKLOADS, "CREATE", (*_TREE_RULES, *_CONTROLLER_RULES)),
    _rule_set("workload-change", _WORKLOADS, "UPDATE", (*_TREE_RULES, *_shape_rules())),
)
