"""The namespace controller: what a namespace that is being deleted still holds, of every namespaced kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ...api.objects import meta
from ...api.scheme import NAMESPACES, RESOURCES, Object, Resource
from ...api.views.cluster_views import NamespaceView
from ...client.custom_informers import CustomInformers
from ...client.informer import Caches, by_namespace
from ...decide.namespaces import reconcile
from ...decide.plan import NOTHING, Plan
from ..runner import Source, own_key

_NAMESPACE = "namespace"
_BATCH_SECONDS = 0.1
_KINDS: tuple[Resource, ...] = tuple(
    one for one in RESOURCES if one.namespaced and one.api_version == one.storage_api_version
)


class NamespaceController:
    name = "namespace"

    def __init__(self, caches: Caches) -> None:
        self._namespaces = caches.views(NamespaceView)
        self._caches = caches
        self._contents = {resource: caches.of(resource, {_NAMESPACE: by_namespace}) for resource in _KINDS}

    def sources(self) -> Sequence[Source]:
        contents = [Source(resource, self._deleting_namespace, _BATCH_SECONDS) for resource in _KINDS]
        return [Source(NAMESPACES, own_key), *contents]

    def follow_kinds(self, listen: Callable[[Source], None]) -> None:
        def follow(kind: Resource, defined: bool) -> None:
            if not defined:
                self._contents.pop(kind, None)
            elif kind.namespaced:
                self._contents[kind] = self._caches.of(kind, {_NAMESPACE: by_namespace})
                listen(Source(kind, self._deleting_namespace, _BATCH_SECONDS))

        CustomInformers(self._caches).follow(follow)

    def decide(self, key: str, now: float) -> Plan:
        namespace = self._namespaces.get(key)
        if namespace is None or not namespace.deleting:
            return NOTHING
        contents = {resource: cache.find(_NAMESPACE, key) for resource, cache in self._contents.items()}
        return reconcile(namespace, contents, now)

    def _deleting_namespace(self, obj: Object) -> Iterable[str]:
        name = meta.namespace(obj)
        namespace = self._namespaces.get(name)
        return (name,) if namespace is not None and namespace.deleting else ()
