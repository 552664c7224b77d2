"""What a group or pod waits for before the engine is asked, in words, with what would help it.

    Reporter ─► IncompleteWords.of_group, of_pods ─► "waiting for pods: 2 of 3 exist; fix: create 1 more pod …"

What is in the way is the lowest group that is not complete, going up from the reader: the reader itself, or a group
above it that lacks other child groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...api.objects.vocabulary import JOB_NAME, KUEUE_GATES, KUEUE_QUEUE
from ...api.scheme import JOBS
from ...api.views.job_views import JobView
from ..intake.group_policy import POD_GROUP
from ..intake.group_tree import GroupNode, Member

#: Child groups that a message about their parent spells out.
_CHILDREN_TOLD = 2
#: Whoever lifted what Kueue holds back would find it held back again, or would run beyond its quota.
_KUEUE, _KUEUE_WORKLOADS = "see what Kueue waits for", "workloads.kueue.x-k8s.io"
#: Finds a Job by `namespace/name`.
Jobs = Callable[[str], JobView | None]


def obstacle(group: GroupNode) -> GroupNode | None:
    """The lowest group that is not complete, from this one up; None if nothing keeps it from being tried."""
    above: GroupNode | None = group
    while above is not None and above.counts.ready:
        above = above.parent
    return above


class IncompleteWords:
    """Sentences about groups that cannot be tried yet; Jobs are looked up to say what holds back their pods."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def of_group(self, group: GroupNode) -> str:
        """What a group waits for, without its own name; "" if it can be tried."""
        at = obstacle(group)
        if at is None:
            return ""
        text = self._lack(at)
        told = text if at is group else f"waiting for sibling groups: {at.key} is {text}"
        return f"{told}; fix: {self._fix(at)}"

    def of_pods(self, leaf: GroupNode) -> str:
        """The same for the pods of a group."""
        text = self.of_group(leaf)
        return f"{leaf.key} is {text}" if text else ""

    def _lack(self, group: GroupNode) -> str:
        known = group.counts.present
        if group.key.kind == POD_GROUP:
            return f"waiting for pods: {known} of {group.need} exist{_held_back(group)}"
        assert group.policy is not None
        text = f"waiting for child groups: {known} of {group.policy.minimum} are complete"
        short = [child for child in group.in_order if not child.counts.ready]
        told = [f"{child.key} is {self._lack(child)}" for child in short[:_CHILDREN_TOLD] if child.policy is not None]
        return f"{text} ({', '.join(told)})" if told else text

    def _fix(self, group: GroupNode) -> str:
        if group.key.kind == POD_GROUP:
            return self._pods_fix(group)
        assert group.policy is not None
        missing = group.policy.minimum - len(group.children)
        if missing > 0:
            known = len(group.children)
            lower = f", or lower its spec.schedulingPolicy.gang.minGroupCount to {known}" if known else ""
            what = f"{missing} more child group{'' if missing == 1 else 's'}"
            return f"create {what} with spec.parentCompositePodGroupName {group.key.name}{lower}"
        short = [child for child in group.in_order if not child.counts.ready and child.policy is not None]
        return self._fix(short[0])

    def _pods_fix(self, group: GroupNode) -> str:
        """What would bring the missing pods, by who makes them."""
        assert group.policy is not None
        known, missing = group.counts.present, group.need - group.counts.present
        space = "" if group.key.namespace == "default" else f" -n {group.key.namespace}"
        gated = [member for member in group.members.values() if member.gated and not member.leaving]
        if any(gate.startswith(KUEUE_GATES) for gate in _gates(gated)):
            return f"{_KUEUE} before it lifts them (kubectl describe {_KUEUE_WORKLOADS}{space})"
        if gated:
            return f"remove the scheduling gates of {min(len(gated), missing)} of its pods"
        job, owner = self._job(group), group.view.controller if group.view is not None else None
        if job is not None and job.spec.suspend and KUEUE_QUEUE in job.labels:
            return f"{_KUEUE} before it admits Job/{job.name} (kubectl describe {_KUEUE_WORKLOADS}{space})"
        if job is not None and job.spec.suspend:
            return f"set spec.suspend of Job/{job.name} to false"
        maker = ("Job", job.name) if job is not None else (owner.kind, owner.name) if owner is not None else None
        if maker is not None:
            return f"see what {maker[0]}/{maker[1]} waits for (kubectl describe {maker[0].lower()} {maker[1]}{space})"
        what = f"{missing} more pod{'' if missing == 1 else 's'}"
        lower = f", or lower its spec.schedulingPolicy.gang.minCount to {known}" if known and group.policy.gang else ""
        return f"create {what} with spec.schedulingGroup.podGroupName {group.key.name}{lower}"

    def _job(self, group: GroupNode) -> JobView | None:
        """The Job that makes the pods of a group, if it is one."""
        if group.view is None:
            return None
        owner = group.view.controller
        name = owner.name if owner is not None and owner.kind == JOBS.kind else group.view.labels.get(JOB_NAME, "")
        return self._jobs(f"{group.key.namespace}/{name}") if name else None


def _gates(gated: Iterable[Member]) -> list[str]:
    return sorted({gate.name for member in gated for gate in member.pod.spec.scheduling_gates})


def _held_back(group: GroupNode) -> str:
    """Pods that exist but do not count: they have scheduling gates, or are being deleted."""
    text = ""
    gated = [member for member in group.members.values() if member.gated and not member.place and not member.leaving]
    if gated:
        has = "has" if len(gated) == 1 else "have"
        text = f" without scheduling gates, {len(gated)} more {has} the scheduling gates {', '.join(_gates(gated))}"
    leaving = sum(member.leaving for member in group.members.values())
    return f"{text}, {leaving} more {'is' if leaving == 1 else 'are'} being deleted" if leaving else text
