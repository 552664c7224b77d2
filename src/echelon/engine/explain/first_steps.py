"""What to change first where no single change that was tried lets a blocked demand fit, in words.

A fix is a change that was tried and works.  What is told here is needed; it may not be enough.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...base.quantity import spelt
from ..records.reasons import ReasonKind, TooLarge
from ..records.verdict import Blocked, Shortage
from .fix_words import MIN_COUNT, TOPOLOGY, Origin


def first_step(verdict: Blocked, reader: int, origins: Mapping[int, Origin]) -> str:
    """What the group `reader` needs first, or the demand if that group fits; "" if there are fixes.

    `origins` says of groups where their fields are written.
    """
    if verdict.fixes:
        return ""
    failing = [shortage for shortage in verdict.shortages if shortage.fails] or list(verdict.shortages[:1])
    own = next((shortage for shortage in failing if shortage.group == reader and not shortage.of_groups), failing[0])
    return f"first {_step(own, origins.get(own.group, Origin()))}"


def _step(short: Shortage, origin: Origin) -> str:
    match short.contradiction:
        case TooLarge(resource, amount, most):
            lower = f"lower the request for {resource} to {spelt(resource, most)}, or " if most else ""
            return f"{lower}add nodes with {spelt(resource, amount)} {resource}"
        case None:
            pass
        case _:
            return "change one of these fields"
    if not short.domains_tried and not short.held_on:
        return f"label nodes with {short.key}, or remove {_written(origin, TOPOLOGY, 'the required topology')}"
    if short.held_on:
        return "delete its bound pods"
    if short.exclusions and all(reason.kind is ReasonKind.WAITING_FOR for reason in short.exclusions):
        return "see to what its pods wait for"
    if short.need <= 1:
        return "add or free nodes, or wait for running pods to end"
    count = f"{origin.count_field} in {origin.maker}" if origin.count_field else _written(origin, MIN_COUNT, "the gang")
    return f"add or free nodes, lower {count}, or wait for running pods to end"


def _written(origin: Origin, field: str, what: str) -> str:
    """A field of a group, where it is written; what it says, if another object composes it from fields of its own."""
    if not origin.maker:
        return f"spec.{field}"
    return f"{origin.prefix}.{field} in {origin.maker}" if origin.prefix else f"{what} in {origin.maker}"
