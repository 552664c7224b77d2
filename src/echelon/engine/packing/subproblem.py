"""A domain and the groups that share it as a problem of its own, and its answer for every domain like it.

`level_pack` decides which groups go into which domain; what is inside may be of any kind.  Equal groups in equal
domains are searched once: with stand-ins, whose answer is then transferred to the real groups and the real domain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

from ..cluster.node_table import NodeTable
from ..cluster.regions import Region
from ..records.demand import Shape
from ..space.canonical import Part, walk
from ..space.tasks import Found, Put


@dataclass(frozen=True, slots=True)
class Subproblem:
    """Stand-ins for groups that share one domain, and one tree that holds if and only if all of them do."""

    parts: tuple[Part, ...]
    tree: Part


def as_subproblem(parts: Sequence[Part]) -> Subproblem:
    """The problem whether parts fit into one domain of their key together."""
    ids = count(1)
    copies = tuple(_renamed(replace(part, keys=()), ids) for part in parts)
    if len(copies) == 1:
        return Subproblem(copies, copies[0])
    pooled: list[Part] = []
    for part in copies:
        all_needed = part.children and part.need >= len(part.children)
        pooled += part.children if all_needed else (part,)
    pooled.sort(key=lambda part: (-len(part.keys), -part.pods, part.type, part.group))
    least = Counter[Shape]()
    for part in pooled:
        least.update(part.least)
    pods = sum(part.pods for part in pooled)
    return Subproblem(copies, Part(0, -1, (), (), len(pooled), pods, least, children=tuple(pooled)))


def _renamed(part: Part, ids: Iterator[int]) -> Part:
    """The same tree with new ids, parents before children."""
    group = next(ids)
    return replace(part, group=group, children=tuple(_renamed(child, ids) for child in part.children))


def transferred(
    table: NodeTable, asked: Subproblem, answer: Found, domain: Region, parts: Sequence[Part], there: Region
) -> Found:
    """The answer for `domain`, transferred to the real parts and an equal domain."""
    meant: dict[int, tuple[Part, Part]] = {}
    for copy, part in zip(asked.parts, parts, strict=True):
        for one, other in zip(walk(copy), walk(part), strict=True):
            meant[one.group] = one, other
    shift = int(table.starts(there.level)[there.index] - table.starts(domain.level)[domain.index])
    found = Found([(part, there) for part in parts], [])
    top = {copy.group for copy in asked.parts} | {asked.tree.group}
    for seated, region in answer.seats:
        if seated.group not in top:
            first, _ = table.inner(domain.level, domain.index, region.level)
            now, _ = table.inner(there.level, there.index, region.level)
            found.seats.append((meant[seated.group][1], Region(region.level, region.index - first + now)))
    for put in answer.puts:
        one, other = meant[put.part.group]
        ask = next(own for own, theirs in zip(other.asks, one.asks, strict=True) if theirs is put.ask)
        found.puts.append(Put(other, ask, put.rows + shift, put.counts))
    return found
