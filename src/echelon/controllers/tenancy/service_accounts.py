"""What every namespace has: a service account `default`, and the certificate of the server as `kube-root-ca.crt`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...api.objects import meta
from ...api.objects.root_certificate import NAME, SOURCE_NAMESPACE
from ...api.scheme import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS, Object
from ...api.verbs import Patch, PatchType
from ...api.views.cluster_views import NamespaceView
from ...client.informer import Caches
from ...decide.plan import NOTHING, ApplyPatch, Create, Plan
from ..runner import Source, own_key

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


class RootCertificateController:
    """Copies the ConfigMap that the server writes into its own namespace to every other one."""

    name = "root-ca-certificate-publisher"

    def __init__(self, caches: Caches) -> None:
        self._namespaces = caches.views(NamespaceView)
        self._maps = caches.of(CONFIG_MAPS)

    def sources(self) -> Sequence[Source]:
        return [Source(NAMESPACES, own_key), Source(CONFIG_MAPS, self._namespaces_of)]

    def decide(self, key: str, now: float) -> Plan:
        namespace, published = self._namespaces.get(key), self._maps.get(f"{SOURCE_NAMESPACE}/{NAME}")
        if namespace is None or namespace.deleting or published is None:
            return NOTHING
        found = self._maps.get(f"{key}/{NAME}")
        if found is None:
            copy = {"metadata": {"name": NAME, "namespace": key}, "data": published["data"]}
            return Plan(((Create(CONFIG_MAPS, copy),),))
        if found.get("data") == published["data"]:
            return NOTHING
        patch = Patch(PatchType.JSON, [{"op": "add", "path": "/data", "value": published["data"]}])
        return Plan(((ApplyPatch(CONFIG_MAPS, key, NAME, patch, gone_is_fine=True),),))

    def _namespaces_of(self, config_map: Object) -> Iterable[str]:
        """A copy that was changed or deleted is written again; a new original concerns all namespaces."""
        if meta.name(config_map) != NAME:
            return ()
        if meta.namespace(config_map) == SOURCE_NAMESPACE:
            return [namespace.name for namespace in self._namespaces.all()]
        return (meta.namespace(config_map),)
