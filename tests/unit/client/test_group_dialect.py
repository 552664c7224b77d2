"""Groups of our own and native ones as one kind, over a server that has both; an embedded store stands for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import pytest

from echelon.api.errors import ApiError
from echelon.api.group_kinds import forms
from echelon.api.scheme import (
    JOB_SETS,
    OWN_GROUP_KINDS,
    OWN_POD_GROUPS,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    WORKLOADS,
    Object,
    Resource,
)
from echelon.api.verbs import ListOptions, ObjectList, Patch, PatchType, WatchEvent, WatchOptions, WriteOptions
from echelon.client.group_dialect import GroupDialect
from echelon.testing.builders import make_pod, make_pod_group


class Server:
    """What a server stores, by resource and name, with one revision for all; it merges what it is patched with."""

    def __init__(self) -> None:
        self.stored: dict[tuple[Resource, str], Object] = {}
        self.revision = 0
        self.streams: dict[Resource, Sequence[WatchEvent]] = {}
        self.failing: set[Resource] = set()
        #: Watches of these end by themselves after their events.
        self.ending: set[Resource] = set()
        self.listed: list[Resource] = []
        #: From where watches were asked for.
        self.asked: dict[Resource, Any] = {}

    def put(self, resource: Resource, obj: Object) -> Object:
        self.revision += 1
        name = obj["metadata"]["name"]
        metadata = {"uid": f"{resource.group}-{name}", **obj["metadata"], "resourceVersion": str(self.revision)}
        kind = {"apiVersion": resource.api_version, "kind": resource.kind}
        self.stored[resource, name] = {**obj, **kind, "metadata": metadata}
        return self.stored[resource, name]

    async def create(
        self, resource: Resource, obj: Object, namespace: str = "", options: WriteOptions = WriteOptions()
    ) -> Object:
        assert obj.get("apiVersion", resource.api_version) == resource.api_version
        return self.put(resource, obj)

    async def update(
        self, resource: Resource, obj: Object, namespace: str = "", subresource: Any = "", options: Any = None
    ) -> Object:
        return self.put(resource, obj)

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        if (resource, name) not in self.stored:
            raise ApiError(404, "NotFound", name)
        return self.stored[resource, name]

    async def list(self, resource: Resource, namespace: str = "", options: ListOptions = ListOptions()) -> ObjectList:
        self.listed.append(resource)
        return ObjectList([one for (kind, _), one in self.stored.items() if kind == resource], str(self.revision))

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Patch,
        namespace: str = "",
        subresource: Any = "",
        options: Any = None,
    ) -> Object:
        assert patch.type is PatchType.MERGE, "a custom kind knows no other"
        old = await self.get(resource, name, namespace)
        body = {key: value for key, value in patch.body.items() if key != "metadata"}
        return self.put(resource, {**old, **body})

    async def watch(
        self, resource: Resource, namespace: str = "", options: WatchOptions = WatchOptions()
    ) -> AsyncGenerator[WatchEvent, None]:
        self.asked.setdefault(resource, []).append(options.resource_version)
        if resource in self.failing:
            raise ApiError(503, "ServiceUnavailable", "cut off")
        for event in self.streams.pop(resource, ()):
            yield event
        if resource not in self.ending:
            await asyncio.Event().wait()


def dialect(server: Server, choice: str) -> GroupDialect:
    return GroupDialect(server, forms(choice))  # type: ignore[arg-type]


def own(name: str, **spec: Any) -> Object:
    group = make_pod_group(name, gang=2)
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {**group["spec"], **spec}}


async def test_new_groups_are_made_in_the_first_form_and_read_as_native() -> None:
    for choice, made in (("own,native", OWN_POD_GROUPS), ("native,own", POD_GROUPS)):
        server = Server()
        found = await dialect(server, choice).create(POD_GROUPS, make_pod_group("g", gang=2), "default")
        assert list(server.stored) == [(made, "g")]
        assert found["apiVersion"] == POD_GROUPS.api_version


async def test_both_forms_are_one_list_in_which_native_groups_hide_ours() -> None:
    server = Server()
    server.put(OWN_POD_GROUPS, own("ours"))
    server.put(OWN_POD_GROUPS, own("twice"))
    native = server.put(POD_GROUPS, own("twice"))
    found = (await dialect(server, "own,native").list(POD_GROUPS)).items
    assert sorted(one["metadata"]["name"] for one in found) == ["ours", "twice"]
    assert native in found
    assert {one["apiVersion"] for one in found} == {POD_GROUPS.api_version}


async def test_writes_go_to_where_the_object_is() -> None:
    server = Server()
    server.put(OWN_POD_GROUPS, own("ours"))
    server.put(POD_GROUPS, own("theirs"))
    verbs = dialect(server, "native,own")
    body = Patch(PatchType.MERGE, {"status": {"seen": True}})
    for name in ("ours", "theirs"):
        assert (await verbs.patch(POD_GROUPS, name, body, "default", "status"))["status"] == {"seen": True}
    assert server.stored[OWN_POD_GROUPS, "ours"]["status"] == server.stored[POD_GROUPS, "theirs"]["status"]
    with pytest.raises(ApiError, match="nosuch"):
        await verbs.get(POD_GROUPS, "nosuch", "default")


async def test_conditions_are_merged_by_their_type_where_the_server_cannot() -> None:
    server = Server()
    condition = {"type": "A", "status": "True"}
    server.put(OWN_POD_GROUPS, {**own("g"), "status": {"conditions": [condition]}})
    other = {"type": "B", "status": "False"}
    body = {"metadata": {"uid": "scheduling.echelon.dev-g"}, "status": {"conditions": [other]}}
    patch = Patch(PatchType.STRATEGIC, body)
    found = await dialect(server, "own").patch(POD_GROUPS, "g", patch, "default", "status")
    assert sorted(found["status"]["conditions"], key=lambda one: one["type"]) == [condition, other]
    wrong = Patch(PatchType.STRATEGIC, {"metadata": {"uid": "another"}, "status": {}})
    with pytest.raises(ApiError) as refused:
        await dialect(server, "own").patch(POD_GROUPS, "g", wrong, "default", "status")
    assert refused.value.code == 409


async def test_priorities_come_from_the_class_when_made_and_when_read() -> None:
    server = Server()
    server.put(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 7})
    verbs = dialect(server, "own")
    group = own("made", priorityClassName="high")
    del group["spec"]["preemptionPolicy"]
    await verbs.create(POD_GROUPS, group, "default")
    assert server.stored[OWN_POD_GROUPS, "made"]["spec"]["priority"] == 7
    server.put(OWN_POD_GROUPS, own("users", priorityClassName="high"))
    assert (await verbs.get(POD_GROUPS, "users", "default"))["spec"]["priority"] == 7
    with pytest.raises(ApiError, match="no PriorityClass with name low was found"):
        await verbs.create(POD_GROUPS, own("refused", priorityClassName="low"), "default")


async def test_priority_classes_are_listed_once_for_many_groups_and_again_for_a_new_name() -> None:
    server = Server()
    verbs = dialect(server, "own")
    for number in range(5):
        server.put(OWN_POD_GROUPS, own(f"g-{number}"))
        assert (await verbs.get(POD_GROUPS, f"g-{number}", "default"))["spec"]["priority"] == 0
    assert server.listed.count(PRIORITY_CLASSES) == 1
    server.put(PRIORITY_CLASSES, {"metadata": {"name": "new"}, "value": 9})
    server.put(OWN_POD_GROUPS, own("high", priorityClassName="new"))
    assert (await verbs.get(POD_GROUPS, "high", "default"))["spec"]["priority"] == 9
    assert server.listed.count(PRIORITY_CLASSES) == 2


async def test_pods_get_the_label_only_where_new_groups_are_ours() -> None:
    for choice, field in (("own", False), ("own,native", False), ("native,own", True)):
        server = Server()
        await dialect(server, choice).create(PODS, make_pod("p", group="g"), "default")
        assert ("schedulingGroup" in server.stored[PODS, "p"]["spec"]) is field


async def test_owners_in_both_forms_are_named_where_they_are() -> None:
    server = Server()
    verbs = dialect(server, "native,own")
    kept = server.put(OWN_GROUP_KINDS[WORKLOADS], {"metadata": {"name": "old", "namespace": "default"}, "spec": {}})
    await verbs.list(WORKLOADS)
    group = make_pod_group("g", gang=2)
    for uid in (kept["metadata"]["uid"], "native"):
        owner = {"apiVersion": WORKLOADS.api_version, "kind": "Workload", "name": "w", "uid": uid}
        group["metadata"].setdefault("ownerReferences", []).append(owner)
    await verbs.create(POD_GROUPS, group, "default")
    versions = [one["apiVersion"] for one in server.stored[POD_GROUPS, "g"]["metadata"]["ownerReferences"]]
    assert versions == ["scheduling.echelon.dev/v1alpha1", "scheduling.k8s.io/v1beta1"]


async def test_both_watches_are_one() -> None:
    server = Server()
    verbs = dialect(server, "own,native")
    listed = await verbs.list(POD_GROUPS)
    server.streams = {
        POD_GROUPS: [WatchEvent("ADDED", server.put(POD_GROUPS, own("theirs")))],
        OWN_POD_GROUPS: [WatchEvent("ADDED", server.put(OWN_POD_GROUPS, own("ours")))],
    }
    async with aclosing(
        verbs.watch(POD_GROUPS, options=WatchOptions(resource_version=listed.resource_version))
    ) as both:
        seen = [(await anext(both)).object for _ in range(2)]
    assert sorted(one["metadata"]["name"] for one in seen) == ["ours", "theirs"]
    assert {one["apiVersion"] for one in seen} == {POD_GROUPS.api_version}


async def test_a_watch_that_fails_loses_nothing_of_the_other() -> None:
    """What stood in line behind the failure is asked for again; what was delivered is not."""
    server = Server()
    verbs = dialect(server, "own,native")
    listed = await verbs.list(POD_GROUPS)
    event = WatchEvent("ADDED", server.put(POD_GROUPS, own("theirs")))
    server.streams, server.failing = {POD_GROUPS: [event]}, {OWN_POD_GROUPS}
    options = WatchOptions(resource_version=listed.resource_version)
    delivered = []

    async def follow() -> None:
        async with aclosing(verbs.watch(POD_GROUPS, options=options)) as both:
            async for one in both:
                version = one.object["metadata"]["resourceVersion"]
                delivered.append(version)

    with pytest.raises(ApiError, match="cut off"):
        await follow()
    with pytest.raises(ApiError, match="cut off"):
        await follow()
    assert server.asked[POD_GROUPS] == [listed.resource_version, (delivered or [listed.resource_version])[-1]]


async def test_a_watch_that_ends_is_opened_again_ever_later_as_long_as_it_says_nothing() -> None:
    server, waits = Server(), list[float]()
    server.ending = {OWN_POD_GROUPS}
    enough = asyncio.Event()

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 4:
            server.streams[OWN_POD_GROUPS] = [WatchEvent("ADDED", server.put(OWN_POD_GROUPS, own("g")))]
        if len(waits) == 8:
            enough.set()
            await asyncio.Event().wait()

    verbs = GroupDialect(server, forms("own,native"), sleep)  # type: ignore[arg-type]
    listed = await verbs.list(POD_GROUPS)
    options = WatchOptions(resource_version=listed.resource_version)
    async with aclosing(verbs.watch(POD_GROUPS, options=options)) as both:
        found = await asyncio.wait_for(anext(both), 10)
        await asyncio.wait_for(enough.wait(), 10)
    assert waits == [0.2, 0.4, 0.8, 1.6, 0.2, 0.4, 0.8, 1.6]
    version = found.object["metadata"]["resourceVersion"]
    assert server.asked[OWN_POD_GROUPS] == [listed.resource_version] * 5 + [version] * 3
    assert server.asked[POD_GROUPS] == [listed.resource_version], "the other watch goes on meanwhile"


async def test_an_event_that_cannot_be_read_ends_the_watch_instead_of_leaving_it_silent() -> None:
    server = Server()
    verbs = dialect(server, "own,native")
    server.streams = {OWN_POD_GROUPS: [WatchEvent("ADDED", {"metadata": {"name": "odd"}})]}
    async with aclosing(verbs.watch(POD_GROUPS)) as both:
        with pytest.raises(KeyError):
            await asyncio.wait_for(anext(both), 10)


async def test_a_watch_of_a_namespace_does_not_move_the_position_of_the_watch_of_all() -> None:
    server = Server()
    verbs = dialect(server, "own,native")
    listed = await verbs.list(POD_GROUPS)
    options = WatchOptions(resource_version=listed.resource_version)
    server.streams = {OWN_POD_GROUPS: [WatchEvent("ADDED", server.put(OWN_POD_GROUPS, own("g")))]}
    async with aclosing(verbs.watch(POD_GROUPS, "default", options)) as some:
        await anext(some)
    server.streams = {OWN_POD_GROUPS: [WatchEvent("ADDED", server.put(OWN_POD_GROUPS, own("h")))]}
    async with aclosing(verbs.watch(POD_GROUPS, options=options)) as every:
        await anext(every)
    assert server.asked[OWN_POD_GROUPS] == [listed.resource_version] * 2


async def test_a_group_that_goes_while_classes_are_looked_up_is_listed_all_the_same() -> None:
    server = Server()
    for name in ("known", "new"):
        server.put(OWN_POD_GROUPS, own(name))
    verbs = dialect(server, "own")
    known = await verbs.get(POD_GROUPS, "known", "default")
    server.streams = {OWN_POD_GROUPS: [WatchEvent("DELETED", server.stored[OWN_POD_GROUPS, "known"])]}
    listed, looked = server.list, asyncio.Event()

    async def slow(resource: Resource, *args: Any) -> ObjectList:
        if resource is PRIORITY_CLASSES:
            async with aclosing(verbs.watch(POD_GROUPS)) as events:
                await anext(events)
            looked.set()
        return await listed(resource, *args)

    server.list = slow  # type: ignore[method-assign]
    verbs._classes.until = float("-inf")
    found = await verbs.list(POD_GROUPS)
    assert looked.is_set()
    assert {one["metadata"]["name"]: one["spec"]["priority"] for one in found.items} == {"known": 0, "new": 0}
    assert known["spec"]["priority"] == 0


async def test_what_went_while_nobody_watched_is_forgotten_when_all_is_listed_anew() -> None:
    server = Server()
    verbs = dialect(server, "own,native")
    for name in ("stays", "goes"):
        server.put(OWN_POD_GROUPS, own(name))
    await verbs.list(POD_GROUPS)
    del server.stored[OWN_POD_GROUPS, "goes"]
    await verbs.list(POD_GROUPS, "default")
    assert len(verbs._own[OWN_POD_GROUPS]) == 2, "a list of a namespace says nothing about the others"
    await verbs.list(POD_GROUPS)
    assert list(verbs._own[OWN_POD_GROUPS]) == ["scheduling.echelon.dev-stays"]


async def test_answers_to_writes_of_a_jobset_read_like_the_jobset_itself() -> None:
    """Else a cache that takes in the answer has it in another form than what the watch brings."""
    pod = {"spec": {"schedulingGroup": {"podGroupName": "g"}, "containers": [{"name": "c", "image": "i"}]}}
    jobs = [{"name": "a", "template": {"spec": {"template": pod}}}]
    jobset = {"metadata": {"name": "j", "namespace": "default"}, "spec": {"replicatedJobs": jobs}}
    server = Server()
    client = dialect(server, "own")
    made = await client.create(JOB_SETS, jobset, "default")
    assert made == await client.get(JOB_SETS, "j", "default")
    assert made["spec"] == jobset["spec"]
    changed = await client.update(JOB_SETS, made, "default")
    assert changed == await client.get(JOB_SETS, "j", "default")
