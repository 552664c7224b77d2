"""PodGroup, CompositePodGroup and PriorityClass: every field rule on create and on update."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api import rules
from echelon.api.scheme import COMPOSITE_POD_GROUPS, POD_GROUPS, PRIORITY_CLASSES, Object, Resource

from .builders import composite, edited, named, on_create, on_update, pod_group

NOT_A_NAME = "a lowercase RFC 1123 subdomain must consist of"
NOT_A_LABEL = "a lowercase RFC 1123 label must consist of"
FIVE_CLAIMS = [{"name": f"c{i}", "resourceClaimName": "r"} for i in range(5)]

BAD_ON_BOTH = [
    ("spec.schedulingPolicy", {}, 'Invalid value: "": must specify one of: `basic`, `gang`'),
    ("spec.parentCompositePodGroupName", "No_Name", f'Invalid value: "No_Name": {NOT_A_NAME}'),
    ("spec.workloadRef", {"templateName": "t"}, "spec.workloadRef.workloadName: Required value"),
    ("spec.workloadRef", {"workloadName": "w"}, "spec.workloadRef.templateName: Required value"),
    (
        "spec.workloadRef",
        {"workloadName": "w", "templateName": "a.b"},
        f'templateName: Invalid value: "a.b": {NOT_A_LABEL}',
    ),
    ("spec.schedulingConstraints", {"topology": [{}]}, "spec.schedulingConstraints.topology[0].key: Required value"),
    (
        "spec.schedulingConstraints",
        {"topology": [{"key": "a"}, {"key": "b"}]},
        "spec.schedulingConstraints.topology: Too many: 2: must have at most 1 item",
    ),
    ("spec.disruptionMode", {}, 'spec.disruptionMode: Invalid value: "": must specify one of: `single`, `all`'),
    ("spec.disruptionMode", {"single": {}, "all": {}}, 'Invalid value: "{single, all}": must specify exactly one of'),
    ("spec.priorityClassName", "Not_A_Class", f'spec.priorityClassName: Invalid value: "Not_A_Class": {NOT_A_NAME}'),
    (
        "spec.priority",
        1_000_000_001,
        "spec.priority: Invalid value: 1000000001: must be less than or equal to 1000000000",
    ),
    (
        "spec.preemptionPolicy",
        "Sometimes",
        'spec.preemptionPolicy: Unsupported value: "Sometimes": supported values: "Never", "PreemptLowerPriority"',
    ),
]
BAD_POD_GROUP = [
    ("spec.schedulingPolicy", {"gang": {}}, "spec.schedulingPolicy.gang.minCount: Required value"),
    ("spec.schedulingPolicy", {"gang": {"minCount": -2}}, "Invalid value: -2: must be greater than or equal to 1"),
    ("spec.resourceClaims", FIVE_CLAIMS, "spec.resourceClaims: Too many: 5: must have at most 4 items"),
    ("spec.resourceClaims", FIVE_CLAIMS[:1] * 2, 'spec.resourceClaims[1]: Duplicate value: {"name":"c0"}'),
    ("spec.resourceClaims", [{"name": "c"}], "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
    ("spec.resourceClaims", [{"resourceClaimName": "r"}], "spec.resourceClaims[0].name: Required value"),
    ("spec.parentCompositePodGroupName", "root", "must be set when parentCompositePodGroupName is set"),
    ("metadata.name", "a" * 254, "metadata.name: Invalid value"),
    ("metadata.finalizers", ["unqualified"], "name is neither a standard finalizer name nor is it fully qualified"),
]
BAD_COMPOSITE = [
    (
        "spec.schedulingPolicy",
        {"gang": {"minGroupCount": 0}},
        "spec.schedulingPolicy.gang.minGroupCount: Required value",
    ),
    ("spec.workloadRef", None, "spec.workloadRef: Required value"),
]


@pytest.mark.conformance("SCH-205")
@pytest.mark.parametrize(("path", "value", "sentence"), [*BAD_ON_BOTH, *BAD_POD_GROUP])
def test_a_bad_pod_group_is_refused(path: str, value: Any, sentence: str) -> None:
    assert any(sentence in told for told in on_create(POD_GROUPS, edited(pod_group(), path, value)))


@pytest.mark.conformance("SCH-205")
@pytest.mark.parametrize(("path", "value", "sentence"), [*BAD_ON_BOTH, *BAD_COMPOSITE])
def test_a_bad_composite_is_refused(path: str, value: Any, sentence: str) -> None:
    assert any(sentence in told for told in on_create(COMPOSITE_POD_GROUPS, edited(composite(), path, value)))


@pytest.mark.conformance("SCH-205", "SCH-66")
@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"schedulingPolicy": {"basic": {}}, "disruptionMode": {"all": {}}},
        {"schedulingConstraints": {}},
        {"schedulingConstraints": {"topology": []}},
        {"schedulingConstraints": {"topology": [{"key": "topology.kubernetes.io/rack"}]}},
        {"parentCompositePodGroupName": "root", "workloadRef": {"workloadName": "w", "templateName": "t"}},
        {"priority": -5, "priorityClassName": "low", "preemptionPolicy": "Never"},
        {"resourceClaims": FIVE_CLAIMS[:4]},
    ],
)
def test_a_good_pod_group_is_accepted(spec: Object) -> None:
    assert on_create(POD_GROUPS, pod_group(**spec)) == []


def test_all_problems_come_at_once() -> None:
    assert len(on_create(POD_GROUPS, pod_group(schedulingPolicy={}, priority=2**31 - 1, disruptionMode={}))) == 3


FULL = {
    "parentCompositePodGroupName": "root",
    "workloadRef": {"workloadName": "w", "templateName": "t"},
    "schedulingConstraints": {"topology": [{"key": "rack"}]},
    "disruptionMode": {"all": {}},
    "priorityClassName": "low",
    "priority": 1,
    "preemptionPolicy": "Never",
}
CHANGES = [
    ("parentCompositePodGroupName", "other"),
    ("workloadRef", {"workloadName": "w", "templateName": "u"}),
    ("schedulingConstraints", {"topology": [{"key": "zone"}]}),
    ("disruptionMode", {"single": {}}),
    ("priorityClassName", "high"),
    ("priority", 2),
    ("preemptionPolicy", "PreemptLowerPriority"),
]


@pytest.mark.conformance("SCH-205")
@pytest.mark.parametrize(
    ("resource", "old"), [(POD_GROUPS, pod_group(**FULL)), (COMPOSITE_POD_GROUPS, composite(**FULL))]
)
@pytest.mark.parametrize(("field", "value"), CHANGES)
def test_a_group_is_written_once(resource: Resource, old: Object, field: str, value: Any) -> None:
    sentence = f"spec.{field}: Invalid value: null: field is immutable"
    assert on_update(resource, edited(old, f"spec.{field}", value), old) == [sentence]
    assert on_update(resource, edited(old, f"spec.{field}", None), old) == [sentence]


@pytest.mark.conformance("SCH-205")
@pytest.mark.parametrize(
    ("resource", "old", "minimum"),
    [(POD_GROUPS, pod_group(), "minCount"), (COMPOSITE_POD_GROUPS, composite(), "minGroupCount")],
)
def test_only_the_minimum_of_a_gang_may_move(resource: Resource, old: Object, minimum: str) -> None:
    path = f"spec.schedulingPolicy.gang.{minimum}"
    assert on_update(resource, edited(old, path, 5), old) == []
    assert on_update(resource, edited(old, path, 0), old) == [f"{path}: Required value"]
    assert on_update(resource, edited(old, path, -1), old) == [
        f"{path}: Invalid value: -1: must be greater than or equal to 1"
    ]


@pytest.mark.conformance("SCH-205")
def test_a_gang_stays_a_gang_and_a_basic_group_basic() -> None:
    gang, basic = pod_group(), pod_group(schedulingPolicy={"basic": {}})
    assert on_update(POD_GROUPS, basic, gang) == [
        "spec.schedulingPolicy.basic: Invalid value: null: field is immutable",
        "spec.schedulingPolicy.gang: Invalid value: null: field cannot be cleared once set",
    ]
    assert on_update(POD_GROUPS, gang, basic) == [
        "spec.schedulingPolicy.basic: Invalid value: null: field is immutable",
        "spec.schedulingPolicy.gang: Invalid value: null: field cannot be set once created",
    ]


def test_status_is_written_only_on_its_own_endpoint() -> None:
    old = {**pod_group(), "status": {"conditions": []}}
    new = edited(old, "status", {"conditions": [{"type": "X"}]})
    rules.prepare_update(POD_GROUPS, new, old)
    assert new["status"] == {"conditions": []}


@pytest.mark.conformance("API-16")
def test_the_status_endpoint_of_a_group_changes_nothing_else() -> None:
    old = {**pod_group(), "status": {}}
    new = edited(edited(old, "metadata.labels", {"a": "b"}), "spec.schedulingPolicy.gang.minCount", 9)
    new["status"] = {"conditions": [{"type": "X"}]}
    rules.prepare_update(POD_GROUPS, new, old, "status")
    assert new == {**old, "status": {"conditions": [{"type": "X"}]}}


@pytest.mark.conformance("API-59")
def test_a_status_sent_on_create_is_dropped() -> None:
    obj = {**pod_group(), "status": {"conditions": [{"type": "X"}]}}
    rules.prepare_create(POD_GROUPS, obj, 0.0)
    assert obj["status"] == {}


CONDITION = {"type": "A", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        ({"conditions": [{**CONDITION, "type": ""}]}, "status.conditions[0].type: Required value"),
        ({"conditions": [{**CONDITION, "status": "Maybe"}]}, 'supported values: "True", "False", "Unknown"'),
        ({"conditions": [{**CONDITION, "reason": ""}]}, "status.conditions[0].reason: Required value"),
        ({"conditions": [{**CONDITION, "reason": "no spaces"}]}, "a condition reason must start with alphabetic"),
        ({"conditions": [{**CONDITION, "lastTransitionTime": ""}]}, "Required value: must be set"),
        ({"conditions": [CONDITION, CONDITION]}, 'status.conditions[1].type: Duplicate value: "A"'),
        ({"resourceClaimStatuses": [{"name": "c"}]}, "must match the name of an entry in `spec.resourceClaims`"),
    ],
)
def test_a_bad_status_is_refused(status: Object, sentence: str) -> None:
    old = {**pod_group(), "status": {}}
    problems = on_update(POD_GROUPS, {**old, "status": status}, old, "status")
    assert len(problems) == 1
    assert sentence in problems[0]


def test_a_good_status_is_accepted() -> None:
    old = {**pod_group(resourceClaims=FIVE_CLAIMS[:1]), "status": {}}
    status = {"conditions": [CONDITION], "resourceClaimStatuses": [{"name": "c0", "resourceClaimName": "r"}]}
    assert on_update(POD_GROUPS, {**old, "status": status}, old, "status") == []


def test_mode_all_over_basic_draws_a_warning() -> None:
    spec = {"schedulingPolicy": {"basic": {}}, "disruptionMode": {"all": {}}}
    assert len(rules.warnings(POD_GROUPS, pod_group(**spec))) == 1
    assert len(rules.warnings(COMPOSITE_POD_GROUPS, composite(**spec))) == 1
    assert rules.warnings(POD_GROUPS, pod_group(disruptionMode={"all": {}})) == []


def priority_class(name: str = "p", **body: Any) -> Object:
    return {"metadata": {"name": name}, "value": 5, **body}


@pytest.mark.parametrize(
    ("obj", "sentence"),
    [
        (priority_class(value=1_000_000_001), "value: Forbidden: maximum allowed value of a user defined priority"),
        (priority_class("system-mine"), "metadata.name: Forbidden: priority class names with 'system-' prefix"),
        (priority_class(preemptionPolicy="Often"), 'supported values: "Never", "PreemptLowerPriority"'),
    ],
)
def test_a_bad_priority_class_is_refused(obj: Object, sentence: str) -> None:
    assert sentence in on_create(PRIORITY_CLASSES, obj)[0]


def test_the_value_of_a_priority_class_stays() -> None:
    old = priority_class(preemptionPolicy="Never")
    assert on_update(PRIORITY_CLASSES, {**old, "description": "new"}, old) == []
    assert on_update(PRIORITY_CLASSES, {**old, "value": 6}, old) == [
        "value: Forbidden: may not be changed in an update."
    ]
    changed = {**old, "preemptionPolicy": "PreemptLowerPriority"}
    assert "preemptionPolicy" in on_update(PRIORITY_CLASSES, changed, old)[0]


def test_the_system_priority_classes_are_accepted() -> None:
    assert on_create(PRIORITY_CLASSES, priority_class("system-node-critical", value=2_000_001_000)) == []
    assert on_create(POD_GROUPS, named(spec={"schedulingPolicy": {"basic": {}}})) == []


@pytest.mark.parametrize("name", ["echelon.dev/exclusive-topology", "echelon.dev/preferred-topology"])
def test_topology_in_an_annotation_of_a_group_is_a_label_key(name: str) -> None:
    for resource, made in ((POD_GROUPS, pod_group()), (COMPOSITE_POD_GROUPS, composite())):
        assert on_create(resource, edited(made, "metadata.annotations", {name: "example.com/rack"})) == []
        (told, *_) = on_create(resource, edited(made, "metadata.annotations", {name: "no key!"}))
        assert told.startswith(f'metadata.annotations[{name}]: Invalid value: "no key!"')
