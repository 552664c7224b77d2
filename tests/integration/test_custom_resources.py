"""CustomResourceDefinitions over HTTPS: their kinds are served, checked, defaulted, printed, and gone with them."""

from __future__ import annotations

import copy
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.https_server import Answer, Https, in_thread

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "/apis/stable.example.com"
CRONTABS = f"{GROUP}/v1/namespaces/default/crontabs"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
MERGE = "application/merge-patch+json"
SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["cronSpec"],
    "properties": {
        "cronSpec": {"type": "string", "pattern": r"^\S+ \S+$"},
        "image": {"type": "string", "enum": ["a", "b"]},
        "replicas": {"type": "integer", "default": 1, "minimum": 0, "maximum": 10},
        "port": {"x-kubernetes-int-or-string": True},
        "note": {"type": "string", "nullable": True},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "at": {"type": "string", "format": "date-time"},
        "wait": {"type": "string", "format": "duration"},
        "mail": {"type": "string", "format": "email"},
        "ip": {"type": "string", "format": "ipv4"},
        "data": {"type": "string", "format": "byte"},
        "id": {"type": "string", "format": "uuid"},
        "far": {"type": "integer", "not": {"minimum": 3, "maximum": 7}},
        "template": {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"x": {"type": "string"}}},
        "ports": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "number": {"type": "integer", "default": 80}},
            },
        },
    },
}
STATUS = {"type": "object", "properties": {"replicas": {"type": "integer"}, "labelSelector": {"type": "string"}}}


def version(name: str = "v1", **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": copy.deepcopy(SPEC), "status": STATUS}}
    return {"name": name, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **more}


def definition(*versions: dict[str, Any], plural: str = "crontabs", **names: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.stable.example.com"},
        "spec": {
            "group": "stable.example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": "CronTab", **names},
            "versions": list(versions) or [version()],
        },
    }


def crontab(name: str = "a", api_version: str = "stable.example.com/v1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": api_version,
        "kind": "CronTab",
        "metadata": {"name": name},
        "spec": {"cronSpec": "* *", **spec},
    }


@pytest.fixture
def https(tmp_path: Path) -> Iterator[Https]:
    with in_thread(tmp_path) as server:
        yield Https(server)


def conditions(crd: dict[str, Any]) -> dict[str, str]:
    return {one["type"]: one["status"] for one in crd["status"]["conditions"]}


def until(https: Https, path: str, status: int, seconds: float = 5.0) -> Answer:
    end = time.monotonic() + seconds
    while True:
        answer = https("GET", path)
        if answer.status == status or time.monotonic() > end:
            assert answer.status == status, answer.body
            return answer
        time.sleep(0.02)


def until_established(https: Https, name: str, seconds: float = 5.0) -> None:
    end = time.monotonic() + seconds
    while conditions(https("GET", f"{CRDS}/{name}").json())["Established"] != "True":
        assert time.monotonic() < end, f"{name} is not established"
        time.sleep(0.02)


