"""A verdict in words: what was decided, and for a blocked demand what is missing where and what would help.

    Verdict ─► sentence    the whole demand, for its pods and for the event
          ├──► for_group   one group of the tree, for its condition
          └──► fixes_in_words

Every number is read from the verdict; names are the caller's.  A sentence leaves out the name of its `reader`: the
object that carries it says what it is called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...base.paths import spoken
from ..records.reasons import TooLarge
from ..records.verdict import Blocked, Domain, DomainCount, Evict, Fix, Placed, Shortage, Verdict
from .counted import counted, listed, plural
from .fix_words import Origin, fix_in_words, unit_name
from .reason_words import ABOUT_THE_POD, about_nodes, about_pod, impossible, level, most_frequent

GroupNames = Mapping[int, str]
#: The names of the bound pods of groups, for commands.
BoundPods = Mapping[int, Sequence[str]]
#: Where the fields of groups are written, for fixes.
Origins = Mapping[int, Origin]

#: Domains and reasons that a sentence spells out; the verdict lists more.
DOMAINS_TOLD = 2
REASONS_TOLD = 3
_NO_PODS: BoundPods = {}
_UNKNOWN: Origins = {}


def sentence(
    verdict: Verdict, names: GroupNames, bound: BoundPods = _NO_PODS, reader: int = -1, origins: Origins = _UNKNOWN
) -> str:
    """One sentence for the whole demand; `reader` is the group that carries it."""
    match verdict:
        case Placed():
            return _placed(verdict)
        case Evict():
            return f"{_evicting(verdict)}, then {_placed(verdict.placement)}"
        case Blocked():
            return _Blocked(verdict, names, bound, reader, origins).whole()


def for_group(
    verdict: Verdict, group_id: int, names: GroupNames, bound: BoundPods = _NO_PODS, origins: Origins = _UNKNOWN
) -> str:
    """The same for one group of the tree, which carries the sentence."""
    match verdict:
        case Placed():
            return _placed_group(verdict, group_id)
        case Evict():
            return f"{_evicting(verdict)}, then {_placed_group(verdict.placement, group_id)}"
        case Blocked():
            return _Blocked(verdict, names, bound, group_id, origins).own()


def fixes_in_words(blocked: Blocked, names: GroupNames, bound: BoundPods = _NO_PODS) -> list[str]:
    """The fixes of a blocked demand one by one, the cheapest first; each names the group to change."""
    return _Blocked(blocked, names, bound, -1, _UNKNOWN).fixes(blocked.fixes, -1)


# ---- placed and evicting


def _placed(placed: Placed) -> str:
    pods, nodes = len(placed.assignment), len(set(placed.assignment.values()))
    where = _common(list(placed.domains.values()))
    return f"{counted(pods, 'pod')} placed on {counted(nodes, 'node')}{f' in {spoken(where)}' if where else ''}"


def _placed_group(placed: Placed, group_id: int) -> str:
    if group_id not in placed.groups:
        return "stays pending: the groups that are placed leave no room for it"
    domain = placed.domains.get(group_id, ())
    return f"placed in {spoken(domain)}" if domain else "placed"


def _evicting(evict: Evict) -> str:
    loss = evict.loss
    text = f"preempting {counted(loss.units, 'unit')} of priority {loss.highest_priority} or lower"
    if loss.budget_violations:
        text += f", {counted(loss.budget_violations, 'pod')} more than disruption budgets allow"
    return text


# ---- blocked


@dataclass(frozen=True, slots=True)
class _Blocked:
    """A blocked verdict for one reader."""

    verdict: Blocked
    names: GroupNames
    bound: BoundPods
    reader: int
    origins: Origins

    def whole(self) -> str:
        return _join(self._blocked(), self._fixes(self.verdict.fixes, self._subject()))

    def own(self) -> str:
        """What the reader lacks, or what it waits for."""
        own = self._shortage(self.reader)
        if own is None or not own.fails:
            waiting = f"{_alone(own)}waiting for the other groups of its tree: {self._blocked()}"
            return _join(waiting, self._fixes(self.verdict.fixes, self._subject()))
        inner = self._cause_below(own)
        if inner is not None:
            reason = f"{self._hedged(self._cause(inner))}; so it {_bare(own)}"
            return _join(reason, self._fixes(self.verdict.fixes, inner.group))
        mine = tuple(fix for fix in self.verdict.fixes if fix.group in (self.reader, -1)) or self.verdict.fixes
        return _join(self._hedged(self._cause(own)), self._fixes(mine, self.reader))

    def _blocked(self) -> str:
        causes = [shortage for shortage in self.verdict.shortages if shortage.fails]
        if not causes:
            together = " but not together" if self.verdict.proved else ""
            return self._hedged(f"its groups fit one by one{together}")
        told = self._cause(causes[0])
        if causes[0].of_groups:
            told = _join(told, self._near_miss())
        others = sum(not cause.of_groups for cause in causes[1:])  # a composite fails with the groups below it
        if others:
            told += f"; {counted(others, 'more group')} {plural(others, 'does', 'do')} not fit"
        return self._hedged(told)

    def _subject(self) -> int:
        return next((shortage.group for shortage in self.verdict.shortages if shortage.fails), -1)

    def _hedged(self, reason: str) -> str:
        """A search that ended with its budget proves nothing."""
        return reason if self.verdict.proved else f"no placement found within the step budget: {reason}"

    def _shortage(self, group: int) -> Shortage | None:
        return next((shortage for shortage in self.verdict.shortages if shortage.group == group), None)

    def _cause_below(self, own: Shortage) -> Shortage | None:
        """The innermost group that fails in the best domain of a composite that has room for none of its children."""
        if not own.of_groups or own.have or not own.tried:
            return None
        best = own.tried[0].domain
        causes = (shortage for shortage in self.verdict.shortages if shortage.fails)
        found = next((cause for cause in causes if cause.within[: len(best)] == best), own)
        return None if found.group == own.group else found

    def _near_miss(self) -> str:
        """The leaf that comes closest in a domain that does not hold it: where a composite is likely to be short."""
        misses = [
            (count.have / count.need, -shortage.group, shortage, count)
            for shortage in self.verdict.shortages
            if not shortage.of_groups
            for count in shortage.tried
            if count.have < count.need
        ]
        if not misses:
            return ""
        _, _, shortage, count = max(misses, key=lambda miss: miss[:2])
        return _held(count) or f"{self._name(shortage.group)} has {_shortfall(count)}"

    def _cause(self, shortage: Shortage) -> str:
        subject = "" if shortage.group == self.reader else f"{self._name(shortage.group)} "
        return subject + _bare(shortage)

    def _fixes(self, fixes: tuple[Fix, ...], subject: int) -> str:
        told = self.fixes(fixes, subject)
        return f"fix: {', or '.join(told)}" if told else ""

    def fixes(self, fixes: tuple[Fix, ...], subject: int) -> list[str]:
        """Fixes after a sentence about `subject`, whose name they leave out."""
        return [
            fix_in_words(
                fix,
                "" if fix.group in (subject, -1) else self._name(fix.group),
                self._shortage(fix.group),
                self.bound.get(fix.group, ()),
                self.origins.get(fix.group),
            )
            for fix in fixes
        ]

    def _name(self, group: int) -> str:
        return self.names.get(group, f"group {group}")


def _bare(shortage: Shortage) -> str:
    """What a group lacks, without its name."""
    noun = "group" if shortage.of_groups else "pod"
    scope = f" in one {level(shortage.key)}{_inside(shortage)}" if shortage.key else ""
    text = f"needs {counted(shortage.need, noun)}"
    if isinstance(shortage.contradiction, TooLarge):
        too_large = impossible(shortage.contradiction)
        return f"fits no node: {too_large}" if shortage.present == 1 else f"{text}{scope}, but a pod {too_large}"
    if shortage.contradiction is not None:
        return f"{text}{_each(shortage)}{scope}, which is impossible: {impossible(shortage.contradiction)}"
    if shortage.present < shortage.need:
        return f"{text} but has {f'only {shortage.present}' if shortage.present else 'none'}"
    if _fits_no_node(shortage):
        return _no_node(shortage)
    text += f"{_each(shortage)}{scope}"
    if shortage.held_on:
        where = f"outside {spoken(shortage.within)}" if shortage.within else f"in no {level(shortage.key)}"
        return f"{text}, but its bound pods run {where}, on {listed(shortage.held_on)}"
    if not shortage.domains_tried:
        where = f" in {spoken(shortage.within)}" if shortage.within else ""
        return f"{text}, but no node{where} has the label {shortage.key}"
    text += f", but {_offers(shortage)}{'' if shortage.settled else ', as far as the step budget told'}"
    reasons = _reasons(shortage)
    return f"{text}; {reasons}" if reasons else text


def _fits_no_node(shortage: Shortage) -> bool:
    """Whether every node of the cluster is excluded for the pods of a leaf, each for a reason that is told."""
    whole = len(shortage.tried) == 1 and not shortage.tried[0].domain and shortage.tried[0].held_by is None
    return whole and not shortage.have and sum(shortage.exclusions.values()) == shortage.tried[0].nodes > 0


def _no_node(shortage: Shortage) -> str:
    """Why a pod fits no node of the cluster."""
    many, nodes = shortage.need > 1, shortage.tried[0].nodes
    first = most_frequent(shortage.exclusions)[0][0]
    if first.kind in ABOUT_THE_POD:
        fits = f"needs {shortage.need} pods, but none can be placed" if many else "cannot be placed"
        return f"{fits}: {about_pod(first)}"
    if nodes == 1:
        fits = f"needs {shortage.need} pods, but none fits the only node" if many else "does not fit the only node"
        return f"{fits}: it {about_nodes(first, 1)}"
    fits = f"needs {shortage.need} pods, but none fits any of {nodes} nodes" if many else f"fits none of {nodes} nodes"
    if len(shortage.exclusions) == 1:
        return f"{fits}: they {about_nodes(first, nodes)}"
    return f"{fits}: {_reasons(shortage, '')}"


def _reasons(shortage: Shortage, noun: str = "node") -> str:
    """Why nodes of the whole cluster take none of a leaf's pods; the first number is one of `noun`s."""
    reasons = most_frequent(shortage.exclusions)
    told = [
        about_pod(reason)
        if reason.kind in ABOUT_THE_POD
        else f"{counted(number, noun) if noun and not position else number} {about_nodes(reason, number)}"
        for position, (reason, number) in enumerate(reasons[:REASONS_TOLD])
    ]
    rest = sum(number for _, number in reasons[REASONS_TOLD:])
    return ", ".join(told) + (f", {rest} for other reasons" if rest else "")


