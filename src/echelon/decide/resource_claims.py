"""ResourceClaims: made from templates for pods and PodGroups, and given back when nobody uses them any more.

    Pod, PodGroup ─► made_for      the claims that its templates ask for, and their names in its status
    ResourceClaim ─► released      consumers that are gone leave `reservedFor`; the last one frees the devices

Devices are chosen by the scheduler; nothing here allocates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..api.objects import meta
from ..api.objects.subtree import mapping
from ..api.objects.vocabulary import CLAIM_PROTECTION, POD_CLAIM_NAME
from ..api.scheme import POD_GROUPS, PODS, RESOURCE_CLAIMS, Object, Resource
from ..api.verbs import Patch, PatchType
from ..api.views.claim_references import ClaimReference, claims_of
from ..api.views.device_views import Consumer, ResourceClaimTemplateView, ResourceClaimView
from ..api.views.pod_views import PodView
from .plan import NOTHING, ApplyPatch, Create, Delete, Draft, Note, Plan

#: The longest base of a generated name: a hyphen and five characters are added.
_LONGEST_BASE = 57
_WARNING = "FailedResourceClaimCreation"

Templates = Callable[[str], ResourceClaimTemplateView | None]


def made_for(
    resource: Resource,
    owner: Object,
    own: Sequence[ResourceClaimView],
    templates: Templates,
    group: Object | None = None,
    of_group: Mapping[str, str] | None = None,
) -> Plan:
    """Create the claims of a Pod or PodGroup that are missing, and write their names into its status.

    `own` are the claims that it controls; entries of its `group` have the claims that the group's status names.
    """
    draft, names = Draft(), dict[str, str]()
    known = {claim.made_for: claim for claim in own if not claim.deleting}
    for entry in claims_of(owner):
        if not entry.template or entry.void:
            continue
        if group is not None and entry.is_of(group):
            name = (of_group or {}).get(entry.name, "")
            names |= {entry.name: name} if name else {}
        elif entry.name in known:
            names[entry.name] = known[entry.name].name
        elif not entry.claim:
            _create(draft, resource, owner, entry, templates(f"{meta.namespace(owner)}/{entry.template}"))
    told = {entry.name: entry.claim for entry in claims_of(owner) if entry.template and entry.claim}
    if any(told.get(name) != claim for name, claim in names.items()):
        statuses = [{"name": name, "resourceClaimName": claim} for name, claim in sorted({**told, **names}.items())]
        body = {"metadata": {"uid": meta.uid(owner)}, "status": {"resourceClaimStatuses": statuses}}
        patch = Patch(PatchType.MERGE, body)
        place = (meta.namespace(owner), meta.name(owner))
        draft.stage(ApplyPatch(resource, *place, patch, subresource="status", gone_is_fine=True))
    return draft.done()


def _create(
    draft: Draft, resource: Resource, owner: Object, entry: ClaimReference, template: ResourceClaimTemplateView | None
) -> None:
    if template is None:
        message = f'PodResourceClaim {entry.name}: resource claim template "{entry.template}" not found'
        draft.note(Note(resource, owner, "Warning", _WARNING, message))
        return
    refused = Note(resource, owner, "Warning", _WARNING, f"PodResourceClaim {entry.name}: {{error}}")
    draft.stage(Create(RESOURCE_CLAIMS, _claim(resource, owner, entry.name, template), refused=refused))


def _claim(resource: Resource, owner: Object, name: str, template: ResourceClaimTemplateView) -> Object:
    described = mapping(template.obj, "spec", "metadata")
    labels = {"labels": dict(described["labels"])} if described.get("labels") else {}
    return {
        "apiVersion": RESOURCE_CLAIMS.api_version,
        "kind": RESOURCE_CLAIMS.kind,
        "metadata": {
            "generateName": _base(meta.name(owner), name),
            "namespace": meta.namespace(owner),
            "annotations": {**(described.get("annotations") or {}), POD_CLAIM_NAME: name},
            "ownerReferences": [meta.owner_reference(owner, resource)],
            **labels,
        },
        "spec": mapping(template.obj, "spec", "spec"),
    }


def _base(owner: str, name: str) -> str:
    base = f"{owner}-{name}-"
    if len(base) <= _LONGEST_BASE:
        return base
    return f"{owner[: len(owner) * _LONGEST_BASE // len(base)]}-{name[: len(name) * _LONGEST_BASE // len(base)]}-"


# -- giving back -------------------------------------------------------------------------------------------------


def is_done(pod: PodView) -> bool:
    """Whether a pod uses its claims no more, or never will."""
    return pod.ended or (pod.deleting and not pod.spec.node_name)


def released(claim: ResourceClaimView, uses: Callable[[Consumer], bool], owner: PodView | None) -> Plan:
    """Drop consumers that are gone; free the devices after the last one; delete what was made for a pod that is done.

    `uses` tells whether a consumer is still there; `owner` is the pod that the claim was made for, if it is known.
    """
    status, draft = claim.status, Draft()
    left = [consumer for consumer in status.reserved_for if uses(consumer)]
    free = not left and (len(status.reserved_for) > 0 or claim.deleting)
    if len(left) < len(status.reserved_for) or (free and status.allocation is not None):
        kept = {consumer.uid for consumer in left}
        listed = (
            [one for one in mapping(claim.obj, "status")["reservedFor"] if one.get("uid") in kept] if left else None
        )
        changed: Object = {"reservedFor": listed}
        if not left and CLAIM_PROTECTION in claim.metadata.finalizers:
            changed["allocation"] = None
        draft.stage(_patch(claim, {"status": changed}, "status"))
        return draft.done()
    if CLAIM_PROTECTION in claim.metadata.finalizers and not left and (claim.deleting or status.allocation is None):
        finalizers = [one for one in claim.metadata.finalizers if one != CLAIM_PROTECTION]
        draft.stage(_patch(claim, {"metadata": {"finalizers": finalizers or None}}))
        return draft.done()
    if not left and owner is not None and not claim.deleting and (not claim.controlled_by(owner.uid) or is_done(owner)):
        return Plan(stages=((Delete(RESOURCE_CLAIMS, claim.namespace, claim.name, claim.uid),),))
    return NOTHING


def _patch(claim: ResourceClaimView, body: Object, subresource: str = "") -> ApplyPatch:
    """Only while the claim is as it was read."""
    metadata = {**body.get("metadata", {}), "resourceVersion": claim.metadata.resource_version}
    patch = Patch(PatchType.MERGE, {**body, "metadata": metadata})
    place = (RESOURCE_CLAIMS, claim.namespace, claim.name)
    if subresource:
        return ApplyPatch(*place, patch, subresource="status", gone_is_fine=True)
    return ApplyPatch(*place, patch, gone_is_fine=True)


def is_pod(consumer: Consumer) -> bool:
    return not consumer.api_group and consumer.resource == PODS.plural


def is_group(consumer: Consumer) -> bool:
    return consumer.api_group == POD_GROUPS.group and consumer.resource == POD_GROUPS.plural