@pytest.mark.conformance("API-104")
def test_a_definition_is_established_and_its_kind_served_at_once(https: Https) -> None:
    assert https("GET", CRONTABS).status == 404
    made = https("POST", CRDS, definition(shortNames=["ct"], categories=["all"]))
    assert made.status == 201
    crd = made.json()
    assert conditions(crd) == {"NamesAccepted": "True", "Established": "True"}
    assert crd["status"]["acceptedNames"]["listKind"] == crd["spec"]["names"]["listKind"] == "CronTabList"
    assert crd["status"]["storedVersions"] == ["v1"]
    listed = https("GET", f"{GROUP}/v1").json()["resources"]
    assert listed[0]["shortNames"] == ["ct"]
    assert listed[0]["singularName"] == "crontab"
    aggregated = https("GET", "/apis", accept="application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
    assert "stable.example.com" in {one["metadata"]["name"] for one in aggregated.json()["items"]}
    assert https("GET", CRONTABS).json() | {"metadata": {}} == {
        "kind": "CronTabList", "apiVersion": "stable.example.com/v1", "metadata": {}, "items": [],
    }  # fmt: skip


def test_objects_are_defaulted_pruned_and_checked(https: Https) -> None:
    https("POST", CRDS, definition())
    sent = crontab(
        foo=1, replicas=None, note=None, free={"x": {"y": 1}}, port="http", ports=[{"name": "web", "z": 1}],
        template={"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "x": "y", "other": 1},
    )  # fmt: skip
    made = https("POST", CRONTABS, sent)
    assert made.status == 201
    assert made.json()["spec"] == {
        "cronSpec": "* *", "replicas": 1, "note": None, "free": {"x": {"y": 1}}, "port": "http",
        "ports": [{"name": "web", "number": 80}],
        "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "x": "y"},
    }  # fmt: skip
    assert "unknown field" in made.headers["warning"]
    strict = https("POST", f"{CRONTABS}?fieldValidation=Strict", crontab("b", foo=1, ports=[{"name": "web", "z": 1}]))
    assert strict.status == 400
    assert 'unknown field "spec.foo", unknown field "spec.ports[0].z"' in strict.json()["message"]


@pytest.mark.parametrize(
    ("spec", "field", "said"),
    [
        ({"cronSpec": 5}, "spec.cronSpec", 'must be of type string: "integer"'),
        ({"cronSpec": "x"}, "spec.cronSpec", "should match"),
        ({"cronSpec": None}, "spec.cronSpec", "Required value"),
        ({"image": "c"}, "spec.image", 'supported values: "a", "b"'),
        ({"replicas": 11}, "spec.replicas", "should be less than or equal to 10"),
        ({"port": True}, "spec.port", 'must be of type integer,string: "boolean"'),
        ({"ports": [{"name": "a"}, {"name": "a"}]}, "spec.ports[1]", "Duplicate value"),
        ({"ports": [{}]}, "spec.ports[0].name", "Required value"),
        ({"labels": {"a": 1}}, "spec.labels.a", 'must be of type string: "integer"'),
        ({"template": {"kind": "Pod"}}, "spec.template.apiVersion", "Required value"),
        ({"at": "2026"}, "spec.at", 'must be of type date-time: "2026"'),
        ({"wait": "1x"}, "spec.wait", 'must be of type duration: "1x"'),
        ({"mail": "x"}, "spec.mail", 'must be of type email: "x"'),
        ({"ip": "1.2.3"}, "spec.ip", 'must be of type ipv4: "1.2.3"'),
        ({"data": "!"}, "spec.data", 'must be of type byte: "!"'),
        ({"id": "x"}, "spec.id", 'must be of type uuid: "x"'),
        ({"far": 5}, "<nil>", '"spec.far" must not validate the schema (not)'),
    ],
)
def test_values_that_the_schema_forbids_are_refused(https: Https, spec: dict[str, Any], field: str, said: str) -> None:
    https("POST", CRDS, definition())
    refused = https("POST", CRONTABS, crontab(**spec))
    assert refused.status == 422, refused.body
    causes = refused.json()["details"]["causes"]
    assert [(cause["field"], said in cause["message"]) for cause in causes] == [(field, True)]


def test_values_of_the_right_form_are_accepted_and_embedded_metadata_is_typed(https: Https) -> None:
    https("POST", CRDS, definition())
    spec = {
        "at": "2026-01-01T00:00:00Z", "wait": "1h30m", "mail": "a@b.c", "ip": "10.0.0.1", "data": "eA==", "far": 9,
        "id": "2fa5d7a0-4b52-4b8f-9a3c-0a8a7d6c1e11",
    }  # fmt: skip
    template = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "foo": 1}}
    made = https("POST", CRONTABS, crontab(**spec, template=template))
    assert made.status == 201, made.body
    assert made.json()["spec"]["template"]["metadata"] == {"name": "p"}
    wrong = {**crontab("k"), "kind": "Other"}
    assert https("POST", CRONTABS, wrong).json()["message"] == (
        'Other.stable.example.com "k" is invalid: kind: Invalid value: "Other": must be CronTab'
    )


