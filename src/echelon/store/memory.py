"""The store in memory: the same log without a disk, for tests and simulation."""

from __future__ import annotations

from .commit import InlineCommitter
from .interface import HeaderOf
from .journal import Batch, JournalContents
from .log import Log
from .watch_history import Window


class _NoJournal:
    """A journal that stores nothing."""

    def load(self) -> JournalContents:
        return JournalContents(0, ())

    def append(self, batch: Batch) -> None:
        pass

    def close(self) -> None:
        pass


def open_memory(header_of: HeaderOf, window: Window = Window()) -> Log:
    """An empty store in memory; commits are inline."""
    return Log(_NoJournal(), InlineCommitter, header_of, window)
