"""Bodies: types, limits, and what is said of those that cannot be read."""

from __future__ import annotations

import pytest

from echelon.api import scheme
from echelon.api.errors import ApiError
from echelon.api.protobuf.from_protobuf import MAGIC
from echelon.api.protobuf.messages import UNKNOWN, message
from echelon.api.protobuf.to_protobuf import encode
from echelon.api.schema import kind_schema
from echelon.api.verbs import PatchType, WriteOptions
from echelon.server.http.requests.body import patch_type, read_delete_body, read_object, read_patch
from echelon.server.http.requests.body_records import DeleteBody
from echelon.server.http.requests.request import MAX_BODY, Disconnected

from .asgi import request

YAML = {"Content-Type": "application/yaml"}
JSON = {"Content-Type": "application/json"}


@pytest.mark.conformance("API-105")
@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({}, b'{"metadata": {"name": "a"}}'),
        ({"Content-Type": "application/json; charset=utf-8"}, b'{"metadata": {"name": "a"}}'),
        (YAML, b"metadata:\n  name: a\n"),
        (YAML, b'{"metadata": {"name": "a"}}'),
    ],
)
async def test_json_and_yaml_are_read_and_the_kind_filled_in(headers: dict[str, str], body: bytes) -> None:
    tree = await read_object(request("POST", headers=headers, body=body), scheme.JOBS)
    assert tree == {"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": "a"}}


async def refusal(headers: dict[str, str], body: bytes | list[bytes], *, strict: bool = False) -> ApiError:
    with pytest.raises(ApiError) as refused:
        await read_object(request("POST", headers=headers, body=body), scheme.JOBS, strict=strict)
    return refused.value


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"apiVersion": "v1"}', "does not match the expected API version (batch/v1)"),
        (b'{"kind": "Pod"}', "cannot be handled as a Job"),
        (b"[]", "must be of type Job"),
        (b"", "must be of type Job"),
        (b"{", "unexpected end of JSON input ({)"),
    ],
)
async def test_what_is_no_such_object_is_a_bad_request(body: bytes, words: str) -> None:
    error = await refusal(JSON, body)
    assert error.code == 400
    assert words in error.message


@pytest.mark.parametrize("body", [b"a: [1, 2\nb: }", b"a: &x [1]\nb: *x"])
async def test_broken_yaml_and_aliases_are_bad_requests(body: bytes) -> None:
    error = await refusal(YAML, body)
    assert (error.code, "error converting YAML to JSON" in error.message) == (400, True)


@pytest.mark.conformance("API-114")
async def test_other_types_are_unsupported() -> None:
    error = await refusal({"Content-Type": "text/plain"}, b"{}")
    assert (error.code, error.reason) == (415, "UnsupportedMediaType")
    assert "unknown format" in error.message


PROTOBUF = {"Content-Type": "application/vnd.kubernetes.protobuf"}
JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"suspend": False}}


@pytest.mark.parametrize("padding", [0, 100_000], ids=["small", "read in a thread"])
async def test_protobuf_is_read(padding: int) -> None:
    metadata = {"name": "a", "annotations": {"padding": "x" * padding}}
    sent = {**JOB, "metadata": metadata}
    assert await read_object(request("POST", headers=PROTOBUF, body=encode(sent)), scheme.JOBS) == sent


async def test_protobuf_without_a_kind_is_of_the_kind_of_the_path() -> None:
    envelope = message(UNKNOWN).new.FromString(encode(JOB)[len(MAGIC) :])
    envelope.ClearField("typeMeta")
    body = MAGIC + envelope.SerializeToString()
    assert await read_object(request("POST", headers=PROTOBUF, body=body), scheme.JOBS) == JOB


async def test_protobuf_of_another_kind_is_a_bad_request() -> None:
    body = encode({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})
    error = await refusal(PROTOBUF, body)
    assert (error.code, "does not match the expected API version (batch/v1)" in error.message) == (400, True)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{}", "does not appear to be a protobuf message, expected prefix [107 56 115 0] ({})"),
        (b"", "(<empty>)"),
        (MAGIC + b"\x12\x04\xff\xff\xff\xff", "Job: the message is torn"),
        (MAGIC + b"\x0a\x04\x0a\x02\xff\xfe", "not UTF-8"),
    ],
)
async def test_what_is_no_protobuf_is_a_bad_request(body: bytes, words: str) -> None:
    error = await refusal(PROTOBUF, body)
    assert (error.code, error.reason) == (400, "BadRequest")
    assert words in error.message


async def test_custom_kinds_are_not_read_from_protobuf() -> None:
    with pytest.raises(ApiError) as refused:
        await read_object(request("POST", headers=PROTOBUF, body=encode(JOB)), scheme.JOB_SETS)
    assert refused.value.code == 415
    assert refused.value.message.endswith("accepted media types include: application/json, application/yaml")


async def test_delete_options_are_read_from_protobuf() -> None:
    sent = encode({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "dryRun": ["All"]})
    body = await read_delete_body(request("DELETE", headers=PROTOBUF, body=sent))
    assert body == DeleteBody(grace_period_seconds=0, dry_run=["All"])


@pytest.mark.conformance("API-23")
@pytest.mark.parametrize("declared", [True, False])
async def test_body_beyond_the_limit_is_refused(declared: bool) -> None:
    headers = {"Content-Length": str(MAX_BODY + 1)} if declared else {}
    error = await refusal(headers, [b" " * MAX_BODY, b" "])
    assert (error.code, error.reason) == (413, "RequestEntityTooLarge")


async def test_body_at_the_limit_is_read() -> None:
    padded = b'{"metadata": {"name": "a"}}'.ljust(MAX_BODY)
    assert (await read_object(request(body=padded), scheme.JOBS))["metadata"] == {"name": "a"}


