"""The ResourceClaim controller: claims from templates, and claims that nobody uses any more.

Keys name what is looked at: `pod ns/name`, `podgroup ns/name` or `claim ns/name`.  A watch may lag: before a
consumer counts as gone, it is read from the server.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...api.objects import meta
from ...api.objects.subtree import items
from ...api.scheme import POD_GROUPS, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Object, Resource
from ...api.views.claim_references import claims_of, sharing_group
from ...api.views.device_views import Consumer, ResourceClaimTemplateView, ResourceClaimView
from ...api.views.group_views import PodGroupView
from ...api.views.pod_views import PodView
from ...client.informer import Caches
from ...decide.plan import NOTHING, Plan
from ...decide.resource_claims import is_done, is_group, is_pod, made_for, released
from ..groups.protection import group_of_pod
from ..runner import Source

_OWNER, _TEMPLATE, _GROUP = "claim-owner", "claim-template", "claim-group"
_POD, _POD_GROUP, _CLAIM = "pod", "podgroup", "claim"


class ResourceClaimController:
    name = "resourceclaim"

    def __init__(self, caches: Caches) -> None:
        self._claims = caches.views(ResourceClaimView, {_OWNER: _owner_uid})
        self._templates = caches.views(ResourceClaimTemplateView)
        self._pods = caches.views(PodView, {_TEMPLATE: _template_keys, _GROUP: group_of_pod})
        self._groups = caches.views(PodGroupView, {_TEMPLATE: _template_keys})

    def sources(self) -> Sequence[Source]:
        return (
            Source(PODS, self._of_pod),
            Source(POD_GROUPS, self._of_group),
            Source(RESOURCE_CLAIMS, _of_claim),
            Source(RESOURCE_CLAIM_TEMPLATES, self._of_template),
        )

    # ---- whom a change concerns

    def _of_pod(self, pod: Object) -> Iterable[str]:
        entries = claims_of(pod)
        if not entries:
            return ()
        own = [f"{_CLAIM} {claim.key}" for claim in self._claims.find(_OWNER, meta.uid(pod))]
        named = [f"{_CLAIM} {meta.namespace(pod)}/{entry.claim}" for entry in entries if entry.claim]
        return (f"{_POD} {meta.key(pod)}", *dict.fromkeys((*own, *named)))

    def _of_group(self, group: Object) -> Iterable[str]:
        entries = claims_of(group)
        if not entries:
            return ()
        pods = [f"{_POD} {pod.key}" for pod in self._pods.find(_GROUP, meta.key(group))]
        named = [f"{_CLAIM} {meta.namespace(group)}/{entry.claim}" for entry in entries if entry.claim]
        return (f"{_POD_GROUP} {meta.key(group)}", *named, *pods)

    def _of_template(self, template: Object) -> Iterable[str]:
        key = meta.key(template)
        pods = [f"{_POD} {pod.key}" for pod in self._pods.find(_TEMPLATE, key)]
        return (*(f"{_POD_GROUP} {group.key}" for group in self._groups.find(_TEMPLATE, key)), *pods)

    # ---- decisions

    def decide(self, key: str, now: float) -> Plan:
        kind, _, name = key.partition(" ")
        if kind == _CLAIM:
            return self._release(name)
        return self._make_for_pod(name) if kind == _POD else self._make_for_group(name)

    def _make_for_pod(self, key: str) -> Plan:
        pod = self._pods.get(key)
        if pod is None or pod.deleting or pod.ended:
            return NOTHING
        group = self._groups.get(f"{pod.namespace}/{name}") if (name := sharing_group(pod.obj)) else None
        shared = {entry.name: entry.claim for entry in claims_of(group.obj)} if group is not None else {}
        own = self._claims.find(_OWNER, pod.uid)
        return made_for(PODS, pod.obj, own, self._templates.get, group.obj if group is not None else None, shared)

    def _make_for_group(self, key: str) -> Plan:
        group = self._groups.get(key)
        if group is None or group.deleting:
            return NOTHING
        return made_for(POD_GROUPS, group.obj, self._claims.find(_OWNER, group.uid), self._templates.get)

    def _release(self, key: str) -> Plan:
        claim = self._claims.get(key)
        if claim is None:
            return NOTHING
        owner = claim.controller
        pod = self._pods.get(f"{claim.namespace}/{owner.name}") if owner and owner.kind == PODS.kind else None
        return released(claim, lambda consumer: self._uses(claim.namespace, consumer), pod)

    def _uses(self, namespace: str, consumer: Consumer) -> bool:
        if is_pod(consumer):
            pod = self._pods.get(f"{namespace}/{consumer.name}")
            return pod is not None and pod.uid == consumer.uid and not is_done(pod)
        if is_group(consumer):
            group = self._groups.get(f"{namespace}/{consumer.name}")
            return group is not None and group.uid == consumer.uid
        return True

    def doubts(self, key: str) -> Iterable[tuple[Resource, str, str]]:
        """Consumers that the caches do not know: they may be new."""
        kind, _, name = key.partition(" ")
        claim = self._claims.get(name) if kind == _CLAIM else None
        if claim is None:
            return
        for consumer in claim.status.reserved_for:
            known = f"{claim.namespace}/{consumer.name}"
            if is_pod(consumer) and self._pods.get(known) is None:
                yield PODS, claim.namespace, consumer.name
            elif is_group(consumer) and self._groups.get(known) is None:
                yield POD_GROUPS, claim.namespace, consumer.name


def _of_claim(claim: Object) -> Iterable[str]:
    owner = meta.controller_of(claim)
    own = (f"{_CLAIM} {meta.key(claim)}",)
    kinds: dict[str, str] = {PODS.kind: _POD, POD_GROUPS.kind: _POD_GROUP}
    if owner is None or owner["kind"] not in kinds:
        return own
    return (f"{kinds[owner['kind']]} {meta.namespace(claim)}/{owner['name']}", *own)


def _owner_uid(claim: Object) -> Iterable[str]:
    owner = meta.controller_of(claim)
    return (owner["uid"],) if owner is not None else ()


def _template_keys(owner: Object) -> Iterable[str]:
    names = (entry.get("resourceClaimTemplateName") for entry in items(owner, "spec", "resourceClaims"))
    return dict.fromkeys(f"{meta.namespace(owner)}/{name}" for name in names if name)
