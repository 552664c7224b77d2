"""`Pipeline`: the implementation of `api.verbs.Verbs` over a store, and of `encoded.EncodedVerbs` for HTTP.

    Verbs call ─▶ decode → default → admit → validate ─▶ store ─▶ reply, watchers

The HTTP server and every component of the process use this class; nothing else writes to the store.  Each verb is a
file in `verbs`.

Returned objects are shared by all readers of the process: copy before changing.  Objects passed in are not kept and may
be reused.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing

from ..api.admission.reader import Reader
from ..api.errors import ApiError, method_not_supported
from ..api.scheme import CUSTOM_RESOURCE_DEFINITIONS, Object, Resource
from ..api.served_kinds import ServedKinds
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
from . import event_expiry, part_sharing, quota_status
from .custom_resources import CustomResources
from .objects.encoded import EncodedEvent, EncodedList
from .objects.stored_objects import Access
from .setup import bootstrap, own_service
from .verbs import binding, create, delete, delete_collection, eviction, read, scale_writes, update, watch
from .verbs import patch as patching
from .verbs.watch import WatchPlan


class Pipeline:
    """The embedded API server without HTTP.

    Open the store with `object_cache.header_of`; call `bootstrap` once before serving.  Without `job_workloads` new
    Jobs lose `spec.scheduling`; `disabled_features` of `feature_gates` are refused.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        rng: Rng,
        *,
        job_workloads: bool = True,
        disabled_features: frozenset[str] = frozenset(),
    ) -> None:
        #: The kinds that are served: the known ones, and those of CustomResourceDefinitions.
        self.kinds = ServedKinds()
        self._access = Access(
            store, clock, rng, self.kinds, job_workloads=job_workloads, disabled_features=disabled_features
        )
        self._custom = CustomResources(self._access, self.kinds)

    async def bootstrap(self, objects: Iterable[Object] = ()) -> None:
        """Create the first namespaces, priority classes and `objects` where they are missing."""
        await bootstrap.bootstrap(self._access, objects)
        await self._custom.settle()

    async def publish(self, address: str, port: int) -> None:
        """Say in the Service `default/kubernetes` where the server listens."""
        await own_service.publish(self._access, address, port)

    async def run(self) -> None:
        """Background work of the server, until cancelled.

        Deletes old events, and objects whose kind is deleted; keeps the status of quotas; shares parts of objects.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(event_expiry.expire_events(self._access))
            group.create_task(quota_status.keep_quota_status(self._access))
            group.create_task(part_sharing.share_written_parts(self._access))
            group.create_task(self._custom.run())

    @property
    def reader(self) -> Reader:
        """Synchronous reads of the current state, for authentication and authorization."""
        return self._access

    @property
    def failure(self) -> str:
        """Why the store accepts no writes; "" if it does."""
        return self._access.store.failure

    @property
    def resource_version(self) -> str:
        """The newest durable resourceVersion."""
        return str(self._access.store.revision)

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        return read.get_object(self._access, resource, name, namespace)

    async def list(self, resource: Resource, namespace: str = "", options: ListOptions = ListOptions()) -> ObjectList:
        return await read.list_objects(self._access, resource, namespace, options)

    def watch(
        self, resource: Resource, namespace: str = "", options: WatchOptions = WatchOptions()
    ) -> AsyncGenerator[WatchEvent, None]:
        """Errors in options are raised by the call, 410 by the iteration.

        Without `timeout_seconds` the stream does not end by itself.  Close it (`aclosing`) when it is no longer read.
        """
        return self._one_by_one(WatchPlan.parse(resource, namespace, options))

    async def _one_by_one(self, plan: WatchPlan) -> AsyncGenerator[WatchEvent, None]:
        async with aclosing(watch.events(self._access, plan)) as batches:
            async for batch in batches:
                for event in batch:
                    yield watch.decoded(self._access, plan.resource, event)

    async def get_encoded(self, resource: Resource, name: str, namespace: str = "") -> bytes:
        return read.get_encoded(self._access, resource, name, namespace)

    async def list_encoded(
        self, resource: Resource, namespace: str = "", options: ListOptions = ListOptions()
    ) -> EncodedList:
        return await read.list_encoded(self._access, resource, namespace, options)

    def watch_encoded(
        self, resource: Resource, namespace: str = "", options: WatchOptions = WatchOptions()
    ) -> AsyncGenerator[Sequence[EncodedEvent], None]:
        return watch.events(self._access, WatchPlan.parse(resource, namespace, options))

    async def delete_collection(
        self, resource: Resource, namespace: str, which: ListOptions, options: DeleteOptions
    ) -> EncodedList:
        deleted = await delete_collection.delete_collection(self._access, resource, namespace, which, options)
        if resource is CUSTOM_RESOURCE_DEFINITIONS and not options.dry_run:
            await self._custom.settle()
        return deleted

    async def create(
        self, resource: Resource, obj: Object, namespace: str = "", options: WriteOptions = WriteOptions()
    ) -> Object:
        self._must_be_served(resource)
        return await self._settled(
            resource, await create.create(self._access, resource, obj, namespace, options), options
        )

    async def update(
        self,
        resource: Resource,
        obj: Object,
        namespace: str = "",
        subresource: Subresource = "",
        options: WriteOptions = WriteOptions(),
    ) -> Object:
        _must_have(resource, subresource)
        if subresource == "scale":
            return await scale_writes.update_scale(self._access, resource, obj, namespace, options)
        updated = await update.update(self._access, resource, obj, namespace, subresource, options)
        return await self._settled(resource, updated, options)

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Patch,
        namespace: str = "",
        subresource: Subresource = "",
        options: WriteOptions = WriteOptions(),
    ) -> Object:
        _must_have(resource, subresource)
        if subresource == "scale":
            return await scale_writes.patch_scale(self._access, resource, name, patch, namespace, options)
        patched = await patching.patch(self._access, resource, name, patch, namespace, subresource, options)
        return await self._settled(resource, patched, options)

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", options: DeleteOptions = DeleteOptions()
    ) -> Object:
        deleted = await delete.delete(self._access, resource, name, namespace, options)
        if resource is CUSTOM_RESOURCE_DEFINITIONS and not options.dry_run:
            return await self._custom.current(deleted)
        return deleted

    async def _settled(self, resource: Resource, written: Object, options: WriteOptions) -> Object:
        """What was written; of a CustomResourceDefinition after its kinds are served."""
        if resource is CUSTOM_RESOURCE_DEFINITIONS and not options.dry_run:
            return await self._custom.current(written)
        return written

    def _must_be_served(self, resource: Resource) -> None:
        """405 for a new object of a custom kind that is being deleted, 404 if the kind is gone."""
        if resource.custom is None:
            return
        served = self.kinds.by_path(resource.group, resource.version, resource.plural)
        if served is None or served.custom is None:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        if served.custom.ending:
            raise method_not_supported(resource, "create not allowed while custom resource definition is terminating")

    async def bind(
        self,
        namespace: str,
        pod: str,
        node: str,
        *,
        uid: str = "",
        annotations: Mapping[str, str] | None = None,
        options: WriteOptions = WriteOptions(),
    ) -> None:
        await binding.bind(self._access, namespace, pod, node, uid, annotations or {}, dry_run=options.dry_run)

    async def evict(self, namespace: str, pod: str, options: DeleteOptions = DeleteOptions()) -> None:
        await eviction.evict(self._access, namespace, pod, options)


def _must_have(resource: Resource, subresource: Subresource) -> None:
    if (subresource == "status" and not resource.has_status) or (subresource == "scale" and resource.scale is None):
        raise ApiError(404, "NotFound", "the server could not find the requested resource")
