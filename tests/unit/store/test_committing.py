"""Every write is answered, whatever happens to the commit thread or while durable writes are published."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from pathlib import Path

import pytest

from echelon.store import commit, sqlite
from echelon.store.commit import InlineCommitter, ThreadCommitter
from echelon.store.interface import Change, StoreFailed
from echelon.store.journal import Batch
from echelon.store.log import Log, MakeCommitter
from echelon.store.sqlite import SqliteJournal, open_sqlite
from echelon.store.watch_history import WatchHistory, Window

from .store_values import Open, header_of, value

COMMITTERS = pytest.mark.parametrize("committer", [InlineCommitter, ThreadCommitter])


class _Ends(BaseException):
    """What ends a thread."""


class _Fails(SqliteJournal):
    """A journal that raises at its n-th batch."""

    def __init__(self, directory: Path, batches: int, error: BaseException) -> None:
        super().__init__(directory)
        self._left = batches
        self._error = error

    def append(self, batch: Batch) -> None:
        if self._left == 0:
            raise self._error
        self._left -= 1
        super().append(batch)


async def test_an_owner_named_twice_is_given_up_once(store: Log) -> None:
    made = await store.put("/core/pods/a/x", value(owners=["u", "u", "v"]), 0)
    changed = await store.put(made.key, value(owners=["v", "v"]), made.revision)
    assert [record.key for record in store.owned_by("v")] == [made.key]
    assert store.owned_by("u") == []
    await store.delete(made.key, value(), changed.revision)
    assert store.owned_by("v") == []


@COMMITTERS
async def test_writes_that_cannot_be_published_are_told_so_and_watches_end(
    committer: MakeCommitter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Log(SqliteJournal(tmp_path), committer, header_of, Window())
    await store.put("/core/pods/a/0", value(), 0)
    watch = store.watch("", 1)

    def breaks(history: WatchHistory, changes: list[Change]) -> None:
        raise KeyError("history")

    monkeypatch.setattr(WatchHistory, "publish", breaks)
    first = asyncio.ensure_future(store.put("/core/pods/a/1", value(), 0))
    await asyncio.wait([first], timeout=60)
    late = [store.put(f"/core/pods/a/{n}", value(), 0) for n in range(2, 5)]
    for outcome in await asyncio.gather(*late, return_exceptions=True):
        assert isinstance(outcome, StoreFailed)
    assert [change async for batch in watch for change in batch] == []
    await store.close()
    monkeypatch.undo()
    again = open_sqlite(tmp_path, header_of)
    assert again.revision == 2, "what was durable is there after a restart"
    await again.close()


async def test_a_write_whose_own_change_cannot_be_applied_is_told_so(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened("sqlite-threaded")

    def breaks(entry: object, record: object) -> None:
        raise KeyError("state")

    monkeypatch.setattr(store, "_apply", breaks)
    writes = [store.put(f"/core/pods/a/{n}", value(), 0) for n in range(3)]
    async with asyncio.timeout(60):
        for outcome in await asyncio.gather(*writes, return_exceptions=True):
            assert isinstance(outcome, StoreFailed)
            assert "state" in str(outcome)


async def test_when_the_commit_thread_ends_every_waiting_and_later_write_is_told_so(tmp_path: Path) -> None:
    store = Log(_Fails(tmp_path, 1, _Ends("out of luck")), ThreadCommitter, header_of, Window())
    await store.put("/core/pods/a/0", value(), 0)
    async with asyncio.timeout(60):
        for several in (range(1, 700), range(700, 703)):
            writes = [store.put(f"/core/pods/a/{n}", value(), 0) for n in several]
            for outcome in await asyncio.gather(*writes, return_exceptions=True):
                assert isinstance(outcome, StoreFailed)
                assert "out of luck" in str(outcome)
        await store.close()


async def test_a_write_handed_over_after_the_thread_ended_is_told_so(tmp_path: Path) -> None:
    store = Log(_Fails(tmp_path, 0, _Ends("gone")), ThreadCommitter, header_of, Window())
    first = asyncio.ensure_future(store.put("/core/pods/a/0", value(), 0))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for thread in threading.enumerate():
        if thread.name == "store-commit":
            thread.join()
    # The loop has not run since: it does not know yet that the thread is gone.
    async with asyncio.timeout(60):
        outcomes = await asyncio.gather(first, store.put("/core/pods/a/1", value(), 0), return_exceptions=True)
        assert [type(one) for one in outcomes] == [StoreFailed, StoreFailed]
        await store.close()


async def test_a_write_is_answered_as_durable_although_the_checkpoint_after_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_CHECKPOINT_BYTES", 1)
    journal = SqliteJournal(tmp_path)
    journal._wal = tmp_path / "absent"
    store = Log(journal, ThreadCommitter, header_of, Window())
    assert (await store.put("/core/pods/a/0", value(), 0)).revision == 1
    await store.close()


class _Waits(SqliteJournal):
    """A journal whose disk does not answer until it is released."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.released = threading.Event()

    def append(self, batch: Batch) -> None:
        self.released.wait()
        super().append(batch)


async def test_a_disk_that_does_not_answer_is_reported_while_it_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ThreadCommitter, "SLOW_SECONDS", 0.02)
    journal = _Waits(tmp_path)
    store = Log(journal, ThreadCommitter, header_of, Window())
    with caplog.at_level(logging.WARNING, commit.__name__):
        write = asyncio.ensure_future(store.put("/core/pods/a/0", value(), 0))
        while not caplog.records:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert "the disk is slow or does not answer" in caplog.text
    assert not write.done()
    journal.released.set()
    assert (await write).revision == 1
    await store.close()


@pytest.mark.parametrize("rounds", [20, pytest.param(400, marks=pytest.mark.long)])
async def test_writers_that_come_go_and_are_cancelled_all_get_their_answer(opened: Open, rounds: int) -> None:
    """Writers in every order to the thread's batches: alone, in crowds, cancelled at any time."""
    store, chance = opened("sqlite-threaded", Window(events=64)), random.Random(3)
    async with asyncio.timeout(240):
        for number in range(rounds):
            keys = [f"/core/pods/a/{chance.randrange(9)}" for _ in range(chance.choice((1, 2, 5, 40, 600)))]
            writes = [asyncio.ensure_future(store.put(key, value(str(number)), None)) for key in keys]
            for write in writes:
                if chance.random() < 0.2:
                    asyncio.get_running_loop().call_later(chance.random() * 0.004, write.cancel)
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
            for key in keys[:3]:
                await store.settled(key)
            await asyncio.wait(writes)
    assert store._accepted == {}
