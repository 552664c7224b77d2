"""Protobuf over HTTPS: bodies of built-in kinds, and replies to clients that accept nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from echelon.api.protobuf.from_protobuf import MAGIC, decode
from echelon.api.protobuf.messages import META, UNKNOWN, message
from echelon.api.protobuf.to_protobuf import encode
from echelon.testing.builders import bare_pod
from tests.https_server import Answer, Https

PROTOBUF = "application/vnd.kubernetes.protobuf"
PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
JOB_SETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
METADATA_LIST = f"{PROTOBUF};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}}


def sent(https: Https, method: str, path: str, obj: dict[str, Any], **headers: str) -> Answer:
    return https(method, path, encode(obj), content_type=PROTOBUF, **headers)


def without_identity(obj: dict[str, Any]) -> dict[str, Any]:
    given = ("name", "uid", "resourceVersion", "creationTimestamp", "managedFields")
    return {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key not in given}}


@pytest.mark.conformance("API-101")
def test_what_is_created_from_protobuf_is_what_json_creates(https: Https) -> None:
    for path, obj in ((PODS, bare_pod("pb")), (MAPS, config_map("pb"))):
        typed = {"apiVersion": "v1", "kind": "Pod", **obj}
        made = sent(https, "POST", path, typed)
        assert made.status == 201, made.body
        twin = https("POST", path, {**typed, "metadata": {**typed["metadata"], "name": "json"}})
        assert without_identity(made.json()) == without_identity(twin.json())


def test_updates_status_binding_eviction_and_delete_options_come_as_protobuf(https: Https) -> None:
    made = sent(https, "POST", PODS, {"apiVersion": "v1", "kind": "Pod", **bare_pod("written")}).json()
    made["metadata"]["labels"] = {"a": "b"}
    updated = sent(https, "PUT", f"{PODS}/written", made)
    assert (updated.status, updated.json()["metadata"]["labels"]) == (200, {"a": "b"})
    reported = {**updated.json(), "status": {"message": "hello"}}
    assert sent(https, "PUT", f"{PODS}/written/status", reported).json()["status"]["message"] == "hello"
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "written"}, "target": {"name": "n1"}}
    assert sent(https, "POST", f"{PODS}/written/binding", binding).status == 201
    assert https("GET", f"{PODS}/written").json()["spec"]["nodeName"] == "n1"
    dry = {"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]}
    assert sent(https, "DELETE", f"{PODS}/written", dry).status == 200
    assert https("GET", f"{PODS}/written").status == 200
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "written"}}
    assert sent(https, "POST", f"{PODS}/written/eviction", eviction).status == 201
    assert sent(https, "DELETE", f"{PODS}/written", {**dry, "dryRun": [], "gracePeriodSeconds": 0}).status == 200
    assert https("GET", f"{PODS}/written").status == 404


def test_custom_kinds_neither_come_nor_go_as_protobuf(https: Https) -> None:
    assert sent(https, "POST", JOB_SETS, config_map("x")).status == 415
    assert https("GET", JOB_SETS, accept=PROTOBUF).status == 406
    metadata = https("GET", JOB_SETS, accept=METADATA_LIST)
    assert (metadata.status, decode(metadata.body)["kind"]) == (200, "PartialObjectMetadataList")


@pytest.mark.conformance("API-102")
def test_clients_that_accept_only_protobuf_get_objects_lists_and_errors_in_it(https: Https) -> None:
    made = sent(https, "POST", MAPS, config_map("only"), accept=PROTOBUF)
    assert (made.status, made.headers["content-type"]) == (201, PROTOBUF)
    plain = https("GET", f"{MAPS}/only").json()
    assert decode(made.body) == plain
    found = decode(https("GET", f"{MAPS}?labelSelector=", accept=PROTOBUF).body)
    same = https("GET", MAPS).json()
    assert found == same
    missing = https("GET", f"{MAPS}/nosuch", accept=PROTOBUF)
    told = decode(missing.body)
    assert (missing.status, missing.headers["content-type"]) == (404, PROTOBUF)
    assert (told["reason"], told["details"]) == ("NotFound", {"name": "nosuch", "kind": "configmaps"})
    gone = https("DELETE", f"{MAPS}/only", accept=PROTOBUF)
    assert decode(gone.body)["status"] == "Success"


def frames(body: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    while body:
        size = int.from_bytes(body[:4], "big")
        event = message(f"{META}.WatchEvent").new.FromString(body[4 : 4 + size])
        yield event.type, decode(event.object.raw)
        body = body[4 + size :]


def test_watch_events_are_frames_of_protobuf_for_those_who_accept_only_that(https: Https) -> None:
    https("POST", MAPS, config_map("watched"))
    only = "fieldSelector=metadata.name%3Dwatched&timeoutSeconds=1"
    answer = https("GET", f"{MAPS}?watch=1&{only}", accept=f"{PROTOBUF};stream=watch")
    assert answer.headers["content-type"] == f"{PROTOBUF};stream=watch"
    (seen,) = frames(answer.body)
    assert seen == ("ADDED", https("GET", f"{MAPS}/watched").json())


def test_a_body_that_is_no_protobuf_is_a_bad_request(https: Https) -> None:
    answer = https("POST", MAPS, b"{}", content_type=PROTOBUF)
    assert answer.status == 400
    assert answer.json()["message"] == (
        "the object provided is unrecognized (must be of type ConfigMap): provided data does not appear to be a "
        "protobuf message, expected prefix [107 56 115 0] ({})"
    )
    torn = MAGIC + message(UNKNOWN).new(raw=b"\x0a\xff").SerializeToString()
    assert https("POST", MAPS, torn, content_type=PROTOBUF).status == 400
