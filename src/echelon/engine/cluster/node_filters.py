"""Which nodes a shape may use at all: selector, affinity terms, volumes, taints, cordons.

Free resources are counted by `slots`.  A requirement is evaluated once per distinct label value and spread over the
rows by indexing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ..records.demand import LARGEST, NodeTerm, Requirement, Shape, Taint, Toleration
from ..records.reasons import Reason, ReasonKind
from .arrays import Bools, Rows
from .node_table import NodeTable
from .pod_index import meets

CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
EVERYWHERE = slice(None)
CORDONED = Reason(ReasonKind.CORDONED)
NODE_AFFINITY = Reason(ReasonKind.NODE_AFFINITY)
VOLUME_NODE_AFFINITY = Reason(ReasonKind.VOLUME_NODE_AFFINITY)
DEVICES_ELSEWHERE = Reason(ReasonKind.DEVICES_ELSEWHERE)


def allowed(table: NodeTable, shape: Shape, rows: Rows = EVERYWHERE) -> Bools:
    """For each row whether the shape may be put there, room apart."""
    fine = np.ones(_length(table, rows), dtype=np.bool_)
    for _, excluded in (*_basic_exclusions(table, shape, rows), *_selection_exclusions(table, shape, rows)):
        fine &= ~excluded
    # By set, not by taint: a node may have thousands of taints.
    by_key = _by_key(shape.tolerations)
    repelling = np.fromiter((_repels(taints, by_key) for taints in table.taint_sets), dtype=np.bool_)
    if repelling.any():
        fine &= ~repelling[table.taints[rows]]
    return fine


def exclusions(table: NodeTable, shape: Shape, rows: Rows = EVERYWHERE) -> Iterator[tuple[Reason, Bools]]:
    """Every rule that excludes rows, with its reason, the most basic first."""
    yield from _basic_exclusions(table, shape, rows)
    for taint, numbers in _untolerated(table, shape).items():
        carrying = np.zeros(len(table.taint_sets), dtype=np.bool_)
        carrying[numbers] = True
        yield Reason(ReasonKind.TAINT, (taint.key, taint.value)), carrying[table.taints[rows]]
    yield from _selection_exclusions(table, shape, rows)


def _basic_exclusions(table: NodeTable, shape: Shape, rows: Rows) -> Iterator[tuple[Reason, Bools]]:
    """What the shape itself rules out, and cordons."""
    if shape.unsupported:
        everywhere = np.ones(_length(table, rows), dtype=np.bool_)
        yield Reason(ReasonKind.UNSUPPORTED_FIELD, shape.unsupported), everywhere
    for resource, amount in shape.requests:
        if amount > LARGEST:
            everywhere = np.ones(_length(table, rows), dtype=np.bool_)
            yield Reason(ReasonKind.REQUEST_TOO_LARGE, (resource,)), everywhere
    for awaited in shape.waits:
        yield Reason(ReasonKind.WAITING_FOR, (awaited,)), np.ones(_length(table, rows), dtype=np.bool_)
    if table.cordons and not tolerated(CORDON, shape.tolerations):
        yield CORDONED, table.cordoned[rows]


def _selection_exclusions(table: NodeTable, shape: Shape, rows: Rows) -> Iterator[tuple[Reason, Bools]]:
    """Node selector, node affinity, volumes, devices."""
    for key, value in shape.node_selector:
        wrong = ~_matching(table, Requirement(key, "In", (value,)), rows)
        yield Reason(ReasonKind.NODE_SELECTOR, (key, value)), wrong
    if shape.node_terms is not None:
        yield NODE_AFFINITY, ~_any(table, shape.node_terms, rows)
    for terms in shape.volumes:
        yield VOLUME_NODE_AFFINITY, ~_any(table, terms, rows)
    for terms in shape.devices:
        yield DEVICES_ELSEWHERE, ~_any(table, terms, rows)


def _by_key(tolerations: tuple[Toleration, ...]) -> dict[str, list[Toleration]]:
    """Tolerations by the key of the taint that they are for; "" for any."""
    found: dict[str, list[Toleration]] = {}
    for toleration in tolerations:
        found.setdefault(toleration.key, []).append(toleration)
    return found


def _repels(taints: tuple[Taint, ...], by_key: dict[str, list[Toleration]]) -> bool:
    return any(taint.effect != "PreferNoSchedule" and not _is_tolerated(taint, by_key) for taint in taints)


def _is_tolerated(taint: Taint, by_key: dict[str, list[Toleration]]) -> bool:
    """Whether one of the tolerations for its key, or for any, covers a taint: there may be thousands of each."""
    matching = (*by_key.get(taint.key, ()), *by_key.get("", ()))
    return any(_tolerates(toleration, taint) for toleration in matching)


def tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def _length(table: NodeTable, rows: Rows) -> int:
    return table.size if isinstance(rows, slice) else len(rows)


def _untolerated(table: NodeTable, shape: Shape) -> dict[Taint, list[int]]:
    """Taints that keep the shape away, in order, each with the numbers of the taint sets that it is in."""
    found: dict[Taint, list[int]] = {}
    for number, taints in enumerate(table.taint_sets):
        for taint in taints:
            if taint.effect != "PreferNoSchedule":
                found.setdefault(taint, []).append(number)
    by_key = _by_key(shape.tolerations)
    order = sorted(found, key=lambda taint: (taint.key, taint.value, taint.effect))
    return {taint: found[taint] for taint in order if not _is_tolerated(taint, by_key)}


def _any(table: NodeTable, terms: tuple[NodeTerm, ...], rows: Rows) -> Bools:
    """Rows that match one of the terms."""
    found = np.zeros(_length(table, rows), dtype=np.bool_)
    for term in terms:
        found |= matches_term(table, term, rows)
    return found


def matches_term(table: NodeTable, term: NodeTerm, rows: Rows = EVERYWHERE) -> Bools:
    """For each row whether a node has what a term asks for."""
    fine = np.full(_length(table, rows), bool(term.labels or term.fields), dtype=np.bool_)
    for requirement in term.labels:
        fine &= _matching(table, requirement, rows)
    for requirement in term.fields:
        fine &= _named(table, requirement, rows)
    return fine


def _matching(table: NodeTable, requirement: Requirement, rows: Rows) -> Bools:
    column = table.column(requirement.key)
    # The last entry stands for "label missing": the id of such rows is -1.
    verdicts = np.zeros(len(column.values) + 1, dtype=np.bool_)
    match requirement.operator:
        case "In":
            verdicts[[column.values[value] for value in requirement.values if value in column.values]] = True
        case "NotIn":
            verdicts[:] = True
            verdicts[[column.values[value] for value in requirement.values if value in column.values]] = False
        case "Exists":
            verdicts[:-1] = True
        case "DoesNotExist":
            verdicts[-1] = True
        case "Gt" | "Lt":
            for value, number in column.values.items():
                verdicts[number] = compares(value, requirement)
    return verdicts[column.ids[rows]]


def matches_node(term: NodeTerm, name: str, labels: Mapping[str, str]) -> bool:
    """Whether one node has what a term asks for."""
    if not term.labels and not term.fields:
        return False
    fields = {"metadata.name": name}
    return all(_is_met(one, labels) for one in term.labels) and all(_is_met(one, fields) for one in term.fields)


def _is_met(requirement: Requirement, values: Mapping[str, str]) -> bool:
    value = values.get(requirement.key)
    if requirement.operator in ("Gt", "Lt"):
        return value is not None and compares(value, requirement)
    return meets(requirement, value)


def compares(value: str, requirement: Requirement) -> bool:
    """Whether a value is above or below the number that `Gt` or `Lt` names."""
    try:
        have, limit = int(value), int(requirement.values[0])
    except (ValueError, IndexError):
        return False
    return have > limit if requirement.operator == "Gt" else have < limit


def _named(table: NodeTable, requirement: Requirement, rows: Rows) -> Bools:
    """`matchFields`: only `metadata.name` exists."""
    if requirement.key != "metadata.name" or requirement.operator not in ("In", "NotIn"):
        return np.zeros(_length(table, rows), dtype=np.bool_)
    listed = np.zeros(table.size, dtype=np.bool_)
    for name in requirement.values:
        row = table.row(name)
        if row is not None:
            listed[row] = True
    return (listed if requirement.operator == "In" else ~listed)[rows]
