"""The garbage collector: caches of every kind, indexed by the uids of owners, so that no event needs a scan.

A key is a store key (`/batch/jobs/ns/name`).  A change of an object concerns

    itself                 if it has owners, or is being deleted with a policy to carry out
    its owners             if they wait for their dependents
    its dependents         once it is gone, or when it wants them gone
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..api.objects import meta
from ..api.scheme import EVENTS, RESOURCES, Object, Resource
from ..client.custom_informers import CustomInformers
from ..client.informer import Caches
from ..decide.garbage import Fate, Owned, lets_go_of_dependents, reconcile, waits_for_dependents
from ..decide.plan import NOTHING, Plan
from .runner import Source

_OWNER = "owner"
#: Bursts of deletions are decided together: an owner asks once for all of its dependents.
_BATCH_SECONDS = 0.05

#: One resource per kind: objects are watched under the version they are stored in.  Events own nothing.
KINDS: tuple[Resource, ...] = tuple(
    one for one in RESOURCES if one.api_version == one.storage_api_version and one is not EVENTS
)


class GarbageCollector:
    name = "garbage-collector"

    def __init__(self, caches: Caches) -> None:
        self._informers = caches
        self._caches = {resource: caches.of(resource, {_OWNER: _owner_uids}) for resource in KINDS}
        self._by_group_kind = {(one.group, one.kind): one for one in KINDS}
        self._by_prefix = {one.prefix: one for one in KINDS}
        #: Uids of objects in foreground deletion: few or none, while an object may name thousands of owners.
        self._waiting: set[str] = set()

    def sources(self) -> Sequence[Source]:
        return [Source(resource, self._concerned(resource), _BATCH_SECONDS) for resource in KINDS]

    def follow_kinds(self, listen: Callable[[Source], None]) -> None:
        def follow(kind: Resource, defined: bool) -> None:
            if defined:
                self._caches[kind] = self._informers.of(kind, {_OWNER: _owner_uids})
                self._by_group_kind[kind.group, kind.kind] = self._by_prefix[kind.prefix] = kind
                listen(Source(kind, self._concerned(kind), _BATCH_SECONDS))
            else:
                self._caches.pop(kind, None)
                self._by_group_kind.pop((kind.group, kind.kind), None)
                self._by_prefix.pop(kind.prefix, None)

        CustomInformers(self._informers).follow(follow)

    def doubts(self, key: str) -> Iterable[tuple[Resource, str, str]]:
        """Owners that the caches do not know: an owner may be younger than its kind's last news."""
        _, obj = self._get(key) or (None, None)
        if obj is None:
            return
        for reference in meta.owner_references(obj):
            owner_kind = self._kind_of(reference)
            if owner_kind is not None and self._owner(owner_kind, reference, obj) is None:
                yield owner_kind, meta.namespace(obj) if owner_kind.namespaced else "", reference["name"]

    def decide(self, key: str, now: float) -> Plan:
        found = self._get(key)
        if found is None:
            return NOTHING
        resource, obj = found
        fates = [self._fate(reference, resource, obj) for reference in meta.owner_references(obj)]
        if not meta.deleting(obj) and all(fate is Fate.LIVES for fate in fates):
            return NOTHING  # by far the most frequent case, and no need to look for dependents
        dependents = self._dependents(obj)
        circular = self._circular(obj, dependents) if waits_for_dependents(obj) else ()
        return reconcile(Owned(resource, obj, fates, dependents, circular))

    def _circular(self, obj: Object, dependents: Iterable[tuple[Resource, Object]]) -> list[str]:
        """Dependents that cannot go before the object: it is among what they wait for."""
        waiting = [one for _, one in dependents if waits_for_dependents(one)]
        return [meta.uid(one) for one in waiting if self._waits_for(one, meta.uid(obj))]

    def _waits_for(self, obj: Object, uid: str) -> bool:
        """Whether an object in foreground deletion waits, directly or through others, for that one."""
        seen, open_ = {meta.uid(obj)}, [obj]
        while open_:
            for _, dependent in self._dependents(open_.pop()):
                if meta.uid(dependent) == uid:
                    return True
                if meta.uid(dependent) not in seen and waits_for_dependents(dependent):
                    seen.add(meta.uid(dependent))
                    open_.append(dependent)
        return False

    def _get(self, key: str) -> tuple[Resource, Object] | None:
        group, plural, rest = key[1:].split("/", 2)
        resource = self._by_prefix.get(f"/{group}/{plural}/")
        obj = self._caches[resource].get(rest) if resource is not None else None
        return (resource, obj) if resource is not None and obj is not None else None

    def _fate(self, reference: Mapping[str, Any], resource: Resource, obj: Object) -> Fate:
        owner_kind = self._kind_of(reference)
        if owner_kind is None:
            # A kind that is not served here: the server of that kind collects its dependents.
            return Fate.LIVES
        if owner_kind.namespaced and not resource.namespaced:
            return Fate.UNRESOLVABLE
        owner = self._owner(owner_kind, reference, obj)
        if owner is None:
            return Fate.GONE
        return Fate.WAITS if waits_for_dependents(owner) else Fate.LIVES

    def _kind_of(self, reference: Mapping[str, Any]) -> Resource | None:
        return self._by_group_kind.get((reference["apiVersion"].rpartition("/")[0], reference["kind"]))

    def _owner(self, kind: Resource, reference: Mapping[str, Any], obj: Object) -> Object | None:
        space = f"{meta.namespace(obj)}/" if kind.namespaced else ""
        found = self._caches[kind].get(f"{space}{reference['name']}")
        return found if found is not None and meta.uid(found) == reference["uid"] else None

    def _dependents(self, obj: Object) -> list[tuple[Resource, Object]]:
        uid = meta.uid(obj)
        return [(resource, one) for resource, cache in self._caches.items() for one in cache.find(_OWNER, uid)]

    def _concerned(self, resource: Resource) -> Callable[[Object], Iterable[str]]:
        cache = self._caches[resource]

        def keys(obj: Object) -> Iterable[str]:
            acts = waits_for_dependents(obj) or lets_go_of_dependents(obj)
            if acts or obj["metadata"].get("ownerReferences"):
                yield resource.prefix + meta.key(obj)
            current = cache.get(meta.key(obj))
            self._waiting.discard(meta.uid(obj))
            if current is not None and waits_for_dependents(current):
                self._waiting.add(meta.uid(current))
            for reference in meta.owner_references(obj) if self._waiting else ():
                kind = self._kind_of(reference) if reference["uid"] in self._waiting else None
                owner = self._owner(kind, reference, obj) if kind else None
                if kind and owner and waits_for_dependents(owner):
                    yield kind.prefix + meta.key(owner)
            if waits_for_dependents(obj) or current is None or meta.uid(current) != meta.uid(obj):
                for dependent_kind, dependent in self._dependents(obj):
                    yield dependent_kind.prefix + meta.key(dependent)

        return keys


def _owner_uids(obj: Object) -> Iterable[str]:
    return [reference["uid"] for reference in meta.owner_references(obj)]
