"""The read access of admission to other objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ..scheme import Object, Resource


class Reader(Protocol):
    """Synchronous reads of the current state."""

    @property
    def disabled_features(self) -> frozenset[str]:
        """Features that the plane has switched off."""
        ...

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        """The object, or None."""
        ...

    def changes(self, resource: Resource) -> int:
        """A number that is another one after every change of an object of a kind: for what is kept of them."""
        ...

    def list(self, resource: Resource, namespace: str = "") -> Iterable[Object]:
        """All objects of a kind, in one namespace or in all."""
        ...
