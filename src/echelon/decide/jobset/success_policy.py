"""When a JobSet is done: enough Jobs of the targeted replicated jobs have succeeded."""

from __future__ import annotations

from .children import SortedJobs
from .model import JobSet


def succeeded(js: JobSet, jobs: SortedJobs) -> bool:
    if not jobs.succeeded and not any(jobs.remembered.values()):
        return False
    policy = js.spec.success_policy
    targets = frozenset(policy.target_replicated_jobs or (rj.name for rj in js.replicated))
    done = sum(jobs.successes[rj.name] for rj in js.replicated if rj.name in targets)
    if policy.operator == "Any":
        return done >= 1
    return done >= sum(rj.replicas for rj in js.replicated if rj.name in targets)
