"""Judges histories of operations on one key: is there an order of them that a single copy could have given?

An operation takes effect at one moment between its call and its answer.  The search is Wing and Gong's: take any
operation that no other one had ended before, apply it to the model, go on with the rest; remember the combinations of
operations done and state that led nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Kind = Literal["create", "update", "apply", "delete", "get"]
Outcome = Literal["ok", "exists", "missing", "conflict"]


@dataclass(frozen=True)
class Operation:
    """One call and its answer; `called` and `answered` are positions in the order of all calls and answers."""

    kind: Kind
    called: int
    answered: int
    outcome: Outcome
    #: What was written, or what a get has seen.
    value: str = ""
    #: The revision that a conditional write named; 0: any.
    expect: int = 0
    #: The revision of the answer; 0 for deletions.
    revision: int = 0


class Register(NamedTuple):
    """The model: the value of the key, None if it is absent, and the revision of its last change."""

    value: str | None
    revision: int

    def after(self, done: Operation) -> Register | None:
        """The state after an operation, None if it cannot have been answered so in this state."""
        absent = self.value is None
        matches = done.expect in (0, self.revision)
        if done.outcome == "exists":
            return self if done.kind == "create" and not absent else None
        if done.outcome == "missing":
            return self if done.kind in ("update", "delete", "get") and absent else None
        if done.outcome == "conflict":
            return self if not absent and not matches else None
        if done.kind == "get":
            return self if (done.value, done.revision) == (self.value, self.revision) else None
        legal = {"create": absent, "update": not absent and matches, "apply": True, "delete": not absent and matches}
        if done.kind == "delete":
            return Register(None, self.revision) if legal[done.kind] else None
        return Register(done.value, done.revision) if legal[done.kind] and done.revision > self.revision else None


def linearizable(history: Sequence[Operation]) -> bool:
    """Whether some legal order of the operations respects their calls and answers."""
    everything = (1 << len(history)) - 1
    hopeless: set[tuple[int, Register]] = set()
    paths = [(0, Register(None, 0))]
    while paths:
        here = paths.pop()
        if here in hopeless:
            continue
        hopeless.add(here)
        done, state = here
        if done == everything:
            return True
        left = [number for number in range(len(history)) if not done >> number & 1]
        first_answer = min(history[number].answered for number in left)
        for number in left:
            if history[number].called < first_answer:
                state_after = state.after(history[number])
                if state_after is not None:
                    paths.append((done | 1 << number, state_after))
    return False
