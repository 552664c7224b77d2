"""What must hold after every step of a soak, read from the store's change log alone.

    changes ─► Ledger ─► at each change: bound once, never moved, nothing over-committed, evictions only upwards
                     └─► at each step:   what may be wrong for a moment but not for longer than its grace

A state that may pass (a gang between its first and last binding) becomes a breach once it has lasted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence

from echelon.store.interface import Change

from .ledger import Group, Ledger, Pod, Tree, room_for
from .pod_terms import LATE_SECONDS, Watch

#: How long a gang may be partly bound, a domain torn, a unit half evicted, while all is up and the weather is fine.
GRACE_SECONDS = 30.0
#: How long ago the preemptor may have been seen pending: a write may be late in a storm.
_PREEMPTOR_SEEN_SECONDS = 120.0
#: A unit that is evicted counts those that were bound for so long.
_SETTLED_SECONDS = 5.0
#: How often the pods in one place of one owner may be preempted while no event happens to the cluster.
_MOST_TURNS = 4


class Breach(AssertionError):
    """An invariant does not hold."""


class Auditor:
    """Reads every change in order; raises `Breach`."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.watch = Watch(self.ledger)
        #: uid of a bound pod -> when it was bound
        self._bound_at: dict[str, float] = {}
        self.digest = hashlib.sha256()
        self.changes = 0
        self.bindings = 0
        self.preemptions = 0
        self.releases = 0
        #: What is wrong now but may pass -> for how long it was, with everything up.
        self._lasting: dict[Hashable, float] = {}
        #: Uids of groups that were whole once.
        self._were_whole: set[str] = set()
        #: Uids of groups of which a pod or child group ended or was taken away, but not by the scheduler; and of roots
        #: where a minimum was raised, perhaps while the pods that it was decided for were on their way.
        self._lost_members: set[str] = set()
        #: The last uid of every group: what is made anew under a name goes on with the pods of its forerunner.
        self._uids: dict[tuple[str, str], str] = {}
        #: priority -> when a pod of that priority that may preempt was last pending
        self._pending_at: dict[int, float] = {}
        self._preemptors: dict[str, int] = {}
        #: unit -> pods that had to leave together
        self._leaving: dict[str, list[str]] = {}
        #: (owner, index) -> how often its pods were preempted since the cluster was left alone; None while it is not
        self._turns: dict[tuple[str, str], int] | None = None
        self._looked_at = 0.0
        #: owner -> uids of its pods that were seen to succeed
        self.succeeded: dict[str, dict[str, None]] = {}

    def left_alone(self, quiet: bool) -> None:
        """From now on no event happens to the cluster, or events happen again."""
        self._turns = {} if quiet else None

    # -- at each change --------------------------------------------------------------------------------

    def read(self, changes: Sequence[Change], now: float) -> None:
        for change in changes:
            self.changes += 1
            self.digest.update(change.key.encode())
            self.digest.update(change.record.value if change.record else change.tombstone)
            key = change.key.split("/", 3)[-1]
            before = self.ledger.pods.get(key)
            plural, old, new = self.ledger.take(change, now)
            if plural == "pods":
                self._pod_changed(old, new, now)
                self.watch.changed(before, self.ledger.pods.get(key), now)
            elif plural in ("podgroups", "compositepodgroups"):
                self._group_changed(old, new, now)
            elif plural == "events" and new:
                self._told(new)

    def _pod_changed(self, old: Tree | None, new: Tree | None, now: float) -> None:
        if new is None:
            return
        pod = self.ledger.pods[_key(new)]
        same = old is not None and old["metadata"]["uid"] == pod.uid
        was = old["spec"].get("nodeName", "") if old is not None and same else ""
        if was and pod.node != was:
            raise Breach(f"pod {pod.name} moved from {was} to {pod.node or 'nowhere'}")
        if pod.node and not was:
            self._bound(pod, now)
        self._note_pending(pod, now)
        if not pod.group:
            self._preemptors[f"pod {_key(new)}"] = pod.priority
        known = same and old is not None and _disrupted(old)
        if pod.evicted and not known:
            self._preempted(pod, now)
        self._note_whole(pod)
        if pod.ended or (pod.deleting and not pod.evicted):
            self._lost_members.update(group.uid for group in self.ledger.chain(pod))
        if pod.phase == "Succeeded":
            for owner in new["metadata"].get("ownerReferences") or ():
                self.succeeded.setdefault(owner["uid"], {})[pod.uid] = None

    def _group_changed(self, old: Tree | None, new: Tree | None, now: float) -> None:
        tree = new or old
        assert tree is not None
        self._preemptors[f"{tree['kind'].lower()} {_key(tree)}"] = tree["spec"].get("priority") or 0
        above = self.ledger.groups.get(("CompositePodGroup", tree["spec"].get("parentCompositePodGroupName") or ""))
        if new is None and above is not None:
            self._lost_members.add(self.ledger.root(above).uid)
        if new is not None:
            same = old is not None and old["metadata"]["uid"] == new["metadata"]["uid"]
            group = self.ledger.groups[new["kind"], new["metadata"]["name"]]
            former = self._uids.get((group.kind, group.name), "")
            self._uids[group.kind, group.name] = group.uid
            for known in (self._were_whole, self._lost_members):
                if former in known:
                    known.add(group.uid)
            self._group_says(group, old if same else None, new, now)
            if same and old is not None and _minimum(new) > _minimum(old):
                self._lost_members.add(self.ledger.root(group).uid)

    def _group_says(self, group: Group, old: Tree | None, new: Tree, now: float) -> None:
        """That a group was placed is said once it was, and never taken back.

        A minimum may be raised while the pods that it was decided for are on their way: then the older one counts.
        """
        type_ = f"{group.kind}InitiallyScheduled"
        said, says = old is not None and is_true(old, type_), is_true(new, type_)
        if said and not says:
            raise Breach(f"{group.kind} {group.name} was placed and now says that it was not")
        whole = group.uid in self._were_whole or self.ledger.counted(group, _bound_or_ended)
        if says and not said and not whole and self.ledger.changed("minima") < now - LATE_SECONDS:
            raise Breach(f"{group.kind} {group.name} says that it was placed, but never was")

    def _note_pending(self, pod: Pod, now: float) -> None:
        if pod.pending and pod.preempts:
            self._pending_at[pod.priority] = now

    def _bound(self, pod: Pod, now: float) -> None:
        self.bindings += 1
        self._bound_at[pod.uid] = now
        node = self.ledger.nodes.get(pod.node)
        late = now - LATE_SECONDS
        if node is None:
            return  # it vanished while the binding was on its way
        if not node.accepts(pod) and self.ledger.changed("door", pod.node) < late:
            raise Breach(f"{pod.name} was bound to {pod.node}, which does not take it: {node}")
        used = self.ledger.used().get(pod.node, {})
        for resource in (name for name, amount in pod.requests if amount):
            amount, room = used.get(resource, 0), room_for(node.room, resource)
            if amount > room and self.ledger.changed("room", pod.node) < late:
                raise Breach(f"{pod.name} over-commits {pod.node}: {amount} of {room} {resource}")

    def _released(self, pod: Pod, now: float) -> None:
        """A unit that was complete once is released only below its minimum, and as a whole."""
        unit = self.ledger.unit(pod)
        if unit is None:
            return
        chain = self.ledger.chain(pod)
        if any(group.uid not in self._were_whole for group in chain[: chain.index(unit) + 1]):
            return  # a group that has never run is released alone: that disturbs nothing
        self.releases += 1
        mates = self.ledger.members(unit)
        holds = self.ledger.counted(unit, lambda one: one.stays or "releasing" in one.evicted)
        if holds and self.ledger.changed("minima") < now - LATE_SECONDS:
            raise Breach(f"{unit.kind} {unit.name} was released although it holds its minimum")
        # Who was bound a moment ago may have come after it was decided.
        self._leaving.setdefault(unit.uid, []).extend(
            mate.uid for mate in mates if mate.holds and self._is_settled(mate, now)
        )

    def _preempted(self, pod: Pod, now: float) -> None:
        if "releasing" in pod.evicted:
            self._released(pod, now)
        if "preempting" not in pod.evicted:
            return
        self.preemptions += 1
        recent = [p for p, at in self._pending_at.items() if now - at <= _PREEMPTOR_SEEN_SECONDS]
        if not any(priority > pod.priority for priority in recent):
            raise Breach(f"{pod.name} of priority {pod.priority} was preempted, but nobody above it waits: {recent}")
        self._take_turn(pod)
        unit = self.ledger.unit(pod)
        if unit is not None:
            # Who was bound a moment ago may have been placed anew, after it was decided that the others have to go.
            mates = [mate.uid for mate in self.ledger.members(unit) if mate.holds and self._is_settled(mate, now)]
            self._leaving.setdefault(unit.uid, []).extend(mates)

    def _is_settled(self, pod: Pod, now: float) -> bool:
        return now - self._bound_at.get(pod.uid, now) > _SETTLED_SECONDS

    def _take_turn(self, pod: Pod) -> None:
        """Two workloads that evict each other in turns would do so for ever."""
        metadata = pod.tree["metadata"]
        index = (metadata.get("annotations") or {}).get("batch.kubernetes.io/job-completion-index")
        owners = metadata.get("ownerReferences")
        if self._turns is None or not owners or index is None:
            return
        place = (owners[0]["uid"], index)
        self._turns[place] = self._turns.get(place, 0) + 1
        if self._turns[place] > _MOST_TURNS:
            raise Breach(f"{pod.name} and those before it were preempted {self._turns[place]} times in a row")

    def _told(self, event: Tree) -> None:
        """An event that names the preemptor."""
        cause = event.get("related") or {}
        if event.get("reason") != "Preempted" or event["involvedObject"].get("kind") != "Pod" or not cause:
            return
        preemptor = f"{cause['kind'].lower()} {cause['namespace']}/{cause['name']}"
        victim = self.ledger.pods.get(f"{event['involvedObject']['namespace']}/{event['involvedObject']['name']}")
        above = self._preemptors.get(preemptor)
        if victim is None or above is None or victim.uid != event["involvedObject"].get("uid"):
            return
        if above <= victim.priority:
            raise Breach(f"{victim.name} of priority {victim.priority} was preempted by {preemptor} of {above}")

    def _note_whole(self, pod: Pod) -> None:
        for group in self.ledger.chain(pod):
            if group.uid not in self._were_whole and self.ledger.counted(group, _bound_or_ended):
                self._were_whole.add(group.uid)

    # -- at each step ----------------------------------------------------------------------------------

    def look(self, now: float, fair: bool) -> None:
        """Check what may be wrong for a moment; only time in which everything is up (`fair`) counts."""
        passed = now - self._looked_at if fair else 0.0
        self._looked_at = now
        for pod in self.ledger.pods.values():
            self._note_pending(pod, now)
        wrong: dict[Hashable, str] = {}
        self._partial_gangs(wrong)
        self._torn_domains(wrong)
        self._shared_domains(wrong)
        self._half_evicted(wrong)
        wrong |= self.watch.prove(now)
        lasting = {key: self._lasting.get(key, -passed) + passed for key in wrong}
        self._lasting = lasting
        for key, seconds in lasting.items():
            if seconds > GRACE_SECONDS:
                raise Breach(f"for {seconds:g} s: {wrong[key]}")

    def _partial_gangs(self, wrong: dict[Hashable, str]) -> None:
        for group in self.ledger.groups.values():
            if group.uid in self._were_whole or not any(pod.stays for pod in self.ledger.members(group)):
                continue
            root = self.ledger.root(group)
            ready = self.ledger.counted(root, lambda pod: pod.stays or pod.pending)
            if not ready and root.uid in self._lost_members:
                continue  # it waits for those who were there when it was placed
            if not self.ledger.counted(group, _bound_or_ended):
                names = [pod.name for pod in self.ledger.members(group) if pod.stays]
                wrong["partial", group.uid] = f"{group.kind} {group.name} is bound in part: {names}"

    def _torn_domains(self, wrong: dict[Hashable, str]) -> None:
        for group in self.ledger.groups.values():
            if not group.key:
                continue
            steady = [pod for pod in self.ledger.members(group) if pod.stays and self._is_steady(pod)]
            nodes = [self.ledger.nodes.get(pod.node) for pod in steady]
            domains = sorted({node.domains[group.key] for node in nodes if node is not None})
            if len(domains) > 1:
                wrong["torn", group.uid] = f"{group.kind} {group.name} must be in one {group.key} but is in {domains}"

    def _shared_domains(self, wrong: dict[Hashable, str]) -> None:
        steady = [pod for pod in self.ledger.pods.values() if pod.stays and self._is_steady(pod)]
        leaves = {pod.uid: self.ledger.leaf(pod) for pod in steady}
        owners = [pod for pod in steady if (leaf := leaves[pod.uid]) is not None and leaf.exclusive]
        for owner in owners:
            for pod in steady:
                if pod is not owner and self.ledger.intrudes(pod, pod.node, owner, owner.node):
                    group = leaves[owner.uid]
                    assert group is not None
                    told = f"{pod.name} on {pod.node} is in the domain that {group.name} has for itself"
                    wrong["shared", pod.uid, group.uid] = told

    def _is_steady(self, pod: Pod) -> bool:
        """Whether its node is still what it was when the pod was bound."""
        return self.ledger.changed("place", pod.node) < self._bound_at.get(pod.uid, 0.0) - LATE_SECONDS

    def _half_evicted(self, wrong: dict[Hashable, str]) -> None:
        pods = {pod.uid: pod for pod in self.ledger.pods.values()}
        for unit, mates in list(self._leaving.items()):
            staying = [pods[uid].name for uid in mates if uid in pods and pods[uid].stays]
            if staying:
                wrong["half", unit] = f"a unit was evicted in part: {staying} stayed"
            else:
                del self._leaving[unit]


def _minimum(group: Tree) -> int:
    gang = group["spec"].get("schedulingPolicy", {}).get("gang") or {}
    return int(gang.get("minCount") or gang.get("minGroupCount") or 1)


def _bound_or_ended(pod: Pod) -> bool:
    return bool(pod.node) or pod.ended


def is_true(tree: Tree, type_: str) -> bool:
    conditions = (tree.get("status") or {}).get("conditions") or ()
    return any(one["type"] == type_ and one["status"] == "True" for one in conditions)


def _disrupted(tree: Tree) -> bool:
    conditions = (tree.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "DisruptionTarget" and one.get("reason") == "PreemptionByScheduler" for one in conditions)


def _key(tree: Tree) -> str:
    return f"{tree['metadata']['namespace']}/{tree['metadata']['name']}"
