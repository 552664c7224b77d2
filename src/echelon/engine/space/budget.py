"""The step budget of a decision, and the one way to lend a part of it.

Work is counted in steps instead of seconds, so the same question gets the same answer on every machine.  Every
search, packing and model takes a `Steps` and counts it down.  A trial that may only use a share borrows it:

    with steps.lend(steps.left // 4) as share:
        outcome = search(view, part, region, share)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

#: A share of a budget is at least this, as far as that much is left.
LEAST_SHARE = 200


class BudgetEnded(Exception):
    """The steps of a trial are used up before it has an answer."""


@dataclass(slots=True)
class Steps:
    """Steps that are left; 0 or less ends whatever counts them."""

    left: int

    def share(self, divisor: int) -> int:
        """A fraction of what is left, but enough to try once."""
        return min(self.left, max(LEAST_SHARE, self.left // divisor))

    @contextmanager
    def lend(self, most: int, least: int = 0) -> Iterator[Steps]:
        """Lend `most` steps or what is left of them, and `least` in any case; what is not used comes back.

        What the borrower uses beyond its share, since the last step may be a large one, is not charged.
        """
        borrowed = Steps(max(least, min(most, self.left)))
        self.left -= borrowed.left
        try:
            yield borrowed
        finally:
            self.left += max(0, borrowed.left)
