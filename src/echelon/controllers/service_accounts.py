"""The service account controller: every namespace has a service account `default`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..api.objects import meta
from ..api.scheme import NAMESPACES, SERVICE_ACCOUNTS, Object
from ..api.views.cluster_views import NamespaceView
from ..client.informer import Caches
from ..decide.plan import NOTHING, Create, Plan
from .runner import Source, own_key

_DEFAULT = "default"


class ServiceAccountController:
    name = "serviceaccount"

    def __init__(self, caches: Caches) -> None:
        self._namespaces = caches.views(NamespaceView)
        self._accounts = caches.of(SERVICE_ACCOUNTS)

    def sources(self) -> Sequence[Source]:
        return [Source(NAMESPACES, own_key), Source(SERVICE_ACCOUNTS, _namespace_of_default)]

    def decide(self, key: str, now: float) -> Plan:
        namespace = self._namespaces.get(key)
        if namespace is None or namespace.deleting or self._accounts.get(f"{key}/{_DEFAULT}") is not None:
            return NOTHING
        account = {"metadata": {"name": _DEFAULT, "namespace": key}}
        return Plan(((Create(SERVICE_ACCOUNTS, account),),))


def _namespace_of_default(account: Object) -> Iterable[str]:
    """A default account that was deleted is created again."""
    return (meta.namespace(account),) if meta.name(account) == _DEFAULT else ()