def _alone(own: Shortage | None) -> str:
    """What a group that fits by itself finds: the domain that fits it, and the best that does not."""
    if own is None or not own.key or not own.tried:
        return ""
    fits = f"fits in {spoken(own.tried[0].domain)}"
    short = next((count for count in own.tried if count.have < count.need), None)
    if short is None:
        return f"{fits}; "
    return f"{fits}, {_held(short) or f'has {_shortfall(short)}'}; "


def _held(count: DomainCount) -> str:
    """Who has a domain alone, or is where it would be needed alone; "" if nobody is."""
    return f"{spoken(count.domain)} is held by {unit_name(count.held_by)}" if count.held_by is not None else ""


def _shortfall(count: DomainCount) -> str:
    lack = f" (short of {count.short_of})" if count.short_of else ""
    return f"room for {count.have} of {counted(count.need, 'pod')} in {spoken(count.domain) or 'the cluster'}{lack}"


def _inside(shortage: Shortage) -> str:
    """The domain of the groups above, unless it is the very domain that was tried."""
    deeper = shortage.tried and len(shortage.tried[0].domain) > len(shortage.within)
    return f" of {spoken(shortage.within)}" if shortage.within and deeper else ""


def _each(shortage: Shortage) -> str:
    if not shortage.each:
        return ""
    scope = f" in one {level(shortage.each_key)}" if shortage.each_key else ""
    return f" (each {counted(shortage.each, 'pod')}{scope})"


def _offers(shortage: Shortage) -> str:
    told = shortage.tried[:DOMAINS_TOLD]
    parts = [_offer(count, first=number == 0) for number, count in enumerate(told)]
    more = shortage.domains_tried - len(told)
    if more > 0:
        parts.append(f"{counted(more, 'other')} {plural(more, 'has', 'have')} no more")
    return ", ".join(parts)


def _offer(count: DomainCount, first: bool) -> str:
    place = spoken(count.domain) if count.domain else "the cluster"
    if count.held_by is not None:
        return f"{place} is held by {unit_name(count.held_by)}"
    room = count.have or "none"
    if not first:
        return f"{place} for {room}"
    return f"{place} has room for {room}" + (f" (short of {count.short_of})" if count.short_of else "")


def _common(domains: list[Domain]) -> Domain:
    """The longest path that all domains share; groups without one do not count."""
    paths = [domain for domain in domains if domain]
    if len(paths) < 2:
        return paths[0] if paths else ()
    shared = 0
    while all(len(path) > shared and path[shared] == paths[0][shared] for path in paths):
        shared += 1
    return paths[0][:shared]


def _join(reason: str, remedy: str) -> str:
    return f"{reason}; {remedy}" if remedy else reason