@pytest.mark.conformance("API-21")
async def test_duplicate_fields_are_named_when_asked_to_be_strict() -> None:
    body = b'{"metadata": {"name": "a", "name": "b"}, "spec": {"template": {"x": [{"y": 1, "y": 2}]}}}'
    error = await refusal({}, body, strict=True)
    assert error.message == (
        'Job in version "v1" cannot be handled as a Job: strict decoding error: '
        'unknown field "spec.template.x", duplicate field "metadata.name", duplicate field "spec.template.x[0].y"'
    )
    assert (await read_object(request(body=body), scheme.JOBS))["metadata"] == {"name": "b"}


async def test_client_that_goes_away_is_noticed() -> None:
    half = request("POST", body=[b"{", b"}"])
    await half.receive()
    await half.receive()
    with pytest.raises(Disconnected):
        await half.body()


async def test_delete_body_may_be_missing() -> None:
    assert await read_delete_body(request("DELETE")) is None
    body = await read_delete_body(request("DELETE", body=b'{"gracePeriodSeconds": 0}'))
    assert body == DeleteBody(grace_period_seconds=0)


@pytest.mark.parametrize(
    "body", [b"[]", b'{"gracePeriodSeconds": "soon"}', b'{"dryRun": "All"}', b'{"preconditions": 1}']
)
async def test_delete_body_with_wrong_types_is_a_bad_request(body: bytes) -> None:
    with pytest.raises(ApiError) as refused:
        await read_delete_body(request("DELETE", body=body))
    assert refused.value.code == 400
    assert "cannot be handled as a DeleteOptions" in refused.value.message


@pytest.mark.parametrize("type_", list(PatchType))
async def test_patches_are_read(type_: PatchType) -> None:
    sent = request("PATCH", headers={"Content-Type": type_.value}, body=b"{}")
    assert patch_type(sent, scheme.PODS) is type_
    patch = await read_patch(sent, type_, WriteOptions())
    assert (patch.type, patch.body) == (type_, {})


async def test_apply_configurations_are_yaml_or_json() -> None:
    patch = await read_patch(
        request("PATCH", body=b"kind: Pod\nmetadata:\n  name: p\n"), PatchType.APPLY, WriteOptions()
    )
    assert patch.body == {"kind": "Pod", "metadata": {"name": "p"}}
    with pytest.raises(ApiError) as refused:
        await read_patch(request("PATCH", body=b"{a: b: c"), PatchType.APPLY, WriteOptions())
    assert refused.value.code == 400
    assert refused.value.message.startswith("error decoding patch: error converting YAML to JSON: ")


async def test_duplicate_fields_of_an_apply_configuration_are_errors_or_warnings() -> None:
    body, warnings = b'{"data": {"a": 1, "a": 2}}', list[str]()
    await read_patch(request("PATCH", body=body), PatchType.APPLY, WriteOptions(warn=warnings.append))
    assert warnings == ['key "data.a" already set in map']
    with pytest.raises(ApiError) as refused:
        await read_patch(request("PATCH", body=body), PatchType.APPLY, WriteOptions(field_validation="Strict"))
    assert refused.value.message == 'error strict decoding patch: key "data.a" already set in map'


async def test_duplicate_keys_of_yaml_are_told_with_their_line() -> None:
    body, warnings = b"data:\n  a: 1\n  b: 2\n  a: 3\n", list[str]()
    patch = await read_patch(request("PATCH", body=body), PatchType.APPLY, WriteOptions(warn=warnings.append))
    assert patch.body == {"data": {"a": 3, "b": 2}}
    assert warnings == ['line 4: key "a" already set in map']
    with pytest.raises(ApiError, match='line 4: key "a" already set in map'):
        await read_patch(request("PATCH", body=body), PatchType.APPLY, WriteOptions(field_validation="Strict"))


@pytest.mark.conformance("API-86")
@pytest.mark.parametrize(
    ("resource", "media_type", "words"),
    [
        (scheme.JOB_SETS, PatchType.STRATEGIC.value, "merge-patch+json"),
        (scheme.PODS, "application/json", "strategic-merge-patch+json"),
        (scheme.PODS, "application/apply-patch+cbor", "apply-patch+yaml"),
    ],
)
async def test_unknown_patch_types_are_unsupported(resource: scheme.Resource, media_type: str, words: str) -> None:
    with pytest.raises(ApiError) as refused:
        patch_type(request("PATCH", headers={"Content-Type": media_type}, body=b"{}"), resource)
    assert refused.value.code == 415
    assert words in refused.value.message


async def test_patch_that_is_no_json_is_a_bad_request() -> None:
    with pytest.raises(ApiError) as refused:
        await read_patch(request("PATCH", body=b"{"), PatchType.MERGE, WriteOptions())
    assert refused.value.code == 400


@pytest.mark.parametrize("size", [10, 50_000])
def test_duplicate_fields_are_found_in_short_and_long_bodies(size: int) -> None:
    many = ",".join(f'"k{index}":"v"' for index in range(size))
    body = f'{{"data":{{{many},"k7":"x"}},"list":[{{"a":1,"a":2}}]}}'.encode()
    assert kind_schema.duplicate_fields(body) == ["data.k7", "list[0].a"]


@pytest.mark.parametrize("filler", ["", "x" * 200_000])
def test_a_deep_body_has_no_duplicate_fields(filler: str) -> None:
    body = ('{"f":"' + filler + '","d":' + '{"a":' * 900 + "1" + "}" * 901).encode()
    assert kind_schema.duplicate_fields(body) == []
