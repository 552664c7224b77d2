"""Informers: a cache of one kind, filled by a list and kept current by a watch.

    Verbs.list ──► cache ──► handlers (old, new) ──► work queues, the scheduler's view
    Verbs.watch ─►   ▲
    own writes ──────┘  `observe`: the response to a write enters the cache at once, so that the writer does not
                        decide again on the old state

An older resourceVersion of an object never replaces a newer one.  Objects are shared with every reader; never
mutate them.  A handler or index that fails on an object does so alone: for it the object is set aside (`set_aside`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Any, Generic, TypeVar

from prometheus_client import CollectorRegistry

from ..api.errors import ApiError, said
from ..api.objects import meta
from ..api.objects.vocabulary import JOBSET_NAME
from ..api.scheme import Object, Resource
from ..api.verbs import ListOptions, Verbs, WatchOptions
from ..api.views.object_view import ObjectView
from ..base.clock import Clock
from .set_aside import SetAside

log = logging.getLogger(__name__)

#: Called with (old, new); old is None for an addition, new is None for a removal.
Handler = Callable[[Object | None, Object | None], None]
#: From an object to the index values under which it can be found.
Indexer = Callable[[Object], Iterable[str]]

_FIRST_RETRY_SECONDS = 0.2
_LACKING_RETRY_SECONDS = 60.0
_LAST_RETRY_SECONDS = 10.0


def revision(obj: Object) -> int:
    """The resourceVersion as a number."""
    return int(obj["metadata"].get("resourceVersion") or 0)


T = TypeVar("T")


class _Handlers(Generic[T]):
    """The handlers of one cache.  What one of them fails on does not exist for it until it changes."""

    def __init__(self, resource: Resource, set_aside: SetAside) -> None:
        self._resource = resource
        self._set_aside = set_aside
        #: Each handler with the name of its component and the keys that are set aside for it.
        self._entries: list[tuple[Callable[[T | None, T | None], None], str, set[str]]] = []

    def add(self, handler: Callable[[T | None, T | None], None], component: str, known: Mapping[str, T]) -> None:
        """Register a handler and deliver what is known; one that is registered gets it delivered again."""
        entry = next((entry for entry in self._entries if entry[0] == handler), None)
        if entry is None:
            entry = (handler, component, set())
            self._entries.append(entry)
        for key, one in list(known.items()):
            self._deliver(entry, key, None, one)

    def deliver(self, key: str, old: T | None, new: T | None) -> None:
        for entry in self._entries:
            handler, _, aside = entry
            if aside:
                self._deliver(entry, key, old, new)
                continue
            try:
                handler(old, new)
            except Exception as error:
                self._failed(entry, key, old, new, error)

    def _deliver(
        self, entry: tuple[Callable[[T | None, T | None], None], str, set[str]], key: str, old: T | None, new: T | None
    ) -> None:
        handler, _, aside = entry
        if key in aside:
            aside.discard(key)
            old = None
            if new is None:
                return
        try:
            handler(old, new)
        except Exception as error:
            self._failed(entry, key, old, new, error)

    def _failed(
        self,
        entry: tuple[Callable[[T | None, T | None], None], str, set[str]],
        key: str,
        old: T | None,
        new: T | None,
        error: Exception,
    ) -> None:
        handler, component, aside = entry
        seen = new if new is not None else old
        obj = seen.obj if isinstance(seen, ObjectView) else seen
        self._set_aside.report(component, error, self._resource, obj if isinstance(obj, dict) else None, key)
        if new is None:
            return
        aside.add(key)
        try:
            # Takes out what the handler has kept of it.
            handler(old if old is not None else new, None)
        except Exception as again:
            log.debug("%s: taking out %s: %r", component, key, again)


class Informer:
    """A live, indexed cache of one resource in all namespaces."""

    def __init__(self, verbs: Verbs, resource: Resource, clock: Clock, set_aside: SetAside | None = None) -> None:
        self.resource = resource
        self.set_aside = set_aside or SetAside(verbs, clock)
        self._verbs = verbs
        self._clock = clock
        self._objects: dict[str, Object] = {}
        self._indexers: dict[str, Indexer] = {}
        #: index name -> value -> keys, as an ordered set
        self._indexes: dict[str, dict[str, dict[str, None]]] = {}
        self._handlers: _Handlers[Object] = _Handlers(resource, self.set_aside)
        #: The newest revision that the watch has delivered; older objects are already in the cache.
        self._seen = 0
        #: Whether the watch has delivered anything since it last ended.
        self._delivered = False
        self._synced = asyncio.Event()
        #: A server may not serve the kind: then there are no objects, until it does.
        self.may_lack = False
        self._lacking = False

    # -- reading ---------------------------------------------------------------------------------------

    def get(self, key: str) -> Object | None:
        """The object called `namespace/name` (or `name`)."""
        return self._objects.get(key)

    def __len__(self) -> int:
        return len(self._objects)

    def all(self) -> list[Object]:
        return list(self._objects.values())

    def find(self, index: str, value: str) -> list[Object]:
        """Objects under an index value, by key."""
        return [self._objects[key] for key in self.find_keys(index, value)]

    def find_keys(self, index: str, value: str) -> list[str]:
        """Keys of the objects under an index value, in order."""
        return sorted(self._indexes[index].get(value, ()))

    @property
    def has_synced(self) -> bool:
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        await self._synced.wait()

    # -- setting up ------------------------------------------------------------------------------------

    def add_index(self, name: str, indexer: Indexer) -> None:
        """Make objects findable by `indexer`; adding the same name again keeps the first."""
        if name in self._indexers:
            return
        self._indexers[name] = indexer
        self._indexes[name] = {}
        for key, obj in self._objects.items():
            self._enter(name, indexer, key, obj)

    def add_handler(self, handler: Handler, component: str = "") -> None:
        """Call `handler` for every change; cached objects are delivered now as additions.

        Failures are reported under the name of the component.
        """
        self._handlers.add(handler, component or handler.__qualname__, self._objects)

    # -- feeding ---------------------------------------------------------------------------------------

    def observe(self, obj: Object) -> None:
        """Put the response to a write into the cache, unless the watch has already delivered something newer."""
        at = revision(obj)
        if at > self._seen:
            self._put(obj, at)

    async def run(self) -> None:
        """List, then watch, until cancelled; when the watch ends, resume from its last revision, or list again."""
        retry, expired = _FIRST_RETRY_SECONDS, False
        while True:
            try:
                if self._lacking or not self._synced.is_set():
                    await self._relist()
                await self._follow()
                failure: Exception | None = None
            except (ApiError, TimeoutError, OSError) as error:
                failure = error
            if self.may_lack and isinstance(failure, ApiError) and failure.code == 404:
                self._lacking = True
                self._synced.set()
                await self._clock.sleep(_LACKING_RETRY_SECONDS)
                continue
            if self._delivered:
                retry, expired, self._delivered = _FIRST_RETRY_SECONDS, False, False
            if isinstance(failure, ApiError) and failure.code == 410:
                self._synced.clear()
                if not expired:
                    # List again at once; if the server answers 410 again, back off.
                    expired = True
                    continue
            if failure is not None:
                log.warning("watching %s: %s", self.resource.qualified, said(failure))
            await self._clock.sleep(retry)
            retry = min(retry * 2, _LAST_RETRY_SECONDS)

    async def _relist(self) -> None:
        listed = await self._verbs.list(self.resource, options=ListOptions())
        at = int(listed.resource_version)
        fresh = {meta.key(obj): obj for obj in listed.items}
        for key, old in list(self._objects.items()):
            if key not in fresh and revision(old) <= at:
                self._remove(key)
        self._seen = max(self._seen, at)
        for obj in listed.items:
            self._put(obj, revision(obj))
        self._lacking = False
        self._synced.set()

    async def _follow(self) -> None:
        """Apply the events of a watch until it ends."""
        options = WatchOptions(resource_version=str(self._seen), allow_bookmarks=True)
        async with aclosing(self._verbs.watch(self.resource, options=options)) as events:
            async for event in events:
                obj = event.object
                at = revision(obj)
                if at > self._seen:
                    self._seen = at
                if event.type == "DELETED":
                    self._remove(meta.key(obj), obj)
                elif event.type != "BOOKMARK":
                    self._put(obj, at)
                self._delivered = True

    def _put(self, obj: Object, at: int) -> None:
        """Put an object of that revision into the cache and call the handlers."""
        key = meta.key(obj)
        old = self._objects.get(key)
        if old is not None and revision(old) >= at:
            return
        if self._indexers:
            self._reindex(key, old, obj)
        self._objects[key] = obj
        self._handlers.deliver(key, old, obj)

    def _remove(self, key: str, last: Object | None = None) -> None:
        old = self._objects.get(key)
        if old is None or (last is not None and revision(old) > revision(last)):
            return
        del self._objects[key]
        self._reindex(key, old, None)
        self._handlers.deliver(key, old, None)

    def _reindex(self, key: str, old: Object | None, new: Object | None) -> None:
        for name, indexer in self._indexers.items():
            if old is not None:
                index = self._indexes[name]
                for value in self._values(name, indexer, old):
                    keys = index.get(value)
                    if keys is not None:
                        keys.pop(key, None)
                        if not keys:
                            del index[value]
            if new is not None:
                self._enter(name, indexer, key, new)

    def _enter(self, name: str, indexer: Indexer, key: str, obj: Object) -> None:
        for value in self._values(name, indexer, obj, report=True):
            self._indexes[name].setdefault(value, {})[key] = None

    def _values(self, name: str, indexer: Indexer, obj: Object, *, report: bool = False) -> Iterable[str]:
        """The index values of an object; none if they cannot be read."""
        try:
            return tuple(indexer(obj))
        except Exception as error:
            if report:
                self.set_aside.report(f"index {name}", error, self.resource, obj)
            return ()


V = TypeVar("V", bound=ObjectView[Any, Any])


class ViewCache(Generic[V]):
    """The objects of one informer as typed views, each decoded once per version of the object."""

    def __init__(self, informer: Informer, view: type[V]) -> None:
        self._informer = informer
        self._view = view
        self._views: dict[str, V] = {}
        self._handlers: _Handlers[V] = _Handlers(informer.resource, informer.set_aside)
        informer.add_handler(self._changed, "views")

    def get(self, key: str) -> V | None:
        """The object called `namespace/name` (or `name`)."""
        return self._views.get(key)

    def all(self) -> list[V]:
        return list(self._views.values())

    def __len__(self) -> int:
        return len(self._views)

    def find(self, index: str, value: str) -> list[V]:
        """Objects under an index value, by key."""
        keys = self._informer.find_keys(index, value)
        return [view for view in map(self._views.get, keys) if view is not None]

    def add_handler(self, handler: Callable[[V | None, V | None], None], component: str = "") -> None:
        """Call `handler` for every change; cached objects are delivered now as additions."""
        self._handlers.add(handler, component or handler.__qualname__, self._views)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        current = new if new is not None else old
        assert current is not None
        key = meta.key(current)
        known = self._views.pop(key, None) if new is None else self._views.get(key)
        view: V | None = None
        if new is not None:
            view = self._views[key] = self._view(new)
        self._handlers.deliver(key, known, view)


class Caches:
    """The informers of one process: one per kind, shared by all components."""

    def __init__(self, verbs: Verbs, clock: Clock, registry: CollectorRegistry | None = None) -> None:
        self.verbs = verbs
        self.set_aside = SetAside(verbs, clock, registry)
        self._clock = clock
        self._informers: dict[Resource, Informer] = {}
        self._views: dict[type, ViewCache[Any]] = {}
        #: While running: what runs the informers, and the task of each.
        self._running: asyncio.TaskGroup | None = None
        self._tasks: dict[Resource, asyncio.Task[None]] = {}

    def of(self, resource: Resource, indexes: Mapping[str, Indexer] | None = None) -> Informer:
        """The informer of a kind, created on first use."""
        informer = self._informers.get(resource)
        if informer is None:
            informer = self._informers[resource] = Informer(self.verbs, resource, self._clock, self.set_aside)
            self._start(informer)
        for name, indexer in (indexes or {}).items():
            informer.add_index(name, indexer)
        return informer

    def drop(self, resource: Resource) -> None:
        """End the informer of a kind that is no longer served."""
        if self._informers.pop(resource, None) is not None and (task := self._tasks.pop(resource, None)):
            task.cancel()

    def _start(self, informer: Informer) -> None:
        if self._running is not None:
            name = f"informer-{informer.resource.plural}"
            self._tasks[informer.resource] = self._running.create_task(informer.run(), name=name)

    def views(
        self, view: type[V], indexes: Mapping[str, Indexer] | None = None, *, may_lack: bool = False
    ) -> ViewCache[V]:
        """The typed views of a kind, shared by all components; `may_lack`: a server without the kind will do."""
        informer = self.of(view.resource, indexes)
        informer.may_lack = informer.may_lack or may_lack
        if view not in self._views:
            self._views[view] = ViewCache(informer, view)
        return self._views[view]

    @property
    def resources(self) -> list[Resource]:
        """The kinds that have an informer."""
        return list(self._informers)

    def may_lack(self, resource: Resource) -> bool:
        """Whether a server that does not serve this kind will do."""
        return self._informers[resource].may_lack

    def observe(self, resource: Resource, obj: Object) -> None:
        """Put the response to a write into the cache of its kind, if there is one."""
        informer = self._informers.get(resource)
        if informer is not None:
            informer.observe(obj)

    @property
    def synced(self) -> bool:
        """Whether every informer has synced."""
        return all(informer.has_synced for informer in self._informers.values())

    def sizes(self) -> dict[str, int]:
        """How many objects of each kind are cached."""
        return {resource.qualified: len(informer) for resource, informer in self._informers.items()}

    async def wait_synced(self) -> None:
        for informer in list(self._informers.values()):
            await informer.wait_synced()

    async def run(self) -> None:
        """Run all informers until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.set_aside.run(), name="set-aside")
            self._running = group
            try:
                for informer in list(self._informers.values()):
                    self._start(informer)
                await asyncio.Event().wait()
            finally:
                self._running = None
                self._tasks.clear()


def by_namespace(obj: Object) -> Iterable[str]:
    return (meta.namespace(obj),)


def by_controller(obj: Object) -> Iterable[str]:
    """Index by the uid of the controlling owner."""
    owner = meta.controller_of(obj)
    return (str(owner["uid"]),) if owner else ()


def by_jobset(obj: Object) -> Iterable[str]:
    """The key of the JobSet that a pod or a claim was made for; a claim that is to outlive it has no owner."""
    name = meta.labels(obj).get(JOBSET_NAME)
    return (f"{meta.namespace(obj)}/{name}",) if name else ()
