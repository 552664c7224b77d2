"""The schema of the database file as a list of migrations.  A released migration never changes; add a new one."""

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

#: Rows of before have no checksum; the compaction mark is kept twice.
_CHECKSUMS = """
ALTER TABLE log ADD COLUMN checksum INTEGER;
INSERT INTO mark SELECT 'compacted again', revision FROM mark WHERE name = 'compacted';
"""

#: (name, statements), in order; `PRAGMA user_version` counts those already applied.
STEPS: tuple[tuple[str, str], ...] = (("log and compaction mark", _LOG), ("checksums", _CHECKSUMS))


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a database to the newest schema; `StoreFailed` if a newer Echelon wrote it."""
    (seen,) = connection.execute("PRAGMA user_version").fetchone()
    if seen > len(STEPS):
        raise StoreFailed(
            f"the database has schema version {seen}, this version of Echelon knows {len(STEPS)}: use a newer Echelon"
        )
    for number, (_, statements) in enumerate(STEPS[seen:], start=seen + 1):
        connection.executescript(f"BEGIN IMMEDIATE; {statements} PRAGMA user_version = {number}; COMMIT;")
