"""All cases, in the order of the table."""

from __future__ import annotations

from . import blocked, gangs, preemption, tight

CASES = (*gangs.CASES, *tight.CASES, *blocked.CASES, *preemption.CASES)
