"""When a JobSet is done: enough Jobs of the targeted replicated jobs have succeeded."""

from __future__ import annotations

from .children import SortedJobs, parent
from .model import JobSet


def succeeded(js: JobSet, jobs: SortedJobs) -> bool:
    if not jobs.succeeded:
        return False
    policy = js.spec.get("successPolicy") or {}
    targets = policy.get("targetReplicatedJobs") or [rj.name for rj in js.replicated]
    done = sum(parent(job) in targets for job in jobs.succeeded)
    if policy.get("operator") == "Any":
        return done >= 1
    return done >= sum(rj.replicas for rj in js.replicated if rj.name in targets)
