"""Rules of resource requests and limits, quality of service class, ports."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ...base.quantity import parse
from ..errors import FieldError, invalid, not_supported, required
from . import fields

STANDARD = ("cpu", "memory", "ephemeral-storage")
HUGE_PAGES = "hugepages-"
#: The resources that determine the quality of service class.
_JUDGED = ("cpu", "memory")

Amounts = Mapping[str, Any]


def milli(name: str, amount: Any) -> int:
    """An amount for comparison: milli-units for cpu, whole units for the rest."""
    return parse(amount, name)


def check(path: str, resources: Mapping[str, Any] | None) -> list[FieldError]:
    resources = resources or {}
    limits: Amounts = resources.get("limits") or {}
    requests: Amounts = resources.get("requests") or {}
    problems = _amounts(f"{path}.limits", limits) + _amounts(f"{path}.requests", requests)
    for name, amount in requests.items():
        where = f"{path}.requests"
        if name in limits:
            problems += _against_limit(where, name, amount, limits[name])
        elif not overcommits(name):
            problems.append(required(f"{path}.limits", "Limit must be set for non overcommitable resources"))
    return problems


def _amounts(path: str, amounts: Amounts) -> list[FieldError]:
    problems: list[FieldError] = []
    for name, amount in amounts.items():
        where = f"{path}[{name}]"
        problems += fields.label_key(where, name)
        if "/" not in name and name not in STANDARD and not name.startswith(HUGE_PAGES):
            problems.append(invalid(where, name, "must be a standard resource for containers"))
        if milli(name, amount) < 0:
            problems.append(invalid(where, amount, "must be greater than or equal to 0"))
        elif _extended(name) and parse(amount, "cpu") % 1000:
            problems.append(invalid(where, amount, "must be an integer"))
    return problems


def _against_limit(path: str, name: str, amount: Any, limit: Any) -> list[FieldError]:
    asked, allowed = milli(name, amount), milli(name, limit)
    if asked != allowed and not overcommits(name):
        return [invalid(path, str(amount), f"must be equal to {name} limit of {limit}")]
    if asked > allowed:
        return [invalid(path, str(amount), f"must be less than or equal to {name} limit of {limit}")]
    return []


def _extended(name: str) -> bool:
    """Extended resources such as devices: integers that cannot be overcommitted."""
    return "/" in name and "kubernetes.io/" not in name


def overcommits(name: str) -> bool:
    return not _extended(name) and not name.startswith(HUGE_PAGES)


def quality_of_service(spec: Mapping[str, Any]) -> str:
    """Guaranteed: every container has cpu and memory limits equal to requests; BestEffort: no requests or limits."""
    if spec.get("resources"):
        holders: Iterable[Mapping[str, Any]] = [spec]
    else:
        holders = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    asked = [_judged(holder.get("resources") or {}) for holder in holders]
    if not any(requests or limits for requests, limits in asked):
        return "BestEffort"
    if all(len(limits) == len(_JUDGED) and requests == limits for requests, limits in asked):
        return "Guaranteed"
    return "Burstable"


def _judged(resources: Mapping[str, Any]) -> tuple[dict[str, int], dict[str, int]]:
    """Requests and limits of cpu and memory that are above zero."""

    def above_zero(amounts: Amounts) -> dict[str, int]:
        found = {name: milli(name, amounts[name]) for name in _JUDGED if name in amounts}
        return {name: amount for name, amount in found.items() if amount > 0}

    return above_zero(resources.get("requests") or {}), above_zero(resources.get("limits") or {})


def port(path: str, value: Any) -> list[FieldError]:
    if isinstance(value, int) and 1 <= value <= 65535:
        return []
    return [invalid(path, value, "must be between 1 and 65535, inclusive")]


def port_name(path: str, value: Any) -> list[FieldError]:
    text = str(value)
    sentences = (
        (len(text) > 15, "must be no more than 15 characters"),
        (
            not re.fullmatch("[-a-z0-9]+", text),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (not re.search("[a-z]", text), "must contain at least one letter (a-z)"),
        ("--" in text, "must not contain consecutive hyphens"),
        (text.startswith("-") or text.endswith("-"), "must not begin or end with a hyphen"),
    )
    return [invalid(path, value, sentence) for wrong, sentence in sentences if wrong]


PROTOCOLS = ("SCTP", "TCP", "UDP")


def protocol(path: str, value: Any) -> list[FieldError]:
    if not value:
        return [required(path)]
    return [] if value in PROTOCOLS else [not_supported(path, value, PROTOCOLS)]
