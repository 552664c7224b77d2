"""Quota figures of a JobSet in its status: requested, reserved and used by stage; their sum and peak."""

from __future__ import annotations

from collections import Counter

from ..children import parent
from ..status import COMPLETED, FAILED, JobSetStatusDraft
from . import admission, amounts
from .stage_progress import StageProgress, outstanding


def write(progress: StageProgress, status: JobSetStatusDraft) -> None:
    js, mode = progress.js, admission.mode_of(progress.js.view)
    needs = {rj.name: amounts.requests_of(js, rj, rj.pods) for rj in js.replicated}
    used = _used(progress)
    reserved = _reserved(progress, status)
    status.body["stages"] = [
        {
            "name": stage.title,
            "phase": progress.phases[stage.key],
            "replicatedJobs": [rj.name for rj in stage.members],
            "requests": amounts.total(needs[rj.name] for rj in stage.members),
            **({"reserved": amounts.total(reserved[rj.name] for rj in stage.members)} if mode else {}),
            "used": amounts.total(used[rj.name] for rj in stage.members),
        }
        for stage in progress.stages
    ]
    status.body["quota"] = {
        "admission": mode or "none",
        "sum": amounts.total(needs.values()),
        "peak": amounts.peak(js, progress.stages, needs),
        **({"reserved": amounts.total(reserved.values())} if mode else {}),
        "used": amounts.total(used.values()),
    }


def _used(progress: StageProgress) -> dict[str, dict[str, str]]:
    """What pods that exist request, by replicated job."""
    pods = Counter[str]()
    for job in progress.jobs.active:
        pods[parent(job)] += job.status.active
    return {rj.name: amounts.requests_of(progress.js, rj, pods[rj.name]) for rj in progress.js.replicated}


def _reserved(progress: StageProgress, status: JobSetStatusDraft) -> dict[str, dict[str, str]]:
    """What is kept free for pods of Jobs that have not ended, by replicated job."""
    over = status.is_true(COMPLETED) or status.is_true(FAILED) or progress.js.suspended
    held: dict[str, dict[str, str]] = {}
    for stage in progress.stages:
        reserves = not over and admission.may_run(progress.js.view, stage)
        for rj in stage.members:
            pods = outstanding(rj, progress.counts) * rj.pods_per_job if reserves else 0
            held[rj.name] = amounts.requests_of(progress.js, rj, pods)
    return held
