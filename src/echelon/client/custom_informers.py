"""Informers of custom kinds: one for every kind that a CustomResourceDefinition defines, as long as it does."""

from __future__ import annotations

from collections.abc import Callable

from ..api.custom.defined_kinds import ESTABLISHED, kinds_of
from ..api.objects import meta
from ..api.scheme import CUSTOM_RESOURCE_DEFINITIONS, Object, Resource
from .informer import Caches

#: Called with a kind, and with whether it is defined now.
Follower = Callable[[Resource, bool], None]


class CustomInformers:
    """The custom kinds of a server, each in one of its versions."""

    def __init__(self, caches: Caches) -> None:
        self._caches = caches
        self._kinds: dict[str, Resource] = {}
        self._followers: list[Follower] = []
        caches.of(CUSTOM_RESOURCE_DEFINITIONS).add_handler(self._changed, "custom-kinds")

    def follow(self, follower: Follower) -> None:
        """Call `follower` for every kind that is defined, now and later, and when it is no longer."""
        self._followers.append(follower)
        for kind in self._kinds.values():
            follower(kind, True)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        name = meta.name(new or old or {"metadata": {}})
        had, has = self._kinds.get(name), _stored_kind(new)
        if had == has:
            return
        if had is not None:
            del self._kinds[name]
            self._tell(had, False)
            self._caches.drop(had)
        if has is not None:
            self._kinds[name] = has
            self._tell(has, True)

    def _tell(self, kind: Resource, defined: bool) -> None:
        for follower in self._followers:
            follower(kind, defined)


def _stored_kind(definition: Object | None) -> Resource | None:
    """The kind of an established definition, in the version that is stored if that is served."""
    if definition is None or not meta.condition_is(definition, ESTABLISHED):
        return None
    kinds = kinds_of(definition, 0)
    return next((one for one in kinds if one.api_version == one.storage_api_version), kinds[0] if kinds else None)
