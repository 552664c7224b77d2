"""Rules of Workload: a tree of group templates, at most four levels deep.

Templates cannot be added, removed or renamed; in a template only the minimum of a gang may change.  Names are unique in
the whole tree, and all templates have the same priority.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import FieldError, duplicate, forbidden_field, invalid
from ..scheme import Object
from . import fields, grouping
from .kind import KindRules

PODS = "podGroupTemplates"
COMPOSITES = "compositePodGroupTemplates"
LISTS = (PODS, COMPOSITES)
MAX_TEMPLATES = 8
MAX_DEPTH = 4
_MINIMUM = {PODS: "minCount", COMPOSITES: "minGroupCount"}

Template = Mapping[str, Any]


def _validate(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    problems = _controller("spec.controllerRef", spec.get("controllerRef")) + _one_list(spec)
    for field in LISTS:
        problems += _templates("spec", field, spec)
    return problems + _tree(spec)


def _controller(path: str, reference: Template | None) -> list[FieldError]:
    if reference is None:
        return []
    return [
        *fields.optional(f"{path}.apiGroup", reference.get("apiGroup"), fields.long_name),
        *fields.needed(f"{path}.kind", reference.get("kind"), fields.path_segment),
        *fields.needed(f"{path}.name", reference.get("name"), fields.path_segment),
    ]


def _one_list(spec: Template) -> list[FieldError]:
    return fields.union("spec", {field: True for field in LISTS if spec.get(field)}, LISTS)


def _templates(path: str, field: str, holder: Template) -> list[FieldError]:
    """One list of templates, and below each composite its own lists."""
    path, templates = f"{path}.{field}", holder.get(field) or ()
    problems = fields.no_more_than(path, templates, MAX_TEMPLATES)
    if problems:
        return problems
    problems = fields.unique(path, templates)
    for index, template in enumerate(templates):
        where = f"{path}[{index}]"
        problems += fields.needed(f"{where}.name", template.get("name"), fields.short_name)
        problems += grouping.group(where, template, _MINIMUM[field])
        if field == COMPOSITES:
            for nested in LISTS:
                problems += _templates(where, nested, template)
    return problems


def _tree(spec: Template) -> list[FieldError]:
    """Rules of the whole tree, on create and on update."""
    problems = _names(spec) + _childless("spec", spec)
    for index, template in enumerate(spec.get(COMPOSITES) or ()):
        if _height(template) >= MAX_DEPTH:
            detail = f"maximum template hierarchy depth is {MAX_DEPTH}"
            problems.append(invalid(f"spec.{COMPOSITES}[{index}]", template.get("name", ""), detail))
    priorities = [(t.get("priorityClassName", ""), t.get("priority")) for _, _, t in walk("spec", spec)]
    if any(one != priorities[0] for one in priorities):
        problems.append(invalid("spec", None, "detected multiple priority configurations"))
    return problems


def walk(path: str, holder: Template) -> Iterator[tuple[str, str, Template]]:
    """Every template of the tree with the path of its list and its own path, parents first."""
    for field in LISTS:
        for index, template in enumerate(holder.get(field) or ()):
            where = f"{path}.{field}[{index}]"
            yield f"{path}.{field}", where, template
            if field == COMPOSITES:
                yield from walk(where, template)


def _names(spec: Template) -> list[FieldError]:
    """Names are unique over all lists; two equal ones in the same list are reported by that list."""
    first: dict[str, str] = {}
    problems: list[FieldError] = []
    for in_list, where, template in walk("spec", spec):
        name = template.get("name", "")
        if first.setdefault(name, in_list) != in_list:
            problems.append(duplicate(f"{where}.name", name))
    return problems


def _childless(path: str, holder: Template) -> list[FieldError]:
    problems: list[FieldError] = []
    for index, template in enumerate(holder.get(COMPOSITES) or ()):
        where = f"{path}.{COMPOSITES}[{index}]"
        if not any(template.get(field) for field in LISTS):
            detail = "must have at least one child PodGroupTemplate or CompositePodGroupTemplate"
            problems.append(invalid(where, template.get("name", ""), detail))
        problems += _childless(where, template)
    return problems


def _height(template: Template) -> int:
    """Number of levels of composite templates, including this one."""
    return 1 + max((_height(child) for child in template.get(COMPOSITES) or ()), default=0)


def _validate_update(new: Object, old: Object) -> list[FieldError]:
    now, was = new.get("spec") or {}, old.get("spec") or {}
    problems = fields.frozen("spec.controllerRef", now.get("controllerRef"), was.get("controllerRef"))
    problems += _one_list(now)
    for field in LISTS:
        problems += _list_update("spec", field, now, was)
    return problems + _tree(now)


def _list_update(path: str, field: str, new: Template, old: Template) -> list[FieldError]:
    path = f"{path}.{field}"
    templates: Sequence[Template] = new.get(field) or ()
    before, after = fields.by_name(old.get(field)), fields.by_name(templates)
    problems: list[FieldError] = []
    for index, template in enumerate(templates):
        was, where = before.get(template.get("name")), f"{path}[{index}]"
        if was is None:
            problems.append(forbidden_field(where, "item may not be added"))
            continue
        problems += grouping.group_update(where, template, was, _MINIMUM[field])
        if field == COMPOSITES:
            for nested in LISTS:
                problems += _list_update(where, nested, template, was)
    problems += [forbidden_field(path, "item may not be removed") for name in before if name not in after]
    return problems + fields.unique(path, templates)


def _warnings(obj: Object) -> list[str]:
    spec = obj.get("spec") or {}
    found = [text for _, where, template in walk("spec", spec) for text in grouping.all_over_basic(where, template)]
    for _, where, template in walk("spec", spec):
        if "all" not in (template.get("disruptionMode") or {}):
            continue
        found += [
            f"{below}.disruptionMode: `single` has no effect below {where}, whose mode `all` evicts the whole tree"
            for _, below, child in walk(where, template)
            if "single" in (child.get("disruptionMode") or {})
        ]
    return found


WORKLOAD = KindRules(validate_create=_validate, validate_update=_validate_update, warnings=_warnings)
