"""The HTTP face over the durable store, request by request."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from echelon.testing.builders import bare_pod
from tests.https_server import Answer, Https

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


def config_map(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "data": {"a": "1"}}


def made(https: Https, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = https("POST", path, body)
    assert answer.status == 201, answer.body
    found: dict[str, Any] = answer.json()
    return found


def refused(answer: Answer, code: int, reason: str) -> str:
    assert answer.status == code, answer.body
    status = answer.json()
    assert (status["kind"], status["status"], status["code"], status["reason"]) == ("Status", "Failure", code, reason)
    return str(status["message"])


@pytest.mark.conformance("API-1")
def test_created_pod_has_what_the_server_gives(https: Https) -> None:
    sent = {**bare_pod("first"), "status": {"phase": "Running"}}
    answer = https("POST", PODS, sent)
    assert answer.status == 201
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-cache, private"
    stored = answer.json()
    assert (stored["kind"], stored["apiVersion"], stored["metadata"]["generation"]) == ("Pod", "v1", 1)
    assert stored["metadata"]["uid"]
    assert stored["metadata"]["creationTimestamp"].endswith("Z")
    assert int(stored["metadata"]["resourceVersion"]) > 0
    assert stored["status"]["phase"] == "Pending"
    assert https("GET", f"{PODS}/first").json() == stored


@pytest.mark.conformance("API-13")
@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"name": "other"}, "the name of the object (other) does not match the name on the URL (named)"),
        ({}, "name must be provided"),
        ({"name": "named", "namespace": "kube-system"}, "does not match the namespace sent on the request"),
    ],
)
def test_update_must_be_about_the_object_in_the_url(https: Https, metadata: dict[str, Any], words: str) -> None:
    body = {**config_map("named"), "metadata": metadata}
    assert words in refused(https("PUT", f"{MAPS}/named", body), 400, "BadRequest")


@pytest.mark.conformance("API-11")
def test_namespace_of_body_and_url_must_agree(https: Https) -> None:
    message = refused(
        https("POST", PODS, {**bare_pod(), "metadata": {"name": "elsewhere", "namespace": "kube-system"}}),
        400,
        "BadRequest",
    )
    assert message == "the namespace of the provided object does not match the namespace sent on the request"


@pytest.mark.conformance("API-20")
def test_unknown_fields_draw_a_warning_an_error_or_silence(https: Https) -> None:
    body = {**config_map("unknown"), "nosuch": 1}
    answer = https("POST", f"{MAPS}?dryRun=All", body)
    assert answer.status == 201
    assert answer.headers["warning"] == '299 - "unknown field \\"nosuch\\""'
    message = refused(https("POST", f"{MAPS}?fieldValidation=Strict", body), 400, "BadRequest")
    assert message.endswith('strict decoding error: unknown field "nosuch"')
    assert "warning" not in https("POST", f"{MAPS}?fieldValidation=Ignore&dryRun=All", body).headers


@pytest.mark.conformance("API-23")
def test_body_too_large_is_refused(https: Https) -> None:
    body = json.dumps({**config_map("large"), "data": {"a": "x" * (3 * 1024 * 1024)}})
    refused(https("POST", MAPS, body), 413, "RequestEntityTooLarge")


def test_yaml_body_is_accepted(https: Https) -> None:
    answer = https("POST", MAPS, "metadata: {name: from-yaml}\ndata: {a: '1'}\n", content_type="application/yaml")
    assert (answer.status, answer.json()["data"]) == (201, {"a": "1"})


@pytest.mark.conformance("API-105")
@pytest.mark.parametrize("path", ["/version/", "/api/", "/apis/", "/api/v1/", "/apis/batch/v1/", "/api/v1/pods/"])
def test_one_trailing_slash_is_forgiven(https: Https, path: str) -> None:
    assert https("GET", path).status == 200


@pytest.mark.conformance("API-114")
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", PODS),
        ("PATCH", PODS),
        ("POST", f"{PODS}/x"),
        ("POST", "/api/v1/pods"),
        ("DELETE", "/api/v1/pods"),
        ("DELETE", "/api/v1/namespaces"),
        ("OPTIONS", PODS),
        ("GET", f"{PODS}/x/binding"),
        ("DELETE", f"{PODS}/x/status"),
        ("POST", "/version"),
    ],
)
def test_methods_that_make_no_sense_are_not_allowed(https: Https, method: str, path: str) -> None:
    refused(https(method, path, {}), 405, "MethodNotAllowed")


@pytest.mark.conformance("API-114")
def test_unknown_paths(https: Https) -> None:
    answer = https("GET", "/nosuch")
    assert (answer.status, answer.body) == (404, b"404 page not found\n")
    assert answer.headers["content-type"].startswith("text/plain")
    refused(https("GET", f"{PODS}/x/nosuch"), 404, "NotFound")
    refused(https("GET", f"{MAPS}/x/status"), 404, "NotFound")


@pytest.mark.conformance("API-102")
def test_accept_decides_the_form(https: Https) -> None:
    made(https, MAPS, config_map("formed", formed="yes"))
    path, listed = f"{MAPS}/formed", f"{MAPS}?labelSelector=formed"
    assert (
        https("GET", path, accept="application/vnd.kubernetes.protobuf,application/json").json()["kind"] == "ConfigMap"
    )
    refused(https("GET", path, accept="text/foo"), 406, "NotAcceptable")
    partial = https("GET", path, accept=METADATA).json()
    assert (partial["kind"], partial["metadata"]["name"], "data" in partial) == (
        "PartialObjectMetadata",
        "formed",
        False,
    )
    partials = https("GET", listed, accept=METADATA_LIST).json()
    assert (partials["kind"], partials["items"][0]["kind"]) == ("PartialObjectMetadataList", "PartialObjectMetadata")
    table = https("GET", listed, accept=TABLE).json()
    assert (table["kind"], table["rows"][0]["cells"][:2]) == ("Table", ["formed", 1])
    assert https("GET", path, accept=TABLE).json()["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    message = refused(https("GET", f"{listed}&includeObject=Some", accept=TABLE), 400, "BadRequest")
    assert "includeObject" in message


def test_items_of_built_in_lists_do_not_repeat_their_kind_and_custom_ones_do(https: Https) -> None:
    made(https, MAPS, config_map("listed", listed="yes"))
    found = https("GET", f"{MAPS}?labelSelector=listed%3Dyes").json()
    assert (found["kind"], found["apiVersion"]) == ("ConfigMapList", "v1")
    assert "kind" not in found["items"][0]
    assert found["metadata"]["resourceVersion"]


@pytest.mark.conformance("API-43")
def test_lists_come_in_pages(https: Https) -> None:
    for index in range(5):
        made(https, MAPS, config_map(f"page-{index}", page="yes"))
    path = f"{MAPS}?labelSelector=page&limit=2"
    first = https("GET", path).json()
    made(https, MAPS, config_map("page-9", page="yes"))
    second = https("GET", f"{path}&continue={first['metadata']['continue']}").json()
    third = https("GET", f"{path}&continue={second['metadata']['continue']}").json()
    names = [item["metadata"]["name"] for page in (first, second, third) for item in page["items"]]
    assert names == [f"page-{index}" for index in range(5)]
    assert "continue" not in third["metadata"]
    assert len({page["metadata"]["resourceVersion"] for page in (first, second, third)}) == 1
    token = first["metadata"]["continue"]
    refused(https("GET", f"{path}&continue={token}&resourceVersion=7"), 400, "BadRequest")
    refused(https("GET", f"{path}&continue=garbage"), 400, "BadRequest")


@pytest.mark.conformance("API-34", "API-45", "API-46")
@pytest.mark.parametrize(
    ("query", "code", "reason"),
    [
        ("sendInitialEvents=true", 422, "Invalid"),
        ("resourceVersionMatch=Exact", 422, "Invalid"),
        ("watch=1&sendInitialEvents=true", 422, "Invalid"),
        ("fieldSelector=spec.nosuch%3D1", 400, "BadRequest"),
        ("labelSelector=a%20in%20b", 400, "BadRequest"),
        ("watch=1&labelSelector=a%20in%20b", 400, "BadRequest"),
        ("watch=1&resourceVersion=abc", 400, "BadRequest"),
        ("limit=many", 400, "BadRequest"),
    ],
)
def test_bad_list_options_are_refused_with_a_code(https: Https, query: str, code: int, reason: str) -> None:
    refused(https("GET", f"{PODS}?{query}"), code, reason)


@pytest.mark.conformance("API-22")
def test_dry_runs_answer_as_if_and_leave_no_trace(https: Https) -> None:
    stored = made(https, MAPS, config_map("dry"))
    version = https("GET", MAPS).json()["metadata"]["resourceVersion"]
    created = https("POST", f"{MAPS}?dryRun=All", config_map("imagined"))
    assert (created.status, created.json()["metadata"]["name"]) == (201, "imagined")
    assert "resourceVersion" not in created.json()["metadata"]
    patch = {"data": {"b": "2"}}
    patched = https("PATCH", f"{MAPS}/dry?dryRun=All", patch, content_type="application/merge-patch+json")
    assert patched.json()["data"] == {"a": "1", "b": "2"}
    assert https("DELETE", f"{MAPS}/dry?dryRun=All").json()["status"] == "Success"
    assert https("DELETE", f"{MAPS}/dry", {"dryRun": ["All"]}).json()["status"] == "Success"
    assert https("GET", f"{MAPS}/dry").json() == stored
    assert https("GET", MAPS).json()["metadata"]["resourceVersion"] == version


@pytest.mark.conformance("API-21")
def test_repeated_fields_are_refused_when_strict(https: Https) -> None:
    body = '{"metadata": {"name": "twice"}, "data": {"a": "1", "a": "2"}}'
    message = refused(https("POST", f"{MAPS}?fieldValidation=Strict", body), 400, "BadRequest")
    assert message.endswith('strict decoding error: duplicate field "data.a"')


@pytest.mark.conformance("API-69", "API-3")
def test_delete_tells_what_is_gone(https: Https) -> None:
    uid = made(https, MAPS, config_map("gone"))["metadata"]["uid"]
    status = https("DELETE", f"{MAPS}/gone").json()
    assert (status["status"], status["details"]) == ("Success", {"name": "gone", "kind": "configmaps", "uid": uid})
    assert refused(https("GET", f"{MAPS}/gone"), 404, "NotFound") == 'configmaps "gone" not found'


def test_delete_returns_pods_and_whatever_is_only_marked(https: Https) -> None:
    made(https, PODS, bare_pod("deleted"))
    assert https("DELETE", f"{PODS}/deleted", {}).json()["kind"] == "Pod"
    made(https, MAPS, {**config_map("held"), "metadata": {"name": "held", "finalizers": ["example.com/x"]}})
    marked = https("DELETE", f"{MAPS}/held?propagationPolicy=Background")
    assert (marked.status, marked.json()["kind"]) == (200, "ConfigMap")
    assert marked.json()["metadata"]["deletionTimestamp"]


@pytest.mark.conformance("API-77")
def test_delete_of_a_collection_takes_what_matches(https: Https) -> None:
    for name in ("swept-1", "swept-2"):
        made(https, MAPS, config_map(name, swept="yes"))
    made(https, MAPS, config_map("kept", swept="no"))
    path = f"{MAPS}?labelSelector=swept%3Dyes"
    deleted = https("DELETE", path).json()
    assert [item["metadata"]["name"] for item in deleted["items"]] == ["swept-1", "swept-2"]
    assert https("DELETE", path).json()["items"] == []
    assert https("GET", f"{MAPS}/kept").status == 200


@pytest.mark.conformance("API-49", "API-50", "API-53")
def test_binding_gives_a_pod_its_node(https: Https) -> None:
    made(https, PODS, bare_pod("bound"))
    binding = {"metadata": {"name": "bound"}, "target": {"kind": "Node", "name": "n1"}}
    message = refused(https("POST", f"{PODS}/bound/binding", {**binding, "target": {}}), 422, "Invalid")
    assert "target.name: Required value" in message
    answer = https("POST", f"{PODS}/bound/binding", binding)
    assert (answer.status, answer.json()["status"], answer.json()["code"]) == (201, "Success", 201)
    assert https("GET", f"{PODS}/bound").json()["spec"]["nodeName"] == "n1"
    again = https("POST", "/api/v1/namespaces/default/bindings", binding)
    refused(again, 409, "Conflict")
    assert again.json()["details"]["kind"] == "pods/binding"


@pytest.mark.conformance("API-60")
def test_eviction_deletes_a_pod(https: Https) -> None:
    made(https, PODS, bare_pod("evicted"))
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "evicted"}}
    mismatch = https("POST", f"{PODS}/evicted/eviction", {**body, "metadata": {"name": "other"}})
    refused(mismatch, 400, "BadRequest")
    answer = https("POST", f"{PODS}/evicted/eviction", body)
    assert (answer.status, answer.json()["status"]) == (201, "Success")
    assert https("GET", f"{PODS}/evicted").status == 404


@pytest.mark.conformance("API-60")
def test_eviction_against_a_budget_says_when_to_come_back(https: Https) -> None:
    made(https, PODS, bare_pod("guarded", labels={"guarded": "yes"}))
    binding = {"metadata": {"name": "guarded"}, "target": {"name": "n1"}}
    assert https("POST", f"{PODS}/guarded/binding", binding).status == 201
    patch = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    merge = "application/merge-patch+json"
    assert https("PATCH", f"{PODS}/guarded/status", patch, content_type=merge).status == 200
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"guarded": "yes"}}}}
    made(https, "/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
    answer = https("POST", f"{PODS}/guarded/eviction", {"metadata": {"name": "guarded"}})
    refused(answer, 429, "TooManyRequests")
    assert int(answer.headers["retry-after"]) > 0


@pytest.mark.conformance("API-15")
def test_status_is_written_on_its_own_path(https: Https) -> None:
    made(https, PODS, bare_pod("reported"))
    patch = {"status": {"message": "hello"}, "spec": {"nodeName": "ignored"}}
    merge = "application/merge-patch+json"
    assert https("PATCH", f"{PODS}/reported/status", patch, content_type=merge).status == 200
    stored = https("GET", f"{PODS}/reported/status").json()
    assert stored["status"]["message"] == "hello"
    assert "nodeName" not in stored["spec"]


@pytest.mark.conformance("API-103")
def test_aggregated_discovery_has_an_etag(https: Https) -> None:
    answer = https("GET", "/apis", accept=AGGREGATED)
    assert answer.headers["content-type"] == "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    assert answer.headers["vary"] == "Accept"
    assert answer.json()["kind"] == "APIGroupDiscoveryList"
    same = https("GET", "/apis", accept=AGGREGATED, if_none_match=answer.headers["etag"])
    assert (same.status, same.body) == (304, b"")
    assert https("GET", "/apis").json()["kind"] == "APIGroupList"
    assert https("GET", "/api").json()["versions"] == ["v1"]


@pytest.mark.conformance("API-115")
def test_callers_without_the_token_get_health_and_version_only(https: Https) -> None:
    for path in ("/healthz", "/livez", "/readyz?verbose", "/readyz/ping", "/version"):
        assert https("GET", path, authorization="").status == 200
    refused(https("GET", PODS, authorization=""), 403, "Forbidden")
    refused(https("GET", "/nosuch/path", authorization=""), 403, "Forbidden")
    refused(https("GET", PODS, authorization="Bearer wrong"), 401, "Unauthorized")


@pytest.mark.conformance("API-117")
def test_foreign_host_and_origin_are_forbidden(https: Https) -> None:
    for host in ("evil.example", "[::1].evil.example"):
        refused(https("GET", PODS, host=host), 403, "Forbidden")
    refused(https("GET", PODS, origin="https://evil.example", cookie="a=b"), 403, "Forbidden")
    assert https("GET", "/version", authorization="", origin="https://evil.example").status == 403
    assert https("OPTIONS", PODS, authorization="", origin="https://evil.example").status == 403


def test_a_program_with_a_token_may_send_an_origin(https: Https) -> None:
    assert https("GET", PODS, origin="http://127.0.0.1:6443").status == 200


@pytest.mark.conformance("API-113")
def test_openapi_documents_may_be_kept_for_ever_under_their_hash(https: Https) -> None:
    paths = https("GET", "/openapi/v3").json()["paths"]
    assert {"api/v1", "apis/scheduling.k8s.io/v1beta1", "apis/jobset.x-k8s.io/v1alpha2"} <= paths.keys()
    hashed = https("GET", paths["apis/scheduling.k8s.io/v1beta1"]["serverRelativeURL"])
    assert (
        hashlib.sha512(hashed.body).hexdigest().upper() in paths["apis/scheduling.k8s.io/v1beta1"]["serverRelativeURL"]
    )
    assert hashed.headers["cache-control"] == "public, immutable"
    assert hashed.headers["expires"]
    assert hashed.json()["components"]["schemas"]
    plain = https("GET", "/openapi/v3/apis/scheduling.k8s.io/v1beta1")
    assert plain.headers["cache-control"] == "no-cache, private"
    assert (plain.body, plain.headers["etag"]) == (hashed.body, hashed.headers["etag"])
    same = https("GET", "/openapi/v3/apis/scheduling.k8s.io/v1beta1", if_none_match=plain.headers["etag"])
    assert same.status == 304
    assert https("GET", "/openapi/v3/apis/nosuch/v1").status == 404


GNOSTIC = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


def test_openapi_v2_is_json_by_default_and_gnostic_protobuf_when_asked_for(https: Https) -> None:
    plain = https("GET", "/openapi/v2")
    assert plain.headers["content-type"] == "application/json"
    found = plain.json()
    assert found["swagger"] == "2.0"
    pods = found["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert pods["x-kubernetes-group-version-kind"] == {"group": "", "kind": "Pod", "version": "v1"}
    assert {"fieldValidation", "body"} <= {parameter["name"] for parameter in pods["parameters"]}
    assert found["definitions"]["io.k8s.api.core.v1.Pod"]["properties"]["spec"]["$ref"].startswith("#/definitions/")
    for asked in (GNOSTIC, GNOSTIC.replace("v2.v1.0", "v2@v1.0"), f"{GNOSTIC},application/json"):
        packed = https("GET", "/openapi/v2", accept=asked)
        assert (packed.status, packed.headers["content-type"]) == (200, GNOSTIC)
        assert packed.body.startswith(b"\x0a\x032.0")
    assert https("GET", "/openapi/v2", accept="text/foo").status == 406


def test_openapi_v2_has_an_etag(https: Https) -> None:
    for accept in ("application/json", GNOSTIC):
        answer = https("GET", "/openapi/v2", accept=accept)
        assert answer.headers["vary"] == "Accept"
        same = https("GET", "/openapi/v2", accept=accept, if_none_match=answer.headers["etag"])
        assert (same.status, same.body, same.headers["etag"]) == (304, b"", answer.headers["etag"])


def test_a_review_has_no_table(https: Https) -> None:
    review = {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert https("POST", path, review).status == 201
    assert https("POST", path, review, accept=TABLE).status == 406


def test_a_timeout_that_is_no_duration_is_refused(https: Https) -> None:
    refused = https("GET", "/version?timeout=soon")
    assert refused.status == 400
    assert refused.body == b'invalid timeout specified in the request URL - time: invalid duration "soon"\n'
    assert https("GET", "/version?timeout=1h30m").status == 200
    assert https("GET", "/api/v1/namespaces?timeout=0").status == 200
