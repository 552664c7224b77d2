"""Fixes in words: which field to change, which command to run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...base.paths import spoken
from ..records.verdict import Fix, Shortage, UnitName
from .counted import counted, listed, plural
from .reason_words import level

TOPOLOGY = "schedulingConstraints.topology[0]"
MIN_COUNT = "schedulingPolicy.gang.minCount"
MIN_GROUP_COUNT = "schedulingPolicy.gang.minGroupCount"
_REMADE = " (immutable: delete and re-create it)"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the fields of a group are written: in the group itself, or in the object that it is made from."""

    #: `Kind/name` of the object that the group is made from, "" if a person made the group.
    maker: str = ""
    #: Where that object has the fields of the group; "" if its fields are other ones.
    prefix: str = "spec"
    #: The field of that object from which the minimum of the group follows, which cannot change; "" if it is a field of
    #: the group.
    count_field: str = ""


def fix_in_words(fix: Fix, whose: str, short: Shortage | None, bound: Sequence[str], origin: Origin | None) -> str:
    """What to do.

    `whose` names the group to change ("" if the reader knows), `short` is what that group lacks; `bound` are the names
    of its bound pods and `origin` is where its fields are written, as far as the caller knows them.
    """
    of = f" of {whose}" if whose else ""
    every = f" in all {len(fix.groups)} such groups" if len(fix.groups) > 1 else of
    prefix = "spec"
    if origin is not None and origin.maker and origin.prefix and len(fix.groups) <= 1:
        every, prefix = f" in {origin.maker}", origin.prefix
    match fix.kind:
        case "field":
            return f"remove {', '.join(fix.fields)}"
        case "release":
            return _released(fix, of, bound)
        case "widen":
            if origin is not None and origin.maker and not origin.prefix:
                change = f"widen the required topology to {fix.wider}" if fix.wider else "remove the required topology"
                return f"{change} in {origin.maker}{_REMADE}"
            field = f"{prefix}.{TOPOLOGY}"
            change = f"set {field}.key to {fix.wider}" if fix.wider else f"remove {field} ({level(fix.key)})"
            return change + every + _remade(origin, immutable=True)
        case "lower":
            if origin is not None and origin.count_field and len(fix.groups) <= 1:
                return f"lower {origin.count_field} in {origin.maker} ({_room(fix, short)}){_REMADE}"
            return _lowered(fix, prefix, every, short) + _remade(origin, immutable=False)
        case "add":
            return f"add {counted(fix.amount, 'node')} like {fix.nodes[0]}{_place(fix, 'to')}"
        case "free":
            pods = counted(fix.cost.evicted, "pod")
            return f"free {counted(fix.amount, 'node')}{_place(fix, 'in')} ({listed(fix.nodes)}; {pods})"
        case "evict":
            return f"evict {listed([_with_priority(unit) for unit in fix.victims])}"


def _released(fix: Fix, of: str, bound: Sequence[str]) -> str:
    pods = plural(fix.amount, "the bound pod", f"the {fix.amount} bound pods")
    command = f": kubectl delete pod {' '.join(bound)}" if bound else ""
    return f"restart {pods}{of} on {listed(fix.nodes)}{command}"


def _remade(origin: Origin | None, *, immutable: bool) -> str:
    """What to do beyond changing the field: a group cannot be changed apart from the object that it is made from."""
    if origin is None:
        return ""
    if origin.maker and not origin.prefix:
        return f" (in {origin.maker}: delete and re-create it)"
    return _REMADE if immutable else ""


def _lowered(fix: Fix, prefix: str, every: str, short: Shortage | None) -> str:
    """The new minimum is what there is room for, so the text says where."""
    field = MIN_GROUP_COUNT if short is not None and short.of_groups else MIN_COUNT
    before = f" from {short.need}" if short is not None else ""
    return f"lower {prefix}.{field}{every}{before} to {fix.amount} ({_room(fix, short)})"


def _room(fix: Fix, short: Shortage | None) -> str:
    """How many fit, and where."""
    noun = "group" if short is not None and short.of_groups else "pod"
    place = f"one {level(fix.key)}" if fix.key else "the cluster"
    beside = " beside the other groups" if short is not None and fix.amount < short.have else ""
    return f"only {fix.amount} {plural(fix.amount, f'{noun} fits', f'{noun}s fit')} in {place}{beside}"


def _place(fix: Fix, word: str) -> str:
    return f" {word} {spoken(fix.domain)}" if fix.domain else ""


def _with_priority(unit: UnitName) -> str:
    return f"{unit_name(unit)} (priority {unit.priority})"


def unit_name(unit: UnitName) -> str:
    return unit.name or f"unit {unit.unit}"
