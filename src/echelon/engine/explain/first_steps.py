"""What to change first where no single change lets a blocked demand fit, in words.

A fix is a change that was tried and works.  What is told here is needed, but not enough.
"""

from __future__ import annotations

from ...base.quantity import spelt
from ..records.reasons import TooLarge
from ..records.verdict import Blocked, Shortage
from .fix_words import MIN_COUNT, TOPOLOGY


def first_step(verdict: Blocked, reader: int) -> str:
    """What the group `reader` needs first, or the demand if that group fits; "" if there are fixes."""
    if verdict.fixes:
        return ""
    failing = [shortage for shortage in verdict.shortages if shortage.fails] or list(verdict.shortages[:1])
    own = next((shortage for shortage in failing if shortage.group == reader and not shortage.of_groups), failing[0])
    return f"no single change helps, first {_step(own)}"


def _step(short: Shortage) -> str:
    match short.contradiction:
        case TooLarge(resource, amount, most):
            lower = f"lower the request for {resource} to {spelt(resource, most)}, or " if most else ""
            return f"{lower}add nodes with {spelt(resource, amount)} {resource}"
        case None:
            pass
        case _:
            return "change one of these fields"
    if not short.domains_tried and not short.held_on:
        return f"label nodes with {short.key}, or remove spec.{TOPOLOGY}"
    if short.held_on:
        return "delete its bound pods"
    return f"add or free nodes, lower spec.{MIN_COUNT}, or wait for running pods to end"
