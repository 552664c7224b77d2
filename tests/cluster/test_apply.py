"""Server-side apply on our server and on a real one: same configurations, same owners, same conflicts."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.errors import ApiError
from echelon.api.scheme import CONFIG_MAPS, JOBS, PODS, Object, Resource
from echelon.api.verbs import Patch, PatchType, Subresource, WriteOptions

from .conftest import Side


def config_map(name: str = "m", /, **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def pod(*containers: Object, name: str = "p") -> Object:
    spec = {"containers": list(containers), "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


class Applier:
    """Applies to one kind in one namespace, and says what came of it."""

    def __init__(self, side: Side, namespace: str, resource: Resource = CONFIG_MAPS, name: str = "m") -> None:
        self._verbs, self._namespace, self._resource, self._name = side.verbs, namespace, resource, name
        self.created = 0

    def of(self, resource: Resource, name: str) -> Applier:
        made = Applier.__new__(Applier)
        made._verbs, made._namespace, made._resource, made._name = self._verbs, self._namespace, resource, name
        made.created = 0
        return made

    async def __call__(
        self, manager: str, body: Any, *, force: bool = False, subresource: Subresource = "", dry_run: bool = False
    ) -> Object:
        options = WriteOptions(field_manager=manager, force=force, dry_run=dry_run, created=self._count)
        patch = Patch(PatchType.APPLY, body)
        return await self._verbs.patch(self._resource, self._name, patch, self._namespace, subresource, options)

    def _count(self) -> None:
        self.created += 1

    async def refused(self, manager: str, body: Any, *, subresource: Subresource = "") -> ApiError:
        with pytest.raises(ApiError) as refused:
            await self(manager, body, subresource=subresource)
        return refused.value

    async def conflicts(self, manager: str, body: Any) -> list[tuple[str, str]]:
        error = await self.refused(manager, body)
        assert (error.code, error.reason) == (409, "Conflict")
        assert "name" not in error.details
        assert {cause["reason"] for cause in error.details["causes"]} == {"FieldManagerConflict"}
        return [(cause["message"], cause["field"]) for cause in error.details["causes"]]

    async def merge(self, manager: str, body: Any, subresource: Subresource = "") -> Object:
        patch = Patch(PatchType.MERGE, body)
        options = WriteOptions(field_manager=manager)
        return await self._verbs.patch(self._resource, self._name, patch, self._namespace, subresource, options)

    async def post(self, obj: Object) -> Object:
        return await self._verbs.create(self._resource, obj, self._namespace, WriteOptions(field_manager="creator"))

    async def put(self, obj: Object, manager: str) -> Object:
        return await self._verbs.update(
            self._resource, obj, self._namespace, options=WriteOptions(field_manager=manager)
        )

    async def get(self) -> Object:
        return await self._verbs.get(self._resource, self._name, self._namespace)


@pytest.fixture
def apply(side: Side, namespace: str) -> Applier:
    return Applier(side, namespace)


def owned(obj: Object) -> dict[str, Any]:
    """Manager and operation → fields."""
    listed = obj["metadata"].get("managedFields", [])
    return {f"{one['manager']} {one['operation']}": one["fieldsV1"] for one in listed}


@pytest.mark.conformance("API-90")
async def test_an_apply_creates_the_object_and_owns_its_fields(apply: Applier) -> None:
    made = await apply("m1", config_map(a="1", b="2"))
    assert apply.created == 1
    assert made["data"] == {"a": "1", "b": "2"}
    entry = dict(made["metadata"]["managedFields"][0])
    assert entry.pop("time").endswith("Z")
    assert entry == {
        "manager": "m1",
        "operation": "Apply",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:a": {}, "f:b": {}}},
    }
    again = await apply("m1", config_map(a="1", b="2"))
    assert again == made
    assert apply.created == 1


@pytest.mark.conformance("API-91")
async def test_another_value_conflicts_the_same_value_is_shared_and_force_takes_it(apply: Applier) -> None:
    await apply("m1", config_map(a="1", b="2"))
    assert await apply.conflicts("m2", config_map(a="2")) == [('conflict with "m1"', ".data.a")]
    refusal = await apply.refused("m2", config_map(a="2", b="3"))
    assert refusal.message == 'Apply failed with 2 conflicts: conflicts with "m1":\n- .data.a\n- .data.b'
    shared = await apply("m2", config_map(a="1"))
    assert owned(shared) == {"m1 Apply": {"f:data": {"f:a": {}, "f:b": {}}}, "m2 Apply": {"f:data": {"f:a": {}}}}
    taken = await apply("m2", config_map(a="2"), force=True)
    assert owned(taken) == {"m1 Apply": {"f:data": {"f:b": {}}}, "m2 Apply": {"f:data": {"f:a": {}}}}
    assert taken["data"] == {"a": "2", "b": "2"}


@pytest.mark.conformance("API-92")
async def test_a_field_that_is_no_longer_applied_goes_unless_another_manager_owns_it(apply: Applier) -> None:
    await apply("m1", config_map(a="1", b="2", c="3"))
    await apply("m2", config_map(c="3"))
    left = await apply("m1", config_map(a="1"))
    assert left["data"] == {"a": "1", "c": "3"}
    assert owned(left) == {"m1 Apply": {"f:data": {"f:a": {}}}, "m2 Apply": {"f:data": {"f:c": {}}}}


@pytest.mark.conformance("API-93")
async def test_a_plain_write_takes_the_fields_that_it_changes(apply: Applier) -> None:
    await apply("m1", config_map(a="1", b="2"))
    changed = await apply.merge("u1", {"data": {"a": "5"}})
    assert owned(changed) == {"m1 Apply": {"f:data": {"f:b": {}}}, "u1 Update": {"f:data": {"f:a": {}}}}
    assert await apply.conflicts("m1", config_map(a="1", b="2")) == [('conflict with "u1" using v1', ".data.a")]
    put = await apply.put({**await apply.get(), "data": {"a": "6"}}, "u2")
    assert owned(put) == {"u2 Update": {"f:data": {"f:a": {}}}}


async def test_reading_and_writing_back_keeps_the_managers(apply: Applier) -> None:
    made = await apply("m1", config_map(a="1"))
    read = await apply.get()
    del read["metadata"]["managedFields"]
    changed = await apply.put({**read, "data": {**read["data"], "b": "2"}}, "u1")
    assert owned(changed) == {"m1 Apply": {"f:data": {"f:a": {}}}, "u1 Update": {"f:data": {"f:b": {}}}}
    assert await apply.put(await apply.get(), "u2") == changed
    assert changed["metadata"]["uid"] == made["metadata"]["uid"]


@pytest.mark.conformance("API-94")
async def test_an_apply_that_names_no_manager_or_another_object_is_refused(apply: Applier) -> None:
    missing = await apply.refused("", config_map(a="1"))
    assert (missing.code, missing.reason) == (422, "Invalid")
    assert "fieldManager: Required value: is required for apply patch" in missing.message
    body = config_map(a="1")
    for entries in ([], [{"manager": "x"}]):
        listed = await apply.refused("m", {**body, "metadata": {"name": "m", "managedFields": entries}})
        assert (listed.code, listed.message) == (400, "metadata.managedFields must be nil")
    other = await apply.refused("m", config_map("other", a="1"))
    assert (other.code, other.message) == (400, "the name of the object (other) does not match the name on the URL (m)")
    unnamed = await apply.refused("m", {**body, "metadata": {}})
    assert unnamed.code == 400
    assert unnamed.message.startswith("the name of the object (m based on URL) was undeterminable")
    kind = await apply.refused("m", {**body, "kind": "Pod"})
    assert (kind.code, kind.message) == (400, "invalid object type: /v1, Kind=Pod")
    place = await apply.refused("m", {**body, "metadata": {"name": "m", "namespace": "elsewhere"}})
    assert place.code == 400
    gone = await apply.refused("m", {**body, "metadata": {"name": "m", "uid": "0"}})
    assert (gone.code, gone.reason) == (409, "Conflict")
    assert "uid mismatch" in gone.message


@pytest.mark.conformance("API-95")
async def test_ports_without_a_protocol_are_keyed_with_the_default(apply: Applier) -> None:
    pods = apply.of(PODS, "p")
    body = pod({"name": "c", "image": "i", "ports": [{"containerPort": 80}]})
    made = await pods("m", body)
    assert owned(made)["m Apply"]["f:spec"]["f:containers"] == {
        'k:{"name":"c"}': {
            ".": {},
            "f:name": {},
            "f:image": {},
            "f:ports": {'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}},
        }
    }
    assert made["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert await pods("m", body) == made


@pytest.mark.conformance("API-96")
async def test_two_managers_apply_conditions_of_different_types(apply: Applier) -> None:
    pods = apply.of(PODS, "p")
    await pods("m", pod({"name": "c", "image": "i"}))

    def status(type_: str) -> Object:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": {"nodeName": "ignored"},
            "status": {"conditions": [{"type": type_, "status": "True"}]},
        }

    await pods("m1", status("example.com/a"), subresource="status")
    both = await pods("m2", status("example.com/b"), subresource="status")
    types = [condition["type"] for condition in both["status"]["conditions"]]
    assert [one for one in types if one.startswith("example.com/")] == ["example.com/a", "example.com/b"]
    assert "nodeName" not in both["spec"]
    entries = {one["manager"]: one for one in both["metadata"]["managedFields"]}
    assert entries["m1"]["subresource"] == "status"
    key = 'k:{"type":"example.com/a"}'
    assert entries["m1"]["fieldsV1"] == {"f:status": {"f:conditions": {key: {".": {}, "f:status": {}, "f:type": {}}}}}
    missing = await apply.of(PODS, "none").refused(
        "m", {**status("x"), "metadata": {"name": "none"}}, subresource="status"
    )
    assert missing.code == 404


@pytest.mark.conformance("API-97")
@pytest.mark.parametrize("reset", [[{}], []])
async def test_an_empty_list_of_managers_ends_tracking(apply: Applier, reset: list[Object]) -> None:
    await apply("m1", config_map(a="1"))
    cleared = await apply.merge("u", {"metadata": {"managedFields": reset}})
    assert "managedFields" not in cleared["metadata"]
    assert "managedFields" not in (await apply.merge("u", {"data": {"z": "1"}}))["metadata"]


@pytest.mark.conformance("API-98")
async def test_the_first_apply_conflicts_with_what_was_there_before_it(apply: Applier) -> None:
    await apply.post(config_map(a="1", z="1"))
    (conflict,) = await apply.conflicts("m", config_map(a="2"))
    assert conflict[0] in ('conflict with "before-first-apply" using v1', 'conflict with "creator" using v1')
    assert conflict[1] == ".data.a"
    forced = await apply("m", config_map(a="2"), force=True)
    assert forced["data"] == {"a": "2", "z": "1"}
    managers = owned(forced)
    assert managers.pop("m Apply") == {"f:data": {"f:a": {}}}
    assert list(managers.values()) == [{"f:data": {".": {}, "f:z": {}}}]


async def test_an_applied_item_goes_but_stays_while_another_manager_owns_a_field_of_it(apply: Applier) -> None:
    jobs = apply.of(JOBS, "j")

    def job(*containers: Object) -> Object:
        template = {"spec": {"restartPolicy": "Never", "containers": list(containers)}}
        spec = {"suspend": True, "template": template}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}

    both = await jobs(
        "m1", {**job({"name": "a", "image": "i"}), "metadata": {"name": "j", "finalizers": ["x.io/a", "x.io/b"]}}
    )
    assert owned(both)["m1 Apply"]["f:metadata"] == {"f:finalizers": {'v:"x.io/a"': {}, 'v:"x.io/b"': {}}}
    await jobs("m2", {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "finalizers": ["x.io/b"]}})
    left = await jobs("m1", {**job({"name": "a", "image": "i"}), "metadata": {"name": "j"}})
    assert left["metadata"]["finalizers"] == ["x.io/b"]
    await jobs.merge("u", {"metadata": {"finalizers": None}})


async def test_an_apply_on_trial_changes_nothing(apply: Applier) -> None:
    made = await apply("m1", config_map(a="1"))
    tried = await apply("m1", config_map(a="2"), dry_run=True)
    assert tried["data"] == {"a": "2"}
    assert await apply.get() == made


async def test_kubectl_takes_over_what_it_applied_as_a_client(apply: Applier) -> None:
    last = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"},"data":{"a":"1"}}\n'
    annotation = "kubectl.kubernetes.io/last-applied-configuration"
    await apply.post({**config_map(a="1", z="1"), "metadata": {"name": "m", "annotations": {annotation: last}}})
    assert await apply.conflicts("other", config_map(a="2"))
    assert [field for _, field in await apply.conflicts("kubectl", config_map(a="2", z="2"))] == [".data.z"]
    taken = await apply("kubectl", config_map(a="2"))
    assert taken["data"] == {"a": "2", "z": "1"}
    assert '"a":"2"' in taken["metadata"]["annotations"][annotation]


async def test_another_notation_of_the_same_value_is_no_write(apply: Applier) -> None:
    pods = apply.of(PODS, "p")
    body = pod({"name": "c", "image": "i", "resources": {"limits": {"cpu": "1000m"}}})
    made = await pods("m", body)
    assert made["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1"}
    assert await pods("m", body) == made


async def test_items_come_in_the_order_in_which_they_are_applied(apply: Applier) -> None:
    def finalized(*names: str) -> Object:
        return {**config_map(a="1"), "metadata": {"name": "m", "finalizers": [f"x.io/{name}" for name in names]}}

    await apply.post(finalized("a", "b", "c", "d"))
    applied = await apply("m", finalized("n", "c", "a"))
    assert [one[5:] for one in applied["metadata"]["finalizers"]] == ["b", "n", "c", "d", "a"]
    await apply.merge("u", {"metadata": {"finalizers": None}})
