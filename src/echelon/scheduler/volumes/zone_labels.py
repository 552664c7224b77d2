"""Zones and regions that labels of a volume name: volumes of old provisioners, and those made by hand, say it there.

A node without any label of that kind is taken for a cluster of one zone, as kube-scheduler does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from ...api.objects.vocabulary import REGION, ZONE
from ...engine import NodeTerm, Requirement
from .reach_index import Terms

#: Labels of volumes, and the newer name by which a node may have the same.
_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
    ZONE: ZONE,
    REGION: REGION,
}
#: Between the zones of a volume that is in several.
_BETWEEN = "__"


def within_zones(reach: Terms | None, labels: Mapping[str, str]) -> Terms | None:
    """What of a reach lies in the zones that the labels of a volume name."""
    named = [(key, values) for key in _LABELS if (values := _values(labels.get(key, "")))]
    missing = [(key, values) for key, values in named if not _says(reach, key, values)]
    if not missing:
        return reach
    bare = NodeTerm(tuple(Requirement(key, "DoesNotExist") for key in _LABELS))
    zones = [bare, *(NodeTerm(tuple(one for part in parts for one in part)) for parts in product(*_ways(missing)))]
    if reach is None:
        return tuple(zones)
    # A term without labels and fields is about no node.
    given = [term for term in reach if term.labels or term.fields]
    return tuple(NodeTerm((*term.labels, *zone.labels), term.fields) for term in given for zone in zones)


def _values(text: str) -> tuple[str, ...]:
    """The zones of a label; none if it cannot be read."""
    found = tuple(dict.fromkeys(one.strip() for one in text.split(_BETWEEN)))
    return found if all(found) else ()


def _says(reach: Terms | None, key: str, values: tuple[str, ...]) -> bool:
    """Whether every node of a reach has one of these values anyway."""
    return reach is not None and all(
        any(one.key == key and one.operator == "In" and {*one.values} <= {*values} for one in term.labels)
        for term in reach
    )


def _ways(named: list[tuple[str, tuple[str, ...]]]) -> Iterator[list[tuple[Requirement, ...]]]:
    """For each label how a node can have one of its values."""
    for key, values in named:
        newer = _LABELS[key]
        own = Requirement(key, "In", values)
        more = [(Requirement(newer, "In", values), Requirement(key, "DoesNotExist"))] if newer != key else []
        yield [(own,), *more]
