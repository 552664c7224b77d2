"""`KindRules`: the hooks of a kind that `rules` calls.

Everything common to all kinds (metadata, status isolation) is done by the dispatcher, so a kind without
peculiarities brings nothing.  `validate_update` and `validate_status` see the object after preparation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..errors import FieldError
from ..scheme import Object

#: Metadata fields that a write to `/status` may change.
EVERYTHING = ("labels", "annotations", "finalizers", "ownerReferences")
NOTHING: tuple[str, ...] = ()


def _no_change(obj: Object, old: Object | None) -> None:
    """No defaults."""


def _no_status(obj: Object, now: float) -> None:
    """No initial status."""


def _no_upkeep(new: Object, old: Object, now: float) -> None:
    """No further server-owned fields."""


def _no_status_upkeep(new: Object, old: Object) -> None:
    """The status is stored as sent."""


def _no_errors(obj: Object) -> list[FieldError]:
    return []


def _no_update_errors(new: Object, old: Object) -> list[FieldError]:
    return []


def _no_warnings(obj: Object) -> list[str]:
    return []


@dataclass(frozen=True)
class KindRules:
    """The hooks of one kind; the defaults do nothing."""

    #: Sets defaults that depend on other fields, in place, after those of the schema.
    default: Callable[[Object, Object | None], None] = _no_change
    #: Sets the initial status and times of a new object.
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
