"""What SQLite must keep: restarts, compaction on disk, the lock, refused commits, sudden death."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from echelon.store.commit import InlineCommitter, ThreadCommitter
from echelon.store.interface import StoreBusy, StoreFailed
from echelon.store.journal import Batch
from echelon.store.log import Log, MakeCommitter
from echelon.store.sqlite import SqliteJournal, open_sqlite
from echelon.store.watch_history import Window

from .store_values import Open, header_of, value

SQLITE = pytest.mark.parametrize("backend", ["sqlite-threaded", "sqlite-inline"])


@SQLITE
@pytest.mark.conformance("API-24", "API-123")
async def test_a_restart_brings_back_state_revision_and_history(backend: str, opened: Open) -> None:
    before = opened(backend)
    for n in range(6):
        await before.put(f"/core/pods/a/{n % 3}", value(str(n)), None)
    await before.delete("/core/pods/a/0", value("tomb"), None)
    await before.close()

    after = opened(backend)
    assert after.revision == 7
    assert after.scan("") == before.scan("")
    watch = after.watch("/core/pods/a/0", 3)
    assert [c async for batch in _closing(watch) for c in batch] == before._history.since(3)[
        0:1
    ] + before._history.since(6)
    assert (await after.put("/core/pods/a/9", value(), 0)).revision == 8


async def _closing(watch):  # type: ignore[no-untyped-def]
    """A watch that ends after what is there already."""
    watch.close()
    async for batch in watch:
        yield batch


@SQLITE
async def test_the_log_on_disk_stays_bounded_and_keeps_current_values(
    backend: str, opened: Open, tmp_path: Path
) -> None:
    window = Window(events=50)
    store = opened(backend, window)
    await store.put("/core/pods/a/quiet", value("never written again"), 0)
    for n in range(1500):
        await store.put(f"/core/pods/a/{n % 7}", value(str(n)), None)
    last = await store.put("/core/pods/a/gone", value(), 0)
    await store.delete(last.key, value(), last.revision)
    state, revision = store.scan(""), store.revision
    await store.close()
    with sqlite3.connect(tmp_path / "data" / "echelon.db") as rows:
        (count,) = rows.execute("SELECT count(*) FROM log").fetchone()
    rows.close()
    assert count < 100

    again = opened(backend, window)
    assert (again.scan(""), again.revision) == (state, revision)


async def test_revisions_are_not_reused_when_everything_was_deleted_and_compacted(opened: Open) -> None:
    window = Window(events=1)
    store = opened("sqlite-inline", window)
    for n in range(600):
        await store.put("/core/pods/a/x", value(str(n)), 0)
        await store.delete("/core/pods/a/x", value(), None)
    revision = store.revision
    await store.close()
    assert opened("sqlite-inline", window).revision == revision == 1200


@pytest.mark.conformance("API-122")
async def test_a_second_opener_is_refused_and_told_who_holds_the_directory(opened: Open, tmp_path: Path) -> None:
    first = opened("sqlite-threaded")
    with pytest.raises(StoreBusy, match=f"in use by process {os.getpid()}"):
        open_sqlite(tmp_path / "data", header_of)
    await first.close()
    opened("sqlite-threaded")


async def test_a_file_that_is_no_database_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "echelon.db").write_bytes(b"hello, I am not a database at all" * 50)
    with pytest.raises(StoreFailed, match=r"cannot open .*echelon\.db"):
        open_sqlite(tmp_path, header_of)


async def test_a_file_of_a_newer_version_is_refused(opened: Open, tmp_path: Path) -> None:
    await opened("sqlite-inline").close()
    with sqlite3.connect(tmp_path / "data" / "echelon.db") as file:
        file.execute("PRAGMA user_version = 99")
    file.close()
    with pytest.raises(StoreFailed, match="use a newer Echelon"):
        open_sqlite(tmp_path / "data", header_of)


async def test_a_hole_in_the_log_is_refused(opened: Open, tmp_path: Path) -> None:
    store = opened("sqlite-inline")
    for n in range(3):
        await store.put(f"/core/pods/a/{n}", value(), 0)
    await store.close()
    with sqlite3.connect(tmp_path / "data" / "echelon.db") as file:
        file.execute("DELETE FROM log WHERE revision = 2")
    file.close()
    with pytest.raises(StoreFailed, match="revision 2 is missing"):
        open_sqlite(tmp_path / "data", header_of)


class _FullDisk(SqliteJournal):
    """A journal whose disk is full after a number of batches."""

    def __init__(self, directory: Path, batches: int) -> None:
        super().__init__(directory)
        self._left = batches

    def append(self, batch: Batch) -> None:
        if self._left == 0:
            raise sqlite3.OperationalError("database or disk is full")
        self._left -= 1
        super().append(batch)


@pytest.mark.parametrize("committer", [InlineCommitter, ThreadCommitter])
@pytest.mark.conformance("API-120")
async def test_after_a_refused_commit_nothing_more_is_taken_and_nothing_unacknowledged_is_seen(
    committer: MakeCommitter, tmp_path: Path
) -> None:
    store = Log(_FullDisk(tmp_path, 1), committer, header_of, Window())
    await store.put("/core/pods/a/0", value(), 0)
    watch = store.watch("", 1)
    writes = [store.put(f"/core/pods/a/{n}", value(), 0) for n in range(1, 6)]
    for outcome in await asyncio.gather(*writes, return_exceptions=True):
        assert isinstance(outcome, StoreFailed)
        assert "disk is full" in str(outcome)
    assert [r.key for r in store.scan("")] == ["/core/pods/a/0"]
    assert store.revision == 1
    await store.close()
    assert [c async for batch in watch for c in batch] == []
    again = open_sqlite(tmp_path, header_of)
    assert (again.revision, len(again.scan(""))) == (1, 1)
    await again.close()


class _Noting(SqliteJournal):
    """Notes how many writes go to the disk together."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.batches: list[int] = []

    def append(self, batch: Batch) -> None:
        self.batches.append(len(batch.entries))
        super().append(batch)


