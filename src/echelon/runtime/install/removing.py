"""Removes an installation: what carries its label and the leases of its programs, and nothing else.

Programs go first, then what they held, then their rights.  Kinds whose objects users have made stay, and so does a
namespace with objects of others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ...api.errors import ApiError
from ...api.objects import meta
from ...api.objects.vocabulary import INSTALLATION
from ...api.scheme import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CRON_JOBS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    INGRESSES,
    JOB_SETS,
    JOBS,
    LEASES,
    NAMESPACES,
    NETWORK_POLICIES,
    OWN_GROUP_KINDS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    TRAIN_JOBS,
    TRAINING_RUNTIMES,
    VOLUME_CLAIMS,
    Object,
    Resource,
)
from ...api.verbs import DeleteOptions, ListOptions, Verbs
from ...base.clock import Clock
from ...deploy.admission.kinds import POLICY_KINDS
from ...deploy.leftovers import lease_names
from ...deploy.objects.monitoring import PROMETHEUS_RULES, SERVICE_MONITORS
from ...deploy.options import LEASE_NAMESPACE
from ..server_connection import advice
from .applying import CannotInstall

#: In the order in which they go; definitions and the namespace after.
REMOVED_KINDS = (
    DEPLOYMENTS,
    *reversed(POLICY_KINDS),
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
_KEPT_KINDS = (
    PODS,
    DEPLOYMENTS,
    STATEFUL_SETS,
    DAEMON_SETS,
    REPLICA_SETS,
    JOBS,
    CRON_JOBS,
    JOB_SETS,
    TRAIN_JOBS,
    TRAINING_RUNTIMES,
    *OWN_GROUP_KINDS,
    *OWN_GROUP_KINDS.values(),
    SERVICES,
    CONFIG_MAPS,
    SECRETS,
    VOLUME_CLAIMS,
    RESOURCE_CLAIMS,
    RESOURCE_CLAIM_TEMPLATES,
    REPLICATION_CONTROLLERS,
    INGRESSES,
    NETWORK_POLICIES,
)
_IN_EVERY_NAMESPACE = ("kube-root-ca.crt",)
_POLL_SECONDS = 0.5
_LISTING_SECONDS = 30.0
#: How many refusals, or objects of others, are told.
_TOLD = 3


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
        await self._rehearse(purge)
        roles = await self._ours(ROLES)
        count = 0
        for resource in REMOVED_KINDS:
            count += await self._delete_all(resource)
            if resource == DEPLOYMENTS and count:
                await self._wait_gone(PODS, await self._ours(PODS))
        # Not before: a program that still runs would make its lease anew while it has the right.
        count += await self._delete_leases(roles)
        count += await self._delete_definitions(purge)
        return count + await self._delete_namespace()

    async def _rehearse(self, purge: bool) -> None:
        """Read all that will be read, and ask for every object whether it may go, so that nothing goes halfway."""
        leaving = [(kind, one) for kind in REMOVED_KINDS for one in await self._ours(kind)]
        definitions, spaces = await self._ours(CUSTOM_RESOURCE_DEFINITIONS), await self._ours(NAMESPACES)
        unused = [one for one in definitions if purge or not await self._objects_of(one)]
        empty = [one for one in spaces if not await self._foreign_objects(meta.name(one))]
        leaving += [*((CUSTOM_RESOURCE_DEFINITIONS, one) for one in unused), *((NAMESPACES, one) for one in empty)]
        await rehearse_deletion(self.verbs, leaving, "nothing was removed")

    async def _ours(self, resource: Resource) -> list[Object]:
        return await labelled(self.verbs, resource, self.namespace)

    async def _delete_all(self, resource: Resource) -> int:
        found = await self._ours(resource)
        for obj in found:
            await self._delete(resource, obj)
        return len(found)

    async def _delete(self, resource: Resource, obj: Object) -> None:
        await delete(self.verbs, resource, obj)
        self.report(f"removed   {named(resource, obj)}")

    async def _delete_leases(self, roles: Sequence[Object]) -> int:
        """Programs make their leases themselves; their roles say which."""
        count = 0
        for name in sorted({name for role in roles for name in lease_names(role)}):
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
                self.report(f"kept      Namespace/{meta.name(space)}: {_some(foreign)} in it are not of Echelon")
                continue
            await self._delete(NAMESPACES, space)
            await self._wait_gone(NAMESPACES, [space])
            return 1
        return 0

    async def _foreign_objects(self, namespace: str) -> list[str]:
        found: list[str] = []
        for resource in _KEPT_KINDS:
            for obj in await _listed(self.verbs, resource, namespace):
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


async def labelled(verbs: Verbs, resource: Resource, namespace: str) -> list[Object]:
    """Objects of the installation in a namespace, wherever they are."""
    return await _listed(verbs, resource, options=ListOptions(label_selector=f"{INSTALLATION}={namespace}"))


async def _listed(
    verbs: Verbs, resource: Resource, namespace: str = "", options: ListOptions = ListOptions()
) -> list[Object]:
    try:
        return (await verbs.list(resource, namespace, options)).items
    except ApiError as error:
        if error.code == 404:  # a kind that the server does not serve
            return []
        raise


async def delete(verbs: Verbs, resource: Resource, obj: Object, *, dry_run: bool = False) -> None:
    """The object that was seen, and no other of its name."""
    options = DeleteOptions(propagation="Background", uid=meta.uid(obj), dry_run=dry_run)
    try:
        await verbs.delete(resource, meta.name(obj), meta.namespace(obj), options)
    except ApiError as error:
        if error.code != 404:
            raise


async def rehearse_deletion(verbs: Verbs, leaving: Iterable[tuple[Resource, Object]], otherwise: str) -> None:
    """Raises one message with all that the server would not remove; `otherwise` says what has happened then."""
    refused: list[str] = []
    remedies: dict[str, None] = {}
    for resource, obj in leaving:
        try:
            await delete(verbs, resource, obj, dry_run=True)
        except ApiError as error:
            refused.append(f"{named(resource, obj)}: {error}")
            remedies[advice(error)] = None
    if refused:
        told = _some(refused, "; ") + "".join(remedies)
        raise CannotInstall(f"{otherwise}, because the server refuses to remove {told}")


def _some(found: Sequence[str], separator: str = ", ") -> str:
    """Enough of them to see what is meant."""
    return separator.join(found[:_TOLD]) + (f" and {len(found) - _TOLD} more" if len(found) > _TOLD else "")


def named(resource: Resource, obj: Object) -> str:
    space = meta.namespace(obj)
    return f"{resource.kind}/{meta.name(obj)}" + (f" in {space}" if space else "")
