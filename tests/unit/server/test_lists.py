"""Replies to lists from stored bytes: the same content in chunks as in one piece, and room for others in between."""

from __future__ import annotations

import asyncio
import json
from collections.abc import MutableMapping
from typing import Any

import pytest

from echelon.api.scheme import CONFIG_MAPS, JOB_SETS, PODS, Object, Resource
from echelon.server.http.replies.encode import Presentation
from echelon.server.http.replies.lists import list_reply
from echelon.server.http.requests.content_negotiation import PLAIN, Form
from echelon.server.http.requests.request import Reply
from echelon.server.objects.encoded import EncodedList, encode_object
from echelon.server.objects.turns import Turns


def _object(resource: Resource, number: int, more: str = "") -> Object:
    metadata = {"name": f"n{number}", "namespace": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}
    # In another order than the stored one.
    return {
        "metadata": {**metadata, "annotations": {"text": more}},
        "kind": resource.kind,
        "spec": {},
        "apiVersion": resource.storage_api_version,
    }


async def _body(reply: Reply) -> tuple[bytes, int]:
    """The whole body, and in how many pieces it came."""
    pieces: list[bytes] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.body":
            pieces.append(message["body"])

    await reply.send(send)
    return b"".join(pieces), len(pieces)


async def _listed(resource: Resource, trees: list[Object], form: Form = PLAIN) -> tuple[Object, int]:
    found = EncodedList([encode_object(tree) for tree in trees], "7", "token", 3)
    body, pieces = await _body(await list_reply(Presentation(resource, 0.0, form), found, Turns(), "", lambda: None))
    return json.loads(body), pieces


@pytest.mark.parametrize("count", [0, 1, 999, 1000, 1001, 2500])
async def test_items_of_built_in_kinds_have_no_type_however_many_chunks_they_fill(count: int) -> None:
    trees = [_object(CONFIG_MAPS, number) for number in range(count)]
    body, pieces = await _listed(CONFIG_MAPS, trees)
    assert body["kind"] == "ConfigMapList"
    assert body["metadata"] == {"resourceVersion": "7", "continue": "token", "remainingItemCount": 3}
    assert body["items"] == [{"metadata": tree["metadata"], "spec": {}} for tree in trees]
    assert pieces == max(1, -(-count // 1000))


async def test_items_of_custom_kinds_keep_their_type() -> None:
    trees = [_object(JOB_SETS, number) for number in range(3)]
    body, _ = await _listed(JOB_SETS, trees)
    assert body["items"] == trees


async def test_large_items_fill_chunks_by_their_size() -> None:
    trees = [_object(CONFIG_MAPS, number, "x" * 200_000) for number in range(10)]
    body, pieces = await _listed(CONFIG_MAPS, trees)
    assert [item["metadata"]["name"] for item in body["items"]] == [f"n{number}" for number in range(10)]
    assert pieces == 5


async def test_metadata_lists_have_the_metadata_of_every_item() -> None:
    trees = [_object(PODS, number) for number in range(1500)]
    body, _ = await _listed(PODS, trees, Form("metadata"))
    assert (body["kind"], body["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert body["items"][-1] == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": trees[-1]["metadata"],
    }


async def test_tables_have_a_row_for_every_item() -> None:
    body, pieces = await _listed(CONFIG_MAPS, [_object(CONFIG_MAPS, number) for number in range(100)], Form("table"))
    assert body["columnDefinitions"]
    assert [entry["cells"][0] for entry in body["rows"]] == [f"n{number}" for number in range(100)]
    assert pieces == 3


async def test_bytes_in_an_older_order_lose_their_type_too() -> None:
    tree = _object(CONFIG_MAPS, 1)
    found = EncodedList([json.dumps(tree).encode()], "7")
    body, _ = await _body(await list_reply(Presentation(CONFIG_MAPS, 0.0), found, Turns(), "", lambda: None))
    assert json.loads(body)["items"] == [{"metadata": tree["metadata"], "spec": {}}]


async def test_others_run_between_the_chunks_of_a_list() -> None:
    found = EncodedList([encode_object(_object(CONFIG_MAPS, number)) for number in range(5_000)], "7")
    reply = await list_reply(Presentation(CONFIG_MAPS, 0.0), found, Turns(), "", lambda: None)
    order: list[str] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        order.append("chunk")

    async def tick() -> None:
        while len(order) < 15:
            order.append("tick")
            await asyncio.sleep(0)

    await asyncio.gather(reply.send(send), tick())
    # The headers and the first chunk come together.
    assert "chunk chunk" not in " ".join(order[2:])
