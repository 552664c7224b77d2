"""The SQLite backend: one log table, written in batches, in a data directory locked by one process.

Every row has a checksum, and opening verifies the whole file: a damaged database is refused, never half read.

WAL with synchronous=FULL: when COMMIT returns, the batch is on disk.  The writer does not checkpoint; a second
connection in its own thread moves the write-ahead log into the database while commits continue.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from zlib import crc32

from .commit import InlineCommitter, ThreadCommitter
from .interface import HeaderOf, StoreBusy, StoreFailed
from .journal import Batch, Entry, Journal, JournalContents
from .log import Log
from .migrations import STEPS, migrate
from .wal_check import check_wal, damage
from .watch_history import Window

_FILE = "echelon.db"
#: The write-ahead log is moved into the database in steps of about this size …
_CHECKPOINT_BYTES = 8 * 1024 * 1024
#: … and when it is larger than this, one commit waits until it is truncated.
_WAL_LIMIT_BYTES = 256 * 1024 * 1024
#: Sizes of the prepared INSERT statements, largest first.
_ROWS = (64, 16, 4, 1)
#: Rows of the table `mark`: all of them hold the revision above which history is complete.
_MARKS = ("compacted", "compacted again")
_INSERT = {
    rows: f"INSERT INTO log (revision, key, value, deleted, checksum) VALUES {', '.join(['(?, ?, ?, ?, ?)'] * rows)}"  # noqa: S608
    for rows in _ROWS
}


class DirectoryLock:
    """Locks a data directory for this process; the kernel releases the lock however the process ends."""

    def __init__(self, directory: Path) -> None:
        path = directory / "lock"
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(self._file, 32, 0).decode(errors="replace").strip()
            os.close(self._file)
            raise StoreBusy(
                f"the data directory {directory} is in use by process {holder or 'unknown'}; "
                "stop that process or choose another directory"
            ) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        os.close(self._file)


class Checkpointer:
    """Copies the write-ahead log into the database in its own thread, without blocking commits."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._asked = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="store-checkpoint", daemon=True)
        self._thread.start()

    def ask(self) -> None:
        self._asked.set()

    def stop(self) -> None:
        self._stopping = True
        self._asked.set()
        self._thread.join()

    def _run(self) -> None:
        connection = _connect(self._path)
        try:
            while True:
                self._asked.wait()
                self._asked.clear()
                if self._stopping:
                    return
                # A failure loses nothing: the write-ahead log stays, and the next commit reports a failing disk.
                try:
                    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                except sqlite3.Error:
                    continue
        finally:
            connection.close()


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "wal_autocheckpoint = 0", "busy_timeout = 10000"):
        connection.execute(f"PRAGMA {pragma}").fetchone()
    return connection


def _open(path: Path) -> sqlite3.Connection:
    """The verified database at the newest schema; `StoreFailed` if it is damaged or too new."""
    try:
        connection = _connect(path)
        try:
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if found != "ok":
                raise StoreFailed(damage(path, " ".join(found.split())))
            migrate(connection)
        except BaseException:
            connection.close()
            raise
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise StoreFailed(f"cannot open {damage(path, str(error))}") from error
    return connection


def _checksum(entry: Entry) -> int:
    """Covers every field, so that no row can be taken for another one."""
    return crc32(entry.value, crc32(f"{entry.revision} {entry.deleted:d} {entry.key}".encode()))


class SqliteJournal:
    """Batches as transactions on one table."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = DirectoryLock(directory)
        self._path = path = directory / _FILE
        self._wal = path.with_name(_FILE + "-wal")
        try:
            check_wal(self._wal)
            self._connection = _open(path)
        except BaseException:
            self._lock.release()
            raise
        self._since_checkpoint = 0
        self._checkpointer = Checkpointer(path)

    def load(self) -> JournalContents:
        try:
            marks = dict(self._connection.execute("SELECT name, revision FROM mark").fetchall())
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise StoreFailed(damage(self._path, str(error))) from error
        if set(marks) != set(_MARKS) or len(set(marks.values())) != 1:
            raise StoreFailed(damage(self._path, "the compaction mark is not as it was written"))
        return JournalContents(marks[_MARKS[0]], self._entries())

    def _entries(self) -> Iterator[Entry]:
        read = "SELECT revision, key, value, deleted, checksum FROM log ORDER BY revision"
        try:
            for revision, key, value, deleted, checksum in self._connection.execute(read):
                entry = Entry(revision, key, value, bool(deleted))
                if checksum is not None and checksum != _checksum(entry):
                    raise StoreFailed(damage(self._path, f"revision {revision} does not match its checksum"))
                yield entry
        except (sqlite3.Error, TypeError, AttributeError, UnicodeDecodeError) as error:
            raise StoreFailed(damage(self._path, str(error))) from error

    def append(self, batch: Batch) -> None:
        execute, many = self._connection.execute, self._connection.executemany
        execute("BEGIN IMMEDIATE")
        try:
            self._insert(batch.entries)
            if batch.dead:
                many("DELETE FROM log WHERE revision = ?", ((revision,) for revision in batch.dead))
                execute("UPDATE mark SET revision = ?", (batch.compacted,))
            execute("COMMIT")
        except BaseException:
            self._roll_back()
            self._overwrite_failed()
            raise
        self._keep_wal_short(sum(len(entry.value) for entry in batch.entries))

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _overwrite_failed(self) -> None:
        """Write a transaction that changes nothing over the one that failed.

        If only its fsync failed, it is complete in the file, and the next start would replay a write that was refused.
        """
        try:
            # The same number as before; SQLite writes no row that is not changed, but it writes this.
            self._connection.execute(f"PRAGMA user_version = {len(STEPS)}")
        except sqlite3.Error:
            self._roll_back()

    def _insert(self, entries: Sequence[Entry]) -> None:
        """Many rows per statement: SQLite releases and takes the GIL once for all of them."""
        at = 0
        while at < len(entries):
            rows = next(size for size in _ROWS if size <= len(entries) - at)
            values = [field for entry in entries[at : at + rows] for field in (*entry, _checksum(entry))]
            self._connection.execute(_INSERT[rows], values)
            at += rows

    def _keep_wal_short(self, written: int) -> None:
        """After a commit, which is durable whatever happens here: the next one reports a failing disk."""
        self._since_checkpoint += written
        if self._since_checkpoint < _CHECKPOINT_BYTES:
            return
        self._since_checkpoint = 0
        with contextlib.suppress(sqlite3.Error, OSError):
            if self._wal.stat().st_size > _WAL_LIMIT_BYTES:
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            else:
                self._checkpointer.ask()

    def close(self) -> None:
        self._checkpointer.stop()
        self._connection.close()
        self._lock.release()


def open_sqlite(directory: Path, header_of: HeaderOf, *, inline: bool = False, window: Window = Window()) -> Log:
    """Open the store of a data directory, on the running event loop.

    `inline` commits every write in the caller, without a thread: for virtual time.  Raises `StoreBusy` when
    another process holds the directory and `StoreFailed` when the file is damaged or too new.
    """
    journal: Journal = SqliteJournal(directory)
    try:
        return Log(journal, InlineCommitter if inline else ThreadCommitter, header_of, window)
    except BaseException:
        journal.close()
        raise
