"""Trees share the parts that are equal, and are equal to what was stored."""

from __future__ import annotations

import json
from typing import Any

import pytest

from echelon.api.scheme import CONFIG_MAPS, JOB_SETS, PODS
from echelon.base.clock import ManualClock
from echelon.base.rng import Rng
from echelon.server.objects.encoded import decode_json
from echelon.server.objects.object_cache import header_of
from echelon.server.objects.sharing import SharedParts, decode_shared
from echelon.server.objects.stored_objects import Access
from echelon.server.part_sharing import share_now
from echelon.server.pipeline import Pipeline
from echelon.store.memory import open_memory


def _pod(name: str, node: str = "n1") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"u-{name}", "labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}]}], "nodeName": node},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def test_equal_parts_of_objects_are_one() -> None:
    first, second = (decode_shared(json.dumps(_pod(name, name)).encode()) for name in "ab")
    assert (first, second) == (_pod("a", "a"), _pod("b", "b"))
    assert first["spec"]["containers"] is second["spec"]["containers"]
    assert first["status"]["conditions"] is second["status"]["conditions"]
    assert first["metadata"]["labels"] is second["metadata"]["labels"]
    assert first["spec"] is not second["spec"]


@pytest.mark.parametrize(
    "tree",
    [
        {"metadata": {"name": "x"}, "spec": None, "status": []},
        {"metadata": {"name": "x", "labels": None, "annotations": {"a": "b"}}, "spec": "text", "data": {"a": None}},
        {"metadata": {"name": "x", "labels": {"a": "v" * 100}}, "spec": {"a": None, "b": {}, "c": [1.5, True]}},
        {"metadata": {"name": "x"}, "data": {"long": "x" * 100_000}},
    ],
)
def test_odd_objects_are_decoded_as_they_are(tree: dict[str, Any]) -> None:
    value = json.dumps(tree).encode()
    assert decode_shared(value) == decode_shared(value) == tree


def test_what_is_not_asked_for_any_more_is_forgotten_and_what_is_stays() -> None:
    parts = SharedParts(decode_json)
    kept = parts.of(b'["kept"]')
    gone = parts.of(b'["gone"]')
    for number in range(100_000):
        parts.of(b"[%d]" % number)
        if number % 1000 == 0:
            assert parts.of(b'["kept"]') is kept
    assert parts.of(b'["gone"]') is not gone


def test_a_changed_shared_tree_is_found() -> None:
    parts = SharedParts(decode_json)
    parts.of(b"[1]")
    assert parts.changed() == []
    parts.of(b"[1]").append(2)
    assert parts.changed() == [b"[1]"]


@pytest.mark.parametrize("resource", [PODS, CONFIG_MAPS, JOB_SETS])
def test_headers_from_bytes_have_shared_fields(resource: Any) -> None:
    headers = [header_of(resource.key(name, "default"), json.dumps(_pod(name)).encode()) for name in "ab"]
    assert [header.uid for header in headers] == ["u-a", "u-b"]
    assert headers[0].fields is headers[1].fields
    assert headers[0].labels is headers[1].labels


async def test_the_trees_of_writes_share_their_parts_after_a_while() -> None:
    pipeline = Pipeline(open_memory(header_of), ManualClock(), Rng(1))
    await pipeline.bootstrap()
    pods = []
    for name in "ab":
        body = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        pods.append(await pipeline.create(PODS, body, "default"))
    before = json.dumps(pods)
    assert pods[0]["spec"]["containers"] is not pods[1]["spec"]["containers"]
    assert isinstance(pipeline.reader, Access)
    await share_now(pipeline.reader)
    assert pods[0]["spec"]["containers"] is pods[1]["spec"]["containers"]
    assert json.loads(before) == pods
    assert await pipeline.get(PODS, "a", "default") is pods[0]