async def test_what_one_turn_of_the_loop_writes_goes_to_the_disk_together(tmp_path: Path) -> None:
    journal = _Noting(tmp_path)
    store = Log(journal, ThreadCommitter, header_of, Window())
    await asyncio.gather(*(store.put(f"/core/pods/a/{n}", value(), 0) for n in range(5)))
    assert journal.batches == [5]
    unheard = asyncio.ensure_future(store.put("/core/pods/a/5", value(), 0))
    await asyncio.sleep(0)
    await store.close()
    assert (await unheard).revision == 6


@pytest.mark.conformance("API-118")
async def test_a_log_torn_at_any_place_opens_with_a_clean_beginning(opened: Open, tmp_path: Path) -> None:
    store = opened("sqlite-inline")
    for n in range(12):
        await store.put(f"/core/pods/a/{n}", value(str(n) * 200), 0)
    database, wal = ((tmp_path / "data" / name).read_bytes() for name in ("echelon.db", "echelon.db-wal"))
    kept = set()
    for cut in range(0, len(wal), 997):
        torn = tmp_path / f"torn-{cut}"
        torn.mkdir()
        (torn / "echelon.db").write_bytes(database)
        (torn / "echelon.db-wal").write_bytes(wal[:cut])
        reopened = open_sqlite(torn, header_of)
        expected = sorted(f"/core/pods/a/{n}" for n in range(reopened.revision))
        assert [record.key for record in reopened.scan("")] == expected
        kept.add(reopened.revision)
        await reopened.close()
    assert kept == set(range(12))


_WRITER = """
import asyncio, json, os, sys, zlib
from pathlib import Path
from echelon.store.interface import Header
from echelon.store.sqlite import open_sqlite
from echelon.store.watch_history import Window

def text(rev, name):
    body = f"{name}:{rev}:" + "x" * 2000
    return json.dumps({"body": body, "sum": zlib.crc32(body.encode())}).encode()

async def main():
    store = open_sqlite(Path(sys.argv[1]), lambda key, value: Header(), window=Window(events=300))
    async def writer(name):
        n = 0
        while True:
            n += 1
            key = f"/core/pods/a/{name}-{n % 5}"
            if n % 7 == 0 and store.get(key):
                old = await store.delete(key, lambda rev: text(rev, name), None)
                os.write(1, f"- {key} {old.revision}\\n".encode())
            else:
                record = await store.put(key, lambda rev: text(rev, name), None)
                os.write(1, f"+ {key} {record.revision}\\n".encode())
    await asyncio.gather(*(writer(n) for n in range(8)))
asyncio.run(main())
"""


def _write_until_killed(directory: Path, seconds: float) -> dict[str, int]:
    """Newest acknowledged revision per key (0: deleted), as told by a process that was killed while writing."""
    child = subprocess.Popen([sys.executable, "-c", _WRITER, str(directory)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    first = child.stdout.readline()
    time.sleep(seconds)
    os.kill(child.pid, signal.SIGKILL)
    told = (first + child.stdout.read()).decode()
    child.stdout.close()
    child.wait()
    acknowledged: dict[str, int] = {}
    for line in told.splitlines(keepends=True):
        if line.endswith("\n"):
            sign, key, revision = line.split()
            acknowledged[key] = int(revision) if sign == "+" else -int(revision)
    return acknowledged


@pytest.mark.conformance("API-24", "API-118")
@pytest.mark.parametrize("rounds", [3, pytest.param(30, marks=pytest.mark.long)])
async def test_killed_while_writing_it_keeps_every_acknowledged_write_whole(tmp_path: Path, rounds: int) -> None:
    chance = random.Random(7)
    for _ in range(rounds):
        acknowledged = _write_until_killed(tmp_path, chance.uniform(0.0, 0.4))
        store = open_sqlite(tmp_path, header_of, window=Window(events=300))
        for key, revision in acknowledged.items():
            record = store.get(key)
            # A later write of the same key may be durable though nobody was told any more.
            if revision > 0:
                newer = [c for c in store._history.since(max(revision, store._history.oldest)) if c.key == key]
                assert newer or (record is not None and record.revision >= revision), key
            elif record is not None:
                assert record.revision > -revision, key
        for record in store.scan(""):
            tree = json.loads(record.value)
            assert tree["body"].split(":")[1] == str(record.revision)
        await store.close()
