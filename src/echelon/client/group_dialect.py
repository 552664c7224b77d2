"""Groups of pods on servers that do not have them, or not all of them: `Verbs` that translate where it is needed.

    scheduler, controllers ─► GroupDialect ─► HttpVerbs ─► kube-apiserver
       native groups            groups and their owners ⇄ scheduling.echelon.dev
                                pods, Jobs, JobSets     → the label echelon.dev/pod-group

Where a server serves some native kinds, or began to while groups of our own exist, both are read as one kind; new ones
are made in one form.  Names are expected to be unique over both; a native group hides one of ours of the same name.
A server with all native kinds is used without this.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from ..api.admission import priority
from ..api.errors import ApiError
from ..api.group_kinds import (
    GroupForms,
    event_about_own,
    labelled,
    labelled_job,
    labelled_jobset,
    to_native,
    to_own,
    unlabelled_jobset,
    with_own_owners,
)
from ..api.objects import meta
from ..api.patching import apply_patch
from ..api.scheme import (
    EVENTS,
    JOB_SETS,
    JOBS,
    OWN_GROUP_KINDS,
    PODS,
    PRIORITY_CLASSES,
    WORKLOADS,
    Object,
    Resource,
)
from ..api.verbs import (
    DeleteOptions,
    ListOptions,
    ObjectList,
    Patch,
    PatchType,
    Subresource,
    Verbs,
    WatchEvent,
    WatchOptions,
    WriteOptions,
)

#: How often a change is made anew on what somebody else has written meanwhile.
_TRIES = 10
#: How long priority classes that were listed are used; values of classes never change, and admission of a real server
#: knows a new default class only after a moment too.
_CLASSES_SECONDS = 5.0
#: A watch that ended without an error is opened again after the first time; after more, if it said nothing meanwhile.
_FIRST_REOPEN_SECONDS = 0.2
_LAST_REOPEN_SECONDS = 10.0
_OWN_KINDS = frozenset(OWN_GROUP_KINDS.values())
_NATIVE_OF = {own: native for native, own in OWN_GROUP_KINDS.items()}


class GroupDialect(Verbs):
    """`verbs` of a server that holds groups in these forms."""

    def __init__(
        self, verbs: Verbs, forms: GroupForms, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._verbs = verbs
        self._forms = forms
        self._sleep = sleep
        self._labels = forms.makes_own
        self._mixed = any(len(held) > 1 for held in forms.of.values())
        #: Where the objects of a kind that is held twice are: resource → key → uid.
        self._known: dict[Resource, dict[str, str]] = {one: {} for held in forms.of.values() for one in held}
        #: How far a kind that is held twice has been read by whoever reads all of it.
        self._read_until: dict[Resource, str] = {}
        #: What is known of objects in our own form: kind → uid → priority and preemption policy of a group that was
        #: made without, else nothing.
        self._own: dict[Resource, dict[str, Object]] = {one: {} for one in _OWN_KINDS}
        self._classes = _Classes()

    def through(self, verbs: Verbs) -> GroupDialect:
        """The same over another client of the same server; what one learns, both know."""
        other = GroupDialect(verbs, self._forms, self._sleep)
        other._known, other._own = self._known, self._own
        other._read_until, other._classes = self._read_until, self._classes
        return other

    # -- reading ---------------------------------------------------------------------------------------

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        if resource in self._forms.of:
            return await self._at_home(resource, name, namespace, lambda held: self._get(held, name, namespace))
        return self._read(resource, await self._verbs.get(resource, name, namespace))

    def _read(self, resource: Resource, obj: Object) -> Object:
        """An object that is no group, as all code knows it."""
        return unlabelled_jobset(obj) if self._labels and resource is JOB_SETS else obj

    async def _get(self, held: Resource, name: str, namespace: str) -> Object:
        return await self._came(held, await self._verbs.get(held, name, namespace))

    async def list(self, resource: Resource, namespace: str = "", options: ListOptions = ListOptions()) -> ObjectList:
        held = self._forms.of.get(resource)
        if held is None:
            found = await self._verbs.list(resource, namespace, options)
            if self._labels and resource is JOB_SETS:
                return _with_items(found, [unlabelled_jobset(one) for one in found.items])
            return found
        if len(held) == 1:
            return await self._list(held[0], namespace, options)
        unpaged = ListOptions(options.label_selector, options.field_selector)
        lists = {one: await self._list(one, namespace, unpaged) for one in held}
        if _is_whole(namespace, options):
            for one, found in lists.items():
                self._read_until[one] = found.resource_version
                self._known[one] = {meta.key(obj): meta.uid(obj) for obj in found.items}
        hidden = {meta.key(obj) for obj in lists[resource].items} if resource in lists else set()
        items = [
            obj for one, found in lists.items() for obj in found.items if one is resource or meta.key(obj) not in hidden
        ]
        # What is said to be read is what both have read; all that is newer is heard again, and known by its version.
        return ObjectList(items, min((found.resource_version for found in lists.values()), key=int))

    async def _list(self, held: Resource, namespace: str, options: ListOptions) -> ObjectList:
        own = self._own.get(held, {})
        before = list(own)
        found = await self._verbs.list(held, namespace, options)
        if _is_whole(namespace, options) and not options.continue_token and not found.continue_token:
            # What was known before and is not listed went while nobody watched.
            listed = {meta.uid(obj) for obj in found.items}
            for uid in before:
                if uid not in listed:
                    own.pop(uid, None)
        return _with_items(found, await self._arrived(held, found.items))

    def watch(
        self, resource: Resource, namespace: str = "", options: WatchOptions = WatchOptions()
    ) -> AsyncGenerator[WatchEvent, None]:
        held = self._forms.of.get(resource)
        if held is None:
            plain = self._verbs.watch(resource, namespace, options)
            return _jobset_events(plain) if self._labels and resource is JOB_SETS else plain
        if len(held) == 1:
            return self._watch(held[0], namespace, options)
        return self._watch_both(resource, held, namespace, options)

    async def _watch(self, held: Resource, namespace: str, options: WatchOptions) -> AsyncGenerator[WatchEvent, None]:
        async with aclosing(self._verbs.watch(held, namespace, options)) as events:
            async for event in events:
                yield WatchEvent(event.type, await self._came(held, event.object, event.type))

    async def _watch_both(
        self, resource: Resource, held: Sequence[Resource], namespace: str, options: WatchOptions
    ) -> AsyncGenerator[WatchEvent, None]:
        """The events of several kinds as they come; each is followed from where it was read, whatever ends."""
        queue: asyncio.Queue[tuple[Resource, WatchEvent | Exception]] = asyncio.Queue()
        whole = _is_whole(namespace, options)

        async def follow(one: Resource) -> None:
            position = options.resource_version
            if whole and position:
                position = self._read_until.get(one, position)
            wait = _FIRST_REOPEN_SECONDS
            while True:
                chosen = WatchOptions(options.label_selector, options.field_selector, position, allow_bookmarks=True)
                try:
                    async with aclosing(self._watch(one, namespace, chosen)) as events:
                        async for event in events:
                            queue.put_nowait((one, event))
                            position = event.object["metadata"]["resourceVersion"]
                            wait = _FIRST_REOPEN_SECONDS
                except Exception as error:
                    queue.put_nowait((one, error))
                    return
                await self._sleep(wait)
                wait = min(wait * 2, _LAST_REOPEN_SECONDS)

        tasks = [asyncio.create_task(follow(one), name=f"watch-{one.qualified}") for one in held]
        try:
            while True:
                one, found = await queue.get()
                if isinstance(found, Exception):
                    raise found  # what comes after it in line is heard again
                if whole:
                    self._read_until[one] = found.object["metadata"]["resourceVersion"]
                if found.type == "BOOKMARK" or not self._is_seen(resource, one, found):
                    continue
                yield found
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _is_seen(self, resource: Resource, held: Resource, event: WatchEvent) -> bool:
        """Keep track of what is where; False for an event about one of our own that a native group hides."""
        key, known = meta.key(event.object), self._known[held]
        if event.type == "DELETED":
            known.pop(key, None)
        else:
            known[key] = meta.uid(event.object)
        return held is resource or key not in self._known[resource]

    # -- writing ---------------------------------------------------------------------------------------

    async def create(
        self, resource: Resource, obj: Object, namespace: str = "", options: WriteOptions = WriteOptions()
    ) -> Object:
        held = self._forms.of.get(resource)
        sent = self._outgoing(resource, obj)
        if held is None:
            return self._read(resource, await self._verbs.create(resource, sent, namespace, options))
        target = held[0]
        if target in _OWN_KINDS:
            sent = to_own(await self._with_priority(resource, sent))
        made = await self._verbs.create(target, sent, namespace, options)
        if self._mixed and not options.dry_run:
            self._known[target][meta.key(made)] = meta.uid(made)
        return await self._came(target, made)

    async def update(
        self,
        resource: Resource,
        obj: Object,
        namespace: str = "",
        subresource: Subresource = "",
        options: WriteOptions = WriteOptions(),
    ) -> Object:
        sent = self._outgoing(resource, obj)
        if resource not in self._forms.of:
            return self._read(resource, await self._verbs.update(resource, sent, namespace, subresource, options))

        async def send(held: Resource) -> Object:
            form = to_own(sent) if held in _OWN_KINDS else sent
            return await self._came(held, await self._verbs.update(held, form, namespace, subresource, options))

        return await self._at_home(resource, meta.name(obj), namespace, send)

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Patch,
        namespace: str = "",
        subresource: Subresource = "",
        options: WriteOptions = WriteOptions(),
    ) -> Object:
        body = patch.body
        if isinstance(body, dict):
            changed = self._outgoing(resource, body)
            patch = patch if changed is body else Patch(patch.type, changed)
        if resource not in self._forms.of:
            return self._read(resource, await self._verbs.patch(resource, name, patch, namespace, subresource, options))

        async def send(held: Resource) -> Object:
            if held in _OWN_KINDS and patch.type is PatchType.STRATEGIC:
                return await self._merge(resource, held, name, patch, namespace, subresource, options)
            return await self._came(held, await self._verbs.patch(held, name, patch, namespace, subresource, options))

        return await self._at_home(resource, name, namespace, send)

    async def _merge(
        self,
        resource: Resource,
        held: Resource,
        name: str,
        patch: Patch,
        namespace: str,
        subresource: Subresource,
        options: WriteOptions,
    ) -> Object:
        """A strategic merge patch of a custom kind, which servers do not offer: read, merged, written if unchanged."""
        wanted = patch.body.get("metadata") or {}
        for attempt in range(_TRIES):
            stored = await self._verbs.get(held, name, namespace)
            for field in ("uid", "resourceVersion"):
                if wanted.get(field, stored["metadata"][field]) != stored["metadata"][field]:
                    raise ApiError(409, "Conflict", f"{held.kind} {name}: {field} is not {wanted[field]}")
            merged = apply_patch.apply(resource, stored, patch)
            part = {field: merged.get(field) for field in ("spec", "status") if merged.get(field) != stored.get(field)}
            known = {field: stored["metadata"][field] for field in ("uid", "resourceVersion")}
            metadata = {**{key: value for key, value in wanted.items() if key not in known}, **known}
            changed = Patch(PatchType.MERGE, {"metadata": metadata, **part})
            try:
                written = await self._verbs.patch(held, name, changed, namespace, subresource, options)
            except ApiError as error:
                if error.code != 409 or "resourceVersion" in wanted or attempt == _TRIES - 1:
                    raise
            else:
                return await self._came(held, written)
        raise AssertionError("unreachable")

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", options: DeleteOptions = DeleteOptions()
    ) -> Object:
        if resource not in self._forms.of:
            return await self._verbs.delete(resource, name, namespace, options)
        return await self._at_home(
            resource, name, namespace, lambda held: self._verbs.delete(held, name, namespace, options)
        )

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
        await self._verbs.bind(namespace, pod, node, uid=uid, annotations=annotations, options=options)

    async def evict(self, namespace: str, pod: str, options: DeleteOptions = DeleteOptions()) -> None:
        await self._verbs.evict(namespace, pod, options)

    # -- between the forms -----------------------------------------------------------------------------

    async def _at_home(self, resource: Resource, name: str, namespace: str, act: Callable[[Resource], Any]) -> Object:
        """Do something to an object where it is held; where that is not known, wherever it is found."""
        held = self._forms.of[resource]
        key = f"{namespace}/{name}" if namespace else name
        order = sorted(held, key=lambda one: (key not in self._known[one], one is not resource))
        for one in order[:-1]:
            try:
                return await act(one)  # type: ignore[no-any-return]
            except ApiError as error:
                if error.code != 404:
                    raise
        return await act(order[-1])  # type: ignore[no-any-return]

    def _outgoing(self, resource: Resource, obj: Object) -> Object:
        """An object as the server is to have it, but for the form of a group itself."""
        if resource is EVENTS:
            return event_about_own(obj, self._is_own)
        if self._labels:
            if resource is PODS:
                obj = labelled(obj)
            elif resource is JOBS:
                obj = labelled_job(obj)
            elif resource is JOB_SETS:
                obj = labelled_jobset(obj)
        return with_own_owners(obj, self._is_own)

    def _is_own(self, uid: str) -> bool:
        return any(uid in known for known in self._own.values()) if self._mixed else True

    async def _came(self, held: Resource, obj: Object, event: str = "") -> Object:
        """One object as all code knows it."""
        if event == "BOOKMARK":
            return to_native(obj)
        if event == "DELETED":
            self._own.get(held, {}).pop(meta.uid(obj), None)
            return to_native(obj)
        return (await self._arrived(held, [obj]))[0]

    async def _arrived(self, held: Resource, objects: Sequence[Object]) -> Sequence[Object]:
        if held not in _OWN_KINDS:
            return objects
        native, own = _NATIVE_OF[held], self._own[held]
        found = [to_native(_typed(held, obj)) for obj in objects]
        bare = {} if native is WORKLOADS else {meta.uid(obj): obj for obj in found if "priority" not in obj["spec"]}
        given = {uid: own.get(uid) for uid in bare}
        unknown = [obj for uid, obj in bare.items() if not given[uid]]
        if unknown:
            # Others may come and go meanwhile, also some of these.
            classes = await self._classes_for(*unknown)
            given |= {meta.uid(obj): _priority_of(native, obj, classes) for obj in unknown}
        for obj in found:
            own[meta.uid(obj)] = given.get(meta.uid(obj)) or {}
        return [
            {**obj, "spec": {**obj["spec"], **more}} if (more := given.get(meta.uid(obj))) else obj for obj in found
        ]

    async def _with_priority(self, resource: Resource, obj: Object) -> Object:
        """A new group with the priority of its class, which native groups get from admission."""
        if resource is WORKLOADS:
            return obj
        completed = {**obj, "spec": {**obj.get("spec", {})}}
        priority.resolve(resource, completed, await self._classes_for(completed))
        return completed

    async def _classes_for(self, *groups: Object) -> _Classes:
        """Classes that these groups name among them, unless there is none of that name."""
        now = asyncio.get_running_loop().time()
        named = {group["spec"].get("priorityClassName") for group in groups} - {None, ""}
        if now > self._classes.until or not named <= self._classes.found.keys():
            self._classes.fill((await self._verbs.list(PRIORITY_CLASSES)).items, now + _CLASSES_SECONDS)
        return self._classes


class _Classes:
    """Priority classes, as admission reads them, and until when they are taken for current."""

    def __init__(self) -> None:
        self.found: dict[str, Object] = {}
        self.until = float("-inf")

    def fill(self, found: Sequence[Object], until: float) -> None:
        self.found = {meta.name(one): one for one in found}
        self.until = until

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        return self.found.get(name)

    def list(self, resource: Resource, namespace: str = "") -> Sequence[Object]:
        return list(self.found.values())


def _priority_of(resource: Resource, obj: Object, classes: _Classes) -> Object:
    """What admission would have set; nothing if the group names a class that does not exist."""
    completed = {**obj, "spec": {**obj["spec"]}}
    try:
        priority.resolve(resource, completed, classes)
    except ApiError:
        return {"priority": 0}
    return {field: completed["spec"][field] for field in ("priority", "preemptionPolicy")}


def _typed(resource: Resource, obj: Object) -> Object:
    """Servers may leave kind and apiVersion out of the items of a list."""
    return obj if "kind" in obj else {"apiVersion": resource.api_version, "kind": resource.kind, **obj}


def _is_whole(namespace: str, options: ListOptions | WatchOptions) -> bool:
    """Whether all objects of a kind are asked for."""
    return not (namespace or options.label_selector or options.field_selector)


def _with_items(found: ObjectList, items: Sequence[Object]) -> ObjectList:
    return ObjectList([*items], found.resource_version, found.continue_token, found.remaining)


async def _jobset_events(events: AsyncGenerator[WatchEvent, None]) -> AsyncGenerator[WatchEvent, None]:
    async with aclosing(events):
        async for event in events:
            yield WatchEvent(event.type, unlabelled_jobset(event.object))
