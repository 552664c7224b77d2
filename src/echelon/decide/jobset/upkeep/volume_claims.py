"""`volumeClaimPolicies`: claims made for the whole JobSet, and the volumes that mount them into its pods.

A claim is called after its template and the JobSet, so a claim that was retained is found again by a later JobSet of
the same name.  Only a claim that is to go with the JobSet is owned by it; the garbage collector does the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ....api.objects import meta
from ....api.objects.subtree import items, mapping
from ....api.objects.vocabulary import JOBSET_NAME
from ....api.scheme import JOB_SETS, VOLUME_CLAIMS, Object
from ...plan import Create, Note
from .. import child_names
from ..model import JobSet, Observed

_RETAIN = "Retain"


@dataclass(frozen=True)
class MissingClaims:
    """The claims to create; Jobs wait unless `clear`, because a claim of a wanted name is going or is another's."""

    creations: tuple[Create, ...]
    clear: bool
    notes: tuple[Note, ...]


def missing(js: JobSet, observed: Observed) -> MissingClaims:
    refused = Note(JOB_SETS, js.obj, "Warning", "PVCCreationFailed", "{error}")
    creations: list[Create] = []
    notes: list[Note] = []
    clear = True
    for template, retained in _templates(js):
        claim = _claim(js, template, retained)
        found = observed.find(VOLUME_CLAIMS, meta.name(claim))
        if found is None:
            creations.append(Create(VOLUME_CLAIMS, claim, refused=refused))
        elif meta.deleting(found):
            clear = False
        elif meta.controller_of(found) is not None and not meta.controlled_by(found, js.uid):
            clear = False
            notes.append(_taken(js, found))
    return MissingClaims(tuple(creations), clear, tuple(notes))


def volumes(js: JobSet, pod_spec: Object) -> list[Object]:
    """The volumes that the containers of a pod mount and a claim template provides."""
    mounted = {
        mount.get("name")
        for part in ("containers", "initContainers")
        for container in items(pod_spec, part)
        for mount in items(container, "volumeMounts")
    }
    return [
        {"name": name, "persistentVolumeClaim": {"claimName": child_names.claim_name(js.name, name)}}
        for template, _ in _templates(js)
        if (name := meta.name(template)) in mounted
    ]


def _templates(js: JobSet) -> Iterator[tuple[Object, bool]]:
    """Every template, and whether its claim outlives the JobSet."""
    for policy in js.spec.volume_claim_policies:
        retained = mapping(policy, "retentionPolicy").get("whenDeleted") == _RETAIN
        for template in items(policy, "templates"):
            yield template, retained


def _claim(js: JobSet, template: Object, retained: bool) -> Object:
    metadata: Object = {
        "name": child_names.claim_name(js.name, meta.name(template)),
        "namespace": js.namespace,
        "labels": {**meta.labels(template), JOBSET_NAME: js.name},
        "annotations": dict(meta.annotations(template)),
    }
    if not retained:
        metadata["ownerReferences"] = [meta.owner_reference(js.obj, JOB_SETS)]
    return {
        "apiVersion": VOLUME_CLAIMS.api_version,
        "kind": VOLUME_CLAIMS.kind,
        "metadata": metadata,
        "spec": mapping(template, "spec"),
    }


def _taken(js: JobSet, found: Object) -> Note:
    owner = meta.controller_of(found) or {}
    message = (
        f"PersistentVolumeClaim {meta.name(found)} exists and belongs to {owner.get('kind')} {owner.get('name')}; "
        "delete it, or rename the template"
    )
    return Note(JOB_SETS, js.obj, "Warning", "PVCCreationFailed", message)
