"""The one pipeline: `api.verbs.Verbs` over a store.

    Verbs call ─▶ decode → default → admit → validate ─▶ store ─▶ reply, watchers

The HTTP face and every component in the process call this class; there is no side door.  Each verb is a short file
beside this one.

Readers in the process share trees.  Whatever `get`, `list`, `watch` and the writing verbs return belongs to everybody:
copy before changing, never write into it.  What callers pass in is not kept and may be reused.
"""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing

from ..api.errors import ApiError
from ..api.scheme import Object, Resource
from ..api.verbs import (
    DeleteOptions,
    ListOptions,
    ObjectList,
    Patch,
    Subresource,
    WatchEvent,
    WatchOptions,
    WriteOptions,
)
from ..base.clock import Clock
from ..base.rng import Rng
from ..store.interface import Store
from . import binding, bootstrap, create, delete, eviction, patch, read, update, watch
from .access import Access
from .delete import Deletion
from .watch import Event, WatchPlan


class Pipeline:
    """The embedded API server without its HTTP face.

    Open the store with `trees.header_of`; call `bootstrap` once before serving.
    """

    def __init__(self, store: Store, clock: Clock, rng: Rng) -> None:
        self._access = Access(store, clock, rng)

    async def bootstrap(self, objects: Iterable[Object] = ()) -> None:
        """Create the first namespaces, priority classes and `objects` where they are missing."""
        await bootstrap.bootstrap(self._access, objects)

    @property
    def resource_version(self) -> str:
        """The newest durable version of anything."""
        return str(self._access.store.revision)

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        return read.get_object(self._access, resource, name, namespace)

    async def list(
        self, resource: Resource, namespace: str = "", options: ListOptions = ListOptions()
    ) -> ObjectList:
        return await read.list_objects(self._access, resource, namespace, options)

    def watch(
        self, resource: Resource, namespace: str = "", options: WatchOptions = WatchOptions()
    ) -> AsyncIterator[WatchEvent]:
        """One event at a time.  Bad options are refused by the call itself, 410 by the first step."""
        return self._one_by_one(self.events(resource, namespace, options))

    async def _one_by_one(self, batches: AsyncIterator[Sequence[Event]]) -> AsyncIterator[WatchEvent]:
        async with aclosing(batches) as closing:  # type: ignore[type-var]
            async for batch in closing:
                for event in batch:
                    yield WatchEvent(event.type, event.object)

    def events(
        self, resource: Resource, namespace: str = "", options: WatchOptions = WatchOptions()
    ) -> AsyncIterator[Sequence[Event]]:
        """The same as `watch` in batches, for the HTTP face: `Event.json` are the bytes to send, mostly as stored.

        Bad options are refused by the call itself (answer with that Status); `ApiError` 410 comes from the iteration
        (send it as an ERROR event).  Without `timeout_seconds` the stream never ends by itself: the face chooses one.
        Close the iterator (`aclosing`) when the client goes.
        """
        return watch.events(self._access, WatchPlan.parse(resource, namespace, options))

    async def create(
        self, resource: Resource, obj: Object, namespace: str = "", options: WriteOptions = WriteOptions()
    ) -> Object:
        return await create.create(self._access, resource, obj, namespace, options)

    async def update(
        self,
        resource: Resource,
        obj: Object,
        namespace: str = "",
        subresource: Subresource = "",
        options: WriteOptions = WriteOptions(),
    ) -> Object:
        _must_have(resource, subresource)
        return await update.update(self._access, resource, obj, namespace, subresource, options)

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch_: Patch,
        namespace: str = "",
        subresource: Subresource = "",
        options: WriteOptions = WriteOptions(),
    ) -> Object:
        _must_have(resource, subresource)
        return await patch.patch(self._access, resource, name, patch_, namespace, subresource, options)

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", options: DeleteOptions = DeleteOptions()
    ) -> Object:
        return (await self.delete_outcome(resource, name, namespace, options)).object

    async def delete_outcome(
        self, resource: Resource, name: str, namespace: str = "", options: DeleteOptions = DeleteOptions()
    ) -> Deletion:
        """`delete` that also says whether the object is gone, on which the HTTP face's answer depends."""
        return await delete.delete(self._access, resource, name, namespace, options)

    async def delete_collection(
        self,
        resource: Resource,
        namespace: str = "",
        selection: ListOptions = ListOptions(),
        options: DeleteOptions = DeleteOptions(),
    ) -> builtins.list[Object]:
        """Delete what the selection lists, one by one; returns what was there."""
        listed = await self.list(resource, namespace, selection)
        for obj in listed.items:
            metadata = obj["metadata"]
            try:
                await self.delete(resource, metadata["name"], metadata.get("namespace", ""), options)
            except ApiError as error:
                if error.code != 404:
                    raise
        return listed.items

    async def bind(
        self,
        namespace: str,
        pod: str,
        node: str,
        *,
        uid: str = "",
        options: WriteOptions = WriteOptions(),
        resource_version: str = "",
        annotations: Mapping[str, str] = {},
        labels: Mapping[str, str] = {},
    ) -> None:
        """Put a pod on a node; `annotations` and `labels` of the Binding go onto the pod."""
        await binding.bind(
            self._access,
            namespace,
            pod,
            node,
            uid=uid,
            resource_version=resource_version,
            annotations=annotations,
            labels=labels,
            dry_run=options.dry_run,
        )

    async def evict(self, namespace: str, pod: str, options: DeleteOptions = DeleteOptions()) -> None:
        await eviction.evict(self._access, namespace, pod, options)


def _must_have(resource: Resource, subresource: Subresource) -> None:
    if subresource == "status" and not resource.has_status:
        raise ApiError(404, "NotFound", "the server could not find the requested resource")
