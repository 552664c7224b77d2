"""Finds out which groups of pods a server has, and gives the client that fits.

discovery, and a PodGroup that is created on trial ─► GroupSupport ─► HttpVerbs itself, or a GroupDialect over it
"""

from __future__ import annotations

from ..api.errors import ApiError
from ..api.group_kinds import (
    GATES,
    NATIVE,
    OWN,
    GroupSupport,
    dropped_fields,
    forms,
    probe_group,
)
from ..api.objects.subtree import items
from ..api.scheme import OWN_GROUP_KINDS, POD_GROUPS, Resource
from ..api.verbs import Verbs, WriteOptions
from .group_dialect import GroupDialect
from .http import HttpVerbs

#: There is one on every cluster.
_NAMESPACE = "default"


class GroupsNotServed(Exception):
    """A server lacks the chosen kinds; the message says what to do."""


async def group_support(verbs: HttpVerbs, *, trial: bool) -> GroupSupport:
    """What the server says; with a `trial`, for which one needs the right to make PodGroups, also what it keeps."""
    served = await _served(verbs)
    native = frozenset(one for one in OWN_GROUP_KINDS if one in served)
    own = all(one in served for one in OWN_GROUP_KINDS.values())
    dropped = await _dropped(verbs) if trial and len(native) == len(OWN_GROUP_KINDS) else ()
    return GroupSupport(native, dropped, own)


def speaking(verbs: Verbs, support: GroupSupport, choice: str = "") -> Verbs:
    """A client that reads and makes groups as chosen, or as fits the server; raises `GroupsNotServed`."""
    choice = choice or support.choice
    wanted = choice.split(",")
    if OWN in wanted and not support.own:
        raise GroupsNotServed(f"the server {support.lack or 'lacks the kinds of Echelon'}: run `echelon install`")
    if wanted[0] == NATIVE and len(support.native) < len(OWN_GROUP_KINDS):
        versions = ",".join(f"{one}=true" for one in sorted({one.api_version for one in OWN_GROUP_KINDS}))
        raise GroupsNotServed(
            f"the server {support.lack}: run `echelon install`, which brings kinds of its own, or start kube-apiserver "
            f"with --runtime-config={versions} and the feature gates {GATES}"
        )
    return verbs if choice == NATIVE else GroupDialect(verbs, forms(choice, support.native))


async def _served(verbs: HttpVerbs) -> set[Resource]:
    found: set[Resource] = set()
    kinds = [*OWN_GROUP_KINDS, *OWN_GROUP_KINDS.values()]
    for version in dict.fromkeys(one.api_version for one in kinds):
        try:
            listed, _ = await verbs.get_raw(f"/apis/{version}")
        except ApiError as error:
            if error.code != 404:
                raise
            continue
        names = {one["name"] for one in items(listed, "resources")}
        found |= {one for one in kinds if one.api_version == version and one.plural in names}
    return found


async def _dropped(verbs: Verbs) -> tuple[str, ...]:
    """Fields that the server drops; none if it does not let us try."""
    try:
        answer = await verbs.create(POD_GROUPS, probe_group(), _NAMESPACE, WriteOptions(dry_run=True))
    except ApiError:
        return ()
    return tuple(dropped_fields(answer))
