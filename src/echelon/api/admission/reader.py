"""How admission looks at other objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ..scheme import Object, Resource


class Reader(Protocol):
    """A synchronous look at the current state."""

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        """That object, or None."""
        ...

    def list(self, resource: Resource, namespace: str = "") -> Iterable[Object]:
        """Every object of that kind, in one namespace or in all."""
        ...
