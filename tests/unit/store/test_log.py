"""Revisions, compare-and-set, reads and watches: the same promises on every backend."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest

from echelon.store.interface import Change, Compacted, RevisionMismatch, StoreFailed, Watch
from echelon.store.log import Log
from echelon.store.watch_history import Window

from .store_values import Open, value


async def take(watch: Watch, count: int) -> list[Change]:
    changes: list[Change] = []
    async with asyncio.timeout(60):
        async for batch in watch:
            changes += batch
            if len(changes) >= count:
                return changes
    return changes


def seen(changes: Sequence[Change]) -> list[tuple[str, int, str]]:
    def word(change: Change) -> str:
        if change.record is None:
            return "deleted"
        return "created" if change.previous is None else "changed"

    return [(c.key, c.revision, word(c)) for c in changes]


@pytest.mark.conformance("API-4")
async def test_one_counter_for_all_keys_and_values_carry_their_revision(store: Log) -> None:
    first = await store.put("/core/pods/a/x", value("1"), 0)
    second = await store.put("/core/nodes/n", value("2"), 0)
    assert (first.revision, second.revision, store.revision) == (1, 2, 2)
    assert json.loads(second.value) == {"text": "2", "rv": 2}
    assert store.get("/core/pods/a/x") == first


async def test_changes_of_a_kind_are_counted_and_those_of_others_not(store: Log) -> None:
    seen = [store.changes("/core/pods/")]
    await store.put("/core/pods/a/x", value("1"), 0)
    seen.append(store.changes("/core/pods/"))
    await store.put("/core/pods/a/x", value("2"), None)
    seen.append(store.changes("/core/pods/"))
    await store.delete("/core/pods/a/x", value(), None)
    seen.append(store.changes("/core/pods/"))
    assert len(set(seen)) == 4
    await store.put("/core/podtemplates/a/x", value("1"), 0)
    assert store.changes("/core/pods/") == seen[-1]


@pytest.mark.parametrize("expect", [0, 7])
async def test_a_write_that_expects_another_revision_is_refused(store: Log, expect: int) -> None:
    await store.put("/core/pods/a/x", value(), None)
    with pytest.raises(RevisionMismatch) as refused:
        await store.put("/core/pods/a/x", value(), expect)
    assert refused.value.current == 1
    assert store.revision == 1


async def test_writes_on_their_way_count_for_compare_and_set(store: Log) -> None:
    async def create() -> int:
        return (await store.put("/core/pods/a/x", value(), 0)).revision

    results = await asyncio.gather(*(create() for _ in range(20)), return_exceptions=True)
    assert sorted(type(r).__name__ for r in results) == sorted(["int"] + ["RevisionMismatch"] * 19)
    assert store.revision == 1


async def test_a_key_written_deleted_and_written_again_at_once_ends_right(store: Log) -> None:
    async def write() -> object:
        return await store.put("/core/pods/a/x", value("first"), 0)

    async def remove() -> object:
        return await store.delete("/core/pods/a/x", value("gone"), None)

    async def again() -> object:
        return await store.put("/core/pods/a/x", value("second"), 0)

    await asyncio.gather(write(), remove(), again())
    record = store.get("/core/pods/a/x")
    assert record is not None
    assert (record.revision, json.loads(record.value)["text"]) == (3, "second")


async def test_deleting_returns_the_last_record_and_needs_one(store: Log) -> None:
    written = await store.put("/core/pods/a/x", value("last"), 0)
    assert await store.delete("/core/pods/a/x", value("tomb"), written.revision) == written
    assert store.get("/core/pods/a/x") is None
    assert store.revision == 2
    with pytest.raises(RevisionMismatch):
        await store.delete("/core/pods/a/x", value(), None)


async def test_a_value_that_cannot_be_encoded_takes_no_revision(store: Log) -> None:
    def broken(_: int) -> bytes:
        raise ValueError("no bytes")

    with pytest.raises(ValueError, match="no bytes"):
        await store.put("/core/pods/a/x", broken, 0)
    assert (await store.put("/core/pods/a/x", value(), 0)).revision == 1


async def test_scans_are_by_prefix_in_order_of_keys(store: Log) -> None:
    for key in ("/core/pods/b/1", "/core/pods/a/2", "/core/pods/a/1", "/core/podsets/a/0", "/batch/jobs/a/1"):
        await store.put(key, value(), 0)
    keys = {p: [r.key for r in store.scan(p)] for p in ("/core/pods/", "/core/pods/a/", "/core/", "", "/core/x/")}
    assert keys["/core/pods/"] == ["/core/pods/a/1", "/core/pods/a/2", "/core/pods/b/1"]
    assert keys["/core/pods/a/"] == ["/core/pods/a/1", "/core/pods/a/2"]
    assert keys["/core/"] == ["/core/pods/a/1", "/core/pods/a/2", "/core/pods/b/1", "/core/podsets/a/0"]
    assert len(keys[""]) == 5
    assert keys["/core/x/"] == []
    with pytest.raises(ValueError, match="ends with"):
        store.scan("/core/po")


async def test_scan_at_an_older_revision_undoes_what_came_after(store: Log) -> None:
    await store.put("/core/pods/a/kept", value("old"), 0)
    await store.put("/core/pods/a/gone", value("old"), 0)
    at = store.revision
    await store.put("/core/pods/a/kept", value("new"), None)
    await store.delete("/core/pods/a/gone", value(), None)
    await store.put("/core/pods/a/late", value("new"), 0)
    then = {r.key.rpartition("/")[2]: json.loads(r.value)["text"] for r in store.scan("/core/pods/", at)}
    assert then == {"gone": "old", "kept": "old"}


async def test_dependents_are_found_by_owner(store: Log) -> None:
    await store.put("/core/pods/a/1", value(owners=["u1", "u2"]), 0)
    await store.put("/core/pods/a/0", value(owners=["u1"]), 0)
    assert [r.key for r in store.owned_by("u1")] == ["/core/pods/a/0", "/core/pods/a/1"]
    await store.put("/core/pods/a/1", value(owners=["u2"]), None)
    await store.delete("/core/pods/a/0", value(), None)
    assert store.owned_by("u1") == []
    assert [r.key for r in store.owned_by("u2")] == ["/core/pods/a/1"]


@pytest.mark.conformance("API-25", "API-26")
async def test_a_watch_gets_history_then_live_changes_of_its_prefix(store: Log) -> None:
    await store.put("/core/pods/a/x", value("1"), 0)
    watch = store.watch("/core/pods/a/", 0)
    await store.put("/core/pods/a/x", value("2"), 1)
    await store.put("/core/pods/b/y", value(), 0)
    await store.put("/core/podsets/a/x", value(), 0)
    await store.delete("/core/pods/a/x", value("tomb"), 2)
    changes = await take(watch, 3)
    x = "/core/pods/a/x"
    assert seen(changes) == [(x, 1, "created"), (x, 2, "changed"), (x, 5, "deleted")]
    assert json.loads(changes[-1].tombstone) == {"text": "tomb", "rv": 5}
    assert changes[-1].previous is not None
    assert changes[-1].previous.revision == 2


async def test_a_watch_from_the_future_waits_for_it(store: Log) -> None:
    watch = store.watch("/core/pods/", 2)
    for name in "abc":
        await store.put(f"/core/pods/a/{name}", value(), 0)
    assert seen(await take(watch, 1)) == [("/core/pods/a/c", 3, "created")]


async def test_a_watch_of_one_key_sees_only_it(store: Log) -> None:
    watch = store.watch("/core/pods/a/x", 0)
    await store.put("/core/pods/a/x2", value(), 0)
    await store.put("/core/pods/a/x", value(), 0)
    assert seen(await take(watch, 1)) == [("/core/pods/a/x", 2, "created")]


async def test_a_closed_watch_ends_and_hears_no_more(store: Log) -> None:
    watch = store.watch("", 0)
    watch.close()
    watch.close()
    await store.put("/core/pods/a/x", value(), 0)
    assert [batch async for batch in watch] == []


@pytest.mark.conformance("API-31", "API-121")
async def test_history_is_bounded_and_older_watches_are_told(backend: str, opened: Open) -> None:
    store = opened(backend, Window(events=100))
    for n in range(1000):
        await store.put(f"/core/pods/a/{n % 10}", value(str(n)), None)
    with pytest.raises(Compacted, match=r"too old resource version: 1 \("):
        store.watch("/core/pods/", 1)
    with pytest.raises(Compacted):
        store.scan("/core/pods/", 1)
    assert len(await take(store.watch("/core/pods/", 950), 50)) == 50
    assert len(store.scan("/core/pods/")) == 10


@pytest.mark.parametrize(
    ("window", "kept"), [(Window(events=300), 290), (Window(bytes=300 * 1024), 280), (Window(events=3), 3)]
)
async def test_cutting_takes_only_what_the_window_cannot_hold(
    backend: str, opened: Open, window: Window, kept: int
) -> None:
    store = opened(backend, window)
    for n in range(400):
        await store.put(f"/core/pods/a/{n % 10}", value("x" * 1000), None)
        newest = min(kept, store.revision)
        assert len(await take(store.watch("", store.revision - newest), newest)) == newest


@pytest.mark.conformance("API-48")
async def test_a_reader_that_falls_behind_is_cut_off_alone(backend: str, opened: Open) -> None:
    store = opened(backend, Window(unread=10))
    slow, fast = store.watch("", 0), store.watch("", 0)
    for n in range(15):
        await store.put(f"/core/pods/a/{n}", value(), 0)
        await take(fast, 1)
    with pytest.raises(Compacted):
        await take(slow, 1)


async def test_many_writers_and_a_watcher_agree_on_the_order(store: Log) -> None:
    watch = store.watch("", 0)

    async def writer(name: int) -> None:
        for n in range(20):
            await store.put(f"/core/pods/a/{name}-{n}", value(), 0)

    await asyncio.gather(*(writer(n) for n in range(16)))
    assert [c.revision for c in await take(watch, 320)] == list(range(1, 321))


async def test_a_closed_store_takes_no_writes_and_ends_watches(store: Log) -> None:
    watch = store.watch("", 0)
    writes = [asyncio.ensure_future(store.put(f"/core/pods/a/{n}", value(), 0)) for n in range(5)]
    await asyncio.sleep(0)
    await store.close()
    assert [record.revision for record in await asyncio.gather(*writes)] == [1, 2, 3, 4, 5]
    assert len([c async for batch in watch for c in batch]) == 5
    with pytest.raises(StoreFailed, match="closed"):
        await store.put("/core/pods/a/x", value(), 0)
