"""A damaged database is refused with a message that says what to do; it is never read in part."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from echelon.store import migrations
from echelon.store.interface import StoreFailed
from echelon.store.log import Log
from echelon.store.sqlite import open_sqlite
from echelon.store.wal_check import check_wal
from echelon.store.watch_history import Window

from .store_values import header_of, value

#: Small, so that part of the state is older than the kept history.
_WINDOW = Window(events=40)
#: Every n-th byte is damaged; 1 damages each of them in turn.
_STRIDE = 1 if os.environ.get("ECHELON_LONG") else 499


async def _written(directory: Path) -> Log:
    """A store with old and new rows of several sizes; still open."""
    store = open_sqlite(directory, header_of, inline=True, window=_WINDOW)
    for number in range(60):
        await store.put(f"/core/pods/a/{number % 25}", value("x" * (number * 13 % 900), owners=["u"]), None)
    await store.put("/core/pods/a/large", value("y" * 9000), 0)
    await store.delete("/core/pods/a/3", value(), None)
    return store


def _seen(store: Log) -> object:
    """All that readers can see; history may begin earlier or later."""
    return store.revision, store.scan("")


def _opened(directory: Path) -> Log | str:
    """The store, or the message of its refusal."""
    try:
        return open_sqlite(directory, header_of, inline=True, window=_WINDOW)
    except StoreFailed as error:
        return str(error)


def _flipped(data: bytes, at: int, bit: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


@pytest.mark.conformance("API-119")
async def test_a_flipped_bit_anywhere_in_the_database_is_refused_or_harmless(tmp_path: Path) -> None:
    store = await _written(tmp_path / "whole")
    await store.close()
    data = (tmp_path / "whole" / "echelon.db").read_bytes()
    expected, chance, refused = _seen(store), random.Random(5), 0
    for at in range(0, len(data), _STRIDE):
        directory = tmp_path / "damaged"
        directory.mkdir()
        (directory / "echelon.db").write_bytes(_flipped(data, at, bit := chance.randrange(8)))
        opened = _opened(directory)
        if isinstance(opened, str):
            refused += 1
            assert "Restore the data directory from a copy" in opened or "use a newer Echelon" in opened
        else:
            assert _seen(opened) == expected, f"bit {bit} of byte {at}"
            await opened.close()
        shutil.rmtree(directory)
    # The rest lies in unused parts of pages and in fields of the header that nothing depends on.
    assert refused > 0.6 * len(data) / _STRIDE


@pytest.mark.conformance("API-119")
async def test_a_flipped_bit_in_the_write_ahead_log_is_refused_or_costs_only_the_last_commits(tmp_path: Path) -> None:
    store = await _written(tmp_path / "whole")
    database, wal = ((tmp_path / "whole" / name).read_bytes() for name in ("echelon.db", "echelon.db-wal"))
    expected, chance, opened_with = _seen(store), random.Random(6), dict[int, int]()
    for at in range(0, len(wal), _STRIDE * 3):
        directory = tmp_path / "damaged"
        directory.mkdir()
        (directory / "echelon.db").write_bytes(database)
        (directory / "echelon.db-wal").write_bytes(_flipped(wal, at, chance.randrange(8)))
        opened = _opened(directory)
        if isinstance(opened, str):
            assert "echelon.db-wal is damaged" in opened
            assert (directory / "echelon.db-wal").exists(), "a second start must find it damaged as well"
        else:
            opened_with[at] = opened.revision
            await opened.close()
        shutil.rmtree(directory)
    # A damaged frame of the last transactions cannot be told from a torn one.
    last = [at for at, revision in opened_with.items() if revision != store.revision]
    assert all(at > len(wal) - 6 * 4120 and opened_with[at] >= store.revision - 2 for at in last)
    assert len(opened_with) < 0.1 * len(wal) / (_STRIDE * 3)
    await store.close()
    assert _seen(store) == expected


async def test_a_log_torn_at_any_byte_is_not_taken_for_a_damaged_one(tmp_path: Path) -> None:
    store = await _written(tmp_path / "whole")
    await store.put("/core/pods/a/last", value("z" * 30_000), 0)
    wal = (tmp_path / "whole" / "echelon.db-wal").read_bytes()
    torn = tmp_path / "torn-wal"
    for cut in range(0, len(wal), _STRIDE):
        torn.write_bytes(wal[:cut])
        check_wal(torn)
    # The last transaction was written in part: some later page of it is there, an earlier one is not.
    torn.write_bytes(wal[: -3 * 4120] + bytes(4120) + wal[-2 * 4120 :])
    check_wal(torn)
    await store.close()


async def test_frames_of_a_log_that_began_again_are_not_taken_for_damage(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE t (a BLOB)")
    for _ in range(30):
        connection.execute("INSERT INTO t VALUES (?)", (bytes(3000),))
    connection.execute("PRAGMA wal_checkpoint(RESTART)")
    connection.execute("INSERT INTO t VALUES (?)", (bytes(3000),))
    assert (tmp_path / "a.db-wal").stat().st_size > 20 * 4120
    check_wal(tmp_path / "a.db-wal")
    connection.close()


async def test_a_database_without_checksums_is_taken_over(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "echelon.db", isolation_level=None)
    connection.executescript(migrations.STEPS[0][1] + "PRAGMA user_version = 1;")
    connection.execute("INSERT INTO log (revision, key, value, deleted) VALUES (1, '/core/pods/a/x', ?, 0)", (b"{}",))
    connection.close()
    store = open_sqlite(tmp_path, header_of, inline=True)
    await store.put("/core/pods/a/y", value(), 0)
    await store.close()
    again = open_sqlite(tmp_path, header_of, inline=True)
    assert [record.key for record in again.scan("")] == ["/core/pods/a/x", "/core/pods/a/y"]
    await again.close()
