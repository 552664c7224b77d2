"""Bare SQLite: the same bytes in transactions as large as the number of requests at a time, each synced to disk."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from .rows import Figure


def inserts(path: Path, value: bytes, count: int, at_once: int) -> Figure:
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "wal_autocheckpoint = 0"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("CREATE TABLE IF NOT EXISTS log (revision INTEGER PRIMARY KEY, key TEXT, value BLOB)")
    (first,) = connection.execute("SELECT coalesce(max(revision), 0) + 1 FROM log").fetchone()
    before, begin = time.process_time(), time.perf_counter()
    for start in range(first, first + count, at_once):
        rows = [(revision, f"/core/pods/default/{revision}", value) for revision in range(start, start + at_once)]
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO log VALUES (?, ?, ?)", rows)
        connection.execute("COMMIT")
    figure = Figure(count, time.perf_counter() - begin, time.process_time() - before)
    connection.close()
    return figure
