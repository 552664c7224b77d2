"""Which ResourceClaims a pod or a PodGroup uses, and for whom a claim is reserved.

    spec.resourceClaims of a pod ─┬─ resourceClaimName ──────────────────────────► that claim
                                  └─ resourceClaimTemplateName ─ status.resourceClaimStatuses ─► the claim made for it

An entry that stands word for word in the pod's PodGroup is a claim of the group: all its pods share it.  Kubelets and
kube-controller-manager know this of native groups alone; pods that join a group by the label have claims of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..group_kinds import group_of
from ..objects import meta
from ..objects.subtree import items, mapping
from ..scheme import POD_GROUPS, PODS, Object


@dataclass(frozen=True, slots=True)
class ClaimReference:
    """One entry of `spec.resourceClaims`."""

    name: str
    #: The ResourceClaim, "" if it is not made yet.
    claim: str
    template: str
    #: The template asked for nothing, so there is no claim.
    void: bool = False

    def is_of(self, group: Object | None) -> bool:
        """Whether the entry is one of the group's own."""
        return any(
            (one.get("name"), one.get("resourceClaimName") or "", one.get("resourceClaimTemplateName") or "")
            == (self.name, "" if self.template else self.claim, self.template)
            for one in items(group, "spec", "resourceClaims")
        )


def claims_of(owner: Object) -> list[ClaimReference]:
    """The claims of a Pod or PodGroup, in the order of its spec."""
    listed = items(owner, "spec", "resourceClaims")
    if not listed:
        return []
    made = {one.get("name"): one for one in items(owner, "status", "resourceClaimStatuses")}
    found: list[ClaimReference] = []
    for entry in listed:
        name, template = entry.get("name") or "", entry.get("resourceClaimTemplateName") or ""
        status = made.get(name) if template else None
        claim = (status or {}).get("resourceClaimName") or "" if template else entry.get("resourceClaimName") or ""
        found.append(ClaimReference(name, claim, template, void=status is not None and not claim))
    return found


def sharing_group(pod: Object) -> str:
    """The name of the PodGroup whose claims a pod shares, "" for none."""
    group = group_of(pod)
    return group if mapping(pod, "spec", "schedulingGroup").get("podGroupName") == group else ""


def consumer_of(pod: Object, group: Object | None, entry: ClaimReference) -> Object:
    """Who a claim is reserved for when a pod uses it: the pod, or its PodGroup if the claim is the group's."""
    if group is not None and entry.is_of(group):
        return _consumer(POD_GROUPS.group, POD_GROUPS.plural, group)
    return _consumer(PODS.group, PODS.plural, pod)


def _consumer(group: str, plural: str, obj: Object) -> Object:
    named = {"apiGroup": group} if group else {}
    return {**named, "resource": plural, "name": meta.name(obj), "uid": meta.uid(obj)}
