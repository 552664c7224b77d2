"""Removes what an earlier installation has made and this one does not have; `deploy.leftovers` says what that is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...api.errors import ApiError
from ...api.scheme import LEASES, ROLES, Object, Resource
from ...api.verbs import Verbs
from ...deploy.admission.kinds import POLICY_KINDS
from ...deploy.leftovers import left_over, left_over_leases
from ...deploy.options import LEASE_NAMESPACE, InstallOptions
from .removing import REMOVED_KINDS, delete, labelled, named, rehearse_deletion


@dataclass(frozen=True)
class Leftover:
    resource: Resource
    obj: Object

    @property
    def is_policy(self) -> bool:
        return self.resource in POLICY_KINDS


@dataclass(frozen=True)
class Pruner:
    verbs: Verbs
    report: Callable[[str], None]
    options: InstallOptions

    async def find(self) -> list[Leftover]:
        """In the order in which they go; raises `CannotInstall` if one of them may not be removed."""
        found: list[Leftover] = []
        for resource in REMOVED_KINDS:
            there = await labelled(self.verbs, resource, self.options.namespace)
            found += [Leftover(resource, one) for one in left_over(there, self.options)]
            if resource == ROLES:
                found += await self._leases(there)
        await rehearse_deletion(self.verbs, [(one.resource, one.obj) for one in found], "nothing was changed")
        return found

    async def _leases(self, roles: Sequence[Object]) -> list[Leftover]:
        found = []
        for name in left_over_leases(roles, self.options):
            try:
                found.append(Leftover(LEASES, await self.verbs.get(LEASES, name, LEASE_NAMESPACE)))
            except ApiError as error:
                if error.code != 404:  # nobody has led yet
                    raise
        return found

    async def remove(self, leftovers: Sequence[Leftover]) -> int:
        for one in leftovers:
            await delete(self.verbs, one.resource, one.obj)
            self.report(f"removed   {named(one.resource, one.obj)}: an earlier installation made it, this one does not")
        return len(leftovers)
