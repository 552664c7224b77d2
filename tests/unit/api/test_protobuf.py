"""The protobuf form of built-in kinds: read as the JSON that the same client would have sent."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.protobuf.from_protobuf import NotProtobuf, decode
from echelon.api.protobuf.messages import APIEXTENSIONS, UNKNOWN, message
from echelon.api.protobuf.to_protobuf import encode, has_form

JOB: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j", "labels": {"a": "b"}, "creationTimestamp": "2026-01-02T03:04:05Z"},
    "spec": {
        "parallelism": 0,
        "suspend": False,
        "template": {
            "metadata": {},
            "spec": {
                "containers": [
                    {
                        "name": "c",
                        "resources": {"limits": {"cpu": "1500m"}},
                        "livenessProbe": {"httpGet": {"path": "/", "port": "web"}, "periodSeconds": 5},
                        "ports": [{"containerPort": 80}],
                    }
                ],
                "volumes": [{"name": "v", "emptyDir": {}}, {"name": "m", "configMap": {"name": "c"}}],
            },
        },
    },
}


def test_pointers_keep_their_zero_and_inlined_members_stand_in_their_parent() -> None:
    assert decode(encode(JOB)) == JOB


def test_bytes_are_base64_and_times_have_fractions_where_the_kind_has_them() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "aGVsbG8="}}
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l"},
        "spec": {"renewTime": "2026-01-02T03:04:05.250000Z", "leaseDurationSeconds": 15},
    }
    assert decode(encode(secret)) == secret
    assert decode(encode(lease)) == lease


def test_schemas_of_custom_kinds_travel_with_their_own_names() -> None:
    schema = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"a": {"type": "array", "items": {"type": "string"}, "default": ["x"]}},
        "additionalProperties": False,
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.org"},
        "spec": {"group": "example.org", "versions": [version]},
    }
    assert decode(encode(crd)) == crd


def test_custom_kinds_have_no_protobuf_form() -> None:
    assert not has_form("jobset.x-k8s.io/v1alpha2", "JobSet")
    assert has_form("v1", "DeleteOptions")


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"k8s\x00\xff\xff\xff", encode(JOB)[:-3], b"k8s\x00" + bytes(range(256)), encode(JOB)[:4]],
    ids=["empty", "json", "torn envelope", "torn message", "noise", "no kind"],
)
def test_what_is_no_protobuf_is_refused(body: bytes) -> None:
    with pytest.raises(NotProtobuf):
        decode(body)


def schema_nested(depth: int) -> bytes:
    """A definition whose schema says `not` that many times."""
    written = message(f"{APIEXTENSIONS}.v1.JSONSchemaProps").new()
    for _ in range(depth):
        outer = message(f"{APIEXTENSIONS}.v1.JSONSchemaProps").new()
        getattr(outer, "not").CopyFrom(written)
        written = outer
    definition = message(f"{APIEXTENSIONS}.v1.CustomResourceDefinition").new()
    definition.spec.versions.add().schema.openAPIV3Schema.CopyFrom(written)
    envelope = message(UNKNOWN).new(raw=definition.SerializeToString())
    envelope.typeMeta.apiVersion, envelope.typeMeta.kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
    return b"k8s\x00" + bytes(envelope.SerializeToString())


def test_messages_may_be_nested_but_not_without_end() -> None:
    assert decode(schema_nested(50))["kind"] == "CustomResourceDefinition"
    with pytest.raises(NotProtobuf, match="too deep"):
        decode(schema_nested(99))


def test_an_entry_without_content_is_null() -> None:
    """Embedded JSON of no bytes inside a list, which has no place for an absent entry."""
    properties = message(f"{APIEXTENSIONS}.v1.JSONSchemaProps").new()
    properties.enum.add()
    definition = message(f"{APIEXTENSIONS}.v1.CustomResourceDefinition").new()
    definition.spec.versions.add().schema.openAPIV3Schema.CopyFrom(properties)
    envelope = message(UNKNOWN).new(raw=definition.SerializeToString())
    envelope.typeMeta.apiVersion, envelope.typeMeta.kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
    tree = decode(b"k8s\x00" + bytes(envelope.SerializeToString()))
    assert tree["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["enum"] == [None]
