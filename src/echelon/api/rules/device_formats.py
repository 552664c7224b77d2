"""Formats of resource.k8s.io: names of drivers and pools, of attributes and capacities, and values of attributes.

A name without a domain means the driver's own: `memory`, `gpu.example.org/memory`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..errors import FieldError, invalid, too_long
from . import fields

_LONGEST_DOMAIN, _LONGEST_ID, _LONGEST_VALUE, _LONGEST_POOL = 63, 32, 64, 253
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_IDENTIFIER_SENTENCE = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters "
    "or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"
)
_PART = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_SEMANTIC = re.compile(
    rf"(0|[1-9]\d*)(\.(0|[1-9]\d*)){{2}}(-{_PART}(\.{_PART})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?", re.ASCII
)
LISTS = ("ints", "bools", "strings", "versions")
_VALUES = ("int", "bool", "string", "version", *LISTS)


def driver_name(path: str, value: str) -> list[FieldError]:
    """As of CSI drivers: a subdomain in any case, at most 63 characters."""
    problems = [too_long(path, _LONGEST_DOMAIN)] if len(value) > _LONGEST_DOMAIN else []
    return problems + fields.long_name(path, value.lower())


def pool_name(path: str, value: str) -> list[FieldError]:
    problems = [too_long(path, _LONGEST_POOL)] if len(value) > _LONGEST_POOL else []
    return problems + [problem for part in value.split("/") for problem in fields.long_name(path, part)]


def attribute_name(path: str, value: str) -> list[FieldError]:
    """Of an attribute or a capacity, with a domain or without."""
    domain, slash, name = value.partition("/")
    if not slash:
        return _identifier(path, value)
    if "/" in name:
        return []  # as servers of 1.37, which look at no part of such a name
    problems = driver_name(path, domain) if domain else [invalid(path, "", "the domain must not be empty")]
    return problems + (_identifier(path, name) if name else [invalid(path, "", "the name must not be empty")])


def full_attribute_name(path: str, value: str) -> list[FieldError]:
    """With a domain."""
    problems = attribute_name(path, value)
    if "/" not in value:
        problems.append(invalid(path, value, "must include a domain"))
    return problems


def _identifier(path: str, value: str) -> list[FieldError]:
    problems = [too_long(path, _LONGEST_ID)] if len(value) > _LONGEST_ID else []
    return problems + ([] if _IDENTIFIER.fullmatch(value) else [invalid(path, value, _IDENTIFIER_SENTENCE)])


def attribute(path: str, value: Mapping[str, Any]) -> list[FieldError]:
    """Exactly one value, or list of values, of one type."""
    given = [field for field in _VALUES if value.get(field) is not None]
    if len(given) != 1:
        return [invalid(path, dict(value), "exactly one value must be specified")]
    (field,) = given
    here, listed = f"{path}.{field}", value[field] if field in LISTS else [value[field]]
    if not listed:
        return [invalid(here, listed, "must not be empty if specified")]
    problems: list[FieldError] = []
    for index, one in enumerate(listed):
        at = f"{here}[{index}]" if field in LISTS else here
        if field in ("version", "versions") and not _SEMANTIC.fullmatch(one):
            problems.append(invalid(at, one, "must be a string compatible with semver.org spec 2.0.0"))
        if isinstance(one, str) and len(one.encode()) > _LONGEST_VALUE:
            problems.append(too_long(at, _LONGEST_VALUE))
    return problems
