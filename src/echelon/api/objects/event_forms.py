"""The two forms of an Event: `v1`, which is stored, and `events.k8s.io/v1`, the same with other names of fields."""

from __future__ import annotations

from ..scheme import EVENTS, EVENTS_V1, Object

#: Field of events.k8s.io/v1 → field of v1; all others have the same name.
_CORE_NAMES = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_NAMES = {core: name for name, core in _CORE_NAMES.items()}
#: What v1 writes even if it is empty, and events.k8s.io/v1 does not.
_OMITTED_IF_EMPTY = ("reportingController", "reportingInstance")
#: Field selectors of events.k8s.io/v1 → those of v1, by which events are indexed.
FIELD_LABELS = {
    **{
        f"regarding.{part}": f"involvedObject.{part}"
        for part in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    },
    "reportingController": "reportingComponent",
    **{same: same for same in ("reason", "type", "metadata.name", "metadata.namespace")},
}


def to_core(event: Object) -> Object:
    """An event of events.k8s.io/v1 as v1."""
    renamed = {_CORE_NAMES.get(field, field): value for field, value in event.items()}
    return {**renamed, "apiVersion": EVENTS.api_version}


def from_core(event: Object) -> Object:
    """A stored event as events.k8s.io/v1."""
    renamed = {_NAMES.get(field, field): value for field, value in event.items()}
    for field in _OMITTED_IF_EMPTY:
        if not renamed.get(field):
            renamed.pop(field, None)
    return {**renamed, "apiVersion": EVENTS_V1.api_version}