def test_columns_are_those_of_the_definition(https: Https) -> None:
    columns = [
        {"name": "Spec", "type": "string", "jsonPath": ".spec.cronSpec", "description": "When."},
        {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas", "priority": 1},
        {"name": "Web", "type": "integer", "jsonPath": '.spec.ports[?(@.name=="web")].number'},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    https("POST", CRDS, definition(version(additionalPrinterColumns=columns)))
    https("POST", CRONTABS, crontab(ports=[{"name": "x"}, {"name": "web", "number": 8080}]))
    table = https("GET", CRONTABS, accept=TABLE).json()
    assert [(one["name"], one["priority"]) for one in table["columnDefinitions"]] == [
        ("Name", 0), ("Spec", 0), ("Replicas", 1), ("Web", 0), ("Age", 0),
    ]  # fmt: skip
    assert table["rows"][0]["cells"][:4] == ["a", "* *", 1, 8080]


def test_the_status_is_a_subresource_of_its_own_and_counts_no_generation(https: Https) -> None:
    https("POST", CRDS, definition(version(subresources={"status": {}})))
    made = https("POST", CRONTABS, crontab() | {"status": {"replicas": 5}}).json()
    assert "status" not in made
    assert made["metadata"]["generation"] == 1
    body = {**made, "status": {"replicas": 3}, "spec": {"cronSpec": "changed it"}}
    after = https("PUT", f"{CRONTABS}/a/status", body).json()
    assert after["status"] == {"replicas": 3}
    assert after["spec"] == made["spec"]
    assert after["metadata"]["generation"] == 1
    patched = https("PATCH", f"{CRONTABS}/a", {"spec": {"replicas": 2}}, content_type=MERGE).json()
    assert patched["metadata"]["generation"] == 2
    assert patched["status"] == {"replicas": 3}
    assert https("PATCH", f"{CRONTABS}/a", {}, content_type="application/strategic-merge-patch+json").status == 415


def test_deleting_a_definition_deletes_its_objects_and_ends_its_watches(https: Https) -> None:
    https("POST", CRDS, definition())
    https("POST", CRONTABS, crontab())
    connection = https.connect()
    connection.request("GET", f"{CRONTABS}?watch=1&resourceVersion=0", headers=https.headers())
    stream = connection.getresponse()
    seen: list[str] = []
    reader = threading.Thread(target=lambda: seen.extend(json.loads(line)["type"] for line in stream))
    reader.start()
    gone = https("DELETE", f"{CRDS}/crontabs.stable.example.com")
    assert gone.status == 200
    assert conditions(gone.json())["Terminating"] == "True"
    assert gone.json()["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    until(https, f"{CRDS}/crontabs.stable.example.com", 404)
    until(https, CRONTABS, 404)
    reader.join(timeout=60)
    connection.close()
    assert not reader.is_alive()
    assert seen == ["ADDED", "DELETED"]
    assert https("POST", CRDS, definition()).status == 201
    assert https("GET", CRONTABS).json()["items"] == []


def test_an_object_with_a_finalizer_holds_its_definition_and_nothing_new_is_created(https: Https) -> None:
    https("POST", CRDS, definition())
    held = crontab()
    held["metadata"]["finalizers"] = ["example.com/hold"]
    https("POST", CRONTABS, held)
    https("DELETE", f"{CRDS}/crontabs.stable.example.com")
    refused = https("POST", CRONTABS, crontab("b"))
    assert refused.status == 405
    assert "terminating" in refused.json()["message"]
    assert https("PATCH", f"{CRONTABS}/a", {"metadata": {"finalizers": None}}, content_type=MERGE).status == 200
    until(https, f"{CRDS}/crontabs.stable.example.com", 404)


def test_versions_are_read_at_any_and_stored_at_one(https: Https) -> None:
    other = version("v2", storage=False)
    other["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] = {"cronSpec": {"type": "string"}}
    made = https("POST", CRDS, definition(version(), other))
    assert made.status == 201, made.body
    assert https("GET", GROUP).json()["preferredVersion"]["version"] == "v2"
    https("POST", CRONTABS, crontab(replicas=3))
    newer = https("GET", f"{GROUP}/v2/namespaces/default/crontabs/a").json()
    assert newer["apiVersion"] == "stable.example.com/v2"
    assert newer["spec"] == {"cronSpec": "* *"}
    assert https("GET", f"{CRONTABS}/a").json()["spec"] == {"cronSpec": "* *", "replicas": 3}


def test_a_default_that_comes_later_is_seen_on_old_objects_too(https: Https) -> None:
    https("POST", CRDS, definition())
    https("POST", CRONTABS, crontab())
    path = f"{CRDS}/crontabs.stable.example.com"
    crd = https("GET", path).json()
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["new"] = {
        "type": "string", "default": "yes",
    }  # fmt: skip
    assert https("PUT", path, crd).json()["metadata"]["generation"] == 2
    assert https("GET", f"{CRONTABS}/a").json()["spec"] == {"cronSpec": "* *", "replicas": 1, "new": "yes"}
    listed = https("GET", CRONTABS).json()["items"]
    assert listed[0]["spec"]["new"] == "yes"


def test_names_in_use_are_given_when_they_are_free(https: Https) -> None:
    https("POST", CRDS, definition())
    second = https("POST", CRDS, definition(plural="others", singular="other", listKind="OtherList")).json()
    assert conditions(second) == {"NamesAccepted": "False", "Established": "False"}
    assert next(one for one in second["status"]["conditions"])["message"] == '"CronTab" is already in use'
    assert https("GET", f"{GROUP}/v1/others").status == 404
    https("DELETE", f"{CRDS}/crontabs.stable.example.com")
    until_established(https, "others.stable.example.com")
    assert https("GET", f"{GROUP}/v1/others").status == 200, "a kind that is called established is served"


def test_custom_kinds_are_served_again_after_a_restart(tmp_path: Path) -> None:
    with in_thread(tmp_path) as server:
        https = Https(server)
        https("POST", CRDS, definition())
        https("POST", CRONTABS, crontab(replicas=4))
    with in_thread(tmp_path) as server:
        https = Https(server)
        assert https("GET", f"{CRONTABS}/a").json()["spec"]["replicas"] == 4
        assert https("GET", f"{CRONTABS}?labelSelector=x%3Dy").json()["items"] == []


def test_a_definition_of_a_built_in_kind_is_accepted_and_changes_nothing(https: Https) -> None:
    sent = definition(plural="jobsets", singular="jobset", kind="JobSet", listKind="JobSetList")
    sent["metadata"]["name"] = "jobsets.jobset.x-k8s.io"
    sent["spec"]["group"] = "jobset.x-k8s.io"
    before = https("GET", "/apis/jobset.x-k8s.io/v1alpha2").body
    made = https("POST", CRDS, sent)
    assert made.status == 201
    assert "built in" in made.headers["warning"]
    assert conditions(made.json())["Established"] == "True"
    assert https("GET", "/apis/jobset.x-k8s.io/v1alpha2").body == before
    assert https("GET", "/apis/jobset.x-k8s.io/v1").status == 404
    https("DELETE", f"{CRDS}/jobsets.jobset.x-k8s.io")
    until(https, f"{CRDS}/jobsets.jobset.x-k8s.io", 404)
    assert https("GET", "/apis/jobset.x-k8s.io/v1alpha2/jobsets").status == 200


def test_a_custom_kind_is_scaled_by_the_paths_of_its_definition(https: Https) -> None:
    paths = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.labelSelector",
    }
    https("POST", CRDS, definition(version(subresources={"status": {}, "scale": paths})))
    https("POST", CRONTABS, crontab(replicas=2))
    https("PATCH", f"{CRONTABS}/a/status", {"status": {"replicas": 1, "labelSelector": "a=b"}}, content_type=MERGE)
    scale = https("GET", f"{CRONTABS}/a/scale").json()
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 1, "selector": "a=b"})
    scale["spec"]["replicas"] = 5
    assert https("PUT", f"{CRONTABS}/a/scale", scale).json()["spec"]["replicas"] == 5
    changed = https("PATCH", f"{CRONTABS}/a/scale", {"spec": {"replicas": 7}}, content_type=MERGE)
    assert changed.json()["spec"]["replicas"] == 7
    after = https("GET", f"{CRONTABS}/a").json()
    assert (after["spec"]["replicas"], after["metadata"]["generation"]) == (7, 3)
    refused = https("PATCH", f"{CRONTABS}/a/scale", {"spec": {"replicas": 99}}, content_type=MERGE)
    assert refused.status == 422
    assert {one["name"] for one in https("GET", f"{GROUP}/v1").json()["resources"]} == {
        "crontabs", "crontabs/status", "crontabs/scale",
    }  # fmt: skip


def test_objects_are_selected_by_the_fields_that_the_definition_names(https: Https, tmp_path: Path) -> None:
    selectable = [{"jsonPath": ".spec.image"}, {"jsonPath": ".spec.replicas"}]
    https("POST", CRDS, definition(version(selectableFields=selectable)))
    for name, image in (("a", "a"), ("b", "b"), ("c", "b")):
        https("POST", CRONTABS, crontab(name, image=image, replicas=len(name) + ord(name) - ord("a")))

    def found(selector: str) -> list[str]:
        answer = https("GET", f"{CRONTABS}?fieldSelector={selector}")
        assert answer.status == 200, answer.body
        return [one["metadata"]["name"] for one in answer.json()["items"]]

    assert found("spec.image%3Db") == ["b", "c"]
    assert found("spec.image%3Db,spec.replicas%3D3") == ["c"]
    assert found("spec.image!%3Db,metadata.namespace%3Ddefault") == ["a"]
    refused = https("GET", f"{CRONTABS}?fieldSelector=spec.cronSpec%3Dx")
    assert (refused.status, refused.json()["message"]) == (400, "field label not supported: spec.cronSpec")
    events = https("GET", f"{CRONTABS}?watch=1&timeoutSeconds=1&fieldSelector=spec.image%3Da").body.splitlines()
    assert [json.loads(line)["object"]["metadata"]["name"] for line in events] == ["a"]


def test_a_pattern_that_would_take_for_ever_is_matched_in_no_time(https: Https) -> None:
    made = version()
    made["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["cronSpec"]["pattern"] = "^(a+)+$"
    https("POST", CRDS, definition(made))
    began = time.monotonic()
    refused = https("POST", CRONTABS, crontab(cronSpec="a" * 5000 + "!"))
    assert refused.status == 422
    assert time.monotonic() - began < 30
    assert https("POST", CRONTABS, crontab(cronSpec="aaa")).status == 201


@pytest.mark.parametrize(
    ("change", "field", "said"),
    [
        ({"type": "string"}, "type", "must be object at the root"),
        ({"properties": {"spec": {}}}, "properties[spec].type", "must not be empty for specified object fields"),
        ({"properties": {"a": {"type": "array"}}}, "properties[a].items", "must be specified"),
        ({"properties": {"a": {"type": "string", "pattern": "("}}}, "properties[a].pattern", "regular expression"),
        ({"properties": {"a": {"type": "integer", "default": "x"}}}, "properties[a].default", "of type integer"),
        ({"properties": {"metadata": {"type": "object", "default": {}}}}, "properties[metadata].default", "top-level"),
        ({"properties": {"a": {"type": "object", "additionalProperties": {"type": "string"},
                               "properties": {"b": {"type": "string"}}}}}, "properties[a].additionalProperties",
         "mutual"),
        ({"properties": {"a": {"type": "string", "anyOf": [{"type": "string"}]}}}, "properties[a].anyOf[0].type",
         "must be empty to be structural"),
        ({"anyOf": [{"required": ["b"], "properties": {"b": {"minLength": 1}}}]}, "properties[b]", "it is defined"),
        ({"properties": {"a": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"}}},
         "properties[a].x-kubernetes-list-map-keys", "must not be empty"),
        ({"$ref": "#/x"}, "$ref", "not supported"),
        ({"$ref": ""}, "$ref", "not supported"),
        ({"properties": {"a": {"type": "string", "$ref": "array", "default": "x"}}}, "properties[a].$ref", "supported"),
    ],
)  # fmt: skip
def test_schemas_that_are_not_structural_are_refused(
    https: Https, change: dict[str, Any], field: str, said: str
) -> None:
    made = version(schema={"openAPIV3Schema": {"type": "object", **change}})
    refused = https("POST", CRDS, definition(made))
    assert refused.status == 422, refused.body
    causes = refused.json()["details"]["causes"]
    path = "spec.validation.openAPIV3Schema"
    assert any(cause["field"] == f"{path}.{field}" and said in cause["message"] for cause in causes), causes


def test_a_schema_nested_without_end_is_refused_and_deep_objects_break_nothing(https: Https) -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(300):
        deep = {"type": "object", "properties": {"a": deep}}
    refused = https("POST", CRDS, definition(version(schema={"openAPIV3Schema": deep})))
    assert refused.status in (400, 422)
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    free["x-kubernetes-validations"] = [{"rule": "self.metadata.name != ''"}]
    assert https("POST", CRDS, definition(version(schema={"openAPIV3Schema": free}))).status == 201
    nested: Any = 1
    for _ in range(450):
        nested = {"a": [nested]}
    assert https("POST", CRONTABS, crontab(deep=nested)).status in (201, 400)
    assert https("GET", CRONTABS).status == 200


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"metadata": {"name": "x.stable.example.com"}}, 'must be spec.names.plural+"."+spec.group'),
        ({"group": "nodot"}, "should be a domain with at least one dot"),
        ({"scope": "Everywhere"}, "supported values"),
        ({"versions": []}, "must have exactly one version marked as storage version"),
        ({"preserveUnknownFields": True}, "cannot set to true"),
        ({"group": "x.k8s.io"}, "api-approved.kubernetes.io"),
        ({"names": {"plural": "crontabs", "kind": "CronTab", "listKind": "CronTab"}}, "may not be the same"),
    ],
)
def test_definitions_that_upstream_refuses_are_refused(https: Https, change: dict[str, Any], said: str) -> None:
    sent = definition()
    metadata = change.pop("metadata", None)
    if metadata:
        sent["metadata"] = metadata
    sent["spec"] |= change
    refused = https("POST", CRDS, sent)
    assert refused.status == 422, refused.body
    assert said in refused.json()["message"]
