"""`x-kubernetes-validations`: the rules in a schema, evaluated on objects.

Rules that name `oldSelf` hold between the old and the new value of an update; they are skipped where there is no old
value to compare with.  Other rules hold for the value; what an update leaves unchanged is not refused by them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ..custom_kind import CustomKind
from ..errors import FieldError, forbidden_field, invalid, required
from ..scheme import Object
from . import expressions
from .schema_validation import ABSENT, correlated

_OLD = re.compile(r"\boldSelf\b")


def uses_old(rule: Mapping[str, Any]) -> bool:
    """Whether a rule is about a change."""
    return _OLD.search(rule["rule"]) is not None


def text_of(rule: Mapping[str, Any]) -> str:
    """The expression of a rule; an old value that may be missing is an optional in it."""
    if rule.get("optionalOldSelf"):
        old = "hasOld_ ? optional.of(old_) : optional.none()"
        return f"cel.bind(oldSelf, {old}, ({rule['rule']}\n))"
    return str(rule["rule"])


@dataclass
class _Node:
    """A part of a schema that has rules, or has parts that do."""

    schema: Mapping[str, Any]
    rules: list[Mapping[str, Any]]
    fields: dict[str, _Node] = field(default_factory=dict)
    items: _Node | None = None
    entries: _Node | None = None


@lru_cache(maxsize=4096)
def _rules_of(kind: CustomKind) -> _Node | None:
    return _node(kind.schema)


def _node(schema: Mapping[str, Any]) -> _Node | None:
    rules = [one for one in schema.get("x-kubernetes-validations") or () if not _is_skipped(one)]
    made = _Node(schema, rules)
    for name, inner in (schema.get("properties") or {}).items():
        if (below := _node(inner)) is not None:
            made.fields[name] = below
    if isinstance(schema.get("items"), dict):
        made.items = _node(schema["items"])
    if isinstance(schema.get("additionalProperties"), dict):
        made.entries = _node(schema["additionalProperties"])
    return made if rules or made.fields or made.items or made.entries else None


def _is_skipped(rule: Mapping[str, Any]) -> bool:
    return expressions.lacks_functions(rule["rule"])


def check(kind: CustomKind, obj: Object, old: Object | None) -> list[FieldError]:
    """Every rule that does not hold."""
    root = _rules_of(kind)
    if root is None:
        return []
    try:
        return list(_walk(root, obj, ABSENT if old is None else old, "", root=True))
    except _Exhausted as exhausted:
        return [exhausted.problem]
    except RecursionError:
        return [invalid("", "object", "exceeded max depth")]


class _Exhausted(Exception):
    """A rule took too long: no further rules are evaluated."""

    def __init__(self, problem: FieldError) -> None:
        super().__init__(str(problem))
        self.problem = problem


def _walk(node: _Node, value: Any, old: Any, path: str, *, root: bool = False) -> Iterator[FieldError]:
    if value is None:
        return
    yield from _evaluated(node, value, old, path, root=root)
    if isinstance(value, dict):
        for name, item in value.items():
            below = node.fields.get(name) or node.entries
            if below is not None:
                before = old.get(name, ABSENT) if isinstance(old, dict) else ABSENT
                if name not in node.fields:
                    yield from _walk(below, item, before, f"{path}[{name}]")
                else:
                    yield from _walk(below, item, before, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and node.items is not None:
        match = correlated(node.schema, old)
        for index, item in enumerate(value):
            yield from _walk(node.items, item, match(item), f"{path}[{index}]")


def _evaluated(node: _Node, value: Any, old: Any, path: str, *, root: bool) -> Iterator[FieldError]:
    if not node.rules:
        return
    seen = _seen(node.schema, value, root=root)
    before = None if old is ABSENT else _seen(node.schema, old, root=root)
    unchanged = old is not ABSENT and old == value
    for rule in node.rules:
        change = uses_old(rule)
        if (change and old is ABSENT and not rule.get("optionalOldSelf")) or (unchanged and not change):
            continue
        try:
            holds = expressions.evaluate(
                text_of(rule), self=seen, oldSelf=before, old_=before, hasOld_=old is not ABSENT
            )
        except expressions.TooExpensive as stopped:
            detail = (
                f"'{stopped}': no further validation rules will be run due to call cost exceeds limit for rule: "
                f"{rule['rule']}"
            )
            raise _Exhausted(invalid(path, node.schema.get("type", ""), detail)) from None
        except expressions.EvaluationFailed as failed:
            yield invalid(path, node.schema.get("type", ""), f"{failed} evaluating rule: {_name(rule)}")
            continue
        except expressions.BadExpression as bad:
            yield invalid(path, node.schema.get("type", ""), f"rule compile error: {bad}")
            continue
        if holds is not True:
            yield _refusal(rule, value, path, seen, before)


def _seen(schema: Mapping[str, Any], value: Any, *, root: bool) -> Any:
    made = expressions.to_cel(schema, value)
    return {**made, **expressions.object_fields(value)} if root and isinstance(made, dict) else made


def _name(rule: Mapping[str, Any]) -> str:
    return str(rule.get("message") or rule["rule"]).strip()


def _refusal(rule: Mapping[str, Any], value: Any, path: str, seen: Any, before: Any) -> FieldError:
    detail = _message(rule, seen, before)
    where = path + rule.get("fieldPath", "") if path else rule.get("fieldPath", "").lstrip(".")
    reason = rule.get("reason", "FieldValueInvalid")
    if reason == "FieldValueRequired":
        return required(where, detail)
    if reason == "FieldValueForbidden":
        return forbidden_field(where, detail)
    if reason == "FieldValueDuplicate":
        return FieldError(reason, where, f"Duplicate value: {detail}")
    if isinstance(value, (dict, list)):
        return FieldError(reason, where, f"Invalid value: {detail}")
    return invalid(where, value, detail)


def _message(rule: Mapping[str, Any], seen: Any, before: Any) -> str:
    expression = rule.get("messageExpression")
    if expression:
        try:
            made = expressions.evaluate(expression, self=seen, oldSelf=before)
            if isinstance(made, str) and made.strip() and "\n" not in made:
                return made
        except (expressions.EvaluationFailed, expressions.BadExpression):
            pass
    return str(rule["message"]).strip() if rule.get("message") else f"failed rule: {rule['rule'].strip()}"
