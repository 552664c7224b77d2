"""Nodes in topology order, so that a domain is a run of rows and a roll-up is one `reduceat`.

Rows are sorted by (path, name), where the path holds a node's values of the configured levels, widest first.
The level -1 stands for the whole cluster.  The first rows of domains are kept as nodes are added and removed (by
`node_table`); everything else is derived on demand and dropped when rows move.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..records.demand import Taint
from .arrays import Bools, Ints, merged, spliced

Path = tuple[str, ...]


class NodeLike(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def allocatable(self) -> Mapping[str, int]: ...
    @property
    def taints(self) -> tuple[Taint, ...]: ...
    @property
    def unschedulable(self) -> bool: ...


class Topology:
    """The rows, and the domains that they form."""

    def __init__(self, levels: Sequence[str]) -> None:
        self.relevel(levels)

    def relevel(self, levels: Sequence[str]) -> None:
        """Other keys nest: the rows have to be entered again."""
        self.levels = tuple(levels)
        self.level_of = {key: number for number, key in enumerate(self.levels)}
        self._clear_rows()

    def _clear_rows(self) -> None:
        #: By row.
        self.nodes: list[NodeLike] = []
        #: By level and row: whether a domain begins there, and whether the node has the label.
        self._first: Bools = np.zeros((len(self.levels), 0), dtype=np.bool_)
        self._labelled: Bools = np.zeros((len(self.levels), 0), dtype=np.bool_)
        self._derived: dict[Any, Any] = {}

    @property
    def size(self) -> int:
        return len(self.nodes)

    def path_of(self, node: NodeLike) -> Path:
        labels = node.labels
        return tuple([labels.get(key, "") for key in self.levels])

    def name(self, row: int) -> str:
        return self.nodes[row].name

    def path(self, row: int) -> Path:
        return self.path_of(self.nodes[row])

    def starts(self, level: int) -> Ints:
        """First row of every domain of a level, in order."""
        found: Ints | None = self._derived.get(level)
        if found is None:
            whole = np.zeros(1, dtype=np.int64)
            found = whole if level < 0 else np.flatnonzero(self._first[level]).astype(np.int64)
            self._derived[level] = found
        return found

    def domains(self, level: int) -> Ints:
        """The domain of a level that each row is in."""
        found: Ints | None = self._derived.get(("rows", level))
        if found is None:
            whole = np.zeros(self.size, dtype=np.int64)
            found = whole if level < 0 else np.cumsum(self._first[level], dtype=np.int64) - 1
            self._derived["rows", level] = found
        return found

    def named(self, level: int) -> Bools:
        """Which domains of a level have a name; nodes without the label form a run that is no domain."""
        found: Bools | None = self._derived.get(("named", level))
        if found is None:
            found = np.ones(1, dtype=np.bool_) if level < 0 else self._labelled[level][self._first[level]]
            self._derived["named", level] = found
        return found

    def all_named(self, level: int) -> bool:
        found: bool | None = self._derived.get(("all named", level))
        if found is None:
            found = self._derived["all named", level] = bool(self.named(level).all())
        return found

    def nested(self, outer: int, inner: int) -> Ints:
        """For every domain of the outer level, the index of its first domain of the inner level."""
        found: Ints | None = self._derived.get(("nested", outer, inner))
        if found is None:
            found = np.searchsorted(self.starts(inner), self.starts(outer)).astype(np.int64)
            self._derived["nested", outer, inner] = found
        return found

    def span(self, level: int, index: int) -> tuple[int, int]:
        """The rows of one domain, as a half-open interval."""
        if level < 0:
            return 0, self.size
        starts = self.starts(level)
        end = starts.item(index + 1) if index + 1 < len(starts) else self.size
        return starts.item(index), end

    def inner(self, outer: int, index: int, inner: int) -> tuple[int, int]:
        """The domains of the inner level inside one domain of the outer level, as a half-open interval."""
        nested = self.nested(outer, inner)
        end = int(nested[index + 1]) if index + 1 < len(nested) else len(self.starts(inner))
        return int(nested[index]), end

    def named_within(self, outer: int, index: int, inner: int) -> Ints:
        """The numbers of the named domains of the inner level inside one domain of the outer level."""
        low, high = self.inner(outer, index, inner)
        return low + np.flatnonzero(self.named(inner)[low:high])

    def in_order(self, keys: Iterable[str | None]) -> tuple[str, ...]:
        """Different keys, listed ones from wide to narrow, then the others as they come; None is left out."""
        asked = dict.fromkeys(key for key in keys if key)
        levels = self.level_of
        listed = sorted((key for key in asked if key in levels), key=levels.__getitem__)
        return (*listed, *(key for key in asked if key not in levels))

    def opened(self, level: int, index: int) -> tuple[int, int, int] | None:
        """The widest level below a domain that divides it, and its domains there; None if only single nodes do."""
        derived, key = self._derived, ("opened", level, index)
        if key not in derived:
            derived[key] = self._open(level, index)
        found: tuple[int, int, int] | None = derived[key]
        return found

    def _open(self, level: int, index: int) -> tuple[int, int, int] | None:
        low, high = self.span(level, index)
        while level + 1 < len(self.levels):
            first, last = self.inner(level, index, level + 1)
            if last - first == high - low:
                break  # one node each, as at the host level: rows are enough
            level, index = level + 1, first
            if last - first > 1:
                return level, first, last
        return None

    def domain_path(self, level: int, index: int) -> Path:
        """The path of a domain: its label values from the widest level down, without missing ones."""
        if level < 0:
            return ()
        labels = self.nodes[self.starts(level).item(index)].labels
        return tuple([labels[key] for key in self.levels[: level + 1] if labels.get(key)])

    def domain_called(self, level: int, path: Path) -> int | None:
        """The first domain of a level with this path."""
        starts = self.starts(level)
        domains = range(len(starts))
        carried = [bool(labelled.any()) for labelled in self._labelled[: level + 1]]
        if sum(carried) != len(path):  # some nodes lack a label that others have: these paths are not sorted
            return next((index for index in domains if self.domain_path(level, index) == path), None)
        values = iter(path)
        whole = tuple([next(values) if known else "" for known in carried])
        found = bisect_left(domains, whole, key=lambda index: self.path(starts.item(index))[: level + 1])
        return found if found < len(starts) and self.domain_path(level, found) == path else None

    def _place_of(self, node: NodeLike) -> tuple[Path, str]:
        """The sort key of rows."""
        return self.path_of(node), node.name

    def _spots(self, added: Sequence[NodeLike]) -> list[int]:
        """The row in front of which each node belongs; nodes are sorted, and neighbours often share a spot."""
        found: list[int] = []
        for node in added:
            place = self._place_of(node)
            spot = found[-1] if found else -1
            if spot < 0 or (spot < self.size and self._place_of(self.nodes[spot]) < place):
                spot = bisect_left(self.nodes, place, key=self._place_of)
            found.append(spot)
        return found

    def _insert_rows(self, at: Sequence[int], added: Sequence[NodeLike]) -> None:
        """Insert sorted nodes, each in front of its row in `at`."""
        self.nodes = merged(self.nodes, at, added)
        shape = (len(self.levels), len(added))
        self._first = spliced(self._first, at, np.zeros(shape))
        labelled = [[node.labels.get(key, "") != "" for node in added] for key in self.levels]
        self._labelled = spliced(self._labelled, at, np.array(labelled).reshape(shape))
        here = [place + spot for spot, place in enumerate(at)]
        self._note_starts(dict.fromkeys(row for each in here for row in (each, each + 1)))

    def _delete_rows(self, rows: Sequence[int]) -> list[NodeLike]:
        """Delete ascending rows; returns their nodes, last first."""
        gone = [self.nodes.pop(row) for row in reversed(rows)]
        self._first = np.delete(self._first, rows, axis=1)
        self._labelled = np.delete(self._labelled, rows, axis=1)
        self._note_starts(row - spot for spot, row in enumerate(rows))
        return gone

    def _note_starts(self, rows: Iterable[int]) -> None:
        """After row numbers moved: update where domains begin at these rows, and drop what was derived."""
        last, before = -2, tuple[str, ...]()
        for row in rows:
            if row >= self.size:
                continue
            path = self.path(row)
            if row and row - 1 != last:
                before = self.path(row - 1)
            shared = _shared(path, before) if row else 0
            self._first[:shared, row] = False
            self._first[shared:, row] = True
            last, before = row, path
        self._derived.clear()


def _shared(path: Path, other: Path) -> int:
    """The length of the common prefix of two paths."""
    return next((number for number, pair in enumerate(zip(path, other, strict=True)) if pair[0] != pair[1]), len(path))
