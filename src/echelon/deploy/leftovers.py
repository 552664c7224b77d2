"""What an earlier installation has made and the one that is to be does not have.

Kinds and the namespace are never among it: objects of users go with them, so that is left to `echelon uninstall`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..api.objects import meta
from ..api.objects.subtree import items
from ..api.scheme import ROLES, Object
from .objects.installation import objects
from .options import CONTROLLERS, OWN_CONTROLLERS, PARTS, InstallOptions

_Identity = tuple[str, str, str]


def left_over(there: Iterable[Object], options: InstallOptions) -> list[Object]:
    """Of objects with the label of the installation; those of a part that is not installed now belong to that part."""
    kept = _kept(options)
    return [one for one in there if _identity(one) not in kept]


def left_over_leases(roles: Iterable[Object], options: InstallOptions) -> list[str]:
    """Leases that programs elected their leader by and do not any more: their roles say which."""
    made = {_identity(one): one for one in objects(options) if one["kind"] == ROLES.kind}
    kept, before, after = _kept(options), set[str](), set[str]()
    for role in roles:
        before |= lease_names(role)
        if _identity(role) in kept:
            after |= lease_names(made.get(_identity(role), role))
    return sorted(before - after)


def lease_names(role: Object) -> set[str]:
    return {str(name) for rule in items(role, "rules") for name in rule.get("resourceNames") or ()}


def _kept(options: InstallOptions) -> set[_Identity]:
    """All that there may be: which controllers another part runs is not known here."""
    controllers = options.controllers if CONTROLLERS in options.parts else OWN_CONTROLLERS
    return {_identity(one) for one in objects(replace(options, parts=PARTS, controllers=controllers))}


def _identity(obj: Object) -> _Identity:
    return obj["kind"], meta.namespace(obj), meta.name(obj)
