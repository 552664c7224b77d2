"""Telling people: what each outcome means for the conditions and events of groups and pods.

| outcome                  | groups (…InitiallyScheduled)              | pods (PodScheduled)          |
|--------------------------|-------------------------------------------|------------------------------|
| something is missing yet | False Unschedulable, what it waits for    | False Unschedulable          |
| the tree is wrong        | False PodGroupError, CompositePodGroupError | False SchedulerError       |
| blocked                  | False Unschedulable, the certificate      | False Unschedulable          |
| room is being made       | False Unschedulable, whom it waits for    | the same, and nominated node |
| placed                   | True Scheduled, and stays so              | True, by the binding         |
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ...api.objects import meta
from ...api.objects.vocabulary import INITIALLY_SCHEDULED
from ...api.scheme import PODS, Object
from ...base.clock import Clock
from ...client.events import Recorder
from ...engine import Blocked, Evict, Placed, for_group, sentence
from ..intake.group_policy import COMPOSITE, POD_GROUP, Problem
from ..intake.group_tree import GroupNode, Member, Root
from .writes import Enactor, Word

_UNSCHEDULABLE = "Unschedulable"
_LAYOUT_REASON = {POD_GROUP: "PodGroupError", COMPOSITE: "CompositePodGroupError"}
_DISRUPTION = "DisruptionTarget"
_PREEMPTED = "PreemptionByScheduler"
#: A change of numbers in an explanation is not worth a write to every pod of every gang that waits.
_SECONDS_BETWEEN_WORDS = 10.0


class Reporter:
    """Writes conditions where they change, and an event where one did."""

    def __init__(self, enactor: Enactor, recorder: Recorder, clock: Clock) -> None:
        self._clock = clock
        self._enactor = enactor
        self._recorder = recorder

    def waiting(self, root: GroupNode, problem: Problem | None) -> None:
        """Not tried: a parent, a group or members are missing."""
        if problem is not None:
            for group in root.subtree():
                self._say_group(group, _UNSCHEDULABLE, problem.text)
            self._say_pods(_pending(root), _UNSCHEDULABLE, problem.text)
            return
        for group in root.subtree():
            if not (root.counts.ready and group.counts.ready):
                self._say_group(group, _UNSCHEDULABLE, _incomplete(group, root))
        for leaf in root.leaves():
            if not (root.counts.ready and leaf.counts.ready):
                self._say_pods(leaf.pending.values(), _UNSCHEDULABLE, _incomplete(leaf, root))

    def broken(self, root: GroupNode, problem: Problem) -> None:
        """Never tried: the tree is not one that may be scheduled."""
        for group in root.subtree():
            self._say_group(group, _LAYOUT_REASON[group.key.kind], problem.text)
        self._say_pods(_pending(root), "SchedulerError", problem.text)

    def blocked(self, root: Root, verdict: Blocked, note: str = "") -> None:
        """Tried in vain, or in part: groups that hold have nothing to complain of, pods that wait have.

        `note` is what is to be said about reservations besides.
        """
        names = names_of(root)
        more = f"; {note}" if note else ""
        text = sentence(verdict, names) + more
        if isinstance(root, Member):
            self._say_pods([root], _UNSCHEDULABLE, text, again=_SECONDS_BETWEEN_WORDS)
            return
        changed = False
        for group in root.subtree():
            if not group.counts.holds:
                why = for_group(verdict, group.id, names) + more if group.counts.ready else _incomplete(group, root)
                changed |= self._say_group(group, _UNSCHEDULABLE, why)
        for leaf in root.leaves():
            why = text if leaf.counts.ready else _incomplete(leaf, root)
            changed |= self._say_pods(leaf.pending.values(), _UNSCHEDULABLE, why, again=_SECONDS_BETWEEN_WORDS)
        if changed:
            self._event_on_root(root, "Warning", "FailedScheduling", text)

    def reserved(self, root: Root, text: str) -> None:
        """Room is kept for it until others have ended."""
        self._event(root, "Reserved", text)

    def lapsed(self, root: Root, seconds: float) -> None:
        """Room was kept for it in vain."""
        text = f"nothing in its reserved places has ended for {seconds:g} s; others go first for as long"
        self._event(root, "ReservationLapsed", text)

    def making_room(self, root: Root, verdict: Evict | Placed, victims: int) -> None:
        """Others are leaving for it."""
        plan = f"preemption: found a placement for {kind_of(root)}, preempting {victims} victims"
        text = f"{plan}; {sentence(verdict, names_of(root))}"
        if isinstance(root, GroupNode):
            for group in root.subtree():
                self._say_group(group, _UNSCHEDULABLE, text)
            self._event_on_root(root, "Normal", "Preempting", text)
        for member in _pending(root):
            self._enactor.say(
                PODS,
                member.obj,
                Word("PodScheduled", "False", _UNSCHEDULABLE, text),
                nominatedNodeName=member.nominated,
            )

    def placed(self, root: Root, verdict: Placed) -> None:
        """Its pods are on their way."""
        if isinstance(root, GroupNode):
            domain = verdict.domains.get(root.id)
            where = f" in {'/'.join(domain)}" if domain else ""
            self._event_on_root(root, "Normal", "Scheduled", f"Placed {len(verdict.assignment)} pods{where}")

    def bound(self, member: Member) -> None:
        text = f"Successfully assigned {member.key} to {member.place}"
        self._recorder.record(PODS, member.obj, "Normal", "Scheduled", text)

    def was_scheduled(self, group: GroupNode) -> bool:
        return group.obj is not None and self._says(group.obj, INITIALLY_SCHEDULED[group.key.kind])

    def settled(self, root: GroupNode, placed: Collection[int]) -> None:
        """Bindings are through: groups that were placed or hold say so, for good."""
        for group in root.subtree():
            if group.obj is None or not (group.id in placed or group.counts.holds):
                continue
            words: list[Word] = []
            if not self.was_scheduled(group):
                words.append(Word(INITIALLY_SCHEDULED[group.key.kind], "True", "Scheduled"))
            if self._says(group.obj, _DISRUPTION):
                words.append(Word(_DISRUPTION, "False", "Scheduled", "bound again after its eviction"))
            if words:
                self._enactor.say_later(group.resource, group.obj, *words)

    def evicted(self, victim: Member, preemptor: Root) -> None:
        """An event on the victim that names whom it makes room for."""
        text = f"Preempted by {kind_of(preemptor)} {key_of(preemptor)} on node {victim.place}"
        self._recorder.record(PODS, victim.obj, "Normal", "Preempted", text)

    def evicted_group(self, group: GroupNode, message: str, event: str) -> None:
        """A group evicted as one: it and all below it say so until they are bound again."""
        for below in group.subtree():
            if below.obj is not None:
                self._enactor.say(below.resource, below.obj, Word(_DISRUPTION, "True", _PREEMPTED, message))
        if group.obj is not None:
            self._recorder.record(group.resource, group.obj, "Normal", "Preempted", event)

    def _say_group(self, group: GroupNode, reason: str, text: str) -> bool:
        if group.obj is None or self.was_scheduled(group):
            return False
        word = Word(INITIALLY_SCHEDULED[group.key.kind], "False", reason, text)
        return self._enactor.say(group.resource, group.obj, word)

    def _say_pods(self, members: Iterable[Member], reason: str, text: str, *, again: float = 0.0) -> bool:
        """Tell pods why they wait; other words for the same reason only when the last are `again` seconds old."""
        changed, now = False, self._clock.now()
        for member in members:
            known = self._enactor.said(member.obj, "PodScheduled")
            same = known is not None and known.reason == reason and not member.nominated
            if same and now - member.told < again:
                continue
            word = Word("PodScheduled", "False", reason, text)
            if self._enactor.say(PODS, member.obj, word, nominatedNodeName=member.nominated):
                member.told = now
                self._recorder.record(PODS, member.obj, "Warning", "FailedScheduling", text)
                changed = True
        return changed

    def _says(self, obj: Object, type_: str) -> bool:
        word = self._enactor.said(obj, type_)
        return word is not None and word.status == "True"

    def _event(self, root: Root, reason: str, text: str) -> None:
        if isinstance(root, GroupNode):
            self._event_on_root(root, "Normal", reason, text)
        else:
            self._recorder.record(PODS, root.obj, "Normal", reason, text)

    def _event_on_root(self, root: GroupNode, type_: str, reason: str, text: str) -> None:
        if root.obj is not None:
            self._recorder.record(root.resource, root.obj, "Warning" if type_ == "Warning" else "Normal", reason, text)


def kind_of(root: Root) -> str:
    return root.key.kind.lower() if isinstance(root, GroupNode) else "pod"


def key_of(root: Root) -> str:
    return f"{root.key.namespace}/{root.key.name}" if isinstance(root, GroupNode) else root.key


def names_of(root: Root) -> dict[int, str]:
    """What explanations call the groups of a tree."""
    if isinstance(root, GroupNode):
        return {group.id: str(group.key) for group in root.subtree()}
    return {root.id: f'pod "{meta.name(root.obj)}"'}


def _pending(root: Root) -> list[Member]:
    if isinstance(root, GroupNode):
        return [member for leaf in root.leaves() for member in leaf.pending.values()]
    return [root]


def _incomplete(group: GroupNode, root: GroupNode) -> str:
    """What a group that is not tried yet waits for."""
    assert group.policy is not None
    need = group.need if group.key.kind == POD_GROUP else group.policy.minimum
    known, what = group.counts.present, "pods" if group.key.kind == POD_GROUP else "complete child groups"
    if known < need:
        return f"waiting for {group.key}: {known} of {need} {what} exist{_gated(group)}"
    return f"{group.key} is complete; waiting for the rest of its tree: {_incomplete(root, root)}"


def _gated(group: GroupNode) -> str:
    """Pods that exist but do not count, because somebody holds them back."""
    held = [member for member in group.members.values() if not member.place and not member.leaving]
    gates = dict.fromkeys(gate["name"] for member in held for gate in member.obj["spec"].get("schedulingGates") or ())
    count = len(held) - len(group.pending)
    if not gates:
        return ""
    wait = "waits" if count == 1 else "wait"
    return f" without scheduling gates, {count} more {wait} for {', '.join(sorted(gates))} to be removed"
