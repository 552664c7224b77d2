"""States at named revisions, which the pages of long lists are cut from.

A snapshot is a list of references to records, made from the current state with the changes since its revision undone.
The newest few are kept while the history reaches back to them, so they hold no record that the history does not hold.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from .interface import Compacted, Record
from .state import State
from .watch_history import WatchHistory

#: Lists that are read in pages at the same time; others make their snapshot again for every page.
_KEPT = 16
#: Smaller ones cost less to make again than the room they would take from others.
_WORTH_KEEPING = 1_000


class Snapshots:
    """The snapshots of one log."""

    def __init__(self, state: State, history: WatchHistory) -> None:
        self._state = state
        self._history = history
        self._kept: OrderedDict[tuple[str, int], Sequence[Record]] = OrderedDict()

    def of(self, prefix: str, at: int) -> Sequence[Record]:
        """The records under a prefix at a revision, by key; `Compacted` if the history does not reach back to it."""
        if at < self._history.oldest:
            raise Compacted(at, self._history.oldest)
        found = self._kept.get((prefix, at))
        if found is not None:
            self._kept.move_to_end((prefix, at))
            return found
        found = self._made(prefix, at)
        if len(found) >= _WORTH_KEEPING:
            self._kept[prefix, at] = found
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return found

    def forget_old(self) -> None:
        """Drop the snapshots that the history does not reach back to any more."""
        oldest = self._history.oldest
        for prefix, at in [name for name in self._kept if name[1] < oldest]:
            del self._kept[prefix, at]

    def _made(self, prefix: str, at: int) -> Sequence[Record]:
        #: The state at that revision of every key that changed since; None: it did not exist.
        then: dict[str, Record | None] = {}
        for change in self._history.since(at):
            if change.key not in then and change.key.startswith(prefix):
                then[change.key] = change.previous
        current = self._state.scan(prefix)
        if not then:
            return current
        same = [record for record in current if record.key not in then]
        same += [record for record in then.values() if record is not None]
        same.sort(key=_key)
        return same


def _key(record: Record) -> str:
    return record.key
