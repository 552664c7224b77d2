"""`x-kubernetes-validations` over HTTPS: rules are compiled with the definition and evaluated on objects.

The first tests are those of upstream's suite (crd_validation_rules, crd_validation_ratcheting).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.https_server import Answer, Https, in_thread
from tests.integration.test_custom_resources import CRDS, CRONTABS, GROUP, definition

INTEGERS = {"type": "array", "items": {"type": "integer"}}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "x-kubernetes-validations": [
        {"rule": "self.x + self.y > 0"},
        {
            "rule": "self.firstArray.isSorted() && self.secondArray.isSorted() && "
            "((self.firstArray.sum() + self.secondArray.sum()) % 2 == 0)"
        },
        {"rule": "self.largeArray.all(x, self.largeArray.all(y, y == x))"},
    ],
    "properties": {
        "x": {"type": "integer"},
        "y": {"type": "integer"},
        "firstArray": {**INTEGERS, "maxItems": 1000},
        "secondArray": {**INTEGERS, "maxItems": 1000},
        "largeArray": {**INTEGERS, "maxItems": 725},
    },
}


@pytest.fixture
def https(tmp_path: Path) -> Iterator[Https]:
    with in_thread(tmp_path) as server:
        yield Https(server)


def defined(https: Https, spec: dict[str, Any], **root: Any) -> Answer:
    schema = {"type": "object", "properties": {"spec": spec}, **root}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return https("POST", CRDS, definition(version))


def made(https: Https, **spec: Any) -> Answer:
    body = {"apiVersion": "stable.example.com/v1", "kind": "CronTab", "metadata": {"name": "a"}, "spec": spec}
    return https("POST", CRONTABS, body)


def changed(https: Https, **spec: Any) -> Answer:
    live = https("GET", f"{CRONTABS}/a").json()
    return https("PUT", f"{CRONTABS}/a", {**live, "spec": {**live["spec"], **spec}})


def causes(answer: Answer) -> list[tuple[str, str]]:
    assert answer.status == 422, answer.body
    return [(cause["field"], cause["message"]) for cause in answer.json()["details"]["causes"]]


def one(type_: str = "integer", *rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"n": {"type": type_, "x-kubernetes-validations": list(rules), **more}}}


def test_objects_that_satisfy_the_rules_are_created_and_others_are_not(https: Https) -> None:
    assert defined(https, SCHEMA).status == 201
    good = {"x": 1, "y": 0, "firstArray": [3, 4], "secondArray": [5, 10], "largeArray": [2, 2]}
    assert causes(made(https, **{**good, "x": 0})) == [("spec", "Invalid value: failed rule: self.x + self.y > 0")]
    assert made(https, **good).status == 201
    found = causes(changed(https, firstArray=[4, 3]))
    assert len(found) == 1
    assert "isSorted" in found[0][1]


def test_a_field_that_a_rule_needs_is_told_if_it_is_missing(https: Https) -> None:
    defined(https, SCHEMA)
    messages = [message for _, message in causes(made(https, x=0, y=0))]
    assert any("failed rule: self.x + self.y > 0" in message for message in messages)
    assert any("no such key: largeArray evaluating rule" in message for message in messages)


def test_a_rule_that_runs_too_long_is_stopped(https: Https) -> None:
    defined(https, SCHEMA)
    large = made(https, x=1, y=1, firstArray=[1], secondArray=[1], largeArray=[20] * 725)
    assert "call cost exceeds limit" in causes(large)[0][1]


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("self.z == 100", "undefined field 'z'"),
        ("self = 42", "Syntax error"),
        ("self.x + 1 == 'a' ? 1 : 2", "found no matching overload"),
        ("'a'", "must evaluate to a bool"),
        ("nosuch(self)", "undeclared reference"),
    ],
)
def test_definitions_with_rules_that_do_not_compile_are_refused(https: Https, rule: str, said: str) -> None:
    spec = {"type": "object", "properties": {"x": {"type": "string"}}, "x-kubernetes-validations": [{"rule": rule}]}
    refused = defined(https, spec)
    field, message = causes(refused)[0]
    assert field == "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule"
    assert said in message


def test_a_definition_whose_rule_would_run_for_too_many_items_is_refused(https: Https) -> None:
    inner = {"type": "array", "items": {"type": "string"}}
    inner["x-kubernetes-validations"] = [{"rule": "self.all(s, s == 'string constant')"}]
    spec = {"type": "object", "properties": {"x": {"type": "array", "items": inner}}}
    assert "exceeds budget" in causes(defined(https, spec))[0][1]


def test_rules_about_a_change_hold_for_updates_alone(https: Https) -> None:
    defined(https, one("integer", {"rule": "self > oldSelf"}))
    assert made(https, n=10).status == 201
    assert causes(changed(https, n=9)) == [("spec.n", "Invalid value: 9: failed rule: self > oldSelf")]
    assert changed(https, n=11).status == 200


def test_an_old_value_may_be_optional(https: Https) -> None:
    rule = {"rule": "!oldSelf.hasValue() || self > oldSelf.value()", "optionalOldSelf": True}
    defined(https, one("integer", rule))
    assert made(https, n=1).status == 201
    assert changed(https, n=0).status == 422
    assert changed(https, n=2).status == 200


def test_rules_about_a_change_need_values_that_can_be_told_apart(https: Https) -> None:
    items = {"type": "integer", "x-kubernetes-validations": [{"rule": "self > oldSelf"}]}
    spec = {"type": "object", "properties": {"x": {"type": "array", "items": items}}}
    assert "uncorrelatable" in causes(defined(https, spec))[0][1]


def test_messages_reasons_and_paths_are_those_of_the_rule(https: Https) -> None:
    spec = {
        "type": "object",
        "properties": {"min": {"type": "integer"}, "max": {"type": "integer"}, "a-b": {"type": "string"}},
        "x-kubernetes-validations": [
            {"rule": "self.min <= self.max", "message": "min is above max", "fieldPath": ".min"},
            {"rule": "self.max < 10", "messageExpression": "'max is %d'.format([self.max])"},
            {"rule": "has(self.a__dash__b)", "reason": "FieldValueRequired", "fieldPath": "['a-b']", "message": "?"},
        ],
    }
    assert defined(https, spec).status == 201
    assert causes(made(https, min=20, max=11)) == [
        ("spec.min", "Invalid value: min is above max"),
        ("spec", "Invalid value: max is 11"),
        ("spec['a-b']", "Required value: ?"),
    ]


def test_rules_see_names_times_durations_and_maps(https: Https) -> None:
    spec = {
        "type": "object",
        "properties": {
            "at": {"type": "string", "format": "date-time"},
            "wait": {"type": "string", "format": "duration"},
            "share": {"type": "number"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "size": {"type": "string"},
        },
        "x-kubernetes-validations": [
            {"rule": "self.at > timestamp('2020-01-01T00:00:00Z')"},
            {"rule": "self.wait <= duration('1h')"},
            {"rule": "self.share * 2.0 <= 1.0"},
            {"rule": "self.labels.all(k, k.startsWith('a') && self.labels[k] != '')"},
            {"rule": "quantity(self.size).isLessThan(quantity('2Gi'))"},
        ],
    }
    rules = [{"rule": "self.metadata.name.size() < 5 && self.kind == 'CronTab'"}]
    assert defined(https, spec, **{"x-kubernetes-validations": rules}).status == 201
    good = {"at": "2026-01-01T00:00:00Z", "wait": "30m", "share": 0, "labels": {"a": "x"}, "size": "1Gi"}
    bad = {"at": "2019-01-01T00:00:00Z", "wait": "2h", "share": 1, "labels": {"b": "x"}, "size": "3Gi"}
    assert len(causes(made(https, **bad))) == 5
    assert made(https, **good).status == 201


def test_functions_that_are_not_there_are_told_and_their_rules_skipped(https: Https) -> None:
    accepted = defined(https, one("string", {"rule": "url(self).getHost() == 'x'"}))
    assert accepted.status == 201
    assert "not evaluated" in accepted.headers["warning"]
    assert made(https, n="anything").status == 201


def test_what_an_update_leaves_unchanged_is_not_refused_by_a_stricter_schema(https: Https) -> None:
    ports = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string"}, "n": {"type": "integer"}},
        },
    }
    spec = {"type": "object", "properties": {"ports": ports, "plain": INTEGERS, "other": {"type": "string"}}}
    defined(https, spec)
    assert made(https, ports=[{"name": "a", "n": 1}], plain=[1]).status == 201
    crd = https("GET", f"{CRDS}/crontabs.stable.example.com").json()
    fields = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    fields["ports"]["items"]["properties"]["n"]["minimum"] = 5
    fields["ports"]["items"]["x-kubernetes-validations"] = [{"rule": "self.n > 5"}]
    fields["plain"]["items"]["minimum"] = 5
    assert https("PUT", f"{CRDS}/crontabs.stable.example.com", crd).status == 200
    assert changed(https, other="x").status == 200
    assert changed(https, ports=[{"name": "b", "n": 7}, {"name": "a", "n": 1}]).status == 200
    # Items of plain lists cannot be told apart.
    assert [field for field, _ in causes(changed(https, plain=[7, 1]))] == ["spec.plain[1]"]
    assert {field for field, _ in causes(changed(https, ports=[{"name": "a", "n": 2}]))} == {"spec.ports[0].n"}
    assert https("GET", f"{GROUP}/v1/crontabs").status == 200
