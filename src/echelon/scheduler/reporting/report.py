"""What users read: the conditions and events that each outcome writes on groups and pods.

| outcome                  | groups (…InitiallyScheduled)                | pods (PodScheduled)          |
|--------------------------|---------------------------------------------|------------------------------|
| something is missing yet | False Unschedulable, what it waits for      | False WaitingForGroup        |
| the tree is wrong        | False PodGroupError, CompositePodGroupError | False SchedulerError         |
| blocked                  | False Unschedulable, what is missing        | False Unschedulable          |
| reserved                 | the same                                    | the same, and nominated node |
| preempting               | False Unschedulable, the victims            | the same, and nominated node |
| placed                   | True Scheduled, and stays so                | True, by the binding         |

A message on an object leaves out the object's own name.  Nothing reads messages again: whoever needs to know reads
reasons, fields and annotations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from ...api.objects import meta
from ...api.objects.vocabulary import INITIALLY_SCHEDULED
from ...api.scheme import JOB_SETS, JOBS, PODS, TRAIN_JOBS, WORKLOADS, Object, Resource
from ...base.clock import Clock
from ...base.paths import spoken
from ...client.events import Recorder, reference_to
from ...engine import Blocked, Domain, Origin, Placed, UnitName, first_step, for_group, sentence
from ..intake.group_policy import COMPOSITE, POD_GROUP, Problem
from ..intake.group_tree import GroupNode, Member, Root
from .incomplete_words import IncompleteWords, obstacle
from .writes import ApiWriter, ConditionDraft

_UNSCHEDULABLE = "Unschedulable"
#: Of pods that are not tried yet.  Autoscalers take `Unschedulable` for a call for nodes, and no node would help these.
_WAITING = "WaitingForGroup"
_LAYOUT_REASON = {POD_GROUP: "PodGroupError", COMPOSITE: "CompositePodGroupError"}
_DISRUPTION = "DisruptionTarget"
_PREEMPTED = "PreemptionByScheduler"
_RELEASED = "ReleasedByScheduler"
#: A change of numbers in an explanation is not worth a write to every pod of every gang that waits.
_SECONDS_BETWEEN_TEXTS = 10.0
#: Victims that a message names.
_UNITS_TOLD = 3
_NO_PARTS: Mapping[int, Blocked] = {}
#: Bound pods that the command of a fix lists.
_PODS_IN_A_COMMAND = 8


class Reporter:
    """Writes conditions where they change, and an event where one did."""

    def __init__(self, writer: ApiWriter, recorder: Recorder, clock: Clock, words: IncompleteWords) -> None:
        self._clock = clock
        self._words = words
        self._writer = writer
        self._recorder = recorder

    def waiting(self, root: GroupNode, problem: Problem | None) -> None:
        """Not tried: a parent, a group or members are missing."""
        if problem is not None:
            for group in root.subtree():
                self._set_group(group, _UNSCHEDULABLE, problem.text)
            self._set_pods(root.pending_pods(), _WAITING, problem.text)
            return
        for group in root.subtree():
            if obstacle(group) is not None:
                self._set_group(group, _UNSCHEDULABLE, self._words.of_group(group))
        for leaf in root.leaves():
            if leaf.pending and obstacle(leaf) is not None:
                self._set_pods(leaf.pending.values(), _WAITING, self._words.of_pods(leaf))

    def meanwhile(self, root: GroupNode) -> None:
        """Room is being made for a tree: what is not complete, or came since, says what it waits for."""
        if root.counts.unready:
            self.waiting(root, None)
        late = [pod for pod in root.pending_pods() if not pod.nominated and pod.group and not obstacle(pod.group)]
        self._set_pods(late, _WAITING, "waiting for sibling pods: room is being made for them")

    def broken(self, root: GroupNode, problem: Problem) -> None:
        """Never tried: the tree is not one that may be scheduled."""
        for group in root.subtree():
            self._set_group(group, _LAYOUT_REASON[group.key.kind], problem.text)
        self._set_pods(root.pending_pods(), "SchedulerError", problem.text)

    def blocked(
        self,
        root: Root,
        verdict: Blocked,
        note: str = "",
        asked: Collection[int] = (),
        parts: Mapping[int, Blocked] = _NO_PARTS,
    ) -> str:
        """Not placed, or only in part: groups that do not hold and pods that wait say why.

        `note` is what there is to say about reservations, `asked` are the PodGroups of which pods were to be placed
        (all, if it does not say), and `parts` are verdicts on groups that were asked for by themselves.  Returns what
        is new about the root; "" if that was said before.
        """
        names, bound, more = names_of(root), _bound_pods(root), f"; {note}" if note else ""
        if isinstance(root, Member):
            text = sentence(verdict, names, bound, root.id) + more
            changed = self._set_pods([root], _UNSCHEDULABLE, text, again=_SECONDS_BETWEEN_TEXTS)
            return text if changed else ""
        changed, origins, asked = False, _origins(root), asked or {leaf.id for leaf in root.leaves()}
        for group in root.subtree():
            if not group.counts.holds:
                tried = any(leaf.id in asked for leaf in group.leaves())
                of = parts.get(group.id, verdict)
                why = for_group(of, group.id, names, bound, origins) + _first(of, group.id, origins) + more
                why = why if tried else self._words.of_group(group)
                changed |= self._set_group(group, _UNSCHEDULABLE, why)
        for leaf in root.leaves():
            tried = leaf.id in asked
            of = parts.get(leaf.id, verdict)
            why = sentence(of, names, bound, origins=origins) + _first(of, leaf.id, origins) + more
            lack = "" if tried else self._words.of_pods(leaf)
            reason = _WAITING if lack else _UNSCHEDULABLE
            changed |= self._set_pods(leaf.pending.values(), reason, lack or why, again=_SECONDS_BETWEEN_TEXTS)
        if changed:
            own = sentence(verdict, names, bound, root.id, origins) + more
            self._event(root, "Warning", "FailedScheduling", own)
            return own
        return ""

    def reserved(self, root: Root, text: str) -> None:
        """Nodes are reserved for it until the pods on them have ended."""
        self._event(root, "Normal", "Reserved", text)

    def expected(self, members: Iterable[Member]) -> None:
        """Pods say at once which node is kept for them: autoscalers and people read it there."""
        for member in members:
            self._writer.set_conditions(PODS, member.obj, nominatedNodeName=member.expected)

    def lapsed(self, root: Root, seconds: float) -> None:
        """Its reservation is released, since no pod on the reserved nodes has ended."""
        text = f"no pod on its reserved nodes has ended for {seconds:g} s; reservation released for {seconds:g} s"
        self._event(root, "Normal", "ReservationLapsed", text)

    def preempting(self, root: Root, placement: Placed, victims: Sequence[UnitName]) -> None:
        """Victims are leaving, each told by its unit; its pods are bound when they are gone."""
        text = _preempting(root, placement, victims)
        if isinstance(root, GroupNode):
            for group in root.subtree():
                self._set_group(group, _UNSCHEDULABLE, self._beside(group, text, placement))
            self._event(root, "Normal", "Preempting", text)
        for member in root.pending_pods():
            if member.group is not None and member.id not in placement.assignment:
                self._set_pods([member], _WAITING, self._beside(member.group, text, placement, of_pods=True))
                continue
            self._writer.set_conditions(
                PODS,
                member.obj,
                ConditionDraft("PodScheduled", "False", _UNSCHEDULABLE, text),
                nominatedNodeName=member.nominated,
            )

    def _beside(self, group: GroupNode, text: str, placement: Placed, *, of_pods: bool = False) -> str:
        """What a group says while room is made for its tree; it may not be among those that are placed then."""
        if group.id in placement.groups and not of_pods:
            return text
        own = self._words.of_pods(group) if of_pods else self._words.of_group(group)
        return own or f"waiting for sibling groups to be placed first: {text}"

    def placed(self, root: Root, verdict: Placed) -> None:
        """Its pods are on their way."""
        if isinstance(root, GroupNode):
            domain = verdict.domains.get(root.id)
            where = f" in {spoken(domain)}" if domain else ""
            self._event(root, "Normal", "Scheduled", f"placed {_pods(len(verdict.assignment))}{where}")

    def bound(self, member: Member) -> None:
        text = f"Successfully assigned {member.key} to {member.place}"
        self._recorder.record(PODS, member.obj, "Normal", "Scheduled", text)

    def was_scheduled(self, group: GroupNode) -> bool:
        return group.obj is not None and self._is_true(group.obj, INITIALLY_SCHEDULED[group.key.kind])

    def settled(self, root: GroupNode, placed: Collection[int]) -> None:
        """Bindings are through: groups that were placed or hold say so, for good."""
        for group in root.subtree():
            if group.obj is None or not (group.id in placed or group.counts.holds):
                continue
            conditions: list[ConditionDraft] = []
            if not self.was_scheduled(group):
                conditions.append(ConditionDraft(INITIALLY_SCHEDULED[group.key.kind], "True", "Scheduled"))
            if self._is_true(group.obj, _DISRUPTION):
                conditions.append(ConditionDraft(_DISRUPTION, "False", "Scheduled", "bound again"))
            if conditions:
                self._writer.set_conditions_later(group.resource, group.obj, *conditions)

    def evicted(self, victim: Member, preemptor: Root) -> None:
        """An event on the victim that names the preemptor."""
        text = f"{_preempted_by(preemptor)} on node {victim.place}"
        self._event_of_preemption(PODS, victim.obj, text, preemptor)

    def evicted_group(self, group: GroupNode, message: str, preemptor: Root) -> None:
        """A group evicted as a whole: it and all below it say so until they are bound again."""
        self._disrupt(group, _PREEMPTED, message)
        if group.obj is not None:
            self._event_of_preemption(group.resource, group.obj, _preempted_by(preemptor), preemptor)

    def released(
        self, root: Root, unit: GroupNode, held: Collection[Member], verdict: Blocked, message: str, where: Domain
    ) -> None:
        """A group that lost members and cannot be completed is placed anew as a whole: it and its pods say why."""
        why = sentence(replace(verdict, fixes=()), names_of(root))
        again = f"; as a whole it fits{f' in {spoken(where)}' if where else ''}" if self.was_scheduled(unit) else ""
        text = f"released {_pods(len(held))} of {unit.title}, which cannot be completed: {why}{again}"
        self._disrupt(unit, _RELEASED, message)
        if unit.obj is not None:
            self._recorder.record(unit.resource, unit.obj, "Warning", "Released", text, "Releasing")
        for member in held:
            self._recorder.record(PODS, member.obj, "Warning", "Released", text, "Releasing")

    def _disrupt(self, group: GroupNode, reason: str, message: str) -> None:
        for below in group.subtree():
            if below.obj is not None:
                condition = ConditionDraft(_DISRUPTION, "True", reason, message)
                self._writer.set_conditions(below.resource, below.obj, condition)

    def _event_of_preemption(self, resource: Resource, obj: Object, text: str, preemptor: Root) -> None:
        cause = preemptor.obj
        kind = preemptor.resource if isinstance(preemptor, GroupNode) else PODS
        related = reference_to(kind, cause) if cause is not None else None
        self._recorder.record(resource, obj, "Normal", "Preempted", text, "Preempting", related)

    def _set_group(self, group: GroupNode, reason: str, text: str) -> bool:
        if group.obj is None or self.was_scheduled(group):
            return False
        condition = ConditionDraft(INITIALLY_SCHEDULED[group.key.kind], "False", reason, text)
        return self._writer.set_conditions(group.resource, group.obj, condition)

    def _set_pods(self, members: Iterable[Member], reason: str, text: str, *, again: float = 0.0) -> bool:
        """Tell pods why they wait; another text for the same reason only when the last is `again` seconds old."""
        changed, now = False, self._clock.now()
        for member in members:
            known = self._writer.condition_of(member.obj, "PodScheduled")
            same = known is not None and known.reason == reason and not member.nominated
            if same and now - member.told < again:
                continue
            condition = ConditionDraft("PodScheduled", "False", reason, text)
            if self._writer.set_conditions(PODS, member.obj, condition, nominatedNodeName=member.expected):
                member.told = now
                self._recorder.record(PODS, member.obj, "Warning", "FailedScheduling", text)
                changed = True
        return changed

    def _is_true(self, obj: Object, type_: str) -> bool:
        condition = self._writer.condition_of(obj, type_)
        return condition is not None and condition.status == "True"

    def _event(self, root: Root, type_: Literal["Normal", "Warning"], reason: str, text: str) -> None:
        if root.obj is not None:
            self._recorder.record(root.resource, root.obj, type_, reason, text)


def names_of(root: Root) -> dict[int, str]:
    """What explanations call the groups of a tree."""
    return {root.id: root.title, **{group.id: group.title for group in root.subtree()}}


def _origins(root: GroupNode) -> dict[int, Origin]:
    """Where the fields of each group are written."""
    return {group.id: _origin(group, group.obj) for group in root.subtree() if group.obj is not None}


def _origin(group: GroupNode, obj: Object) -> Origin:
    """A Job that has made a Workload too has the fields as they are; others compose them, or have them from others."""
    maker = meta.controller_of(obj)
    if maker is None:
        return Origin()
    own = maker["kind"] == JOBS.kind and any(one["kind"] == WORKLOADS.kind for one in meta.owner_references(obj))
    count = "spec.trainer.numNodes" if maker["kind"] == TRAIN_JOBS.kind else ""
    if (
        maker["kind"] == JOB_SETS.kind
        and group.key.kind == COMPOSITE
        and any(leaf.exclusive for leaf in group.leaves())
    ):
        count = "spec.replicatedJobs[].replicas"
    return Origin(f"{maker['kind']}/{maker['name']}", "spec.scheduling" if own else "", count)


def _bound_pods(root: Root) -> dict[int, list[str]]:
    """The bound pods of each group, for commands; of groups with many the command would be longer than the message."""
    leaves = ((leaf.id, list(leaf.holding.values())) for leaf in root.leaves())
    return {
        number: [*sorted(pod.name for pod in held), *_namespace(held[0])]
        for number, held in leaves
        if 0 < len(held) <= _PODS_IN_A_COMMAND
    }


def _namespace(member: Member) -> list[str]:
    return [] if member.namespace == "default" else ["-n", member.namespace]


def _first(verdict: Blocked, reader: int, origins: Mapping[int, Origin]) -> str:
    step = first_step(verdict, reader, origins)
    return f"; {step}" if step else ""


def _preempted_by(preemptor: Root) -> str:
    return f"Preempted by {preemptor.kind} {preemptor.path} (priority {preemptor.priority})"


def _preempting(root: Root, placement: Placed, victims: Sequence[UnitName]) -> str:
    """The victims by unit, then what is placed where."""
    pods, priorities = Counter(victim.name for victim in victims), {one.name: one.priority for one in victims}
    units = [_victims(name, number, priorities[name]) for name, number in pods.items()]
    told = ", ".join(units[:_UNITS_TOLD])
    rest = sum(list(pods.values())[_UNITS_TOLD:])
    told += f" and {_pods(rest)} more" if rest else ""
    domain = placement.domains.get(root.id, ())
    where = f" in {spoken(domain)}" if domain else ""
    return f"preempting {told} to place {_pods(len(placement.assignment))}{where}"


def _victims(name: str, pods: int, priority: int) -> str:
    number = "" if pods == 1 else f"{pods} pods, "
    return f"{name} ({number}priority {priority})"


def _pods(number: int) -> str:
    return "1 pod" if number == 1 else f"{number} pods"
