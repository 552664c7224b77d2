"""How people touch the cluster: the API itself, without faults, and a draw of what to touch."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

from echelon.api.objects import meta
from echelon.api.scheme import Object, Resource, by_kind
from echelon.api.verbs import Patch, PatchType
from echelon.testing.virtual_plane import VirtualPlane

from .manifests import NAMESPACE, Maker

#: Something that can happen: what it was, or "" if there was nothing to do it to.
Event = Callable[[], Awaitable[str]]

_OVER = ("Complete", "Failed", "Completed")


class ApiAccess:
    """What every event needs."""

    def __init__(self, plane: VirtualPlane, maker: Maker) -> None:
        self.verbs = plane.verbs
        self.clock = plane.clock
        self.maker = maker

    async def create(self, obj: Object) -> None:
        resource = by_kind(obj["apiVersion"], obj["kind"])
        assert resource is not None
        await self.verbs.create(resource, obj, meta.namespace(obj))

    async def all(self, resource: Resource) -> list[Object]:
        return (await self.verbs.list(resource, NAMESPACE if resource.namespaced else "")).items

    async def patch(self, resource: Resource, obj: Object, body: Object, *, status: bool = False) -> None:
        patch = Patch(PatchType.MERGE, body)
        await self.verbs.patch(resource, meta.name(obj), patch, meta.namespace(obj), "status" if status else "")

    def pick_live(self, objects: Collection[Object], *, owned: bool = True) -> Object | None:
        """One that is neither over nor on its way out."""
        live = [
            one
            for one in objects
            if not meta.deleting(one)
            and (owned or meta.controller_of(one) is None)
            and not any(meta.condition_is(one, done) for done in _OVER)
        ]
        return self.maker.pick(live) if live else None
