"""Templates of a StatefulSet or DaemonSet as ControllerRevisions: which is the newest, and which are too many."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ...api.objects import meta
from ...api.objects.subtree import mapping
from ...api.scheme import CONTROLLER_REVISIONS, Object
from ...api.verbs import Patch, PatchType
from ...api.views.object_view import ObjectView
from ...api.views.replica_views import ControllerRevisionView
from ..plan import Action, ApplyPatch, Create, Delete
from .template_hash import short_hash

#: Label of pods: the name of their revision; of revisions: their hash.
REVISION_HASH = "controller-revision-hash"


@dataclass(frozen=True)
class Newest:
    """The revision of the template as it stands, and what must be written before it can be used."""

    name: str
    write: Action | None = None
    #: The name belongs to something else.
    collides: bool = False


def stored_template(obj: Object) -> Object:
    """The template of an object as a strategic merge patch, the form that `kubectl rollout undo` applies.

    Its fields are in order: clients compare it with the text that Go makes of an object.
    """
    found: Object = _ordered({"spec": {"template": {**mapping(obj, "spec", "template"), "$patch": "replace"}}})
    return found


def _ordered(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _ordered(value) for key, value in sorted(tree.items())}
    return [_ordered(item) for item in tree] if isinstance(tree, list) else tree


def template_of_revision(revision: ControllerRevisionView) -> Object:
    """With the mark that makes it a patch; its metadata and spec are those of pods."""
    return mapping(revision.data, "spec", "template")


def newest(
    owner: ObjectView[Any, Any],
    collisions: int,
    revisions: Sequence[ControllerRevisionView],
    named: Callable[[str], ControllerRevisionView | None],
) -> Newest:
    """`revisions` are those of the owner, oldest first."""
    data = stored_template(owner.obj)
    number = revisions[-1].number + 1 if revisions else 1
    equal = [one for one in revisions if one.data == data]
    if equal and equal[-1] is revisions[-1]:
        return Newest(equal[-1].name)
    if equal:
        body = {"metadata": {"uid": equal[-1].uid}, "revision": number}
        patch = Patch(PatchType.MERGE, body)
        return Newest(equal[-1].name, ApplyPatch(CONTROLLER_REVISIONS, owner.namespace, equal[-1].name, patch))
    hashed = short_hash(data, collisions)
    name = f"{owner.name}-{hashed}"
    if named(name) is not None:
        return Newest(name, collides=True)
    labels = {**mapping(owner.obj, "spec", "template", "metadata", "labels"), REVISION_HASH: hashed}
    made: Object = {
        "apiVersion": CONTROLLER_REVISIONS.api_version,
        "kind": CONTROLLER_REVISIONS.kind,
        "metadata": {
            "name": name,
            "namespace": owner.namespace,
            "labels": labels,
            **({"annotations": dict(owner.metadata.annotations)} if owner.metadata.annotations else {}),
            "ownerReferences": [meta.owner_reference(owner.obj, owner.resource)],
        },
        "data": data,
        "revision": number,
    }
    return Newest(name, Create(CONTROLLER_REVISIONS, made))


def surplus(revisions: Sequence[ControllerRevisionView], used: Collection[str], limit: int) -> list[Delete]:
    """Deletions of the oldest revisions that nothing uses, but for `limit` of them."""
    unused = [one for one in revisions if one.name not in used]
    gone = unused[: max(0, len(unused) - limit)]
    return [Delete(CONTROLLER_REVISIONS, one.namespace, one.name, one.uid) for one in gone]
