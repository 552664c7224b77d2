"""Reads and builds what all objects share: names, labels, owner references, conditions."""

from collections.abc import Iterable, Mapping
from typing import Any

from ...base.instants import to_time
from ..scheme import Object, Resource

_NOTHING: Mapping[str, Any] = {}


def name(obj: Object) -> str:
    found: str = obj["metadata"].get("name", "")
    return found


def namespace(obj: Object) -> str:
    found: str = obj["metadata"].get("namespace", "")
    return found


def uid(obj: Object) -> str:
    found: str = obj["metadata"].get("uid", "")
    return found


def key(obj: Object) -> str:
    """`namespace/name`, or `name` for cluster-scoped objects: the key of work queues and caches."""
    known = obj["metadata"]
    space, own = known.get("namespace"), known["name"]
    return f"{space}/{own}" if space else own


def labels(obj: Object) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or _NOTHING


def annotations(obj: Object) -> Mapping[str, str]:
    return obj["metadata"].get("annotations") or _NOTHING


def deleting(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def finalizers(obj: Object) -> list[str]:
    return obj["metadata"].get("finalizers") or []


def owner_references(obj: Object) -> list[Object]:
    return obj["metadata"].get("ownerReferences") or []


def controller_of(obj: Object) -> Mapping[str, Any] | None:
    """The owner reference with `controller: true`, if any."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return owner  # type: ignore[no-any-return]
    return None


def controlled_by(obj: Object, owner_uid: str) -> bool:
    owner = controller_of(obj)
    return owner is not None and owner["uid"] == owner_uid


def owner_reference(owner: Object, resource: Resource, *, controller: bool = True) -> Object:
    """A reference to `owner`; as controller it also blocks the owner's foreground deletion."""
    reference: Object = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": name(owner),
        "uid": uid(owner),
    }
    if controller:
        reference |= {"controller": True, "blockOwnerDeletion": True}
    return reference


def find_condition(obj: Object, type_: str) -> Mapping[str, Any] | None:
    status: Mapping[str, Any] = obj.get("status") or _NOTHING
    for condition in status.get("conditions") or ():
        if condition.get("type") == type_:
            return condition  # type: ignore[no-any-return]
    return None


def condition_is(obj: Object, type_: str, status: str = "True") -> bool:
    found = find_condition(obj, type_)
    return found is not None and found.get("status") == status


def true_condition(obj: Object, type_: str) -> Mapping[str, Any] | None:
    """The condition of a type if it holds."""
    found = find_condition(obj, type_)
    return found if found is not None and found.get("status") == "True" else None


def condition(type_: str, status: str, reason: str, message: str, now: float) -> Object:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": to_time(now),
    }


def with_condition(conditions: Iterable[Object], new: Object) -> list[Object]:
    """`conditions` with `new` replacing the one of its type; an unchanged status keeps its transition time."""
    result: list[Object] = []
    placed = False
    for old in conditions:
        if old.get("type") != new["type"]:
            result.append(old)
            continue
        placed = True
        same = old.get("status") == new["status"] and "lastTransitionTime" in old
        kept = {"lastTransitionTime": old["lastTransitionTime"]} if same else {}
        result.append({**old, **new, **kept})
    if not placed:
        result.append(new)
    return result
