"""Regions, where a group may be: the cluster, a domain of a listed level, or the nodes of one value of an unlisted key.

`domains_within` is the one way to go through the domains of a key inside a region; `Topology.named_within` is the
same for a listed level, as numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..records.verdict import Domain
from .arrays import Ints, distinct
from .node_table import NodeTable


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """`level` and `index` name the narrowest listed domain around it; `rows` is set where it is only a part of that."""

    level: int
    index: int
    rows: Ints | None = None
    #: Values of unlisted keys, outermost first.
    values: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[object, ...]:
        return (self.level, self.index, self.values)


CLUSTER = Region(-1, 0)


def rows_of(table: NodeTable, region: Region) -> Ints:
    if region.rows is not None:
        return region.rows
    low, high = table.span(region.level, region.index)
    return np.arange(low, high, dtype=np.int64)


def path_of(table: NodeTable, region: Region) -> Domain:
    return table.domain_path(region.level, region.index) + region.values


def split_by_label(table: NodeTable, region: Region, key: str) -> list[Region]:
    """The regions that an unlisted key makes inside a region, in order of value."""
    column = table.column(key)
    rows = rows_of(table, region)
    ids = column.ids[rows]
    names = {number: value for value, number in column.values.items()}
    found = [(names[number], rows[ids == number]) for number in distinct(ids.tolist()).tolist() if number >= 0]
    return [Region(region.level, region.index, members, (*region.values, value)) for value, members in sorted(found)]


def domains_within(table: NodeTable, region: Region, key: str) -> list[Region]:
    """The domains of a key inside a region, in order; the region itself if it lies inside one of them."""
    level = table.level_of.get(key)
    if level is None:
        return split_by_label(table, region, key)
    if level <= region.level:
        index = int(table.domains(level)[rows_of(table, region)[0]])
        return [region] if table.named(level)[index] else []
    inside = table.named_within(region.level, region.index, level).tolist()
    found = (narrow(table, region, level, index) for index in inside)
    return [inner for inner in found if inner is not None]


def domain_around(table: NodeTable, region: Region, key: str, row: int) -> Region:
    """The domain of a key inside a region that a row of it is in; the region itself if it lies inside one."""
    level = table.level_of.get(key)
    if level is None:
        return next(inner for inner in split_by_label(table, region, key) if row in rows_of(table, inner))
    if level <= region.level:
        return region
    return narrow(table, region, level, int(table.domains(level)[row])) or region


def narrow(table: NodeTable, region: Region, level: int, index: int) -> Region | None:
    """The part of a region inside one domain of a narrower listed level."""
    if region.rows is None:
        return Region(level, index)
    low, high = table.span(level, index)
    rows = region.rows[(region.rows >= low) & (region.rows < high)]
    return Region(level, index, rows, region.values) if len(rows) else None
