"""Rules of `status.conditions[]` (metav1.Condition)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import FieldError, duplicate, invalid, required, too_long
from . import fields

STATUSES = ("True", "False", "Unknown")
LONGEST_REASON = 1024
LONGEST_MESSAGE = 32768
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")


def check(path: str, conditions: Sequence[Mapping[str, Any]] | None) -> list[FieldError]:
    problems: list[FieldError] = []
    seen: dict[str, int] = {}
    for index, condition in enumerate(conditions or ()):
        where = f"{path}[{index}]"
        type_ = condition.get("type", "")
        if type_ in seen:
            problems.append(duplicate(f"{where}.type", type_))
        seen.setdefault(type_, index)
        problems += _one(where, condition)
    return problems


def _one(path: str, condition: Mapping[str, Any]) -> list[FieldError]:
    problems = fields.needed(f"{path}.type", condition.get("type"), fields.label_key)
    problems += fields.one_of(f"{path}.status", condition.get("status", ""), STATUSES)
    problems += fields.not_negative(f"{path}.observedGeneration", condition.get("observedGeneration"))
    if not condition.get("lastTransitionTime"):
        problems.append(required(f"{path}.lastTransitionTime", "must be set"))
    problems += _reason(f"{path}.reason", condition.get("reason", ""))
    if len(condition.get("message", "").encode()) > LONGEST_MESSAGE:
        problems.append(too_long(f"{path}.message", LONGEST_MESSAGE))
    return problems


def _reason(path: str, reason: str) -> list[FieldError]:
    if not reason:
        return [required(path)]
    problems: list[FieldError] = []
    if not _REASON.fullmatch(reason):
        problems.append(
            invalid(
                path,
                reason,
                "a condition reason must start with alphabetic character, optionally followed by a string of "
                "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' "
                "(e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', "
                "regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')",
            )
        )
    if len(reason) > LONGEST_REASON:
        problems.append(too_long(path, LONGEST_REASON))
    return problems
