"""Rules of `x-kubernetes-validations` in the schema of a custom kind: expressions compile and do not cost too much."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import FieldError, forbidden_field, invalid, not_supported, required
from ..schema import expression_rules, expressions

Schema = Mapping[str, Any]

_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_PATH = re.compile(r"(?<![\w.])(?:self|oldSelf)((?:\.\??[A-Za-z_][A-Za-z0-9_]*)+)(\s*\()?")
_LOOP = re.compile(r"(?<![\w.])self((?:\.\??[A-Za-z_][A-Za-z0-9_]*)*)\.(?:all|exists|exists_one|map|filter)\s*\(")
#: Bytes of the largest request, from which upstream estimates how long lists without a bound can be.
_LARGEST_REQUEST = 3 * 1024 * 1024
#: What one rule may cost; rules that cost a hundred times as much by the roughest estimate are refused.
_COST_LIMIT = 10_000_000
_REFUSED_AT = 100 * _COST_LIMIT
_ADVICE = (
    "estimated rule cost exceeds budget by factor of more than 100x (try simplifying the rule, or adding maxItems, "
    "maxProperties, and maxLength where arrays, maps, and strings are declared)"
)


def warnings(schema: Schema) -> list[str]:
    """A warning for every rule that is not evaluated."""
    found = [
        f"x-kubernetes-validations: a rule calls functions that are not available, it is not evaluated: {one['rule']}"
        for one in schema.get("x-kubernetes-validations") or ()
        if expressions.lacks_functions(one.get("rule", ""))
    ]
    for _, inner, _ in _children(schema):
        found += warnings(inner)
    return found


def _children(schema: Schema) -> Iterator[tuple[str, Schema, int]]:
    """The step to each schema inside, the schema, and how many values it can have."""
    items, entries = schema.get("items"), schema.get("additionalProperties")
    if isinstance(items, dict):
        yield "items", items, _length(schema)
    for name, inner in (schema.get("properties") or {}).items():
        yield f"properties[{name}]", inner, 1
    if isinstance(entries, dict):
        yield "additionalProperties", entries, _length(schema)


def check_schema(path: str, schema: Schema, times: int = 1, unrelated: str = "") -> Iterator[FieldError]:
    """The errors of all rules in a schema.

    `times` is how often a rule here may run for one object; `unrelated` is the path within which the items of an old
    and a new list cannot be told to be the same.
    """
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        where = f"{path}.x-kubernetes-validations[{index}]"
        problems = [*_form(where, rule)]
        yield from problems or _expression(where, rule, schema, times, unrelated)
    is_map = schema.get("x-kubernetes-list-type") == "map"
    for step, inner, count in _children(schema):
        lost = schema.get("x-kubernetes-map-type") == "atomic" or (step == "items" and not is_map)
        yield from check_schema(f"{path}.{step}", inner, times * count, unrelated or (path if lost else ""))


def _form(path: str, rule: Mapping[str, Any]) -> Iterator[FieldError]:
    text, message = rule.get("rule", "").strip(), rule.get("message", "")
    if not text:
        yield required(f"{path}.rule", "rule is not specified")
    elif message and not message.strip():
        yield invalid(f"{path}.message", message, "must be non-empty if specified")
    elif _broken(message.strip()):
        yield invalid(f"{path}.message", message, "must not contain line breaks")
    elif _broken(text) and not message.strip():
        yield required(f"{path}.message", "message must be specified if rule contains line breaks")
    if "reason" in rule and rule["reason"] not in _REASONS:
        yield not_supported(f"{path}.reason", rule["reason"], _REASONS)


def _broken(text: str) -> bool:
    return "\n" in text or "\r" in text


def _expression(path: str, rule: Mapping[str, Any], schema: Schema, times: int, unrelated: str) -> Iterator[FieldError]:
    text = rule["rule"]
    if expressions.lacks_functions(text):
        return
    try:
        made = expressions.result_type(expression_rules.text_of(rule))
    except expressions.BadExpression as bad:
        yield invalid(f"{path}.rule", rule, f"compilation failed: {bad}")
        return
    undefined = _undefined(schema, text)
    if undefined is not None:
        detail = f"compilation failed: ERROR: <input>:1:{undefined[0]}: undefined field '{undefined[1]}'"
        yield invalid(f"{path}.rule", rule, detail)
    elif made not in ("BOOL", "DYN"):
        yield invalid(f"{path}.rule", rule, "cel expression must evaluate to a bool")
    if times * _loops(schema, text) > _REFUSED_AT:
        yield forbidden_field(f"{path}.rule", _ADVICE)
    changes = expression_rules.uses_old(rule)
    if changes and unrelated:
        detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {unrelated}"
        yield invalid(f"{path}.rule", text, detail)
    if not changes and "optionalOldSelf" in rule:
        detail = "may not be set if oldSelf is not used in rule"
        yield invalid(f"{path}.optionalOldSelf", rule["optionalOldSelf"], detail)
    yield from _message(path, rule)


def _message(path: str, rule: Mapping[str, Any]) -> Iterator[FieldError]:
    text = rule.get("messageExpression")
    if not text or expressions.lacks_functions(text):
        return
    try:
        made = expressions.result_type(text)
    except expressions.BadExpression as bad:
        yield invalid(f"{path}.messageExpression", rule, f"messageExpression compilation failed: {bad}")
        return
    if made not in ("STRING", "DYN"):
        detail = "messageExpression must evaluate to a string"
        yield invalid(f"{path}.messageExpression", rule, detail)


def _undefined(schema: Schema, text: str) -> tuple[int, str] | None:
    """Place and name of the first field in an expression that the schema does not have."""
    for found in _PATH.finditer(text):
        names = found[1].lstrip(".").replace("?", "").split(".")
        here: Any = schema
        for name in names[:-1] if found[2] else names:
            properties = {expressions.escaped(one): inner for one, inner in (here.get("properties") or {}).items()}
            if here.get("type") != "object" or not properties or "additionalProperties" in here:
                break
            if name in ("apiVersion", "kind", "metadata") and name not in properties:
                break
            if name not in properties:
                return found.start(1) + 1, name
            here = properties[name]
    return None


# -- cost --------------------------------------------------------------------------------------------------------


def _loops(schema: Schema, text: str) -> int:
    """How many steps the loops of an expression take, as if each were inside of the one before."""
    steps = 1
    for found in _LOOP.finditer(text):
        here: Any = schema
        for name in filter(None, found[1].replace("?", "").split(".")):
            properties = {expressions.escaped(one): inner for one, inner in (here.get("properties") or {}).items()}
            here = properties.get(name, {})
        if here:
            steps *= _length(here)
    return steps


def _length(schema: Schema) -> int:
    """The most items of a list or map: as declared, else as many as fit into a request."""
    bound = schema.get("maxItems", schema.get("maxProperties"))
    if bound is not None:
        return int(bound)
    inner = schema.get("items") or schema.get("additionalProperties")
    return _LARGEST_REQUEST // (_least(inner) + 1) if isinstance(inner, dict) else 1


def _least(schema: Schema) -> int:
    """The fewest bytes of a value."""
    kind = schema.get("type")
    if kind == "object":
        properties = schema.get("properties") or {}
        needed = [name for name in schema.get("required") or () if name in properties]
        return 2 + sum(len(name) + 4 + _least(properties[name]) for name in needed)
    return {"boolean": 4, "integer": 1, "number": 1}.get(str(kind), 2)
