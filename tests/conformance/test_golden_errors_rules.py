"""What a real 1.37.1 server refuses, and how: the recorded cases that rules and admission answer.

The same data is used through HTTPS elsewhere; here nothing but the pure functions runs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from echelon.api import rules, schema, scheme
from echelon.api.admit import admit_create
from echelon.api.errors import ApiError, invalid_object
from echelon.api.scheme import Object, Resource

from ..unit.api.rules.builders import Cluster

RECORDED = json.loads((Path(__file__).parent / "data" / "errors.json").read_text())
CASES = {case["case"]: case for case in RECORDED["cases"]}
KINDS = ("podgroups", "compositepodgroups", "workloads", "pods", "jobs")

#: The field and the reason agree; the text does not, because the real one prints a Go structure.
OTHER_WORDS = {"workload too deep"}


def _cluster() -> Cluster:
    found = [(scheme.NAMESPACES, {"metadata": {"name": "golden"}})]
    for obj in RECORDED["objects"]:
        resource = scheme.by_kind(obj["apiVersion"], obj["kind"])
        assert resource is not None
        found.append((resource, obj))
    return Cluster(*found)


def _resource(path: str) -> Resource | None:
    parts = path.partition("?")[0].strip("/").split("/")
    group, rest = ("", parts[1:]) if parts[0] == "api" else (parts[1], parts[2:])
    return scheme.by_path(group, rest[0], rest[3]) if len(rest) == 4 and rest[1] == "namespaces" else None


def _refusal(resource: Resource, body: Object) -> Object:
    """The Status that creating `body` ends with."""
    obj = schema.decode(resource, body).obj
    obj["metadata"] |= {"namespace": "golden", "uid": "u"}
    schema.apply_defaults(resource, obj)
    try:
        rules.default(resource, obj, None)
        admit_create(resource, obj, _cluster())
    except ApiError as refused:
        return refused.status()
    rules.prepare_create(resource, obj, 0.0)
    return invalid_object(resource, obj["metadata"]["name"], rules.validate_create(resource, obj)).status()


def _ruled(case: Any) -> bool:
    resource = _resource(case["request"]["path"])
    posted = case["request"]["method"] == "POST" and case["status"] in (403, 422)
    return posted and resource is not None and resource.plural in KINDS


@pytest.mark.conformance("SCH-205")
@pytest.mark.parametrize("case", [name for name, case in CASES.items() if _ruled(case)])
def test_a_recorded_creation_is_refused_in_the_same_words(case: str) -> None:
    request, expected = CASES[case]["request"], CASES[case]["response"]
    resource = _resource(request["path"])
    assert resource is not None
    told = _refusal(resource, request["body"])
    assert (told["code"], told["reason"]) == (CASES[case]["status"], expected["reason"])
    if case in OTHER_WORDS:
        where = [(cause["reason"], cause["field"]) for cause in expected["details"]["causes"]]
        assert [(cause["reason"], cause["field"]) for cause in told["details"]["causes"]] == where
    else:
        assert told["message"] == expected["message"]
        assert told["details"] == expected["details"]
