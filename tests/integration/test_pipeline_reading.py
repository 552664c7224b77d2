"""Lists and watches through the pipeline: selectors, pages, versions, transitions, bookmarks, 410."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeVar

import pytest

from echelon.api.errors import ApiError
from echelon.api.scheme import CONFIG_MAPS, POD_GROUPS_ALPHA, PODS, Object
from echelon.api.verbs import DeleteOptions, ListOptions, Patch, PatchType, WatchEvent, WatchOptions
from echelon.base.clock import ManualClock
from echelon.base.rng import Rng
from echelon.runtime import virtual_time
from echelon.runtime.clocks import LoopClock
from echelon.server.objects.object_cache import header_of
from echelon.server.pipeline import Pipeline
from echelon.store.memory import open_memory
from echelon.store.sqlite import open_sqlite
from echelon.store.watch_history import Window

T = TypeVar("T")


def config(name: str, **labels: str) -> Object:
    return {"metadata": {"name": name, "labels": labels}}


def relabel(**labels: str | None) -> Patch:
    return Patch(PatchType.MERGE, {"metadata": {"labels": labels}})


def names(objects: list[Object]) -> list[str]:
    return [obj["metadata"]["name"] for obj in objects]


async def take(events: AsyncGenerator[WatchEvent, None], count: int) -> list[tuple[str, str, int]]:
    """The next events as (type, name, resourceVersion)."""
    taken = []
    async with asyncio.timeout(60):
        while len(taken) < count:
            event = await anext(events)
            metadata = event.object["metadata"]
            taken.append((event.type, metadata.get("name", ""), int(metadata["resourceVersion"])))
    return taken


def in_virtual_time(scenario: Callable[[Pipeline], Awaitable[T]]) -> T:
    """What a scenario returns; hours of waiting take no time."""

    async def main() -> T:
        pipeline = Pipeline(open_memory(header_of), LoopClock(), Rng(1))
        await pipeline.bootstrap()
        return await scenario(pipeline)

    return virtual_time.run(main())


@pytest.fixture
async def watch(pipeline: Pipeline) -> AsyncIterator[Any]:
    """Starts watches of ConfigMaps in `default`; all are closed at the end."""
    opened: list[AsyncGenerator[WatchEvent, None]] = []

    def start(**options: Any) -> AsyncGenerator[WatchEvent, None]:
        opened.append(pipeline.watch(CONFIG_MAPS, "default", WatchOptions(**options)))
        return opened[-1]

    yield start
    for events in opened:
        await events.aclose()


async def test_lists_are_by_namespace_and_in_order_of_names(pipeline: Pipeline) -> None:
    for namespace, name in (("default", "b"), ("kube-system", "x"), ("default", "a")):
        await pipeline.create(CONFIG_MAPS, config(name), namespace)
    assert names((await pipeline.list(CONFIG_MAPS, "default")).items) == ["a", "b"]
    assert names((await pipeline.list(CONFIG_MAPS)).items) == ["a", "b", "x", "kubeflow-trainer-public"]
    empty = await pipeline.list(CONFIG_MAPS, "no-such-namespace")
    assert (empty.items, empty.resource_version) == ([], pipeline.resource_version)


@pytest.mark.conformance("API-46", "API-47")
@pytest.mark.parametrize(
    ("labels", "fields", "expected"),
    [
        ("tier in (a,b),!old", "", ["one", "two"]),
        ("tier!=a", "", ["three", "two"]),
        ("", "metadata.name=two,metadata.name=two", ["two"]),
        ("tier", "metadata.name!=two", ["one", "three"]),
    ],
)
async def test_selectors_choose(pipeline: Pipeline, labels: str, fields: str, expected: list[str]) -> None:
    await pipeline.create(CONFIG_MAPS, config("one", tier="a"), "default")
    await pipeline.create(CONFIG_MAPS, config("two", tier="b"), "default")
    await pipeline.create(CONFIG_MAPS, config("three", tier="c", old="yes"), "default")
    listed = await pipeline.list(CONFIG_MAPS, "default", ListOptions(labels, fields))
    assert names(listed.items) == expected


@pytest.mark.conformance("API-46")
async def test_a_field_no_selector_may_name_is_refused(pipeline: Pipeline) -> None:
    with pytest.raises(ApiError) as refused:
        await pipeline.list(CONFIG_MAPS, "default", ListOptions(field_selector="data.a=b"))
    assert refused.value.code == 400
    with pytest.raises(ApiError):
        pipeline.watch(CONFIG_MAPS, "default", WatchOptions(field_selector="data.a=b"))


@pytest.mark.conformance("API-41")
async def test_pages_show_the_state_of_the_first_one(pipeline: Pipeline) -> None:
    for n in range(12):
        await pipeline.create(CONFIG_MAPS, config(f"c{n:02}"), "default")
    first = await pipeline.list(CONFIG_MAPS, "default", ListOptions(limit=5))
    assert (len(first.items), first.remaining) == (5, 7)
    await pipeline.create(CONFIG_MAPS, config("c05a"), "default")
    await pipeline.delete(CONFIG_MAPS, "c06", "default")
    second = await pipeline.list(CONFIG_MAPS, "default", ListOptions(limit=5, continue_token=first.continue_token))
    assert (names(second.items), second.remaining) == ([f"c{n:02}" for n in range(5, 10)], 2)
    third = await pipeline.list(CONFIG_MAPS, "default", ListOptions(limit=5, continue_token=second.continue_token))
    assert (names(third.items), third.continue_token, third.remaining) == (["c10", "c11"], "", None)
    assert {first.resource_version, second.resource_version} == {third.resource_version}


async def test_pages_of_a_selection_do_not_count_the_rest(pipeline: Pipeline) -> None:
    for n in range(4):
        await pipeline.create(CONFIG_MAPS, config(f"c{n}", a=str(n % 2)), "default")
    page = await pipeline.list(CONFIG_MAPS, "default", ListOptions("a=1", limit=1))
    assert (names(page.items), page.remaining) == (["c1"], None)


@pytest.mark.conformance("API-42")
async def test_a_page_token_that_expired_comes_with_one_to_go_on(clock: ManualClock) -> None:
    pipeline = Pipeline(open_memory(header_of, Window(events=10)), clock, Rng(1))
    await pipeline.bootstrap()
    for n in range(6):
        await pipeline.create(CONFIG_MAPS, config(f"c{n}"), "default")
    page = await pipeline.list(CONFIG_MAPS, "default", ListOptions(limit=2))
    for n in range(600):
        await pipeline.patch(CONFIG_MAPS, "c0", relabel(n=str(n)), "default")
    with pytest.raises(ApiError, match="too old to display a consistent list") as refused:
        await pipeline.list(CONFIG_MAPS, "default", ListOptions(limit=2, continue_token=page.continue_token))
    assert (refused.value.code, refused.value.reason) == (410, "Expired")
    again = refused.value.status()["metadata"]["continue"]
    rest = await pipeline.list(CONFIG_MAPS, "default", ListOptions(continue_token=again))
    assert names(rest.items) == ["c2", "c3", "c4", "c5"]


@pytest.mark.conformance("API-43", "API-45")
@pytest.mark.parametrize(
    ("options", "code"),
    [
        (ListOptions(continue_token="!!!"), 400),
        (ListOptions(continue_token="e30"), 400),
        (ListOptions(continue_token="e30", resource_version="1"), 400),
        (ListOptions(resource_version="x"), 400),
        (ListOptions(resource_version_match="Exact"), 422),
        (ListOptions(resource_version="0", resource_version_match="Exact"), 422),
        (ListOptions(resource_version="1", resource_version_match="Often"), 422),
    ],
)
async def test_contradictory_list_options_are_refused(pipeline: Pipeline, options: ListOptions, code: int) -> None:
    with pytest.raises(ApiError) as refused:
        await pipeline.list(CONFIG_MAPS, "default", options)
    assert refused.value.code == code


async def test_a_list_at_an_exact_version_shows_that_one(pipeline: Pipeline) -> None:
    await pipeline.create(CONFIG_MAPS, config("a"), "default")
    at = pipeline.resource_version
    await pipeline.create(CONFIG_MAPS, config("b"), "default")
    exact = ListOptions(resource_version=at, resource_version_match="Exact")
    listed = await pipeline.list(CONFIG_MAPS, "default", exact)
    assert (names(listed.items), listed.resource_version) == (["a"], at)
    newer = await pipeline.list(CONFIG_MAPS, "default", ListOptions(resource_version=at))
    assert names(newer.items) == ["a", "b"]


@pytest.mark.conformance("API-44")
def test_a_version_that_does_not_come_is_a_timeout() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        await pipeline.list(CONFIG_MAPS, "default", ListOptions(resource_version="99999"))

    with pytest.raises(ApiError, match="Too large resource version") as refused:
        in_virtual_time(scenario)
    assert (refused.value.code, refused.value.reason) == (504, "Timeout")
    assert refused.value.details["causes"][0]["reason"] == "ResourceVersionTooLarge"


async def test_a_version_that_is_about_to_come_is_waited_for(pipeline: Pipeline) -> None:
    soon = str(int(pipeline.resource_version) + 1)
    waiting = asyncio.ensure_future(pipeline.list(CONFIG_MAPS, "default", ListOptions(resource_version=soon)))
    await asyncio.sleep(0.01)
    await pipeline.create(CONFIG_MAPS, config("a"), "default")
    assert names((await waiting).items) == ["a"]


@pytest.mark.conformance("API-25", "API-26")
async def test_a_watch_from_a_version_sees_everything_after_it(pipeline: Pipeline, watch: Any) -> None:
    at = int(pipeline.resource_version)
    await pipeline.create(CONFIG_MAPS, config("a"), "default")
    events = watch(resource_version=str(at))
    await pipeline.create(CONFIG_MAPS, config("elsewhere"), "kube-system")
    await pipeline.patch(CONFIG_MAPS, "a", relabel(x="y"), "default")
    await pipeline.delete(CONFIG_MAPS, "a", "default")
    assert await take(events, 3) == [("ADDED", "a", at + 1), ("MODIFIED", "a", at + 3), ("DELETED", "a", at + 4)]


@pytest.mark.conformance("API-27")
async def test_objects_enter_and_leave_a_selection(pipeline: Pipeline, watch: Any) -> None:
    at = int(pipeline.resource_version)
    events = watch(resource_version=str(at), label_selector="a=1")
    await pipeline.create(CONFIG_MAPS, config("c"), "default")
    await pipeline.patch(CONFIG_MAPS, "c", relabel(a="1"), "default")
    await pipeline.patch(CONFIG_MAPS, "c", relabel(b="2"), "default")
    await pipeline.patch(CONFIG_MAPS, "c", relabel(a="2"), "default")
    await pipeline.delete(CONFIG_MAPS, "c", "default")
    await pipeline.create(CONFIG_MAPS, config("d", a="1"), "default")
    seen = [await anext(events) for _ in range(4)]
    assert [(e.type, int(e.object["metadata"]["resourceVersion"])) for e in seen] == [
        ("ADDED", at + 2), ("MODIFIED", at + 3), ("DELETED", at + 4), ("ADDED", at + 6),
    ]  # fmt: skip
    assert seen[2].object["metadata"]["labels"] == {"a": "1", "b": "2"}


@pytest.mark.conformance("API-28")
async def test_a_node_hears_of_a_pod_when_it_is_bound(pipeline: Pipeline) -> None:
    options = WatchOptions(field_selector="spec.nodeName=n1", resource_version=pipeline.resource_version)
    async with aclosing(pipeline.watch(PODS, options=options)) as events:
        spec = {"containers": [{"name": "c", "image": "i"}]}
        await pipeline.create(PODS, {"metadata": {"name": "p"}, "spec": spec}, "default")
        await pipeline.bind("default", "p", "n1")
        assert [kind for kind, _, _ in await take(events, 1)] == ["ADDED"]


@pytest.mark.conformance("API-29", "API-30")
@pytest.mark.parametrize("at", ["", "0"])
async def test_a_watch_from_nowhere_begins_with_what_is_there(pipeline: Pipeline, watch: Any, at: str) -> None:
    await pipeline.create(CONFIG_MAPS, config("a"), "default")
    await pipeline.create(CONFIG_MAPS, config("b"), "default")
    everything, one = watch(resource_version=at), watch(resource_version=at, field_selector="metadata.name=b")
    assert [name for _, name, _ in await take(everything, 2)] == ["a", "b"]
    assert [name for _, name, _ in await take(one, 1)] == ["b"]
    await pipeline.create(CONFIG_MAPS, config("c"), "default")
    assert (await take(everything, 1))[0][:2] == ("ADDED", "c")


@pytest.mark.conformance("API-31")
async def test_history_that_is_gone_is_410(clock: ManualClock) -> None:
    pipeline = Pipeline(open_memory(header_of, Window(events=10)), clock, Rng(1))
    await pipeline.bootstrap()
    await pipeline.create(CONFIG_MAPS, config("a"), "default")
    for n in range(600):
        await pipeline.patch(CONFIG_MAPS, "a", relabel(n=str(n)), "default")
    events = pipeline.watch(CONFIG_MAPS, "default", WatchOptions(resource_version="1"))
    with pytest.raises(ApiError, match=r"too old resource version: 1 \(\d+\)") as refused:
        await anext(events)
    assert (refused.value.code, refused.value.reason) == (410, "Expired")


@pytest.mark.conformance("API-33", "API-35")
async def test_streamed_lists_end_with_a_marked_bookmark(pipeline: Pipeline, watch: Any) -> None:
    options = {"send_initial_events": True, "resource_version_match": "NotOlderThan", "allow_bookmarks": True}
    empty = await anext(watch(**options))
    assert (empty.type, empty.object["kind"]) == ("BOOKMARK", "ConfigMap")
    assert empty.object["metadata"] == {
        "resourceVersion": pipeline.resource_version, "annotations": {"k8s.io/initial-events-end": "true"},
    }  # fmt: skip
    await pipeline.create(CONFIG_MAPS, config("a"), "default")
    events = watch(**options)
    assert [kind for kind, _, _ in await take(events, 2)] == ["ADDED", "BOOKMARK"]
    await pipeline.delete(CONFIG_MAPS, "a", "default")
    assert (await take(events, 1))[0][0] == "DELETED"


@pytest.mark.conformance("API-34")
@pytest.mark.parametrize(
    "options",
    [
        {"send_initial_events": True},
        {"send_initial_events": True, "resource_version_match": "Exact"},
        {"resource_version_match": "NotOlderThan"},
    ],
)
async def test_contradictory_watch_options_are_refused_before_the_stream(watch: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as refused:
        watch(**options)
    assert refused.value.code == 422


@pytest.mark.conformance("API-36", "API-37")
def test_bookmarks_come_every_minute_while_idle_and_before_the_end() -> None:
    async def scenario(pipeline: Pipeline) -> list[float]:
        at = pipeline.resource_version
        await pipeline.create(CONFIG_MAPS, config("elsewhere"), "kube-system")
        options = WatchOptions(resource_version=at, allow_bookmarks=True, timeout_seconds=150)
        loop = asyncio.get_running_loop()
        begin, heard = loop.time(), []
        async with aclosing(pipeline.watch(CONFIG_MAPS, "default", options)) as events:
            async for event in events:
                heard.append(loop.time() - begin)
                assert event.type == "BOOKMARK"
                assert event.object["metadata"]["resourceVersion"] == pipeline.resource_version
        return [*heard, loop.time() - begin]

    assert in_virtual_time(scenario) == pytest.approx([60, 120, 148, 150])


async def test_a_watch_shows_objects_at_its_own_version(pipeline: Pipeline) -> None:
    body = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}}
    await pipeline.create(POD_GROUPS_ALPHA, body, "default")
    async with aclosing(pipeline.watch(POD_GROUPS_ALPHA)) as events:
        assert (await anext(events)).object["apiVersion"] == "scheduling.k8s.io/v1alpha3"


async def test_watchers_of_a_change_share_one_tree(pipeline: Pipeline, watch: Any) -> None:
    one, two = (watch(resource_version=pipeline.resource_version) for _ in range(2))
    made = await pipeline.create(CONFIG_MAPS, config("a"), "default")
    assert (await anext(one)).object is (await anext(two)).object is made


@pytest.mark.conformance("API-32", "API-123")
async def test_a_watch_goes_on_across_a_restart(tmp_path: Path, clock: ManualClock) -> None:
    before = open_sqlite(tmp_path, header_of)
    pipeline = Pipeline(before, clock, Rng(1))
    await pipeline.bootstrap()
    at = pipeline.resource_version
    made = await pipeline.create(CONFIG_MAPS, config("a", x="y"), "default")
    await pipeline.delete(CONFIG_MAPS, "a", "default", DeleteOptions())
    await before.close()

    after = open_sqlite(tmp_path, header_of)
    again = Pipeline(after, clock, Rng(2))
    await again.bootstrap()
    assert again.resource_version == str(int(at) + 2)
    options = WatchOptions(resource_version=at, label_selector="x=y")
    async with aclosing(again.watch(CONFIG_MAPS, "default", options)) as events:
        added = await anext(events)
        assert (added.type, added.object) == ("ADDED", made)
        assert (await take(events, 1))[0][0] == "DELETED"
    await after.close()
