"""Decoders fed with bytes: each may raise its own errors and nothing else.

`make fuzz` bends the seeds at random; with atheris installed, `python -m tests.poison.decoders TARGET` lets coverage
lead: `-max_total_time=60` and other options of libFuzzer follow.
"""

from __future__ import annotations

import importlib
import json
import random
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from echelon.api import rules
from echelon.api.errors import ApiError
from echelon.api.objects import completion_indexes
from echelon.api.objects.selectors import FieldSelector, LabelSelector
from echelon.api.ownership.field_sets import from_fields_v1, to_fields_v1
from echelon.api.patching import apply_patch
from echelon.api.protobuf import from_protobuf, to_protobuf
from echelon.api.schema import kind_schema
from echelon.api.scheme import PODS, by_kind
from echelon.api.verbs import Patch, PatchType
from echelon.base import quantity
from echelon.testing.builders import make_pod

from .corpus import objects

Target = Callable[[bytes], None]
#: What the parser of JSON raises; the server answers it with 400.
_NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def _object(data: bytes) -> None:
    """A JSON body through decoding, defaults and rules."""
    try:
        tree = kind_schema.parse(PODS, data)
        if not isinstance(tree, dict):
            return
        resource = by_kind(str(tree.get("apiVersion")), str(tree.get("kind"))) or PODS
        decoded = kind_schema.decode(resource, tree).obj
        decoded["metadata"].setdefault("name", "a")
        kind_schema.apply_defaults(resource, decoded)
        if any(problem.reason == "FieldValueTypeInvalid" for problem in kind_schema.check(resource, decoded)):
            return
        rules.default(resource, decoded, None)
        rules.prepare_create(resource, decoded, 0.0)
        rules.validate_create(resource, decoded)
    except ApiError:
        pass


def _protobuf(data: bytes) -> None:
    try:
        tree = from_protobuf.decode(data, ("v1", "Pod"))
        to_protobuf.encode(kind_schema.decode(PODS, tree).obj)
    except (from_protobuf.NotProtobuf, ApiError):
        pass


def _patch(data: bytes) -> None:
    for type_ in (PatchType.JSON, PatchType.MERGE, PatchType.STRATEGIC):
        try:
            body = msgspec.json.decode(data)
            apply_patch.apply(PODS, make_pod("p"), Patch(type_, body))
        except (ApiError, *_NOT_JSON):
            pass


def _texts(data: bytes) -> None:
    """Selectors, quantities and indexes."""
    text = data.decode("utf-8", "replace")
    readers: tuple[Callable[[], Any], ...] = (
        lambda: LabelSelector.parse(text),
        lambda: FieldSelector.parse(text, PODS),
        lambda: quantity.parse(text, "cpu"),
        lambda: quantity.canonical(text),
        lambda: completion_indexes.parse(text, 100),
        lambda: completion_indexes.members(text, 100),
    )
    for read in readers:
        with suppress(ApiError, ValueError):
            read()


def _field_set(data: bytes) -> None:
    try:
        once = to_fields_v1(from_fields_v1(msgspec.json.decode(data)))
    except _NOT_JSON:
        return
    assert to_fields_v1(from_fields_v1(once)) == once


def targets() -> dict[str, tuple[Target, list[bytes]]]:
    """Each decoder with seeds."""
    trees = [odd.obj for odd in objects() if len(json.dumps(odd.obj)) < 3_000]
    bodies = [json.dumps(tree).encode() for tree in trees]
    messages = [to_protobuf.encode(kind_schema.decode(PODS, tree).obj) for tree in trees if tree["kind"] == PODS.kind]
    operations = [{"op": "add", "path": "/metadata/labels", "value": {}}, {"op": "move", "from": "/spec", "path": "/a"}]
    patches = [
        json.dumps(one).encode() for one in (operations, {"spec": {"containers": [{"name": "c", "$patch": "delete"}]}})
    ]
    texts = [b"a in (b, c),!d", b"metadata.name=a", b"1.5Gi", b"1e3", b"0,2-5", b"-1n"]
    fields = [b'{"f:spec":{".":{},"k:{\\"name\\":\\"c\\"}":{"f:image":{}}}}', b'{"f:metadata":{"f:labels":{"v:1":{}}}}']
    return {
        "object": (_object, bodies),
        "protobuf": (_protobuf, messages),
        "patch": (_patch, patches + bodies[:20]),
        "texts": (_texts, texts),
        "fields": (_field_set, fields),
    }


def bent(rng: random.Random, body: bytes) -> bytes:
    """The bytes with some of them changed, removed or repeated."""
    made = bytearray(body)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(made) + 1)
        match rng.randrange(3):
            case 0 if at < len(made):
                made[at] = rng.randrange(256)
            case 1:
                del made[at : at + rng.randrange(8)]
            case _:
                made[at:at] = made[: rng.randrange(20)]
    return bytes(made)


def run(seed: int, seconds: float, most: int) -> tuple[int, list[str]]:
    """Bytes tried, and what failed."""
    rng, end, count = random.Random(seed), time.monotonic() + seconds, 0
    failures: list[str] = []
    known = list(targets().items())
    while time.monotonic() < end and count < most:
        name, (target, seeds) = rng.choice(known)
        data = bent(rng, rng.choice(seeds))
        count += 1
        try:
            target(data)
        except Exception as error:
            failures.append(f"{name}: {error!r} of {data[:2_000]!r}")
            print(failures[-1], flush=True)
    return count, failures


def main() -> None:
    atheris = importlib.import_module("atheris")
    target, seeds = targets()[sys.argv.pop(1)]
    choose = random.Random(1)

    def mutate(data: bytes, size: int, seed: int) -> bytes:
        """Now and then a seed: libFuzzer has no files to begin with."""
        return choose.choice(seeds)[:size] if choose.random() < 0.02 else bytes(atheris.Mutate(data, size))

    atheris.instrument_all()
    atheris.Setup(sys.argv, target, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
