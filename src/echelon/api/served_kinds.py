"""The kinds that a server serves now: those of `scheme`, and those that CustomResourceDefinitions add and remove.

Routes, discovery and OpenAPI look kinds up here.  The known kinds never change; `generation` grows with every change of
the custom ones, so that documents made from them can be kept until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .scheme import METRICS, RESOURCES, REVIEWS, Resource

_KNOWN = (*RESOURCES, *REVIEWS)
_KNOWN_PATHS = {(r.group, r.version, r.plural): r for r in _KNOWN}
_KNOWN_GROUP_VERSIONS = dict.fromkeys((r.group, r.version) for r in _KNOWN)


class ServedKinds:
    """A table of served kinds, shared by all parts of one server."""

    def __init__(self) -> None:
        self.generation = 0
        #: Custom kinds, each at every served version.
        self.custom: tuple[Resource, ...] = ()
        #: `METRICS`, if there is something to measure.
        self.measured: tuple[Resource, ...] = ()
        self._by_path = _KNOWN_PATHS
        self._group_versions = _KNOWN_GROUP_VERSIONS
        #: What to call when a kind is no longer served, by its path.
        self._endings: dict[tuple[str, str, str], list[Callable[[], None]]] = {}

    @property
    def stored(self) -> tuple[Resource, ...]:
        """Every stored kind at every served version, in discovery order."""
        return (*RESOURCES, *self.custom)

    @property
    def all(self) -> tuple[Resource, ...]:
        return (*RESOURCES, *REVIEWS, *self.custom)

    @property
    def group_versions(self) -> tuple[tuple[str, str], ...]:
        """Every served (group, version), in discovery order."""
        return tuple(self._group_versions)

    def has_group_version(self, group: str, version: str) -> bool:
        return (group, version) in self._group_versions

    def by_path(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource behind `/apis/{group}/{version}/{plural}` (group "" for core)."""
        return self._by_path.get((group, version, plural))

    def serve(self, custom: Iterable[Resource]) -> None:
        """Serve these custom kinds besides the known ones, and no others."""
        self.custom = tuple(custom)
        self._rebuild()
        for path in [path for path in self._endings if path not in self._by_path]:
            for end in self._endings.pop(path):
                end()

    def serve_metrics(self) -> None:
        """Serve measurements as well."""
        self.measured = METRICS
        self._rebuild()

    def _rebuild(self) -> None:
        added = (*self.custom, *self.measured)
        self._by_path = {(r.group, r.version, r.plural): r for r in (*added, *_KNOWN)}
        self._group_versions = {**_KNOWN_GROUP_VERSIONS, **dict.fromkeys((r.group, r.version) for r in added)}
        self.generation += 1

    def until_dropped(self, resource: Resource, end: Callable[[], None]) -> Callable[[], None]:
        """Call `end` once the kind is no longer served, unless the returned function is called before."""
        path = (resource.group, resource.version, resource.plural)
        if path not in self._by_path:
            end()
            return lambda: None
        self._endings.setdefault(path, []).append(end)

        def forget() -> None:
            waiting = self._endings.get(path, [])
            if end in waiting:
                waiting.remove(end)
            if not waiting:
                self._endings.pop(path, None)

        return forget
