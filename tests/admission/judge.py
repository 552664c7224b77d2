"""Admission policies evaluated in process, as kube-apiserver evaluates them: for tests that need no cluster."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_math, ext_optional, ext_strings

from echelon.api.custom.defined_kinds import kinds_of
from echelon.api.objects import meta
from echelon.api.schema import kind_schema
from echelon.api.schema.expressions import _functions
from echelon.api.scheme import CLUSTER_TRAINING_RUNTIMES, TRAINING_RUNTIMES, Object, Resource
from echelon.deploy.objects.installation import definitions
from echelon.deploy.options import InstallOptions

from .cases import Write

_BY_KIND = {one.kind: one.qualified for one in (TRAINING_RUNTIMES, CLUSTER_TRAINING_RUNTIMES)}
_NAMES = ("object", "oldObject", "request", "variables", "params")


@cache
def compiled(expression: str) -> Any:
    """Raises `RuntimeError` if it is none."""
    return _environment().compile(expression)


@cache
def _environment() -> Any:
    extensions = [
        ext_strings.ExtStrings(),
        ext_optional.ExtOptional(),
        ext_bindings.ExtBindings(),
        ext_math.ExtMath(),
        cel.CelExtension("kubernetes", _functions(cel)),
    ]
    return cel.NewEnv(variables=dict.fromkeys(_NAMES, cel.Type.DYN), extensions=extensions)


@cache
def _defined() -> dict[str, Resource]:
    """Kinds that our server does not know, as the definitions of an installation have them, rules included."""
    made = ({**one, "status": {}} for one in definitions(InstallOptions()))
    return {kind.qualified: kind for one in made for kind in kinds_of(one, 0)}


def refused_by_definition(case: Write) -> bool:
    """Whether the schema of its kind refuses a write, or a rule in it; a status that is sent is dropped."""
    kind = _defined().get(case.resource.qualified, case.resource)
    new, old = (one and {name: part for name, part in one.items() if name != "status"} for one in (case.new, case.old))
    return bool(kind_schema.check(kind, {**new, "apiVersion": kind.api_version, "kind": kind.kind}, old))


def refusals(
    policies: Sequence[Object],
    resource: Resource,
    new: Object,
    old: Object | None,
    beside: Sequence[tuple[str, Object]] = (),
) -> list[str]:
    """The messages of all validations that refuse the write; an error of an expression refuses too."""
    operation = "CREATE" if old is None else "UPDATE"
    request = {"operation": operation, "resource": {"resource": resource.plural}}
    said: list[str] = []
    for policy in policies:
        if policy["kind"] == "ValidatingAdmissionPolicy" and _matches(policy, resource, operation):
            for params in _params(policy, new, beside):
                values = {"object": new, "oldObject": old, "request": request, "params": params}
                if all(_value(one["expression"], values) for one in policy["spec"].get("matchConditions") or ()):
                    said += _broken(policy, values)
    return said


def _params(policy: Object, new: Object, beside: Sequence[tuple[str, Object]]) -> list[Object | None]:
    """What a policy is evaluated with, one after the other."""
    kind = policy["spec"].get("paramKind")
    if kind is None:
        return [None]
    space = meta.namespace(new)
    return [one for name, one in beside if name == _BY_KIND[kind["kind"]] and (meta.namespace(one) or space) == space]


def _broken(policy: Object, values: dict[str, Any]) -> list[str]:
    said: list[str] = []
    values["variables"] = {}
    for variable in policy["spec"].get("variables") or ():
        values["variables"][variable["name"]] = _value(variable["expression"], values)
    for validation in policy["spec"]["validations"]:
        try:
            holds = _value(validation["expression"], values)
        except EvaluationError as error:
            said.append(f"{validation['message']}: {error}")
            continue
        if holds is not True:
            said.append(validation["message"])
    return said


class EvaluationError(Exception):
    """An expression without a value."""


def _value(expression: str, values: dict[str, Any]) -> Any:
    try:
        result = compiled(expression).eval(data=values)
    except RuntimeError as error:
        raise EvaluationError(str(error)) from None
    if str(result.type()).endswith("ERROR"):
        raise EvaluationError(str(result.value()))
    return _plain(result)


def _plain(value: Any) -> Any:
    """A value of CEL as one of JSON, at all levels."""
    while hasattr(value, "value"):
        value = value.value()
    if isinstance(value, dict):
        return {_plain(key): _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def _matches(policy: Object, resource: Resource, operation: str) -> bool:
    return any(
        resource.group in rule["apiGroups"] and resource.plural in rule["resources"] and operation in rule["operations"]
        for rule in policy["spec"]["matchConstraints"]["resourceRules"]
    )
