"""Documents that describe the served kinds, kept until a kind comes or goes: discovery and OpenAPI."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from ....api.scheme import Object
from ....api.served_kinds import ServedKinds
from . import discovery
from .openapi_documents import OpenApiDocuments

T = TypeVar("T")


class Documents:
    """The documents of one server."""

    def __init__(self, kinds: ServedKinds) -> None:
        self.kinds = kinds
        self.openapi = OpenApiDocuments(kinds)
        self._generation = -1
        self._kept: dict[Any, Any] = {}

    def aggregated(self, core: bool) -> tuple[bytes, str]:
        """The encoded list of groups, and its ETag."""
        return self._keep(("aggregated", core), lambda: _tagged(discovery.aggregated(self.kinds, core)))

    def group_list(self) -> Object:
        return self._keep("groups", lambda: discovery.group_list(self.kinds))

    def group(self, name: str) -> Object | None:
        return discovery.group(self.kinds, name)

    def resource_list(self, group: str, version: str) -> Object | None:
        if not self.kinds.has_group_version(group, version):
            return None
        return self._keep((group, version), lambda: discovery.resource_list(self.kinds, group, version))

    def group_paths(self) -> list[str]:
        """`/apis/{group}` and `/apis/{group}/{version}` of every group but the core."""
        found = []
        for group, versions in discovery.groups(self.kinds).items():
            if group:
                found += [f"/apis/{group}", *(f"/apis/{group}/{version}" for version in versions)]
        return found

    def _keep(self, key: Any, make: Callable[[], T]) -> T:
        if self._generation != self.kinds.generation:
            self._kept.clear()
            self._generation = self.kinds.generation
        if key not in self._kept:
            self._kept[key] = make()
        kept: T = self._kept[key]
        return kept


def _tagged(body: Object) -> tuple[bytes, str]:
    encoded = msgspec.json.encode(body)
    return encoded, f'"{hashlib.sha512(encoded).hexdigest().upper()}"'
