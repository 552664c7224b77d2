"""What must hold once a cluster has come to rest: nothing left behind, nothing left waiting that could run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from .fit_search import Fitting
from .invariants import Auditor, Breach, is_true
from .ledger import Group, Ledger, Pod, Tree

_REPLICATED = "jobset.sigs.k8s.io/replicatedjob-name"


def check(auditor: Auditor) -> None:
    found = problems(auditor)
    if found:
        raise Breach("at rest: " + "; ".join(found))


def problems(auditor: Auditor) -> list[str]:
    """What is not as it should be."""
    ledger = auditor.ledger
    return [
        *_orphans(ledger),
        *_lingering(ledger),
        *_jobs(auditor),
        *_job_sets(ledger),
        *_train_jobs(ledger),
        *_budgets(ledger),
        *_silent(ledger),
        *_waiting(ledger),
        *_broken(ledger),
    ]


# -- nothing is left behind ------------------------------------------------------------------------------------


def _all(ledger: Ledger) -> Iterator[tuple[str, Tree]]:
    for plural, table in ledger.objects.items():
        if plural != "events":
            yield from ((plural, tree) for tree in table.values())


def _orphans(ledger: Ledger) -> Iterator[str]:
    """An object all of whose owners are gone must be gone too."""
    uids = {tree["metadata"]["uid"] for _, tree in _all(ledger)}
    for plural, tree in _all(ledger):
        owners = _owners(tree)
        if owners and not uids.intersection(owners) and not _is_needed(ledger, plural, tree):
            yield f"{plural} {tree['metadata']['name']} has outlived its owners"


def _lingering(ledger: Ledger) -> Iterator[str]:
    """Nothing is being deleted for ever, but for groups that still have pods or child groups."""
    for plural, tree in _all(ledger):
        metadata = tree["metadata"]
        if "deletionTimestamp" in metadata and not _is_needed(ledger, plural, tree):
            yield f"{plural} {metadata['name']} cannot go: {metadata.get('finalizers')}"


def _is_needed(ledger: Ledger, plural: str, tree: Tree) -> bool:
    name, uid = tree["metadata"]["name"], tree["metadata"]["uid"]
    if plural == "podgroups":
        return any(pod.group == name and not pod.ended for pod in ledger.pods.values())
    if plural == "compositepodgroups":
        return any(group.parent == name for group in ledger.groups.values())
    if "foregroundDeletion" in (tree["metadata"].get("finalizers") or ()):
        # It waits for dependents that wait themselves.
        dependents = [(kind, one) for kind, one in _all(ledger) if uid in _owners(one)]
        return any("deletionTimestamp" in one["metadata"] and _is_needed(ledger, kind, one) for kind, one in dependents)
    return False


def _owners(tree: Tree) -> list[str]:
    return [owner["uid"] for owner in tree["metadata"].get("ownerReferences") or ()]


# -- jobs add up ---------------------------------------------------------------------------------------------


def _jobs(auditor: Auditor) -> Iterator[str]:
    for job in auditor.ledger.objects.get("jobs", {}).values():
        name, spec, status = job["metadata"]["name"], job["spec"], job.get("status") or {}
        if any((status.get("uncountedTerminatedPods") or {}).get(list_) for list_ in ("succeeded", "failed")):
            yield f"job {name} has pods that were never counted"
        finished = is_true(job, "Complete") or is_true(job, "Failed")
        if finished and (status.get("active") or status.get("terminating")):
            yield f"job {name} is over but has active pods: {status}"
        if is_true(job, "Complete"):
            yield from _complete(auditor, job)
        pods = [pod for pod in auditor.ledger.pods.values() if job["metadata"]["uid"] in _owners(pod.tree)]
        live = [pod for pod in pods if not pod.ended]
        wants = not finished and not spec.get("suspend") and "deletionTimestamp" not in job["metadata"]
        if wants and spec.get("parallelism", 1) and not live:
            yield f"job {name} is not over, not suspended, and nobody works on it"
        if (status.get("active") or 0) != len([pod for pod in live if not pod.deleting]):
            yield f"job {name} says {status.get('active')} active pods, there are {len(live)}"
        tracked = [pod.name for pod in pods if pod.ended and pod.tree["metadata"].get("finalizers")]
        if tracked:
            yield f"job {name} keeps finalizers on {tracked}"


def _complete(auditor: Auditor, job: Tree) -> Iterator[str]:
    name, spec, status = job["metadata"]["name"], job["spec"], job["status"]
    counted, wanted = status.get("succeeded") or 0, spec.get("completions")
    if wanted is not None and counted < wanted:
        yield f"job {name} is complete with {counted} of {wanted}"
    seen = len(auditor.succeeded.get(job["metadata"]["uid"], ()))
    if counted > seen:
        yield f"job {name} counts {counted} successes, but only {seen} pods succeeded"


def _job_sets(ledger: Ledger) -> Iterator[str]:
    for job_set in ledger.objects.get("jobsets", {}).values():
        name, status = job_set["metadata"]["name"], job_set.get("status") or {}
        over = is_true(job_set, "Completed") or is_true(job_set, "Failed")
        jobs = [job for job in ledger.objects.get("jobs", {}).values() if job_set["metadata"]["uid"] in _owners(job)]
        if over:
            working = [job["metadata"]["name"] for job in jobs if (job.get("status") or {}).get("active")]
            if working:
                yield f"jobset {name} is over but {working} work on"
            continue
        if not jobs and "deletionTimestamp" not in job_set["metadata"]:
            yield f"jobset {name} is not over and has no Job"
        for entry in status.get("replicatedJobsStatus") or ():
            mine = [job for job in jobs if job["metadata"]["labels"].get(_REPLICATED) == entry["name"]]
            for word, condition in (("succeeded", "Complete"), ("failed", "Failed")):
                count = sum(is_true(job, condition) for job in mine)
                if entry.get(word, 0) != count:
                    yield f"jobset {name} says {entry.get(word, 0)} {word} of {entry['name']}, there are {count}"


def _train_jobs(ledger: Ledger) -> Iterator[str]:
    for train_job in ledger.objects.get("trainjobs", {}).values():
        name = train_job["metadata"]["name"]
        sets = [
            one for one in ledger.objects.get("jobsets", {}).values() if train_job["metadata"]["uid"] in _owners(one)
        ]
        over = is_true(train_job, "Complete") or is_true(train_job, "Failed")
        if not over and not sets and "deletionTimestamp" not in train_job["metadata"]:
            yield f"trainjob {name} is not over and has no JobSet"
        for one in sets:
            ended = is_true(one, "Completed") or is_true(one, "Failed")
            if ended != over:
                yield f"trainjob {name} and its jobset do not agree that it is over"


def _budgets(ledger: Ledger) -> Iterator[str]:
    """A budget's status is what its pods amount to."""
    for budget in ledger.objects.get("poddisruptionbudgets", {}).values():
        name, spec, status = budget["metadata"]["name"], budget["spec"], budget.get("status") or {}
        labels = spec["selector"]["matchLabels"].items()
        mine = [
            pod
            for pod in ledger.pods.values()
            if not pod.ended
            and pod.namespace == budget["metadata"]["namespace"]
            and all(pod.labels.get(key) == value for key, value in labels)
        ]
        healthy = sum(is_true(pod.tree, "Ready") and not pod.deleting for pod in mine)
        amount = str(spec["minAvailable"] if "minAvailable" in spec else spec["maxUnavailable"])
        share = -(-int(amount[:-1]) * len(mine) // 100) if amount.endswith("%") else int(amount)
        desired = share if "minAvailable" in spec else max(0, len(mine) - share)
        right = (len(mine), healthy, desired, max(0, healthy - desired) if mine else 0)
        fields = ("expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed")
        said = tuple(status.get(field) for field in fields)
        if said != right:
            yield f"budget {name} says {said}, right is {right}"


# -- every waiting pod has a reason ------------------------------------------------------------------------------


def _silent(ledger: Ledger) -> Iterator[str]:
    """Who waits is told why; who runs is not told that it waits."""
    for pod in ledger.pods.values():
        conditions = {one["type"]: one for one in (pod.tree.get("status") or {}).get("conditions") or ()}
        scheduled = conditions.get("PodScheduled") or {}
        if pod.pending and (scheduled.get("status") != "False" or not scheduled.get("message")):
            yield f"pod {pod.name} is pending and nobody says why: {scheduled}"
        if pod.holds and scheduled.get("status") != "True":
            yield f"pod {pod.name} is on {pod.node} but says that it is not"
        if pod.node and pod.tree["status"].get("nominatedNodeName"):
            yield f"pod {pod.name} is bound and still nominated"
        if pod.pending and (pod.tree.get("status") or {}).get("nominatedNodeName"):
            yield f"pod {pod.name} keeps a place at which nobody makes room any more"
    for group in ledger.groups.values():
        tree = ledger.objects["podgroups" if group.kind == "PodGroup" else "compositepodgroups"]
        found = next(one for one in tree.values() if one["metadata"]["uid"] == group.uid)
        holds = ledger.counted(group, _stays) and ledger.counted(ledger.root(group), _stays)
        if holds and not is_true(found, f"{group.kind}InitiallyScheduled"):
            yield f"{group.kind} {group.name} is bound and does not say so"
        if holds and is_true(found, "DisruptionTarget"):
            yield f"{group.kind} {group.name} is bound again and still says that it was evicted"


# -- nothing waits that could run ----------------------------------------------------------------------------


def _waiting(ledger: Ledger) -> Iterator[str]:
    for pod in ledger.pods.values():
        if pod.pending and not pod.group:
            yield from _accuse(ledger, pod.name, pod, partial(Fitting.single, pod=pod))
    for root in ledger.roots():
        pending = [pod for pod in ledger.members(root) if pod.pending]
        if not pending or not _is_sound(ledger, root):
            continue
        if ledger.counted(root, _stays):
            extras = [pod for pod in pending if all(ledger.counted(group, _stays) for group in ledger.chain(pod))]
            for pod in extras:
                yield from _accuse(ledger, pod.name, pod, partial(Fitting.extra, pod=pod))
        elif ledger.counted(root, lambda pod: pod.stays or pod.pending):
            yield from _accuse(ledger, root.name, pending[0], partial(Fitting.group, group=root))


def _broken(ledger: Ledger) -> Iterator[str]:
    """A unit that runs in part and cannot be completed is placed anew as a whole, where it fits."""
    for unit in ledger.broken_units():
        root, members = ledger.root(unit), ledger.members(unit)
        own, pending = {pod.uid for pod in members}, [pod for pod in members if pod.pending]
        rest = ledger.counted(root, _stays_or_among(own))
        if not rest or not _is_sound(ledger, root) or any(pod.phase == "Succeeded" for pod in members):
            continue
        for ignoring in (None, unit.priority) if all(pod.preempts for pod in pending) else (None,):
            if Fitting(ledger, ignoring, own).part(unit):
                yield f"{unit.kind} {unit.name} runs in part although it fits as a whole"
                break


def _stays_or_among(uids: set[str]) -> Callable[[Pod], bool]:
    return lambda pod: pod.stays or pod.uid in uids


def _stays(pod: Pod) -> bool:
    return pod.stays


def _is_sound(ledger: Ledger, root: Group) -> bool:
    """Whether a tree is one that may be scheduled: pods have the priority of their groups, domains are not torn."""
    same = all(pod.priority == root.priority for pod in ledger.members(root) if not pod.ended)
    return same and not ledger.is_torn(root)


def _accuse(ledger: Ledger, name: str, pod: Pod, fits: Callable[[Fitting], bool]) -> Iterator[str]:
    if fits(Fitting(ledger)):
        yield f"{name} is pending although it fits"
    elif pod.preempts and fits(Fitting(ledger, ignoring=pod.priority)):
        yield f"{name} of priority {pod.priority} is pending although lower ones could give way"
