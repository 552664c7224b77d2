"""Rules of `x-kubernetes-validations` in the schema of a custom kind: the rules must be well formed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import FieldError, invalid, not_supported, required

_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")


def check_schema(path: str, schema: Mapping[str, Any]) -> Iterator[FieldError]:
    """The errors of all rules in a schema."""
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        yield from _rule(f"{path}.x-kubernetes-validations[{index}]", rule)
    if isinstance(schema.get("items"), dict):
        yield from check_schema(f"{path}.items", schema["items"])
    for name, inner in (schema.get("properties") or {}).items():
        yield from check_schema(f"{path}.properties[{name}]", inner)
    if isinstance(schema.get("additionalProperties"), dict):
        yield from check_schema(f"{path}.additionalProperties", schema["additionalProperties"])


def _rule(path: str, rule: Mapping[str, Any]) -> Iterator[FieldError]:
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
