"""CustomResourceDefinitions at work: their kinds are served, their status is kept, their objects go with them.

    a definition is written ─► names decided ─► kinds served ─► Established=True     (`settle`, in the same request)
    a definition is deleted ─► Terminating ─► objects deleted ─► finalizer removed   (`run`)

At a start the definitions in the store are settled before the first request, so that their kinds are served at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from ..api.custom import naming
from ..api.custom.defined_kinds import CLEANUP_FINALIZER, ESTABLISHED, TERMINATING, is_known, kinds_of
from ..api.errors import ApiError
from ..api.objects import meta
from ..api.scheme import CUSTOM_RESOURCE_DEFINITIONS, Object, Resource
from ..api.served_kinds import ServedKinds
from ..api.verbs import DeleteOptions
from ..store.interface import Record, RevisionMismatch
from .objects.stored_objects import Access
from .verbs.delete import delete
from .verbs.update import is_finished

#: How long objects with finalizers are waited for between two looks.
_PATIENCE_SECONDS = 1.0
#: Objects that are deleted between two breaths of the event loop.
_SLICE = 100


class CustomResources:
    """The custom kinds of one server."""

    def __init__(self, access: Access, kinds: ServedKinds) -> None:
        self._access = access
        self._kinds = kinds
        self._deciding = asyncio.Lock()
        self._ending = asyncio.Event()
        #: The kinds of each definition, by uid, with the generation and state that they were made from.
        self._made: dict[str, tuple[tuple[object, ...], list[Resource]]] = {}

    async def settle(self) -> None:
        """Decide on names, serve the accepted kinds, and only then say so in the status."""
        async with self._deciding:
            while True:
                records = list(self._access.store.scan(CUSTOM_RESOURCE_DEFINITIONS.prefix))
                decided = self._decided([self._access.trees.of_record(record) for record in records])
                self._serve(decided)
                if await self._written(records, decided):
                    break
        if any(meta.deleting(one) for one in decided):
            self._ending.set()

    async def current(self, written: Object) -> Object:
        """The newest state of a definition after it was settled; as it was written if it is gone."""
        await self.settle()
        found = self._access.get(CUSTOM_RESOURCE_DEFINITIONS, meta.name(written))
        return found if found is not None and meta.uid(found) == meta.uid(written) else written

    def _decided(self, found: list[Object]) -> list[Object]:
        """All definitions with their new status, the oldest name first."""
        now = self._access.clock.now()
        for index, one in enumerate(found):
            others = (*found[:index], *found[index + 1 :])
            status = naming.settled_status(one, others, now)
            found[index] = {**one, "status": status} if status != one.get("status") else one
            if meta.deleting(one):
                found[index] = self._terminating(found[index], now)
        return found

    def _terminating(self, definition: Object, now: float) -> Object:
        if meta.condition_is(definition, TERMINATING) or CLEANUP_FINALIZER not in meta.finalizers(definition):
            return definition
        message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
        return naming.with_condition(definition, TERMINATING, "True", "InstanceDeletionPending", message, now)

    def _serve(self, definitions: Iterable[Object]) -> None:
        served: list[Resource] = []
        made: dict[str, tuple[tuple[object, ...], list[Resource]]] = {}
        for one in sorted(definitions, key=lambda one: (one["spec"]["group"], meta.name(one))):
            if not meta.condition_is(one, ESTABLISHED):
                continue
            state = (one["metadata"].get("generation"), one["status"]["acceptedNames"], meta.deleting(one))
            known = self._made.get(meta.uid(one))
            kinds = known[1] if known and known[0] == state else kinds_of(one, self._access.store.revision)
            made[meta.uid(one)] = (state, kinds)
            served += kinds
        if made.keys() != self._made.keys() or any(made[uid][1] is not self._made[uid][1] for uid in made):
            self._kinds.serve(served)
        self._made = made

    async def _written(self, records: Iterable[Record], decided: Iterable[Object]) -> bool:
        """Store what changed; False if a definition was written meanwhile."""
        for record, new in zip(records, decided, strict=True):
            if new is self._access.trees.of_record(record) or new == self._access.trees.of_record(record):
                continue
            changed = {**new, "metadata": {**new["metadata"]}}
            try:
                await self._access.replace(CUSTOM_RESOURCE_DEFINITIONS, changed, record)
            except RevisionMismatch:
                await self._access.store.settled(record.key)
                return False
        return True

    # -- deletion ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Delete the objects of definitions that are being deleted, then the definitions; until cancelled."""
        while True:
            waiting = False
            self._ending.clear()
            for one in list(self._access.list(CUSTOM_RESOURCE_DEFINITIONS)):
                if meta.deleting(one) and CLEANUP_FINALIZER in meta.finalizers(one):
                    waiting |= not await self._finish(one)
            if waiting:
                await asyncio.sleep(_PATIENCE_SECONDS)
            else:
                await self._ending.wait()

    async def _finish(self, definition: Object) -> bool:
        """Whether no object is left and the definition is gone."""
        if not is_known(definition):
            kind = next(iter(kinds_of(definition, 0)), None) or _unserved(definition)
            await self._delete_all(kind)
            if any(True for _ in self._access.store.scan(kind.prefix)):
                return False
        return await self._release(definition)

    async def _delete_all(self, kind: Resource) -> None:
        for number, record in enumerate(self._access.store.scan(kind.prefix)):
            metadata = self._access.trees.of_record(record)["metadata"]
            try:
                await delete(self._access, kind, metadata["name"], metadata.get("namespace", ""), DeleteOptions())
            except ApiError as error:
                if error.code != 404:
                    raise
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)

    async def _release(self, definition: Object) -> bool:
        """Take our finalizer away, and with the last one the definition."""
        while True:
            record = self._access.store.get(CUSTOM_RESOURCE_DEFINITIONS.key(meta.name(definition)))
            if record is None or record.header.uid != meta.uid(definition):
                return True
            old = self._access.trees.of_record(record)
            metadata = {**old["metadata"]}
            kept = [one for one in metadata.pop("finalizers", ()) if one != CLEANUP_FINALIZER]
            message = "CustomResource deletion is in progress" if kept else "removed all instances"
            new = naming.with_condition(
                {**old, "metadata": {**metadata, **({"finalizers": kept} if kept else {})}},
                TERMINATING,
                "False",
                "InstanceDeletionCompleted",
                message,
                self._access.clock.now(),
            )
            try:
                if is_finished(CUSTOM_RESOURCE_DEFINITIONS, new):
                    await self._access.remove(new, record)
                else:
                    await self._access.replace(CUSTOM_RESOURCE_DEFINITIONS, new, record)
            except RevisionMismatch:
                await self._access.store.settled(record.key)
                continue
            await self.settle()
            return True


def _unserved(definition: Object) -> Resource:
    """The kind of a definition none of whose versions is served."""
    spec = definition["spec"]
    return Resource(spec["group"], "", spec["names"]["plural"], spec["names"]["kind"], spec["scope"] == "Namespaced")
