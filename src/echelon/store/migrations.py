"""The shape of the database file, step by step.  A step, once released, never changes; new shapes append one."""

from __future__ import annotations

import sqlite3

from .interface import StoreFailed

_LOG = """
CREATE TABLE log (
    revision INTEGER PRIMARY KEY,
    key      TEXT    NOT NULL,
    deleted  INTEGER NOT NULL,
    value    BLOB    NOT NULL
);
CREATE TABLE mark (
    name     TEXT    PRIMARY KEY,
    revision INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO mark VALUES ('compacted', 0);
"""

#: (name, statements), in order; the file remembers how many it has seen.
STEPS: tuple[tuple[str, str], ...] = (("log and compaction mark", _LOG),)


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a file to the newest shape; refuse one that a newer Echelon has written."""
    (seen,) = connection.execute("PRAGMA user_version").fetchone()
    if seen > len(STEPS):
        raise StoreFailed(f"the database was written by a newer version of Echelon (shape {seen}, known {len(STEPS)})")
    for number, (_, statements) in enumerate(STEPS[seen:], start=seen + 1):
        connection.executescript(f"BEGIN IMMEDIATE; {statements} PRAGMA user_version = {number}; COMMIT;")
