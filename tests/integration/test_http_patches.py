"""Patches that are large, deep or malformed, over HTTPS: refused, or done in bounded time, and never a 500."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from echelon.api.verbs import PatchType
from tests.https_server import Answer, Https

MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


def made(https: Https, name: str, **more: Any) -> str:
    """The path of a new ConfigMap."""
    answer = https("POST", MAPS, {"metadata": {"name": name, **more.pop("metadata", {})}, "data": {"a": "1"}, **more})
    assert answer.status == 201, answer.body
    return f"{MAPS}/{name}"


def patched(https: Https, path: str, type_: PatchType, body: Any) -> Answer:
    query = "?fieldManager=m&force=true" if type_ is PatchType.APPLY else ""
    return https("PATCH", path + query, body, content_type=type_.value)


def nested(depth: int) -> bytes:
    return b'{"f:a":' * depth + b"{}" + b"}" * depth


@pytest.mark.parametrize("depth", [100, 400, 900, 5_000, 100_000])
@pytest.mark.parametrize("type_", list(PatchType))
def test_a_patch_that_is_nested_too_deep_is_refused(https: Https, type_: PatchType, depth: int) -> None:
    path = made(https, f"deep-{type_.name.lower()}-{depth}")
    if type_ is PatchType.JSON:
        body = b'[{"op": "add", "path": "/data", "value": ' + nested(depth) + b"}]"
    else:
        start = b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "%s"}, "data": '
        body = start % path.rsplit("/", 1)[1].encode() + nested(depth) + b"}"
    assert patched(https, path, type_, body).status in (400, 422)
    assert https("GET", path).json()["data"] == {"a": "1"}


@pytest.mark.parametrize(
    "body", [b"- " * 100_000 + b"a", b"[" * 100_000, b"a: &x [1]\nb: *x\n", b"\x00\xff", b"[1]", b"a"]
)
def test_yaml_that_cannot_be_a_configuration_is_refused(https: Https, body: bytes) -> None:
    answer = patched(https, f"{MAPS}/yaml", PatchType.APPLY, body)
    assert answer.status == 400, answer.body
    assert https("POST", MAPS, body, content_type="application/yaml").status == 400


@pytest.mark.parametrize("depth", [100, 400, 900])
def test_managers_with_deeply_nested_fields_do_not_break_the_server(https: Https, depth: int) -> None:
    path = made(https, f"managers-{depth}")
    fields = b'{"f:data": %s}' % nested(depth)
    entry = b'{"manager":"m","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":%s}' % fields
    body = b'{"metadata": {"managedFields": [%s]}, "data": {"b": "2"}}' % entry
    assert patched(https, path, PatchType.MERGE, body).status in (200, 400, 422)
    configuration = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"managers-{depth}"}, "data": {}}
    assert patched(https, path, PatchType.APPLY, {**configuration, "data": {"c": "3"}}).status == 200


def test_copies_of_copies_are_refused(https: Https) -> None:
    path = made(https, "bomb")
    first = {"op": "add", "path": "/metadata/annotations", "value": {"a": ["x" * 100] * 100}}
    copy = {"op": "copy", "from": "/metadata/annotations", "path": "/metadata/annotations/a/-"}
    answer = patched(https, path, PatchType.JSON, [first, *[copy] * 40])
    assert answer.status == 422
    assert "accumulated size" in answer.json()["message"]
    many = patched(https, path, PatchType.JSON, [{"op": "test", "path": "/data/a", "value": "1"}] * 10_001)
    assert many.status == 413


def test_large_lists_merge_in_linear_time(https: Https) -> None:
    path = made(https, "many")
    names = [f"example.com/{number}" for number in range(30_000)]
    body = {"metadata": {"finalizers": names, "ownerReferences": [{"uid": name} for name in names]}}
    start = time.process_time()
    answer = patched(https, path, PatchType.STRATEGIC, body)
    assert answer.status == 422  # owners without a name
    assert time.process_time() - start < 10


def test_a_test_of_a_large_value_costs_what_the_patch_weighs(https: Https) -> None:
    path = made(https, "tests", data={"a": "1", **{f"k{number}": "x" * 100 for number in range(5_000)}})
    start = time.process_time()
    answer = patched(https, path, PatchType.JSON, [{"op": "test", "path": "", "value": {}}] * 10_000)
    assert answer.status == 422
    assert time.process_time() - start < 5


def test_a_put_at_version_zero_replaces_any_version(https: Https) -> None:
    path = made(https, "zero")
    body = {"metadata": {"name": "zero", "resourceVersion": "0"}, "data": {"a": "2"}}
    assert https("PUT", path, body).json()["data"] == {"a": "2"}
    merged = patched(https, path, PatchType.MERGE, {"metadata": {"resourceVersion": "0"}, "data": {"a": "3"}})
    assert merged.json()["data"] == {"a": "3"}
    lease = {"metadata": {"name": "zero", "resourceVersion": "0"}, "spec": {}}
    assert https("PUT", f"{LEASES}/zero", lease).status == 201
    refused = https("PUT", f"{LEASES}/zero", lease)
    assert refused.status == 422
    assert "must be specified for an update" in refused.json()["message"]


def test_a_put_that_creates_answers_201(https: Https) -> None:
    lease = {"metadata": {"name": "made-by-put"}, "spec": {}}
    first = https("PUT", f"{LEASES}/made-by-put", lease)
    assert first.status == 201
    assert https("PUT", f"{LEASES}/made-by-put", json.loads(first.body)).status == 200


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ("?force=true", 422, "force: Forbidden: may not be specified for non-apply patch"),
        ("?fieldManager=" + "m" * 129, 422, "fieldManager: Too long: may not be more than 128 bytes"),
        ("?fieldManager=a%07b", 422, "invalid character U+0007 (at position 1)"),
    ],
)
def test_options_of_patches_are_checked(https: Https, query: str, code: int, words: str) -> None:
    path = f"{MAPS}/kube-root-ca.crt"
    answer = https("PATCH", path + query, {"data": {"a": "1"}}, content_type=PatchType.MERGE.value)
    assert answer.status == code
    assert words in answer.json()["message"]


@pytest.mark.parametrize(
    "change",
    [
        {"foo": 1},
        {"data": {"a": 5}},
        {"data": ["a"]},
        {"metadata": {"name": "wrong", "labels": {"a": 1}}},
        {"metadata": []},
        {"metadata": {"name": "wrong", "ownerReferences": [{"uid": "1"}, {"uid": "1"}]}},
        {"metadata": {"name": "wrong", "finalizers": ["a.io/a", "a.io/a"]}},
    ],
)
def test_configurations_that_are_not_of_the_kind_are_bad_requests(https: Https, change: Any) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "wrong"}, "data": {"a": "1"}, **change}
    answer = patched(https, f"{MAPS}/wrong", PatchType.APPLY, body)
    assert answer.status == 400, answer.body
    assert https("GET", f"{MAPS}/wrong").status == 404
