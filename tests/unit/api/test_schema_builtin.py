"""Built-in kinds: decoding as Go reads, defaulting as a real 1.37 server stores."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api import scheme
from echelon.api.errors import ApiError
from echelon.api.schema import defaulting, kind_schema
from echelon.api.scheme import Object, Resource


def stored(resource: Resource, obj: Object) -> Object:
    made = kind_schema.decode(resource, obj).obj
    kind_schema.apply_defaults(resource, made)
    return made


def refusal(resource: Resource, obj: Any) -> str:
    with pytest.raises(ApiError) as refused:
        kind_schema.decode(resource, obj)
    assert (refused.value.code, refused.value.reason) == (400, "BadRequest")
    return refused.value.message


CONTAINER = {"name": "c", "image": "x"}
STORED_CONTAINER = {
    "name": "c",
    "image": "x",
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "Always",
}
STORED_POD_SPEC = {
    "containers": [STORED_CONTAINER],
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
}


def test_a_minimal_pod_is_stored_as_a_real_server_does() -> None:
    pod = stored(scheme.PODS, {"metadata": {"name": "p"}, "spec": {"containers": [CONTAINER]}})
    assert pod == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {**STORED_POD_SPEC, "enableServiceLinks": True},
        "status": {},
    }


def test_a_minimal_job_is_stored_as_a_real_server_does() -> None:
    job = stored(
        scheme.JOBS,
        {
            "metadata": {"name": "j"},
            "spec": {
                "template": {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}},
                "scheduling": {"schedulingPolicy": {"gang": {}}},
            },
        },
    )
    assert job["spec"] == {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 6,
        "manualSelector": False,
        "completionMode": "NonIndexed",
        "suspend": False,
        "podReplacementPolicy": "TerminatingOrFailed",
        "template": {"metadata": {}, "spec": {**STORED_POD_SPEC, "restartPolicy": "Never"}},
        "scheduling": {"schedulingPolicy": {"gang": {}}},
    }
    assert job["status"] == {}


@pytest.mark.parametrize(
    ("spec", "filled"),
    [
        ({"parallelism": 3}, {"parallelism": 3}),
        ({"completions": 3}, {"completions": 3, "parallelism": 1}),
        ({"backoffLimitPerIndex": 1}, {"backoffLimit": 2**31 - 1}),
        ({"podFailurePolicy": {"rules": []}}, {"podReplacementPolicy": "Failed"}),
    ],
)
def test_job_defaults_depend_on_each_other(spec: Object, filled: Object) -> None:
    result = stored(scheme.JOBS, {"metadata": {"name": "j"}, "spec": spec})["spec"]
    assert {field: result[field] for field in filled} == filled
    assert ("completions" in result) == ("completions" in spec or "parallelism" not in spec)


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("x", "Always"),
        ("x:latest", "Always"),
        ("x:1.2", "IfNotPresent"),
        ("host:5000/x", "Always"),
        ("host:5000/x:v1", "IfNotPresent"),
        ("x@sha256:0", "IfNotPresent"),
    ],
)
def test_pull_policy_follows_the_tag(image: str, policy: str) -> None:
    pod = stored(scheme.PODS, {"spec": {"containers": [{"name": "c", "image": image}]}})
    assert pod["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_pod_limits_stand_in_for_missing_requests() -> None:
    resources = {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "500m"}}
    pod = stored(scheme.PODS, {"spec": {"containers": [{**CONTAINER, "resources": resources}]}})
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("resource", "given", "expected"),
    [
        (scheme.POD_GROUPS, {"schedulingPolicy": {"gang": {"minCount": 2}}}, {"disruptionMode": {"single": {}}}),
        (
            scheme.COMPOSITE_POD_GROUPS,
            {"schedulingPolicy": {"gang": {"minGroupCount": 2}}},
            {"disruptionMode": {"single": {}}},
        ),
        (scheme.SERVICES, {"ports": [{"port": 80}]}, {"type": "ClusterIP", "sessionAffinity": "None"}),
        (
            scheme.SERVICES,
            {"sessionAffinity": "ClientIP"},
            {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}},
        ),
    ],
)
def test_specs_of_other_kinds_get_their_defaults(resource: Resource, given: Object, expected: Object) -> None:
    spec = stored(resource, {"metadata": {"name": "x"}, "spec": given})["spec"]
    assert {field: spec[field] for field in expected} == expected


def test_defaults_are_never_shared_between_objects() -> None:
    first = stored(scheme.POD_GROUPS, {"spec": {}})
    first["spec"]["disruptionMode"]["single"]["touched"] = True
    assert stored(scheme.POD_GROUPS, {"spec": {}})["spec"]["disruptionMode"] == {"single": {}}


def test_namespace_node_secret_and_event_defaults() -> None:
    namespace = stored(scheme.NAMESPACES, {"metadata": {"name": "n"}})
    assert namespace["metadata"]["labels"] == {"kubernetes.io/metadata.name": "n"}
    assert namespace["status"] == {"phase": "Active"}
    node = stored(scheme.NODES, {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": 4}}})
    assert node["status"]["allocatable"] == {"cpu": "4"}
    assert node["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 0}}
    secret = stored(scheme.SECRETS, {"stringData": {"a": "b"}, "data": {"c": "ZA=="}})
    assert (secret["data"], secret["type"]) == ({"c": "ZA==", "a": "Yg=="}, "Opaque")
    assert "stringData" not in secret
    assert stored(scheme.EVENTS, {})["reportingComponent"] == ""


def test_decoding_makes_a_fresh_tree_of_known_fields_in_canonical_form() -> None:
    sent: Object = {
        "metadata": {"name": "p", "creationTimestamp": None, "labels": {"a": "b"}},
        "spec": {
            "hostNetwork": False,
            "terminationGracePeriodSeconds": 0,
            "tolerations": [],
            "containers": [{**CONTAINER, "resources": {"requests": {"cpu": "1000m", "memory": 1024, "x/y": "1024Mi"}}}],
            "nosuch": 1,
        },
        "status": {"startTime": "2026-01-02T05:04:05.678+02:00"},
        "extra": {"a": 1},
    }
    decoded = kind_schema.decode(scheme.PODS, sent)
    assert decoded.unknown == ["spec.nosuch", "extra"]
    assert decoded.obj == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"a": "b"}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{**CONTAINER, "resources": {"requests": {"cpu": "1", "memory": "1024", "x/y": "1Gi"}}}],
        },
        "status": {"startTime": "2026-01-02T03:04:05Z"},
    }
    assert decoded.obj["metadata"]["labels"] is not sent["metadata"]["labels"]


def test_unknown_fields_in_lists_are_named_with_their_index() -> None:
    decoded = kind_schema.decode(scheme.PODS, {"spec": {"containers": [CONTAINER, {"name": "d", "imag": "x"}]}})
    assert decoded.unknown == ["spec.containers[1].imag"]


@pytest.mark.parametrize("time", ["2026-02-28T03:04:05Z", "2026-01-31T03:04:05Z"])
def test_whole_seconds_stay_as_they_are(time: str) -> None:
    assert kind_schema.decode(scheme.PODS, {"status": {"startTime": time}}).obj["status"]["startTime"] == time


def test_days_that_do_not_exist_are_refused() -> None:
    assert 'parsing time "2026-02-29T03:04:05Z"' in refusal(
        scheme.PODS, {"status": {"startTime": "2026-02-29T03:04:05Z"}}
    )


def test_secret_data_is_checked_and_stored_without_line_breaks() -> None:
    assert kind_schema.decode(scheme.SECRETS, {"data": {"a": "YWJj\nZGVm"}}).obj["data"] == {"a": "YWJjZGVm"}
    assert "illegal base64 data" in refusal(scheme.SECRETS, {"data": {"a": "???"}})


def test_micro_times_keep_six_digits() -> None:
    lease = kind_schema.decode(scheme.LEASES, {"spec": {"renewTime": "2026-01-02T03:04:05Z"}}).obj
    assert lease["spec"]["renewTime"] == "2026-01-02T03:04:05.000000Z"


_POD_PREFIX = 'Pod in version "v1" cannot be handled as a Pod: '


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (
            {"spec": {"containers": [{"name": 1}]}},
            "json: cannot unmarshal number into Go struct field Container.spec.containers.name of type string",
        ),
        (
            {"spec": {"containers": {"name": "c"}}},
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        ({"spec": "x"}, "json: cannot unmarshal string into Go struct field Pod.spec of type v1.PodSpec"),
        (
            {"metadata": {"labels": {"a": 1}}},
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            {"spec": {"priority": 1.5}},
            "json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.priority of type int32",
        ),
        (
            {"spec": {"priority": 3000000000}},
            "json: cannot unmarshal number 3000000000 into Go struct field PodSpec.spec.priority of type int32",
        ),
        (
            {"spec": {"hostNetwork": "yes"}},
            "json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool",
        ),
        (["x"], "json: cannot unmarshal array into Go value of type v1.Pod"),
        (
            {"metadata": {"deletionTimestamp": "soon"}},
            'parsing time "soon" as "2006-01-02T15:04:05Z07:00": cannot parse "soon" as "2006"',
        ),
        (
            {"spec": {"containers": [{"livenessProbe": {"httpGet": {"port": []}}}]}},
            "json: cannot unmarshal array into Go value of type int32",
        ),
        (
            {"spec": {"containers": [{"resources": {"requests": {"cpu": "lots"}}}]}},
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ],
)
def test_type_errors_have_the_text_of_a_real_server(obj: Any, message: str) -> None:
    assert refusal(scheme.PODS, obj) == _POD_PREFIX + message


def test_type_errors_name_the_scheduling_kinds() -> None:
    assert refusal(scheme.POD_GROUPS, {"spec": {"schedulingPolicy": {"gang": {"minCount": "two"}}}}) == (
        'PodGroup in version "v1beta1" cannot be handled as a PodGroup: json: cannot unmarshal string into Go struct '
        "field GangSchedulingPolicy.spec.schedulingPolicy.gang.minCount of type int32"
    )


def test_strict_validation_lists_every_unknown_field() -> None:
    error = kind_schema.unknown_fields(scheme.POD_GROUPS, ["spec.nosuch", "x"])
    assert error.message == (
        'PodGroup in version "v1beta1" cannot be handled as a PodGroup: strict decoding error: '
        'unknown field "spec.nosuch", unknown field "x"'
    )


def test_definitions_may_contain_themselves() -> None:
    templates: list[Object] = [{"name": "leaf", "schedulingPolicy": {"gang": {"minCount": 1}}}]
    obj: Object = {"name": "l3", "schedulingPolicy": {"basic": {}}, "podGroupTemplates": templates}
    for level in ("l2", "l1"):
        obj = {"name": level, "schedulingPolicy": {"basic": {}}, "compositePodGroupTemplates": [obj]}
    workload = {"metadata": {"name": "w"}, "spec": {"compositePodGroupTemplates": [obj]}}
    assert stored(scheme.WORKLOADS_ALPHA, workload)["spec"] == workload["spec"]


@pytest.mark.parametrize(
    ("body", "ending"),
    [
        (b'{"metadata":', 'unexpected end of JSON input ({"metadata":)'),
        (b"", "unexpected end of JSON input (<empty>)"),
        (b"\xff\xfe", "invalid character '\ufffd' looking for beginning of value (fffe)"),
        (b'{"a":' * 5000, "exceeded max depth (" + '{"a":' * 6 + " ...)"),
        (b"{x}", "invalid character 'x' looking for beginning of value ({x})"),
    ],
)
def test_a_body_that_is_no_json_is_named_and_shown(body: bytes, ending: str) -> None:
    with pytest.raises(ApiError) as refused:
        kind_schema.parse(scheme.POD_GROUPS, body)
    assert refused.value.message == (
        "the object provided is unrecognized (must be of type PodGroup): couldn't get version/kind; json parse error: "
        + ending
    )


def test_repeated_fields_are_found_wherever_they_are() -> None:
    body = b'{"a":1,"spec":{"x":[{"n":1,"n":2}],"y":{},"y":{}},"a":2}'
    assert kind_schema.duplicate_fields(body) == ["spec.x[0].n", "spec.y", "a"]
    error = kind_schema.unknown_fields(scheme.PODS, ["z"], ["spec.y"])
    assert error.message.endswith('strict decoding error: unknown field "z", duplicate field "spec.y"')


def test_a_negative_grace_period_of_a_pod_is_one_second() -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [], "terminationGracePeriodSeconds": -1}}
    defaulting.filler("io.k8s.api.core.v1.Pod")(pod)
    assert pod["spec"]["terminationGracePeriodSeconds"] == 1
