"""A verdict in words: what was decided, and for a blocked demand what is missing where and what would help.

Every number is read from the verdict; names of groups are the caller's.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...base.paths import spoken
from ..cluster.node_filters import WAITS
from ..records.verdict import Blocked, Domain, DomainCount, Evict, Fix, Placed, Shortage, Verdict

Names = Mapping[int, str]

#: Domains and reasons spelt out in a sentence; the verdict lists more.
DOMAINS_TOLD = 2
REASONS_TOLD = 3
#: Reasons that have to do with other pods, and how they are told of nodes.
COMPANY = {
    "anti-affinity to ": "too near to",
    "anti-affinity of running pods to ": "near to running pods that keep away",
    "affinity to ": "not near to",
    "topology spread needs ": "outside the topology spread, without",
}
NAMES_TOLD = 3


def sentence(verdict: Verdict, names: Names) -> str:
    """One actionable sentence for the whole demand."""
    match verdict:
        case Placed():
            return _placed(verdict)
        case Evict():
            return f"{_evicting(verdict)}, then {_placed(verdict.placement)}"
        case Blocked():
            return _join(_blocked(verdict, names), _fixes(verdict.fixes, names, _subject(verdict)))


def for_group(verdict: Verdict, group_id: int, names: Names) -> str:
    """The same for one group of the tree, for its condition."""
    match verdict:
        case Placed():
            return _placed_group(verdict, group_id)
        case Evict():
            return f"waits for preemption: {_evicting(verdict)}, then {_placed_group(verdict.placement, group_id)}"
        case Blocked():
            return _blocked_group(verdict, group_id, names)


# ---- placed and evicting


def _placed(placed: Placed) -> str:
    pods, nodes = len(placed.assignment), len(set(placed.assignment.values()))
    where = _common(list(placed.domains.values()))
    return f"{_count(pods, 'pod')} placed on {_count(nodes, 'node')}{f' in {spoken(where)}' if where else ''}"


def _placed_group(placed: Placed, group_id: int) -> str:
    if group_id not in placed.groups:
        return "stays pending: the groups that hold leave no room for it"
    domain = placed.domains.get(group_id, ())
    return f"placed in {spoken(domain)}" if domain else "placed"


def _evicting(evict: Evict) -> str:
    loss = evict.loss
    text = f"evicting {_count(loss.units, 'unit')} of priority {loss.highest_priority} or less"
    if loss.budget_violations:
        text += f", {_count(loss.budget_violations, 'pod')} more than disruption budgets allow"
    return text


# ---- blocked


def _blocked(blocked: Blocked, names: Names) -> str:
    causes = [shortage for shortage in blocked.shortages if shortage.fails]
    if not causes:
        reason = "its groups fit one by one but not together" if blocked.proved else "its groups fit one by one"
        return _verdict_word(blocked, reason)
    told = _cause(causes[0], names)
    if causes[0].of_groups:
        told = _join(told, _near_miss(blocked, names))
    others = sum(not cause.of_groups for cause in causes[1:])  # composites fail with those below them
    if others:
        told += f"; {_count(others, 'more group')} cannot hold"
    return _verdict_word(blocked, told)


def _subject(blocked: Blocked) -> int:
    return next((shortage.group for shortage in blocked.shortages if shortage.fails), -1)


def _verdict_word(blocked: Blocked, reason: str) -> str:
    return reason if blocked.proved else f"no placement found within the step budget: {reason}"


def _blocked_group(blocked: Blocked, group_id: int, names: Names) -> str:
    own = next((shortage for shortage in blocked.shortages if shortage.group == group_id), None)
    if own is None or not own.fails:
        return f"{_alone(own)}waits for the rest of its tree: {_blocked(blocked, names)}"
    inner = _cause_below(blocked, own)
    if inner is not None:
        return _join(
            f"{_verdict_word(blocked, _cause(inner, names))}; so {_cause(own, names)}",
            _fixes(blocked.fixes, names, inner.group),
        )
    mine = tuple(fix for fix in blocked.fixes if fix.group in (group_id, -1)) or blocked.fixes
    return _join(_verdict_word(blocked, _cause(own, names)), _fixes(mine, names, group_id))


def _cause_below(blocked: Blocked, own: Shortage) -> Shortage | None:
    """The innermost group that fails inside the best domain of a composite that finds room for none of its children."""
    if not own.of_groups or own.have or not own.tried:
        return None
    best = own.tried[0].domain
    causes = (shortage for shortage in blocked.shortages if shortage.fails)
    found = next((cause for cause in causes if cause.within[: len(best)] == best), own)
    return None if found.group == own.group else found


def _near_miss(blocked: Blocked, names: Names) -> str:
    """The leaf that comes closest in a domain that does not hold it: where a composite is likely to be short."""
    misses = [
        (count.have / count.need, -shortage.group, shortage, count)
        for shortage in blocked.shortages
        if not shortage.of_groups
        for count in shortage.tried
        if count.have < count.need
    ]
    if not misses:
        return ""
    _, _, shortage, count = max(misses, key=lambda miss: miss[:2])
    return f"{_name(shortage.group, names)} finds {_shortfall(count)}"


def _alone(own: Shortage | None) -> str:
    """What a group that could hold by itself finds: the domain that fits it, and the best that does not."""
    if own is None or not own.key or not own.tried:
        return ""
    fits = f"fits in {spoken(own.tried[0].domain)}"
    short = next((count for count in own.tried if count.have < count.need), None)
    return f"{fits}, finds {_shortfall(short)}; " if short else f"{fits}; "


def _shortfall(count: DomainCount) -> str:
    lack = f" (short of {count.short_of})" if count.short_of else ""
    return f"room for {count.have} of {_count(count.need, 'pod')} in {spoken(count.domain) or 'the cluster'}{lack}"


def _cause(shortage: Shortage, names: Names) -> str:
    noun = "group" if shortage.of_groups else "pod"
    scope = f" in one {_level(shortage.key)}{_inside(shortage)}" if shortage.key else ""
    text = f"{_name(shortage.group, names)} needs {_count(shortage.need, noun)}"
    if shortage.contradiction:
        return f"{text}{_each(shortage)}{scope} but can never hold: {shortage.contradiction}"
    if shortage.present < shortage.need:
        return f"{text} but has {f'only {shortage.present}' if shortage.present else 'none'}"
    text += f"{_each(shortage)}{scope}"
    if shortage.held_on:
        where = f"outside {spoken(shortage.within)}" if shortage.within else f"in no {_level(shortage.key)}"
        return f"{text} but its bound pods are {where}, on {_listed(shortage.held_on)}"
    if not shortage.domains_tried:
        where = f" in {spoken(shortage.within)}" if shortage.within else ""
        return f"{text} but no node{where} has the label {shortage.key}"
    text += f" but {_offers(shortage)}{'' if shortage.settled else ', as far as the step budget told'}"
    reasons = sorted(shortage.exclusions.items(), key=lambda item: (-item[1], item[0]))
    told = [_reason(reason, number) for reason, number in reasons[:REASONS_TOLD]]
    rest = sum(number for _, number in reasons[REASONS_TOLD:])
    if rest:
        told.append(f"{rest} for other reasons")
    return f"{text}; {', '.join(told)}" if told else text


def _inside(shortage: Shortage) -> str:
    """The domain of the groups above, unless it is the very domain that was tried."""
    deeper = shortage.tried and len(shortage.tried[0].domain) > len(shortage.within)
    return f" of {spoken(shortage.within)}" if shortage.within and deeper else ""


def _each(shortage: Shortage) -> str:
    if not shortage.each:
        return ""
    scope = f" in one {_level(shortage.each_key)}" if shortage.each_key else ""
    return f" (each {_count(shortage.each, 'pod')}{scope})"


def _offers(shortage: Shortage) -> str:
    told = shortage.tried[:DOMAINS_TOLD]
    parts = [_offer(count, first=number == 0) for number, count in enumerate(told)]
    more = shortage.domains_tried - len(told)
    if more > 0:
        parts.append(f"{_count(more, 'other')} {'has' if more == 1 else 'have'} no more")
    return ", ".join(parts)


def _offer(count: DomainCount, first: bool) -> str:
    place = spoken(count.domain) if count.domain else "the cluster"
    if count.held_by:
        return f"{place} is held by {count.held_by}"
    room = count.have or "none"
    if not first:
        return f"{place} for {room}"
    return f"{place} has room for {room}" + (f" (short of {count.short_of})" if count.short_of else "")


def _reason(reason: str, nodes: int) -> str:
    if reason.startswith(WAITS):
        return reason.removeprefix(WAITS)
    if reason.endswith("not supported"):
        return f"{reason} yet"
    if reason.startswith("taint "):
        return f"{_count(nodes, 'node')} with {reason}"
    for name, words in COMPANY.items():
        if reason.startswith(name):
            return f"{_count(nodes, 'node')} {words} {reason.removeprefix(name)}"
    if reason.startswith("node "):
        return f"{_count(nodes, 'node')} outside the {reason}"
    return f"{_count(nodes, 'node')} {reason}"


def _fixes(fixes: tuple[Fix, ...], names: Names, subject: int) -> str:
    """Fixes after a sentence about `subject`, which need not be named again."""
    if not fixes:
        return ""
    texts = [fix.text if fix.group == subject else fix.text + _aimed(fix, names) for fix in fixes]
    return f"fix: {', or '.join(texts)}"


def _aimed(fix: Fix, names: Names) -> str:
    words = {"lower": " for", "widen": " for", "release": " that pins" if fix.amount == 1 else " that pin"}
    return f"{words[fix.kind]} {_name(fix.group, names)}" if fix.kind in words else ""


# ---- words


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names[:NAMES_TOLD]) + (" …" if len(names) > NAMES_TOLD else "")


def _name(group: int, names: Names) -> str:
    return names.get(group, f"group {group}")


def _level(key: str) -> str:
    short = key.rsplit("/", 1)[-1]
    return "node" if short == "hostname" else short


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


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
