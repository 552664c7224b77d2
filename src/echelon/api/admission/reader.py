"""The read access of admission to other objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ..scheme import Object, Resource


class Reader(Protocol):
    """Synchronous reads of the current state."""

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        """The object, or None."""
        ...

    def list(self, resource: Resource, namespace: str = "") -> Iterable[Object]:
        """All objects of a kind, in one namespace or in all."""
        ...
