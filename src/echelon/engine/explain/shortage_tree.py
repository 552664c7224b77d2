"""A blocked verdict as a tree for people: every group with what it needs, and domain by domain what is there.

    ✗ replica 0 needs 2 groups in one block
    │    b1: room for 1 of 2
    └─ ✗ workers needs 3 pods in one rack
            b1/r2: room for 2 of 3; 2 of 3 nodes free, 1 short of nvidia.com/gpu

Every number is read from the verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from ...base.paths import spoken
from ..records.demand import Composite, Group
from ..records.reasons import TooLarge
from ..records.verdict import Blocked, DomainCount, Shortage
from .counted import counted
from .fix_words import unit_name
from .reason_words import about_nodes, impossible, level, most_frequent


@dataclass(frozen=True, slots=True)
class Branch:
    """One group: whether it fits by itself, its need in words, a line per domain and reason, its children."""

    group: int
    holds: bool
    title: str
    lines: tuple[str, ...]
    below: tuple[Branch, ...] = ()


def tree(blocked: Blocked, root: Group, names: Mapping[int, str]) -> Branch:
    """The verdict along the tree of the demand."""
    told = {shortage.group: shortage for shortage in blocked.shortages}
    return _branch(root, told, names)


def drawn(branch: Branch) -> list[str]:
    """A branch and all below it as lines of text."""
    found = [f"{'✓' if branch.holds else '✗'} {branch.title}"]
    rail = "│  " if branch.below else "   "
    found += [f"{rail}   {line}" for line in branch.lines]
    for number, child in enumerate(branch.below):
        first, *rest = drawn(child)
        last = number == len(branch.below) - 1
        found.append(("└─ " if last else "├─ ") + first)
        found += [("   " if last else "│  ") + line for line in rest]
    return found


def _branch(group: Group, told: Mapping[int, Shortage], names: Mapping[int, str]) -> Branch:
    shortage = told[group.id]
    holds = not shortage.fails
    children = group.children if isinstance(group, Composite) else ()
    below = tuple(_branch(child, told, names) for child in children)
    lines = () if holds else tuple(_lines(shortage))
    return Branch(group.id, holds, f"{names.get(group.id, f'group {group.id}')} {_need(shortage)}", lines, below)


def _lines(shortage: Shortage) -> Iterator[str]:
    """What each domain has; a contradiction needs no numbers."""
    if shortage.contradiction is not None:
        who = "a pod " if isinstance(shortage.contradiction, TooLarge) else ""
        yield f"impossible: {who}{impossible(shortage.contradiction)}"
        return
    for line, alike in groupby(shortage.tried, _domain):
        yield f"{', '.join(map(_place, alike))}: {line}"
    yield from _rest(shortage)
    yield from _reasons(shortage)


def _need(shortage: Shortage) -> str:
    noun = "group" if shortage.of_groups else "pod"
    text = f"needs {counted(shortage.need, noun)}"
    if shortage.present < shortage.need:
        return f"{text}, has {shortage.present or 'none'}"
    text += f" in one {level(shortage.key)}" if shortage.key else ""
    text += f" (within {spoken(shortage.within)})" if shortage.within else ""
    return f"{text}: fits in {_place(shortage.tried[0])}" if not shortage.fails and shortage.tried else text


def _domain(count: DomainCount) -> str:
    """The numbers of one domain; domains with equal numbers share a line."""
    text = f"room for {count.have or 'none'} of {count.need}"
    if count.held_by is not None:
        return f"{text}; held by {unit_name(count.held_by)}"
    if count.free_nodes:
        text += f"; {count.free_nodes} of {counted(count.nodes, 'node')} free"
        full = count.nodes - count.free_nodes
        return f"{text}, {full} short of {count.short_of}" if full and count.short_of else text
    return f"{text}, short of {count.short_of}" if count.short_of else text


def _rest(shortage: Shortage) -> list[str]:
    more = shortage.domains_tried - len(shortage.tried)
    return [f"{counted(more, 'other')}: no more room"] if more > 0 and shortage.tried else []


def _reasons(shortage: Shortage) -> list[str]:
    """Why nodes of the whole cluster take none of these pods."""
    told = [f"{number} {about_nodes(reason, number)}" for reason, number in most_frequent(shortage.exclusions)]
    return [f"of all nodes, {', '.join(told)}"] if told else []


def _place(count: DomainCount) -> str:
    return spoken(count.domain) if count.domain else "the cluster"
