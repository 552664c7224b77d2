"""Pods of a StatefulSet: their names, their claims, and how each of them is."""

from __future__ import annotations

import re

from ...api.objects import meta
from ...api.objects.subtree import items, mapping
from ...api.scheme import PODS, VOLUME_CLAIMS, Object
from ...api.views.pod_views import PodView
from ...api.views.replica_views import StatefulSetView
from ...base.instants import parse
from .revisions import REVISION_HASH

POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"
#: Ordinals have 32 bits.
_NAME = re.compile(r"(.*)-([0-9]{1,10})")


def ordinal_of(owner: str, pod: str) -> int | None:
    """The number at the end of a pod's name; None if the pod is not called after the owner."""
    found = _NAME.fullmatch(pod)
    return int(found[2]) if found is not None and found[1] == owner else None


def build(owner: StatefulSetView, ordinal: int, template: Object, revision: str) -> Object:
    name, about = f"{owner.name}-{ordinal}", mapping(template, "metadata")
    labels = {**mapping(about, "labels"), POD_NAME: name, POD_INDEX: str(ordinal), REVISION_HASH: revision}
    copied = {field: about[field] for field in ("annotations", "finalizers") if about.get(field)}
    spec = {**mapping(template, "spec"), "hostname": name}
    if owner.spec.service_name:
        spec["subdomain"] = owner.spec.service_name
    claims = claim_names(owner, ordinal)
    if claims:
        volumes = [{"name": one, "persistentVolumeClaim": {"claimName": claim}} for one, claim in claims.items()]
        spec["volumes"] = volumes + [one for one in items(spec, "volumes") if one.get("name") not in claims]
    return {
        "apiVersion": PODS.api_version,
        "kind": PODS.kind,
        "metadata": {
            "name": name,
            "namespace": owner.namespace,
            "labels": labels,
            **copied,
            "ownerReferences": [meta.owner_reference(owner.obj, owner.resource)],
        },
        "spec": spec,
    }


def claim_names(owner: StatefulSetView, ordinal: int) -> dict[str, str]:
    """Claim template → name of the claim of one pod."""
    names = [meta.name({"metadata": {}, **one}) for one in owner.spec.volume_claim_templates]
    return {name: f"{name}-{owner.name}-{ordinal}" for name in names}


def build_claim(owner: StatefulSetView, template: str, name: str) -> Object:
    written = next(one for one in owner.spec.volume_claim_templates if one["metadata"]["name"] == template)
    about = mapping(written, "metadata")
    labels = {**mapping(about, "labels"), **mapping(owner.spec.selector, "matchLabels")}
    return {
        "apiVersion": VOLUME_CLAIMS.api_version,
        "kind": VOLUME_CLAIMS.kind,
        "metadata": {**about, "name": name, "namespace": owner.namespace, "labels": labels},
        "spec": mapping(written, "spec"),
    }


def seconds_until_available(pod: PodView, min_ready_seconds: int, now: float) -> float | None:
    """0 if it is available, None if it is not ready."""
    ready = pod.condition("Ready")
    if pod.phase != "Running" or ready is None or ready.status != "True":
        return None
    if not min_ready_seconds or not ready.last_transition_time:
        return 0.0 if not min_ready_seconds else float(min_ready_seconds)
    return max(0.0, parse(ready.last_transition_time) + min_ready_seconds - now)
