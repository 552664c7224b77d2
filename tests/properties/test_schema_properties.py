"""Objects drawn from the schemas themselves: decoding and defaulting settle after one round."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from echelon.api import scheme
from echelon.api.schema import definitions, kind_schema
from echelon.api.schema.definitions import Schema
from echelon.api.scheme import Object, Resource

_SPECIAL: dict[str, st.SearchStrategy[Any]] = {
    definitions.QUANTITY: st.sampled_from(["1", "1500m", "1024Mi", "0", "2e3", 4, 0.5]),
    definitions.INT_OR_STRING: st.integers(0, 9) | st.just("50%"),
    definitions.TIME: st.sampled_from(["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.6+01:00"]),
    definitions.MICRO_TIME: st.just("2026-01-02T03:04:05Z"),
}
_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": st.sampled_from(["", "a", "b"]),
    "integer": st.integers(0, 3),
    "boolean": st.booleans(),
    "number": st.integers(0, 3),
}


def drawn(source: Schema, depth: int) -> st.SearchStrategy[Any]:
    """Values a client might send for a schema: some fields left out, some null, some unknown."""
    name = source.get("$ref")
    if name in _SPECIAL:
        return _SPECIAL[name]
    if name is not None:
        source = definitions.lookup(name)
    if source.get("format") == "byte":
        return st.just("YQ==")
    if source.get("type") in _SCALARS:
        return _SCALARS[source["type"]]
    if depth == 0:
        return st.just([]) if source.get("type") == "array" else st.just({})
    if source.get("type") == "array":
        return st.lists(drawn(source["items"], depth - 1), max_size=2)
    if isinstance(source.get("additionalProperties"), dict):
        return st.dictionaries(st.sampled_from("ab"), drawn(source["additionalProperties"], depth - 1), max_size=2)
    fields = {field: st.none() | drawn(inner, depth - 1) for field, inner in source.get("properties", {}).items()}
    return st.fixed_dictionaries({}, optional={**fields, "stranger": st.just(1)})


@pytest.mark.parametrize(
    "resource", [scheme.POD_GROUPS, scheme.WORKLOADS_ALPHA, scheme.PODS, scheme.JOBS, scheme.JOB_SETS]
)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_decoding_and_defaulting_settle_after_one_round(resource: Resource, data: st.DataObject) -> None:
    sent: Object = data.draw(drawn({"$ref": definitions.name_of(resource)}, 4))
    before = copy.deepcopy(sent)
    once = kind_schema.decode(resource, sent).obj
    assert sent == before
    kind_schema.apply_defaults(resource, once)
    again = kind_schema.decode(resource, once)
    assert again.unknown == []
    assert again.obj == once
    kind_schema.apply_defaults(resource, again.obj)
    assert again.obj == once
