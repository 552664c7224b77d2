"""What a kind may bring beyond its schema: the record that `rules` dispatches to.

Everything common to all kinds (metadata, status isolation) is done by the dispatcher, so a kind without
peculiarities brings nothing.  `validate_update` and `validate_status` see the object after preparation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..errors import FieldError
from ..scheme import Object

#: Metadata fields that `/status` lets through.
EVERYTHING = ("labels", "annotations", "finalizers", "ownerReferences")
NOTHING: tuple[str, ...] = ()


def _no_change(obj: Object, old: Object | None) -> None:
    """Nothing is defaulted in code."""


def _no_status(obj: Object, now: float) -> None:
    """A new object starts without a status, or with an empty one."""


def _no_upkeep(new: Object, old: Object, now: float) -> None:
    """Nothing else is owned by the server."""


def _no_status_upkeep(new: Object, old: Object) -> None:
    """A status is kept as it was sent."""


def _no_errors(obj: Object) -> list[FieldError]:
    return []


def _no_update_errors(new: Object, old: Object) -> list[FieldError]:
    return []


def _no_warnings(obj: Object) -> list[str]:
    return []


@dataclass(frozen=True)
class KindRules:
    """The rules of one kind; the defaults are those of a kind that has none."""

    #: Defaults that depend on other fields, in place, after the schema's.
    default: Callable[[Object, Object | None], None] = _no_change
    #: What a new object starts with: a status, times.
    start: Callable[[Object, float], None] = _no_status
    #: Server-owned parts of an update on the main endpoint (new, old, now).
    keep: Callable[[Object, Object, float], None] = _no_upkeep
    #: Server-owned parts of a write on `/status` (new, old).
    keep_status: Callable[[Object, Object], None] = _no_status_upkeep
    validate_create: Callable[[Object], list[FieldError]] = _no_errors
    validate_update: Callable[[Object, Object], list[FieldError]] = _no_update_errors
    validate_status: Callable[[Object, Object], list[FieldError]] = _no_update_errors
    warnings: Callable[[Object], list[str]] = _no_warnings
    #: Which metadata a write on `/status` may change.
    status_metadata: tuple[str, ...] = EVERYTHING
    #: Whether a status sent on create is kept (nodes register with one).
    keeps_status_on_create: bool = False
