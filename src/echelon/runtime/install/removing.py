"""Removes an installation: what carries its label and the leases of its programs, and nothing else.

Programs go first, then what they held, then their rights.  Kinds whose objects users have made stay, and so does a
namespace with objects of others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...api.errors import ApiError
from ...api.objects import meta
from ...api.objects.subtree import items
from ...api.objects.vocabulary import INSTALLATION
from ...api.scheme import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    VOLUME_CLAIMS,
    Object,
    Resource,
)
from ...api.verbs import DeleteOptions, ListOptions, Verbs
from ...base.clock import Clock
from ...deploy.objects.monitoring import PROMETHEUS_RULES, SERVICE_MONITORS
from ...deploy.options import LEASE_NAMESPACE

#: In the order in which they go; Deployments before, definitions and the namespace after.
_KINDS = (
    PROMETHEUS_RULES,
    SERVICE_MONITORS,
    POD_DISRUPTION_BUDGETS,
    SERVICES,
    CONFIG_MAPS,
    ROLE_BINDINGS,
    CLUSTER_ROLE_BINDINGS,
    ROLES,
    CLUSTER_ROLES,
    SERVICE_ACCOUNTS,
)
#: What others may keep in a namespace, but for what every namespace has.
_KEPT_KINDS = (PODS, DEPLOYMENTS, STATEFUL_SETS, SERVICES, CONFIG_MAPS, SECRETS, VOLUME_CLAIMS)
_IN_EVERY_NAMESPACE = ("kube-root-ca.crt",)
_POLL_SECONDS = 0.5
_LISTING_SECONDS = 30.0


@dataclass(frozen=True)
class Remover:
    verbs: Verbs
    clock: Clock
    report: Callable[[str], None]
    namespace: str
    #: How long to wait for pods and the namespace to go.
    seconds: float = 120.0

    async def remove(self, *, purge: bool) -> int:
        """Remove everything; returns how many objects went.  `purge`: kinds with the objects that users made, too."""
        roles = await self._ours(ROLES)
        count = await self._delete_all(DEPLOYMENTS)
        if count:
            await self._wait_gone(PODS, await self._ours(PODS))
        count += await self._delete_leases(roles)
        for resource in _KINDS:
            count += await self._delete_all(resource)
        count += await self._delete_definitions(purge)
        return count + await self._delete_namespace()

    async def _ours(self, resource: Resource) -> list[Object]:
        options = ListOptions(label_selector=f"{INSTALLATION}={self.namespace}")
        try:
            return (await self.verbs.list(resource, options=options)).items
        except ApiError as error:
            if error.code == 404:  # a kind that the server does not serve
                return []
            raise

    async def _delete_all(self, resource: Resource) -> int:
        found = await self._ours(resource)
        for obj in found:
            await self._delete(resource, obj)
        return len(found)

    async def _delete(self, resource: Resource, obj: Object) -> None:
        space = meta.namespace(obj)
        try:
            await self.verbs.delete(
                resource, meta.name(obj), space, DeleteOptions(propagation="Background", uid=meta.uid(obj))
            )
        except ApiError as error:
            if error.code != 404:
                raise
        self.report(f"removed   {obj['kind']}/{meta.name(obj)}" + (f" in {space}" if space else ""))

    async def _delete_leases(self, roles: Sequence[Object]) -> int:
        """Programs make their leases themselves; their roles say which."""
        count = 0
        for name in sorted({name for role in roles for rule in items(role, "rules") for name in _names(rule)}):
            try:
                lease = await self.verbs.get(LEASES, name, LEASE_NAMESPACE)
            except ApiError as error:
                if error.code != 404:
                    raise
                continue
            await self._delete(LEASES, lease)
            count += 1
        return count

    async def _delete_definitions(self, purge: bool) -> int:
        leaving: list[Object] = []
        for definition in await self._ours(CUSTOM_RESOURCE_DEFINITIONS):
            left = 0 if purge else await self._objects_of(definition)
            if left:
                count_text = f"{left} {'object' if left == 1 else 'objects'} of users would go with it"
                kept = f"CustomResourceDefinition/{meta.name(definition)}"
                self.report(f"kept      {kept}: {count_text} (--purge-crds removes both)")
                continue
            await self._delete(CUSTOM_RESOURCE_DEFINITIONS, definition)
            leaving.append(definition)
        await self._wait_gone(CUSTOM_RESOURCE_DEFINITIONS, leaving)
        return len(leaving)

    async def _objects_of(self, definition: Object) -> int:
        spec = definition["spec"]
        served = [one["name"] for one in spec["versions"] if one.get("served")]
        if not served:
            return 0
        kind = Resource(spec["group"], served[0], spec["names"]["plural"], spec["names"]["kind"], builtin=False)
        deadline = self.clock.now() + _LISTING_SECONDS
        while True:
            try:
                return len((await self.verbs.list(kind)).items)
            except ApiError as error:
                # A server that has just begun to serve a kind asks to come again.
                if error.code != 429 or self.clock.now() >= deadline:
                    raise
            await self.clock.sleep(_POLL_SECONDS)

    async def _delete_namespace(self) -> int:
        for space in await self._ours(NAMESPACES):
            foreign = await self._foreign_objects(meta.name(space))
            if foreign:
                self.report(f"kept      Namespace/{meta.name(space)}: {', '.join(foreign)} in it are not of Echelon")
                continue
            await self._delete(NAMESPACES, space)
            await self._wait_gone(NAMESPACES, [space])
            return 1
        return 0

    async def _foreign_objects(self, namespace: str) -> list[str]:
        found: list[str] = []
        for resource in _KEPT_KINDS:
            for obj in (await self.verbs.list(resource, namespace)).items:
                is_ours = meta.labels(obj).get(INSTALLATION) == self.namespace
                if not is_ours and meta.name(obj) not in _IN_EVERY_NAMESPACE and not meta.deleting(obj):
                    found.append(f"{resource.kind}/{meta.name(obj)}")
        return found

    async def _wait_gone(self, resource: Resource, leaving: Sequence[Object]) -> None:
        """Wait for objects that have finalizers or a grace period; those that take too long are told."""
        deadline, uids = self.clock.now() + self.seconds, {meta.uid(one) for one in leaving}
        while left := [meta.name(one) for one in await self._ours(resource) if meta.uid(one) in uids]:
            if self.clock.now() >= deadline:
                self.report(f"leaving   {resource.kind}/{', '.join(left)}: not gone after {self.seconds:.0f} s")
                return
            await self.clock.sleep(_POLL_SECONDS)


def _names(rule: Object) -> list[str]:
    return list(rule.get("resourceNames") or ())
