"""Checks of single fields with the messages of kube-apiserver, used by all rule files.

Each takes the field path and the value and returns a list of errors, empty if the value is valid.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ...base.decimals import read_count
from ..errors import FieldError, duplicate, invalid, not_supported, required, too_many
from ..objects import name_formats

Check = Callable[[str, Any], list[FieldError]]

INT32_MAX = 2**31 - 1
_PERCENT = re.compile(r"[0-9]+%")
_PERCENT_SENTENCE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
    "regex used for validation is '[0-9]+%')"
)
#: Longer texts are not cached.
_REMEMBERED = 256


def _by(sentences: Callable[[str], Sequence[str]]) -> Check:
    # Cached, because the same keys, values and names occur again and again.
    known = lru_cache(maxsize=16384)(lambda text: tuple(sentences(text)))

    def check(path: str, value: Any) -> list[FieldError]:
        found = known(value) if len(value) <= _REMEMBERED else sentences(value)
        return [invalid(path, value, sentence) for sentence in found] if found else []

    return check


#: DNS-1123 subdomain, at most 253 characters.
long_name: Check = _by(name_formats.dns1123_subdomain)
#: DNS-1123 label, at most 63 characters.
short_name: Check = _by(name_formats.dns1123_label)
#: DNS-1035 label: starts with a letter, at most 63 characters.
service_name: Check = _by(name_formats.dns1035_label)
#: Optional DNS prefix, slash, name.
label_key: Check = _by(name_formats.qualified_name)
label_value: Check = _by(name_formats.label_value)
path_segment: Check = _by(name_formats.path_segment)


def needed(path: str, value: Any, check: Check) -> list[FieldError]:
    """Required and valid."""
    return check(path, value) if value else [required(path)]


def optional(path: str, value: Any, check: Check) -> list[FieldError]:
    """Valid if present and not empty."""
    return check(path, value) if value else []


def not_negative(path: str, value: int | None) -> list[FieldError]:
    return [] if value is None else at_least(path, value, 0)


def at_least(path: str, value: int, minimum: int) -> list[FieldError]:
    if value >= minimum:
        return []
    return [invalid(path, value, f"must be greater than or equal to {minimum}")]


def at_most(path: str, value: int, maximum: int) -> list[FieldError]:
    if value <= maximum:
        return []
    return [invalid(path, value, f"must be less than or equal to {maximum}")]


def int_or_percent(path: str, value: Any) -> list[FieldError]:
    """A number of pods, or a share of them."""
    if isinstance(value, int):
        return at_least(path, value, 0)
    return [] if _PERCENT.fullmatch(value) else [invalid(path, value, _PERCENT_SENTENCE)]


def number_of(value: int | str) -> int | None:
    """The number of an amount, with or without a percent sign; None if it has none or is too large."""
    if isinstance(value, int):
        return value
    return read_count(value[:-1]) if _PERCENT.fullmatch(value) else None


def at_most_all(path: str, value: int | str) -> list[FieldError]:
    """A share of at most 100 %."""
    if isinstance(value, int) or not _PERCENT.fullmatch(value):
        return []
    share = number_of(value)
    return [invalid(path, value, "must not be greater than 100%")] if share is None or share > 100 else []


def count(path: str, value: int | None) -> list[FieldError]:
    """A required count of at least one; zero counts as unset."""
    return at_least(path, value, 1) if value else [required(path)]


def one_of(path: str, value: Any, allowed: Sequence[str]) -> list[FieldError]:
    return [] if value in allowed else [not_supported(path, value, allowed)]


def union(path: str, value: Mapping[str, Any] | None, members: Sequence[str]) -> list[FieldError]:
    """Exactly one of the members is set."""
    present = [member for member in members if member in (value or {})]
    listed = ", ".join(f"`{member}`" for member in members)
    if not present:
        return [invalid(path, "", f"must specify one of: {listed}")]
    if len(present) > 1:
        return [invalid(path, "{" + ", ".join(present) + "}", f"must specify exactly one of: {listed}")]
    return []


def unique(path: str, items: Sequence[Mapping[str, Any]], key: str = "name") -> list[FieldError]:
    """No two items of a list share their key."""
    seen: dict[Any, int] = {}
    problems: list[FieldError] = []
    for index, item in enumerate(items):
        value = item.get(key)
        if value in seen:
            problems.append(duplicate(f"{path}[{index}]", {key: value}))
        seen.setdefault(value, index)
    return problems


def no_more_than(path: str, items: Sequence[Any], limit: int) -> list[FieldError]:
    return [too_many(path, len(items), limit)] if len(items) > limit else []


def frozen(path: str, new: Any, old: Any) -> list[FieldError]:
    """The field may not change, be added or removed; kube-apiserver shows no value here."""
    return [] if new == old else [invalid(path, None, "field is immutable")]


def shape_frozen(path: str, new: Any, old: Any) -> list[FieldError]:
    """The field may change, but not be added or removed."""
    if old is None and new is not None:
        return [invalid(path, None, "field cannot be set once created")]
    if old is not None and new is None:
        return [invalid(path, None, "field cannot be cleared once set")]
    return []


def by_name(items: Sequence[Mapping[str, Any]] | None) -> dict[Any, Mapping[str, Any]]:
    return {item.get("name"): item for item in items or ()}
