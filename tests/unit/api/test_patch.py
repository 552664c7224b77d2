"""JSON patch, merge patch and strategic merge, with the refusals of a real server."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from echelon.api import scheme
from echelon.api.errors import ApiError
from echelon.api.patching import apply_patch
from echelon.api.scheme import Object
from echelon.api.verbs import Patch, PatchType


def patched(obj: Object, kind: PatchType, body: Any, resource: scheme.Resource = scheme.PODS) -> Object:
    before = copy.deepcopy(obj)
    result = apply_patch.apply(resource, obj, Patch(kind, body))
    assert obj == before, "the input was changed"
    return result


def refusal(obj: Object, kind: PatchType, body: Any, resource: scheme.Resource = scheme.PODS) -> ApiError:
    with pytest.raises(ApiError) as refused:
        patched(obj, kind, body, resource)
    return refused.value


@pytest.mark.conformance("API-88")
@pytest.mark.parametrize(
    ("operations", "result"),
    [
        ([{"op": "add", "path": "/a", "value": {"b": 1}}], {"l": [1, 2], "m": {"x": "y"}, "a": {"b": 1}}),
        ([{"op": "add", "path": "/l/-", "value": 3}], {"l": [1, 2, 3], "m": {"x": "y"}}),
        ([{"op": "add", "path": "/l/0", "value": 0}], {"l": [0, 1, 2], "m": {"x": "y"}}),
        ([{"op": "remove", "path": "/l/-1"}], {"l": [1], "m": {"x": "y"}}),
        ([{"op": "remove", "path": "/m"}], {"l": [1, 2]}),
        ([{"op": "replace", "path": "/m/x", "value": "z"}], {"l": [1, 2], "m": {"x": "z"}}),
        ([{"op": "replace", "path": "/l/-1", "value": 9}], {"l": [1, 9], "m": {"x": "y"}}),
        ([{"op": "move", "from": "/m/x", "path": "/n"}], {"l": [1, 2], "m": {}, "n": "y"}),
        ([{"op": "copy", "from": "/l", "path": "/k"}], {"l": [1, 2], "m": {"x": "y"}, "k": [1, 2]}),
        ([{"op": "test", "path": "/l/1", "value": 2}, {"op": "remove", "path": "/l"}], {"m": {"x": "y"}}),
        ([{"op": "test", "path": "/nowhere", "value": None}], {"l": [1, 2], "m": {"x": "y"}}),
        ([{"op": "add", "path": "/a~1b~0c", "value": 1}], {"l": [1, 2], "m": {"x": "y"}, "a/b~c": 1}),
        ([{"op": "replace", "path": "", "value": {"new": 1}}], {"new": 1}),
    ],
)
def test_json_patch_operations(operations: list[Object], result: Object) -> None:
    assert patched({"l": [1, 2], "m": {"x": "y"}}, PatchType.JSON, operations) == result


@pytest.mark.conformance("API-88")
@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/one", "value": True},
        {"op": "test", "path": "/one", "value": 2},
        {"op": "remove", "path": "/nowhere"},
        {"op": "remove", "path": "/l/5"},
        {"op": "remove", "path": ""},
        {"op": "replace", "path": "/nowhere", "value": 1},
        {"op": "replace", "path": "/l/x", "value": 1},
        {"op": "add", "path": "/no/where", "value": 1},
        {"op": "add", "path": "/l/4", "value": 1},
        {"op": "add", "path": "/a"},
        {"op": "add", "path": "a", "value": 1},
        {"op": "copy", "from": "/nowhere", "path": "/a"},
        {"op": "move", "from": "/m", "path": "/m/x"},
        {"op": "replace", "path": "", "value": 3},
        {"op": "append", "path": "/l", "value": 3},
        {"path": "/l"},
    ],
)
def test_json_patches_that_cannot_be_applied_are_invalid(operation: Object) -> None:
    error = refusal({"one": 1, "l": [], "m": {}}, PatchType.JSON, [operation])
    assert (error.code, error.reason) == (422, "Invalid")


def test_malformed_and_oversized_json_patches() -> None:
    assert refusal({}, PatchType.JSON, {"op": "add"}).code == 400
    assert refusal({}, PatchType.JSON, ["x"]).code == 400
    test = {"op": "test", "path": "/a", "value": None}
    assert refusal({}, PatchType.JSON, [test] * 10_001).code == 413


@pytest.mark.conformance("API-87")
def test_merge_patch_merges_objects_removes_nulls_and_replaces_lists() -> None:
    obj = {"a": {"x": 1, "y": 2}, "l": [1, 2], "s": "t"}
    body = {"a": {"x": None, "z": {"deep": None, "kept": 1}}, "l": [3], "s": {"now": "a map"}}
    assert patched(obj, PatchType.MERGE, body) == {
        "a": {"y": 2, "z": {"kept": 1}},
        "l": [3],
        "s": {"now": "a map"},
    }
    assert refusal({}, PatchType.MERGE, [1]).code == 400


def patched_pod(**spec: Any) -> Object:
    return {"metadata": {"name": "p", "finalizers": ["a", "b"]}, "spec": spec}


def spec_after(before: Object, change: Object) -> Object:
    return patched(before, PatchType.STRATEGIC, {"spec": change})["spec"]  # type: ignore[no-any-return]


TWO = [{"name": "a", "image": "1", "env": [{"name": "E", "value": "v"}]}, {"name": "b", "image": "1"}]


@pytest.mark.conformance("API-81", "API-82")
def test_strategic_merge_finds_list_items_by_their_key() -> None:
    change = {"containers": [{"name": "a", "image": "2", "env": [{"name": "F", "value": "w"}]}, {"name": "c"}]}
    assert spec_after(patched_pod(containers=TWO), change)["containers"] == [
        {"name": "a", "image": "2", "env": [{"name": "F", "value": "w"}, {"name": "E", "value": "v"}]},
        {"name": "c"},
        {"name": "b", "image": "1"},
    ]


#: As a real server orders them: what the patch lists in its order, the rest before the first item it preceded.
ORDERS = [
    ("ab", "cb", "cab"),
    ("abc", "b", "abc"),
    ("abc", "ca", "bca"),
    ("abc", "xcya", "xbcya"),
    ("abcd", "db", "acdb"),
    ("ab", "ba", "ba"),
    ("abc", "n", "nabc"),
    ("abcd", "nca", "nbcad"),
]


@pytest.mark.conformance("API-81")
@pytest.mark.parametrize(("before", "change", "after"), ORDERS)
def test_strategic_merge_orders_items_as_a_real_server_does(before: str, change: str, after: str) -> None:
    containers = [{"name": name} for name in before]
    found = spec_after(patched_pod(containers=containers), {"containers": [{"name": name} for name in change]})
    assert "".join(item["name"] for item in found["containers"]) == after
    metadata = {"metadata": {"finalizers": list(before)}}
    merged = patched(metadata, PatchType.STRATEGIC, {"metadata": {"finalizers": list(change)}})
    assert "".join(merged["metadata"]["finalizers"]) == after


@pytest.mark.conformance("API-85")
def test_strategic_merge_replaces_atomic_lists_and_merges_maps() -> None:
    before = patched_pod(tolerations=[{"key": "a"}], nodeSelector={"a": "1", "b": "2"})
    after = spec_after(before, {"tolerations": [{"key": "b"}], "nodeSelector": {"a": None, "c": "3"}})
    assert after == {"tolerations": [{"key": "b"}], "nodeSelector": {"b": "2", "c": "3"}}


@pytest.mark.conformance("API-82")
@pytest.mark.parametrize(
    ("change", "names"),
    [
        ([{"name": "a", "$patch": "delete"}], ["b"]),
        ([{"$patch": "replace"}, {"name": "z"}], ["z"]),
        ([{"name": "a", "$patch": "merge", "image": "3"}], ["a", "b"]),
    ],
)
def test_patch_directives_on_list_items(change: list[Object], names: list[str]) -> None:
    assert [
        item["name"] for item in spec_after(patched_pod(containers=TWO), {"containers": change})["containers"]
    ] == names


def test_replace_and_delete_directives_on_maps() -> None:
    before = patched_pod(containers=TWO, securityContext={"runAsUser": 1, "fsGroup": 2})
    replaced = spec_after(before, {"securityContext": {"$patch": "replace", "runAsUser": 3}})
    assert replaced["securityContext"] == {"runAsUser": 3}
    assert spec_after(before, {"securityContext": {"$patch": "delete"}})["securityContext"] == {}
    item = {"containers": [{"name": "a", "$patch": "replace", "image": "9"}]}
    assert spec_after(before, item)["containers"][0] == {"name": "a", "image": "9"}


@pytest.mark.conformance("API-84")
def test_finalizers_are_a_set_and_scalars_can_be_taken_out() -> None:
    added = patched(patched_pod(), PatchType.STRATEGIC, {"metadata": {"finalizers": ["b", "c"]}})
    assert added["metadata"]["finalizers"] == ["a", "b", "c"]
    removed = patched(patched_pod(), PatchType.STRATEGIC, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}})
    assert removed["metadata"]["finalizers"] == ["b"]


@pytest.mark.conformance("API-81")
@pytest.mark.parametrize(
    ("before", "order", "added", "after"),
    [
        ("ab", "ba", "", "ba"),
        ("abc", "anc", "n", "anbc"),
        ("abc", "ca", "", "bca"),
        ("abcd", "dnb", "n", "acdnb"),
        ("abcd", "cb", "", "acbd"),
        ("abc", "abcd", "d", "abcd"),
        ("c", "cd", "d", "cd"),
    ],
)
def test_set_element_order_keeps_server_only_items_in_place(before: str, order: str, added: str, after: str) -> None:
    change = {
        "$setElementOrder/containers": [{"name": name} for name in order],
        "containers": [{"name": name} for name in added],
    }
    containers = spec_after(patched_pod(containers=[{"name": name} for name in before]), change)["containers"]
    assert "".join(item["name"] for item in containers) == after


@pytest.mark.conformance("API-85")
def test_retain_keys_drops_the_rest() -> None:
    before = patched_pod(volumes=[{"name": "v", "emptyDir": {}}])
    change = {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}
    assert spec_after(before, change)["volumes"] == [{"name": "v", "hostPath": {"path": "/x"}}]


@pytest.mark.parametrize(
    "change",
    [
        {"containers": [{"image": "no name"}]},
        {"securityContext": {"$patch": "sometimes"}},
        {"$retainKeys": ["a"], "hostname": "x"},
        {"$retainKeys": "a"},
        {"$setElementOrder/containers": "a"},
        {"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "c"}]},
        {"$setElementOrder/containers": [{"name": "d"}, {"name": "c"}], "containers": [{"name": "c"}, {"name": "d"}]},
    ],
)
def test_malformed_strategic_patches_are_bad_requests(change: Object) -> None:
    error = refusal(patched_pod(containers=TWO), PatchType.STRATEGIC, {"spec": change})
    assert (error.code, error.reason) == (400, "BadRequest")


def test_conditions_merge_by_type_and_templates_of_a_workload_are_replaced() -> None:
    before = {"metadata": {}, "status": {"conditions": [{"type": "A", "status": "False"}, {"type": "B"}]}}
    change = {"status": {"conditions": [{"type": "A", "status": "True"}]}}
    after = patched(before, PatchType.STRATEGIC, change, scheme.POD_GROUPS)
    assert after["status"]["conditions"] == [{"type": "A", "status": "True"}, {"type": "B"}]
    workload = {"metadata": {}, "spec": {"podGroupTemplates": [{"name": "a"}, {"name": "b"}]}}
    change = {"spec": {"podGroupTemplates": [{"name": "c"}]}}
    assert patched(workload, PatchType.STRATEGIC, change, scheme.WORKLOADS)["spec"] == change["spec"]


def test_added_maps_lose_their_nulls_and_directives() -> None:
    change = {"securityContext": {"runAsUser": None, "seLinuxOptions": {"level": None, "user": "u"}}}
    assert spec_after(patched_pod(), change)["securityContext"] == {"seLinuxOptions": {"user": "u"}}


def test_custom_kinds_refuse_strategic_merge() -> None:
    error = refusal({}, PatchType.STRATEGIC, {}, scheme.JOB_SETS)
    assert (error.code, error.reason) == (415, "UnsupportedMediaType")
    assert "application/merge-patch+json" in error.message


@pytest.mark.conformance("API-83")
def test_ports_merge_by_container_port() -> None:
    before = patched_pod(
        containers=[{"name": "a", "ports": [{"containerPort": 80, "name": "web"}, {"containerPort": 81}]}]
    )
    change = {"containers": [{"name": "a", "ports": [{"containerPort": 80, "hostPort": 8080}]}]}
    assert spec_after(before, change)["containers"][0]["ports"] == [
        {"containerPort": 80, "name": "web", "hostPort": 8080},
        {"containerPort": 81},
    ]


def test_a_patch_that_is_too_deep_is_a_bad_request() -> None:
    body: Object = {}
    for _ in range(5000):
        body = {"x": body}
    assert refusal({}, PatchType.MERGE, body).code == 400
