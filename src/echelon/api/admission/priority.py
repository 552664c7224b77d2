"""Priority: resolves priorityClassName to priority and preemptionPolicy, on pods and on both kinds of groups.

The preemption policy of the class replaces the default; an explicit value that contradicts the class is an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from ..errors import ApiError, forbidden
from ..scheme import COMPOSITE_POD_GROUPS, POD_GROUPS, PODS, PRIORITY_CLASSES, Object, Resource
from .reader import Reader

DEFAULT_POLICY = "PreemptLowerPriority"
#: Names of the kinds in messages.
_CALLED = {PODS.kind: "pod", POD_GROUPS.kind: "pod group", COMPOSITE_POD_GROUPS.kind: "composite pod group"}


class ClassReader(Protocol):
    """What is read here; every `Reader` can."""

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object | None: ...

    def list(self, resource: Resource, namespace: str = "") -> Iterable[Object]: ...


@dataclass(frozen=True)
class _Class:
    name: str
    value: int
    policy: str


def resolve(resource: Resource, obj: Object, reader: ClassReader) -> None:
    """Set priorityClassName, priority and preemptionPolicy from the class."""
    spec = obj.setdefault("spec", {})
    found = _named(resource, obj, spec["priorityClassName"], reader) if spec.get("priorityClassName") else None
    chosen = found or _global_default(reader)
    _agree_on_priority(resource, obj, chosen.value)
    _agree_on_policy(resource, obj, chosen.policy)
    if chosen.name:
        spec["priorityClassName"] = chosen.name
    spec["priority"] = chosen.value
    spec["preemptionPolicy"] = chosen.policy


def _named(resource: Resource, obj: Object, name: str, reader: ClassReader) -> _Class:
    found = reader.get(PRIORITY_CLASSES, name)
    if found is None:
        raise _refused(resource, obj, f"no PriorityClass with name {name} was found")
    return _read(found)


def _global_default(reader: ClassReader) -> _Class:
    marked = [_read(found) for found in reader.list(PRIORITY_CLASSES) if found.get("globalDefault")]
    return min(marked, key=lambda one: (one.value, one.name), default=_Class("", 0, DEFAULT_POLICY))


def _read(priority_class: Object) -> _Class:
    return _Class(
        priority_class["metadata"]["name"],
        priority_class.get("value", 0),
        priority_class.get("preemptionPolicy", DEFAULT_POLICY),
    )


def _agree_on_priority(resource: Resource, obj: Object, computed: int) -> None:
    given = obj["spec"].get("priority")
    if given is None or given == computed:
        return
    if resource.kind == PODS.kind:
        detail = (
            f"the integer value of priority ({given}) must not be provided in pod spec; "
            f"priority admission controller computed {computed} from the given PriorityClass name"
        )
    else:
        detail = (
            f"priority set in the {_CALLED[resource.kind]} ({given}) must match the priority computed ({computed}) "
            "based on the priority class set in the spec"
        )
    raise _refused(resource, obj, detail)


def _agree_on_policy(resource: Resource, obj: Object, computed: str) -> None:
    given = obj["spec"].get("preemptionPolicy")
    if given is None or given == computed:
        return
    detail = (
        f"the string value of PreemptionPolicy ({given}) must not be provided in {_CALLED[resource.kind]} spec; "
        f"priority admission controller computed {computed} from the given PriorityClass name"
    )
    raise _refused(resource, obj, detail)


def single_default(resource: Resource, obj: Object, reader: Reader) -> None:
    """At most one PriorityClass may be the global default."""
    if not obj.get("globalDefault"):
        return
    name = obj["metadata"].get("name", "")
    for other in reader.list(PRIORITY_CLASSES):
        if other.get("globalDefault") and other["metadata"]["name"] != name:
            taken = other["metadata"]["name"]
            detail = f"PriorityClass {taken} is already marked as default. Only one default can exist"
            raise _refused(resource, obj, detail)


def _refused(resource: Resource, obj: Object, detail: str) -> ApiError:
    return forbidden(resource, obj["metadata"].get("name", ""), detail)
