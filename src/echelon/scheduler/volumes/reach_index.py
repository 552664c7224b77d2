"""Which nodes reach a volume, and which volumes a node reaches, without a look at all of either.

    reach of a volume ─► anchors: label values of which a node must have one ─► NodeLabels   nodes with that value
                                                                           └──► FreeVolumes  volumes with that anchor

A cluster with disks of its own has a volume or more for every node: to compare each with each takes minutes.  Whatever
is found by an anchor is compared in full.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...engine import NodeTerm, Requirement, matches_node

#: Alternatives, of which a node has to satisfy one.
Terms = tuple[NodeTerm, ...]
#: A label and its value; the label "" is the name of a node.
Anchor = tuple[str, str]
_NAME = ""


def reached(reach: Terms | None, node: str, labels: Mapping[str, str]) -> bool:
    """Whether a node is one of those that a reach describes; None for all."""
    return reach is None or any(matches_node(term, node, labels) for term in reach)


def either(alternatives: Iterable[Terms | None]) -> Terms | None:
    """Nodes that satisfy one of several; None for all.

    Terms that name values of one label are one term, so that a thousand nodes cost no more than one.  The same nodes
    give the same terms, whatever the order.
    """
    values: dict[str, dict[str, None]] = {}
    rest: dict[NodeTerm, None] = {}
    for terms in alternatives:
        if terms is None:
            return None
        for term in terms:
            only = term.labels[0] if len(term.labels) == 1 and not term.fields else None
            if only is not None and only.operator == "In":
                values.setdefault(only.key, {}).update(dict.fromkeys(only.values))
            else:
                rest[term] = None
    merged = [NodeTerm((Requirement(key, "In", tuple(sorted(found))),)) for key, found in sorted(values.items())]
    return (*merged, *sorted(rest, key=repr))


def _anchors(reach: Terms | None) -> list[Anchor] | None:
    """Every node that is reached has one of these; None if no label tells."""
    if reach is None:
        return None
    found: dict[Anchor, None] = {}
    for term in reach:
        listed = [(one.key, one.values) for one in term.labels if one.operator == "In"]
        listed += [(_NAME, one.values) for one in term.fields if one.operator == "In"]
        if listed:
            key, values = min(listed, key=lambda one: len(one[1]))
            found |= {(key, value): None for value in values}
        elif term.labels or term.fields:
            return None
    return list(found)


class NodeLabels:
    """All nodes with their labels; a label is indexed when it is first asked for."""

    def __init__(self) -> None:
        self._labels: dict[str, Mapping[str, str]] = {}
        #: label -> value -> nodes
        self._by_label: dict[str, dict[str, dict[str, None]]] = {}

    def put(self, name: str, labels: Mapping[str, str]) -> None:
        if self._labels.get(name) == labels:
            return
        self.remove(name)
        self._labels[name] = labels
        for key in self._by_label:
            self._enter(key, name)

    def remove(self, name: str) -> None:
        labels = self._labels.pop(name, {})
        for key, by_value in self._by_label.items():
            value = name if key == _NAME else labels.get(key)
            if value in by_value:
                by_value[value].pop(name, None)
                if not by_value[value]:
                    del by_value[value]

    def all(self) -> list[str]:
        return list(self._labels)

    def reaching(self, reach: Terms | None) -> list[str]:
        """The nodes that a reach describes."""
        anchors = _anchors(reach)
        if anchors is None:
            near: Iterable[str] = self._labels
        else:
            near = {name: None for key, value in anchors for name in self._of(key).get(value, ())}
        return [name for name in near if reached(reach, name, self._labels[name])]

    def _of(self, key: str) -> dict[str, dict[str, None]]:
        if key not in self._by_label:
            self._by_label[key] = {}
            for name in self._labels:
                self._enter(key, name)
        return self._by_label[key]

    def _enter(self, key: str, name: str) -> None:
        value = name if key == _NAME else self._labels[name].get(key)
        if value is not None:
            self._by_label[key].setdefault(value, {})[name] = None


class FreeVolumes:
    """The names of volumes that can be had, by what nodes must have to reach them."""

    def __init__(self) -> None:
        #: name -> size and reach
        self._volumes: dict[str, tuple[int, Terms | None]] = {}
        self._near: dict[Anchor, dict[str, None]] = {}
        #: Those of which no label tells the nodes.
        self._anywhere: dict[str, None] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._volumes

    def put(self, name: str, size: int, reach: Terms | None) -> None:
        self._volumes[name] = size, reach
        anchors = _anchors(reach)
        if anchors is None:
            self._anywhere[name] = None
        for anchor in anchors or ():
            self._near.setdefault(anchor, {})[name] = None

    def remove(self, name: str) -> Terms | None:
        """Take out a volume that is there; returns its reach."""
        _, reach = self._volumes.pop(name)
        self._anywhere.pop(name, None)
        for anchor in _anchors(reach) or ():
            del self._near[anchor][name]
            if not self._near[anchor]:
                del self._near[anchor]
        return reach

    def reaches(self) -> list[Terms | None]:
        """The different reaches of all volumes."""
        return list(dict.fromkeys(reach for _, reach in self._volumes.values()))

    def reached_by(self, node: str, labels: Mapping[str, str]) -> list[str]:
        """The volumes that a node reaches, the smallest first."""
        near = dict(self._anywhere)
        for anchor in ((_NAME, node), *labels.items()):
            near |= self._near.get(anchor, {})
        found = [name for name in near if reached(self._volumes[name][1], node, labels)]
        return sorted(found, key=lambda name: (self._volumes[name][0], name))
