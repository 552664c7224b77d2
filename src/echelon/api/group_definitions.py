"""CustomResourceDefinitions of Echelon's own group kinds, made from the schemas of the native ones.

What `rules.scheduling` and `rules.workload` say becomes limits and CEL rules of the schema.  What these cannot say is
judged by the scheduler when it reads a tree: names unique over a whole Workload, and equal priorities in it.
"""

from __future__ import annotations

from typing import Any

from .objects.vocabulary import INITIALLY_SCHEDULED
from .rules.grouping import HIGHEST_USER_PRIORITY, MAX_CLAIMS, MAX_TOPOLOGY_KEYS
from .rules.workload import MAX_TEMPLATES
from .schema.crd_manifests import TOO_DEEP, definition, resolved_schema
from .schema.definitions import Schema
from .scheme import COMPOSITE_POD_GROUPS, OWN_GROUP_KINDS, POD_GROUPS, WORKLOADS, Object, Resource

#: Pods name their group in a label.
_LONGEST_NAME = 63
#: Properties of which exactly one must be set.
_UNIONS = (("basic", "gang"), ("single", "all"), ("resourceClaimName", "resourceClaimTemplateName"))
_LONGEST_LISTS = {
    "podGroupTemplates": MAX_TEMPLATES,
    "compositePodGroupTemplates": MAX_TEMPLATES,
    "topology": MAX_TOPOLOGY_KEYS,
    "resourceClaims": MAX_CLAIMS,
    "resourceClaimStatuses": MAX_CLAIMS,
    "conditions": 64,
}
_COUNTS = ("minCount", "minGroupCount")
_NAMES = ("workloadName", "templateName", "parentCompositePodGroupName", "priorityClassName", "name", "key", "kind")
_LONGEST_TEXT = 253
_FROZEN = (
    "parentCompositePodGroupName", "workloadRef", "schedulingConstraints", "resourceClaims", "disruptionMode",
    "priorityClassName", "priority", "preemptionPolicy",
)  # fmt: skip


def _reason(kind: Resource) -> str:
    """How its placement stands: Scheduled, or why not."""
    return f'.status.conditions[?(@.type=="{INITIALLY_SCHEDULED[kind.kind]}")].reason'


_COLUMNS = {
    WORKLOADS: (),
    POD_GROUPS: (
        ("Workload", ".spec.workloadRef.workloadName"),
        ("Min", ".spec.schedulingPolicy.gang.minCount"),
        ("Status", _reason(POD_GROUPS)),
    ),
    COMPOSITE_POD_GROUPS: (
        ("Workload", ".spec.workloadRef.workloadName"),
        ("Min", ".spec.schedulingPolicy.gang.minGroupCount"),
        ("Status", _reason(COMPOSITE_POD_GROUPS)),
    ),
}


def group_definitions() -> list[Object]:
    """One definition for every group kind, in the order in which groups are made."""
    return [_group_definition(native, own) for native, own in OWN_GROUP_KINDS.items()]


def _group_definition(native: Resource, own: Resource) -> Object:
    schema = _limited(resolved_schema(native))
    spec = schema["properties"]["spec"]
    spec["x-kubernetes-validations"] = _workload_rules() if native is WORKLOADS else _group_rules(native, spec)
    if native is not WORKLOADS:
        spec["properties"]["disruptionMode"]["default"] = {"single": {}}
        long_name = f"size(self.metadata.name) <= {_LONGEST_NAME}"
        schema["x-kubernetes-validations"] = [
            _rule(long_name, f"metadata.name must be no more than {_LONGEST_NAME} characters: pods name it in a label")
        ]
    found = definition(own, schema)
    version = found["spec"]["versions"][0]
    version["additionalPrinterColumns"] = [
        *({"name": name, "type": "string", "jsonPath": path} for name, path in _COLUMNS[native]),
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    return found


def _limited(schema: Any) -> Any:
    """The schema with limits; defaults of nothing are left out, since they would hide what is missing."""
    if not isinstance(schema, dict):
        return schema
    made: Schema = {key: value for key, value in schema.items() if key not in ("properties", "items")}
    if made.get("default") in ("", 0, {}):
        del made["default"]
    if "items" in schema:
        made["items"] = _limited(schema["items"])
    if "properties" in schema:
        made["properties"] = {name: _named(name, _limited(inner)) for name, inner in schema["properties"].items()}
        for union in _UNIONS:
            if set(union) <= set(made["properties"]):
                one, other = union
                text = f"must specify exactly one of: {one}, {other}"
                made["x-kubernetes-validations"] = [_rule(f"has(self.{one}) != has(self.{other})", text)]
    return made


def _named(name: str, schema: Schema) -> Schema:
    """Limits by the name of a field."""
    if name in _LONGEST_LISTS and schema.get("type") == "array":
        too_deep = schema["items"] == TOO_DEEP
        for key in ("x-kubernetes-list-type", "x-kubernetes-list-map-keys") if too_deep else ():
            schema.pop(key, None)
        schema["maxItems"] = 0 if too_deep else _LONGEST_LISTS[name]
    elif name in _COUNTS:
        schema["minimum"] = 1
    elif name == "priority":
        schema["maximum"] = HIGHEST_USER_PRIORITY
    elif name == "preemptionPolicy":
        schema["enum"] = ["Never", "PreemptLowerPriority"]
    elif name in _NAMES and schema.get("type") == "string":
        schema |= {"minLength": 1, "maxLength": _LONGEST_TEXT}
    return schema


def _group_rules(native: Resource, spec: Schema) -> list[Object]:
    rules = [_frozen(field) for field in _FROZEN if field in spec["properties"]]
    kept = "has(self.schedulingPolicy.gang) == has(oldSelf.schedulingPolicy.gang)"
    rules.append(_rule(kept, "schedulingPolicy: only the minimum of a gang may change"))
    if native is POD_GROUPS:
        needed = "!has(self.parentCompositePodGroupName) || has(self.workloadRef)"
        rules.append(_rule(needed, "workloadRef must be set when parentCompositePodGroupName is set"))
    return rules


def _workload_rules() -> list[Object]:
    one_list = "has(self.podGroupTemplates) != has(self.compositePodGroupTemplates)"
    rules = [
        _rule(one_list, "must specify exactly one of: podGroupTemplates, compositePodGroupTemplates"),
        _frozen("controllerRef"),
    ]
    for field in ("podGroupTemplates", "compositePodGroupTemplates"):
        same = f"self.{field}.size() == oldSelf.{field}.size()"
        named = f"self.{field}.all(one, oldSelf.{field}.exists(other, other.name == one.name))"
        both = f"has(self.{field}) == has(oldSelf.{field})"
        rules.append(_rule(f"{both} && (!has(self.{field}) || ({same} && {named}))", f"{field}: names may not change"))
    return rules


def _frozen(field: str) -> Object:
    same = f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})"
    return _rule(same, f"{field}: field is immutable")


def _rule(rule: str, message: str) -> Object:
    return {"rule": rule, "message": message}
