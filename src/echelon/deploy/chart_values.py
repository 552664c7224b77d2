"""Values of the Helm chart: what each is for, its default, and what it may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import yaml

from .chart_templates import TAKES_MUTATING, TAKES_VALIDATING, Choice
from .options import OWN_CONTROLLERS, PARTS, InstallOptions

_DEFAULTS = InstallOptions()


@dataclass(frozen=True)
class Value:
    name: str
    comment: str
    default: object
    schema: Mapping[str, Any]


def _list_of(items: Mapping[str, Any], *, least: int = 0) -> dict[str, Any]:
    return {"type": "array", "items": items, "uniqueItems": True, "minItems": least}


def _record(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "object", "additionalProperties": False, "properties": properties}
    return {**found, "required": list(required)} if required else found


_TEXT = {"type": "string", "minLength": 1}
_TEXTS_BY_NAME = {"type": "object", "additionalProperties": {"type": "string"}}
_QUANTITIES = {"type": "object", "additionalProperties": {"type": ["string", "number"]}}
_RESOURCES = _record({"requests": _QUANTITIES, "limits": _QUANTITIES})
_TOLERATION = _record(
    {
        "key": {"type": "string"},
        "operator": {"enum": ["Exists", "Equal", "Lt", "Gt"]},
        "value": {"type": "string"},
        "effect": {"enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"]},
        "tolerationSeconds": {"type": "integer"},
    }
)

VALUES = (
    Value("image", "Image of the pods.", _DEFAULTS.image, _TEXT),
    Value(
        "imagePullSecrets", "Secrets with which it is pulled, each as {name: …}.", [],
        _list_of(_record({"name": _TEXT}, "name")),
    ),
    Value(
        "replicas", "Pods of each part; one leads, the others take over.", _DEFAULTS.replicas,
        {"type": "integer", "minimum": 1},
    ),
    Value("parts", "What is installed.", list(PARTS), _list_of({"enum": list(PARTS)}, least=1)),
    Value(
        "schedulerNames", "spec.schedulerName of the pods to schedule.", list(_DEFAULTS.scheduler_names),
        _list_of(_TEXT, least=1),
    ),
    Value(
        "controllers", "Controllers to run; leave out those of kinds that somebody else has installed.",
        list(OWN_CONTROLLERS), _list_of({"enum": list(OWN_CONTROLLERS)}, least=1),
    ),
    Value("monitoring", "Objects of the Prometheus operator; the cluster must serve them.", False, {"type": "boolean"}),
    Value(
        "validatingPolicies", "Policies by which the server refuses what is invalid, where it is safe: since 1.36.",
        True, {"type": "boolean"},
    ),
    Value(
        "mutatingPolicies", "Policies by which the server sets defaults, where it serves them: since 1.36.", True,
        {"type": "boolean"},
    ),
    Value("dashboard", "A ConfigMap with a dashboard for Grafana.", True, {"type": "boolean"}),
    Value(
        "priorityClassName", "Priority of the pods; empty: that of the cluster.", _DEFAULTS.pods.priority_class,
        {"type": "string"},
    ),
    Value("nodeSelector", "Labels of the nodes on which they run.", dict(_DEFAULTS.pods.node_selector), _TEXTS_BY_NAME),
    Value("tolerations", "Taints that they tolerate.", [], _list_of(_TOLERATION)),
    Value(
        "resources", "Requests and limits of each part.", dict(_DEFAULTS.pods.resources),
        _record(dict.fromkeys(PARTS, _RESOURCES)),
    ),
    *(
        Value(
            f"{part}Config", f"Config file of the {part}; a change of it needs no new pods.",
            _DEFAULTS.configuration(part), {"type": "string", "pattern": "^apiVersion: "},
        )
        for part in PARTS
    ),
)  # fmt: skip


def _subsets(field: str, names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Every choice of some of the names, by those names in the order of the alphabet."""
    chosen = [some for count in range(1, len(names) + 1) for some in combinations(names, count)]
    return {",".join(sorted(some)): {field: some} for some in reversed(chosen)}


def _switch(value: str, field: str, *, where: str = "") -> Choice:
    """What the server does not take is not made, whatever the value says."""
    chosen = f"(and .Values.{value} ({where}))" if where else f".Values.{value}"
    return Choice(f"toString {chosen}", {"true": {field: True}, "false": {field: False}})


CHOICES = (
    Choice('join "," (sortAlpha .Values.parts)', _subsets("parts", PARTS)),
    Choice('join "," (sortAlpha .Values.controllers)', _subsets("controllers", OWN_CONTROLLERS)),
    _switch("monitoring", "monitoring"),
    _switch("dashboard", "dashboard"),
    _switch(
        "validatingPolicies",
        "validating_policies",
        where=TAKES_VALIDATING,
    ),
    _switch(
        "mutatingPolicies",
        "mutating_policies",
        where=TAKES_MUTATING,
    ),
)


def values_file() -> str:
    parts = [f"# {one.comment}\n{_text({one.name: one.default})}" for one in VALUES]
    return "\n".join(parts)


class _Dumper(yaml.SafeDumper):
    """Text of several lines as a block."""


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


def _text(value: object) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False)


def values_schema() -> dict[str, Any]:
    """Names that are not known are refused, so a typo is told."""
    properties = {one.name: {"description": one.comment, **one.schema} for one in VALUES}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        **_record({**properties, "global": {"type": "object"}}),
    }
