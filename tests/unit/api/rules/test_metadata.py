"""Metadata of every kind: names, labels, annotations, owners, finalizers, and what an update cannot touch."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api import rules
from echelon.api.scheme import CONFIG_MAPS, JOB_SETS, NAMESPACES, SERVICES, Object, Resource

from .builders import edited, named, on_create, on_update

OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("name", "Bad_Name", 'metadata.name: Invalid value: "Bad_Name": a lowercase RFC 1123 subdomain'),
        ("name", "a" * 254, "must be no more than 253"),
        ("generateName", "Bad-", 'metadata.generateName: Invalid value: "Bad-": a lowercase RFC 1123 subdomain'),
        ("namespace", "a.b", 'metadata.namespace: Invalid value: "a.b": a lowercase RFC 1123 label'),
        ("labels", {"-a": "b"}, 'metadata.labels: Invalid value: "-a": name part must consist of'),
        ("labels", {"a": "b c"}, 'metadata.labels: Invalid value: "b c": a valid label must be'),
        ("annotations", {"a/b/c": ""}, 'metadata.annotations: Invalid value: "a/b/c"'),
        ("annotations", {"a": "x" * 262144}, "metadata.annotations: Too long: may not be more than 262144 bytes"),
        ("finalizers", ["mine"], 'metadata.finalizers[0]: Invalid value: "mine": name is neither a standard'),
        ("finalizers", ["orphan", "foregroundDeletion"], "cannot be both set"),
        ("ownerReferences", [{**OWNER, "uid": ""}], 'metadata.ownerReferences[0].uid: Invalid value: "": must not be'),
        ("ownerReferences", [{**OWNER, "apiVersion": ""}], "version must not be empty"),
        ("ownerReferences", [{**OWNER, "kind": "Event"}], "is disallowed from being an owner"),
        (
            "ownerReferences",
            [{**OWNER, "controller": True}, {**OWNER, "name": "q", "controller": True}],
            'Only one reference can have Controller set to true. Found "true" in references for p and q',
        ),
    ],
)
def test_bad_metadata_is_refused(field: str, value: Any, sentence: str) -> None:
    problems = on_create(CONFIG_MAPS, edited(named(), f"metadata.{field}", value))
    assert len(problems) == 1
    assert sentence in problems[0]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "a.b-c.9"),
        ("generateName", "gn-"),
        ("labels", {"example.com/a": "", "b": "C_d"}),
        ("annotations", {"Example.com/A": "anything at all"}),
        ("finalizers", ["example.com/f", "orphan"]),
        ("ownerReferences", [OWNER, {**OWNER, "name": "q", "controller": True}]),
    ],
)
def test_good_metadata_is_accepted(field: str, value: Any) -> None:
    assert on_create(CONFIG_MAPS, edited(named(), f"metadata.{field}", value)) == []


@pytest.mark.parametrize(("resource", "name"), [(NAMESPACES, "a.b"), (SERVICES, "1st")])
def test_some_kinds_have_narrower_names(resource: Resource, name: str) -> None:
    obj: Object = {"metadata": {"name": name}}
    if resource.namespaced:
        obj["metadata"]["namespace"] = "ns"
    assert any(problem.startswith("metadata.name: Invalid value") for problem in on_create(resource, obj))


def test_custom_kinds_may_have_short_finalizers() -> None:
    obj = edited(named(), "metadata.finalizers", ["mine"])
    assert not any("finalizer" in problem for problem in on_create(JOB_SETS, obj))


def test_an_update_keeps_what_the_server_set() -> None:
    old = named()
    old["metadata"] |= {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    new = named()
    new["metadata"] |= {"creationTimestamp": "1999-01-01T00:00:00Z", "deletionTimestamp": "1999-01-01T00:00:00Z"}
    rules.prepare_update(CONFIG_MAPS, new, old)
    assert new == old


def test_another_uid_is_refused() -> None:
    old = edited(named(), "metadata.uid", "u")
    new = edited(named(), "metadata.uid", "v")
    rules.prepare_update(CONFIG_MAPS, new, old)
    assert on_update(CONFIG_MAPS, new, old) == ['metadata.uid: Invalid value: "v": field is immutable']


@pytest.mark.conformance("API-68")
def test_a_deleted_object_takes_no_new_finalizers() -> None:
    old = named()
    old["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a.io/b"]}
    assert on_update(CONFIG_MAPS, edited(old, "metadata.finalizers", []), old) == []
    problems = on_update(CONFIG_MAPS, edited(old, "metadata.finalizers", ["a.io/b", "a.io/c"]), old)
    assert len(problems) == 1
    assert problems[0].startswith("metadata.finalizers: Forbidden: no new finalizers can be added")


def test_equal_owners_count_once() -> None:
    obj = edited(named(), "metadata.ownerReferences", [OWNER, dict(OWNER)])
    rules.prepare_create(CONFIG_MAPS, obj, 0.0)
    assert obj["metadata"]["ownerReferences"] == [OWNER]


def test_a_misspelt_annotation_of_ours_is_said() -> None:
    obj = edited(named(), "metadata.annotations", {"echelon.dev/run-second": "3", "other.dev/x": "y"})
    assert rules.warnings(CONFIG_MAPS, obj) == ["metadata.annotations[echelon.dev/run-second]: unknown, has no effect"]
    assert rules.warnings(CONFIG_MAPS, edited(named(), "metadata.annotations", {"echelon.dev/run-seconds": "3"})) == []
