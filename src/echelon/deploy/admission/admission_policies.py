"""ValidatingAdmissionPolicies and MutatingAdmissionPolicies of an installation, each with its binding.

Only for kinds whose controllers are run; whether the definition of the kind is ours or upstream's does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...api.scheme import Object
from ..objects.group_label_policy import ANNOTATED_JOBS, GROUPED_JOBS, GROUPED_PODS, PODS_OF_JOBS
from ..objects.labelled import made
from ..options import CONTROLLERS, InstallOptions
from .cel_rule import RuleSet, Variable, cel
from .defaults import JOBSET_DEFAULTS, DefaultSet
from .jobset import JOBSET_CREATE
from .jobset_change import JOBSET_CHANGE
from .kinds import MUTATING_BINDINGS, MUTATING_POLICIES, VALIDATING_BINDINGS, VALIDATING_POLICIES
from .own_groups import OWN_GROUP_RULES
from .runtimes import RUNTIME_CHANGE, RUNTIME_CREATE
from .trainjob import TRAINJOB_CHANGE, TRAINJOB_CREATE
from .trainjob_runtime import TRAINJOB_ON_CLUSTER_RUNTIME, TRAINJOB_ON_RUNTIME

#: The rules that apply where a controller runs.
RULE_SETS: dict[str, tuple[RuleSet, ...]] = {
    "jobset": (JOBSET_CREATE, JOBSET_CHANGE),
    "trainjob": (
        TRAINJOB_CREATE,
        TRAINJOB_CHANGE,
        TRAINJOB_ON_CLUSTER_RUNTIME,
        TRAINJOB_ON_RUNTIME,
        RUNTIME_CREATE,
        RUNTIME_CHANGE,
    ),
}


#: And the defaults.
DEFAULT_SETS = {"jobset": (JOBSET_DEFAULTS,), "job-groups": (ANNOTATED_JOBS, PODS_OF_JOBS)}
#: Those of servers that drop the groups of pods.
LABEL_SETS = {"job-groups": (GROUPED_JOBS, GROUPED_PODS)}


def policy_objects(options: InstallOptions) -> list[Object]:
    """Policies before their bindings."""
    running = options.controllers if CONTROLLERS in options.parts else ()
    tables = (DEFAULT_SETS, LABEL_SETS) if options.makes_own_groups else (DEFAULT_SETS,)
    defaults = [one for table in tables for name in running for one in table.get(name, ())]
    rules = [one for name in running for one in RULE_SETS.get(name, ())]
    if options.own_groups:
        rules += OWN_GROUP_RULES
    found: list[Object] = []
    for one in defaults if options.mutating_policies else ():
        found += _mutating(one, options)
    for each in rules if options.validating_policies else ():
        found += _validating(each, options)
    return found


def full_name(name: str) -> str:
    """Names of policies are told to whoever is refused: they say whose they are."""
    return f"{name}.echelon.dev"


def _validating(rules: RuleSet, options: InstallOptions) -> list[Object]:
    name = full_name(rules.name)
    params, other = _params(rules)
    spec: Object = {
        # Objects to compare with may be unknown for a moment; that refuses nobody.
        "failurePolicy": "Ignore" if params else "Fail",
        **params,
        "matchConstraints": _matching(rules.group, rules.version, rules.resources, rules.operations),
        # The server does not store an empty list, and would change the object at every apply.
        **({"variables": _variables(rules.variables)} if rules.variables else {}),
        "validations": [
            {"expression": cel(rule.holds), "message": rule.message, "reason": "Invalid"} for rule in rules.rules
        ],
    }
    if rules.conditions:
        spec["matchConditions"] = _variables(rules.conditions)
    binding = {"policyName": name, "validationActions": ["Deny"], **other}
    return [
        made(VALIDATING_POLICIES, name, options, spec=spec),
        made(VALIDATING_BINDINGS, name, options, spec=binding),
    ]


def _params(rules: RuleSet) -> tuple[Object, Object]:
    """What policy and binding say of the objects that the rules compare with: all of their kind."""
    kind = rules.compared_with
    if kind is None:
        return {}, {}
    reference = {"selector": {}, "parameterNotFoundAction": "Allow"}
    return {"paramKind": {"apiVersion": kind.api_version, "kind": kind.kind}}, {"paramRef": reference}


def _mutating(defaults: DefaultSet, options: InstallOptions) -> list[Object]:
    """What cannot be defaulted is refused by its schema, or filled in by the controller: so failures are ignored."""
    name, resource = full_name(defaults.name), defaults.resource
    matching = _matching(resource.group, resource.version, (resource.plural,), defaults.operations)
    spec: Object = {
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": {**matching, "objectSelector": dict(defaults.selector)},
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": cel(defaults.patches)}}],
    }
    return [
        made(MUTATING_POLICIES, name, options, spec=spec),
        made(MUTATING_BINDINGS, name, options, spec={"policyName": name}),
    ]


def _matching(group: str, version: str, resources: Sequence[str], operations: Sequence[str]) -> Object:
    """With what the server would fill in: it owns the whole as one field, and would change it at every apply."""
    rule = {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": list(operations),
        "resources": list(resources),
        "scope": "*",
    }
    return {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}, "resourceRules": [rule]}


def _variables(found: Sequence[Variable]) -> list[Object]:
    return [{"name": one.name, "expression": cel(one.value)} for one in found]
