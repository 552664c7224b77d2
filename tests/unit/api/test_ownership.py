"""Server-side apply on trees: ownership, conflicts, what goes when a configuration no longer names it."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.ownership.field_sets import FieldSet, from_fields_v1, to_fields_v1
from echelon.api.ownership.managers import Applied, Conflict, Manager, apply, before_first_apply, write, written
from echelon.api.ownership.typed_trees import Malformed, check, merged
from echelon.api.schema import definitions
from echelon.api.scheme import CONFIG_MAPS, PODS, Object, Resource


def manager(name: str, operation: str = "Apply") -> Manager:
    return Manager(name, operation, "v1", FieldSet())  # type: ignore[arg-type]


class Live:
    """An object under apply, with its managers."""

    def __init__(self, resource: Resource, obj: Object) -> None:
        self.schema = definitions.lookup(definitions.name_of(resource))
        self.obj = obj
        self.managers: list[Manager] = []

    def apply(self, name: str, configuration: Object, force: bool = False) -> list[Conflict]:
        result = apply(self.schema, self.obj, self.managers, configuration, manager(name), force=force)
        if not isinstance(result, Applied):
            return result
        self.obj, self.managers = result.obj, result.managers
        return []

    def update(self, name: str, new: Object) -> None:
        self.managers = written(self.schema, self.obj, new, self.managers, manager(name, "Update"))
        self.obj = new

    def owned(self, name: str) -> Any:
        return next((to_fields_v1(one.fields) for one in self.managers if one.name == name), None)


def config(**data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}


def live_map() -> Live:
    return Live(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "uid": "1"}})


def test_what_is_applied_is_owned() -> None:
    live = live_map()
    assert live.apply("m1", config(a="1", b="2")) == []
    assert live.obj["data"] == {"a": "1", "b": "2"}
    assert live.obj["metadata"] == {"name": "c", "uid": "1"}
    assert live.owned("m1") == {"f:data": {"f:a": {}, "f:b": {}}}
    before = write(live.managers)
    live.apply("m1", config(a="1", b="2"))
    assert write(live.managers) == before


def test_another_value_for_an_owned_field_conflicts_unless_forced() -> None:
    live = live_map()
    live.apply("m1", config(a="1", b="2"))
    conflicts = live.apply("m2", config(a="2"))
    assert [(f"conflict with {one.owner}", one.field) for one in conflicts] == [('conflict with "m1"', ".data.a")]
    assert live.apply("m2", config(a="1")) == []
    assert live.owned("m2") == {"f:data": {"f:a": {}}}
    assert live.owned("m1") == {"f:data": {"f:a": {}, "f:b": {}}}
    assert live.apply("m2", config(a="2"), force=True) == []
    assert live.owned("m1") == {"f:data": {"f:b": {}}}
    assert live.obj["data"] == {"a": "2", "b": "2"}


def test_a_field_that_is_no_longer_applied_goes_unless_somebody_else_owns_it() -> None:
    live = live_map()
    live.apply("m1", config(a="1", b="2", c="3"))
    live.apply("m2", config(c="3"))
    live.apply("m1", config(a="1"))
    assert live.obj["data"] == {"a": "1", "c": "3"}
    live.apply("m1", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})
    live.apply("m2", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})
    assert "data" not in live.obj


def test_a_plain_write_takes_what_it_changes() -> None:
    live = live_map()
    live.apply("m1", config(a="1", b="2"))
    live.update("u1", {**live.obj, "data": {"a": "9"}})
    assert live.owned("m1") is None or "f:a" not in live.owned("m1")["f:data"]
    assert live.owned("u1") == {"f:data": {"f:a": {}}}
    conflicts = live.apply("m1", config(a="1"))
    assert [f"conflict with {one.owner}" for one in conflicts] == ['conflict with "u1" using v1']


def test_everything_was_there_before_the_first_apply() -> None:
    live = live_map()
    live.obj = {**live.obj, "data": {"a": "1"}, "metadata": {"name": "c", "labels": {"x": "y"}}}
    live.managers = before_first_apply(live.schema, live.obj, manager("m"))
    assert [f"conflict with {one.owner}" for one in live.apply("m", config(a="2"))] == [
        'conflict with "before-first-apply" using v1'
    ]
    assert live.apply("m", config(a="2"), force=True) == []
    assert live.obj["metadata"]["labels"] == {"x": "y"}


def pod(*containers: Object) -> Object:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": list(containers)}}


def test_items_of_lists_are_found_by_their_keys_and_defaults_fill_the_keys() -> None:
    live = Live(PODS, pod())
    live.apply("m", pod({"name": "c", "image": "i", "ports": [{"containerPort": 80}]}))
    ports = live.owned("m")["f:spec"]["f:containers"]['k:{"name":"c"}']["f:ports"]
    assert list(ports) == ['k:{"containerPort":80,"protocol":"TCP"}']
    live.obj["spec"]["containers"][0]["ports"][0]["protocol"] = "TCP"  # the server's default
    assert live.apply("m", pod({"name": "c", "image": "i", "ports": [{"containerPort": 80}]})) == []
    assert len(live.obj["spec"]["containers"][0]["ports"]) == 1


def test_an_item_goes_with_its_manager_but_stays_while_somebody_owns_a_field_of_it() -> None:
    live = Live(PODS, pod())
    live.apply("m1", pod({"name": "a", "image": "i"}, {"name": "b", "image": "i"}))
    live.apply("m2", pod({"name": "b", "tty": True}))
    live.apply("m1", pod({"name": "a", "image": "i"}))
    assert live.obj["spec"]["containers"] == [{"name": "a", "image": "i"}, {"name": "b", "tty": True}]
    live.apply("m2", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}})
    assert live.obj["spec"]["containers"] == [{"name": "a", "image": "i"}]


def test_conditions_of_different_types_do_not_conflict() -> None:
    live = Live(PODS, pod())
    status = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    assert live.apply("m1", {**status, "status": {"conditions": [{"type": "A", "status": "True"}]}}) == []
    assert live.apply("m2", {**status, "status": {"conditions": [{"type": "B", "status": "True"}]}}) == []
    assert [one["type"] for one in live.obj["status"]["conditions"]] == ["A", "B"]


def test_atomic_lists_and_objects_are_owned_as_a_whole() -> None:
    live = Live(PODS, pod())
    live.apply("m1", pod({"name": "a", "args": ["x", "y"]}))
    conflicts = live.apply("m2", pod({"name": "a", "args": ["x"]}))
    assert [one.field for one in conflicts] == ['.spec.containers[name="a"].args']


def test_fields_from_before_the_first_apply_are_those_of_a_real_server() -> None:
    container = {"name": "c", "image": "i", "ports": [{"containerPort": 80, "protocol": "TCP"}], "resources": {}}
    obj = pod({**container, "resources": {"limits": {"cpu": "1"}}})
    obj["metadata"]["labels"] = {"a": "b"}
    obj["spec"]["securityContext"] = {}
    (found,) = before_first_apply(Live(PODS, obj).schema, obj, manager("m"))
    port = {".": {}, "f:containerPort": {}, "f:protocol": {}}
    item = {
        ".": {},
        "f:image": {},
        "f:name": {},
        "f:ports": {".": {}, 'k:{"containerPort":80,"protocol":"TCP"}': port},
        "f:resources": {".": {}, "f:limits": {".": {}, "f:cpu": {}}},
    }
    assert to_fields_v1(found.fields) == {
        "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
        "f:spec": {"f:containers": {'k:{"name":"c"}': item}, "f:securityContext": {}},
    }


@pytest.mark.parametrize(
    ("live", "applied", "result"),
    [
        ("abcd", "nca", "bncda"),
        ("abcd", "ca", "bcda"),
        ("abc", "bn", "abcn"),
        ("abc", "nb", "anbc"),
        ("ab", "ba", "ba"),
        ("abcd", "db", "acdb"),
        ("xay", "na", "xnay"),
        ("abcde", "xebz", "acdxebz"),
    ],
)
def test_lists_merge_in_the_order_of_a_real_server(live: str, applied: str, result: str) -> None:
    schema = {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}
    assert "".join(merged(schema, list(live), list(applied))) == result


@pytest.mark.parametrize(
    "containers",
    [[{"name": "a"}, {"name": "a"}], [{"name": "a", "ports": [{"containerPort": 1}] * 2}]],
)
def test_items_that_cannot_be_told_apart_are_refused(containers: list[Object]) -> None:
    with pytest.raises(Malformed):
        check(Live(PODS, {}).schema, pod(*containers))


def test_an_item_without_any_of_its_keys_is_refused() -> None:
    schema = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": {}}
    with pytest.raises(Malformed, match="omits all key fields"):
        check(schema, [{"image": "i"}])


def test_more_than_ten_updaters_are_merged_into_one() -> None:
    live = live_map()
    live.apply("m", config(a="1"))
    for number in range(12):
        live.update(f"u{number:02}", {**live.obj, "data": {**live.obj["data"], f"k{number:02}": "1"}})
    updaters = [one.name for one in live.managers if one.operation == "Update"]
    assert len(updaters) == 10
    assert set(live.owned("ancient-changes")["f:data"]) == {"f:k00", "f:k01", "f:k02"}


def test_sets_of_fields_are_read_as_they_are_written() -> None:
    text = {"f:spec": {".": {}, "f:a": {}, 'k:{"name":"c"}': {".": {}, "f:image": {}}, 'v:"x"': {}}}
    assert to_fields_v1(from_fields_v1(text)) == text


def test_an_object_that_an_updater_owns_stays_empty_when_its_last_entry_goes() -> None:
    live = live_map()
    live.apply("m", config(a="1"))
    live.update("u", {**live.obj, "metadata": {**live.obj["metadata"], "labels": {"x": "1"}}})
    labelled = config(a="1")
    labelled["metadata"]["labels"] = {"x": "2"}
    live.apply("m", labelled, force=True)
    live.apply("m", config(a="1"))
    assert live.owned("u") == {"f:metadata": {"f:labels": {}}}
    assert not live.obj["metadata"]["labels"]
