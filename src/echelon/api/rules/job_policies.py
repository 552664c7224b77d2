"""Rules of a Job's podFailurePolicy and successPolicy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import FieldError, duplicate, invalid, not_supported, required, too_long
from ..objects import completion_indexes
from . import fields

MOST_RULES = 20
MOST_PATTERNS = 20
MOST_EXIT_CODES = 255
LONGEST_INDEXES = 64 * 1024
ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
OPERATORS = ("In", "NotIn")
STATUSES = ("False", "True", "Unknown")

Part = Mapping[str, Any]


def _quoted(values: Sequence[str]) -> str:
    return ", ".join(f'"{value}"' for value in values)


def pod_failure(path: str, spec: Part) -> list[FieldError]:
    pods: Part = (spec.get("template") or {}).get("spec") or {}
    problems: list[FieldError] = []
    if pods.get("restartPolicy") not in ("Never", "Always", None):
        where = "spec.template.spec.restartPolicy"
        detail = 'only "Never" is supported when podFailurePolicy is specified'
        problems.append(invalid(where, pods.get("restartPolicy"), detail))
    rules: Sequence[Part] = spec["podFailurePolicy"].get("rules") or ()
    problems += fields.no_more_than(f"{path}.rules", rules, MOST_RULES)
    containers = [
        container.get("name") for field in ("containers", "initContainers") for container in pods.get(field) or ()
    ]
    for index, rule in enumerate(rules):
        problems += _failure_rule(f"{path}.rules[{index}]", rule, spec, containers)
    return problems


def _failure_rule(path: str, rule: Part, spec: Part, containers: Sequence[Any]) -> list[FieldError]:
    problems: list[FieldError] = []
    action = rule.get("action", "")
    if not action:
        problems.append(required(f"{path}.action", f"valid values: {_quoted(ACTIONS)}"))
    elif action == "FailIndex" and "backoffLimitPerIndex" not in spec:
        problems.append(invalid(f"{path}.action", action, "requires the backoffLimitPerIndex to be set"))
    else:
        problems += fields.one_of(f"{path}.action", action, ACTIONS)
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
    if codes is not None:
        problems += _exit_codes(f"{path}.onExitCodes", codes, containers)
    if conditions:
        problems += _pod_conditions(f"{path}.onPodConditions", conditions)
    if codes is not None and conditions:
        detail = "specifying both OnExitCodes and OnPodConditions is not supported"
        problems.append(invalid(path, rule, detail))
    elif codes is None and not conditions:
        problems.append(invalid(path, rule, "specifying one of OnExitCodes and OnPodConditions is required"))
    return problems


def _exit_codes(path: str, codes: Part, containers: Sequence[Any]) -> list[FieldError]:
    problems: list[FieldError] = []
    operator, values = codes.get("operator", ""), codes.get("values") or ()
    if not operator:
        problems.append(required(f"{path}.operator", f"valid values: {_quoted(OPERATORS)}"))
    elif operator not in OPERATORS:
        problems.append(not_supported(f"{path}.operator", operator, OPERATORS))
    name = codes.get("containerName")
    if name is not None and name not in containers:
        detail = "must be one of the container or initContainer names in the pod template"
        problems.append(invalid(f"{path}.containerName", name, detail))
    if not values:
        problems.append(invalid(f"{path}.values", values, "at least one value is required"))
    problems += fields.no_more_than(f"{path}.values", values, MOST_EXIT_CODES)
    seen: dict[int, int] = {}
    for index, value in enumerate(values):
        if value == 0 and operator == "In":
            problems.append(invalid(f"{path}.values[{index}]", value, "must not be 0 for the In operator"))
        if seen.setdefault(value, index) != index:
            problems.append(duplicate(f"{path}.values[{index}]", value))
    if list(values) != sorted(values):
        problems.append(invalid(f"{path}.values", values, "must be ordered"))
    return problems


def _pod_conditions(path: str, patterns: Sequence[Part]) -> list[FieldError]:
    problems = fields.no_more_than(path, patterns, MOST_PATTERNS)
    for index, pattern in enumerate(patterns):
        problems += fields.label_key(f"{path}[{index}].type", pattern.get("type", ""))
        problems += fields.one_of(f"{path}[{index}].status", pattern.get("status", "True"), STATUSES)
    return problems


def success(path: str, spec: Part) -> list[FieldError]:
    policy: Part = spec["successPolicy"]
    if spec.get("completionMode") != "Indexed":
        return [invalid(path, policy, "requires indexed completion mode")]
    rules: Sequence[Part] = policy.get("rules") or ()
    if not rules:
        return [required(f"{path}.rules", "at least one rules must be specified when the successPolicy is specified")]
    problems = fields.no_more_than(f"{path}.rules", rules, MOST_RULES)
    for index, rule in enumerate(rules):
        problems += _success_rule(f"{path}.rules[{index}]", rule, spec.get("completions") or 0)
    return problems


def _success_rule(path: str, rule: Part, completions: int) -> list[FieldError]:
    text, least = rule.get("succeededIndexes"), rule.get("succeededCount")
    if text is None and least is None:
        return [required(path, "at least one of succeededCount or succeededIndexes must be specified")]
    problems: list[FieldError] = []
    listed: int | None = None
    if text is not None:
        if len(text) > LONGEST_INDEXES:
            problems.append(too_long(f"{path}.succeededIndexes", LONGEST_INDEXES))
        try:
            listed = completion_indexes.count(completion_indexes.parse(text, completions))
        except ValueError as wrong:
            problems.append(invalid(f"{path}.succeededIndexes", text, f"error parsing succeededIndexes: {wrong}"))
    if least is not None:
        where = f"{path}.succeededCount"
        problems += fields.at_least(where, least, 0)
        if least > completions:
            detail = f"must be less than or equal to {completions} (the number of specified completions)"
            problems.append(invalid(where, least, detail))
        if listed is not None and least > listed:
            shown = "the number of indexes in the specified succeededIndexes field"
            problems.append(invalid(where, least, f"must be less than or equal to {listed} ({shown})"))
    return problems
