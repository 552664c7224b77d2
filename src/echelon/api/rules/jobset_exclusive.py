"""Rules of exclusive placement, which a JobSet asks for by annotation: of the whole, or of one replicated job.

What could not take effect is refused: a key that is no label key, Jobs without an index 0, groups of several Jobs that
cannot have a domain each, groups that a Job makes itself, more replicated jobs than a tree of groups can hold, a change
while Jobs run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import FieldError, forbidden_field, invalid
from ..objects import meta
from ..objects.vocabulary import JOBSET_EXCLUSIVE_TOPOLOGY, JOBSET_NODE_SELECTOR
from ..scheme import Object
from . import fields
from .job import INDEXED
from .workload import MAX_DEPTH, MAX_TEMPLATES

KEY = JOBSET_EXCLUSIVE_TOPOLOGY
#: Replicated jobs of a JobSet with the annotation alone: templates are nested, below the root there are three levels.
MOST = MAX_TEMPLATES ** (MAX_DEPTH - 1)
_BOTH = (KEY, JOBSET_NODE_SELECTOR)

Part = Mapping[str, Any]


def check(obj: Object) -> list[FieldError]:
    spec: Part = obj.get("spec") or {}
    jobs: Sequence[Part] = spec.get("replicatedJobs") or ()
    problems = _key("metadata", meta.annotations(obj))
    for index, replicated in enumerate(jobs):
        path, template = f"spec.replicatedJobs[{index}].template", replicated.get("template") or {}
        job: Part = template.get("spec") or {}
        of_pods = _annotations(job.get("template") or {})
        problems += _key(f"{path}.metadata", _annotations(template))
        problems += _key(f"{path}.spec.template.metadata", of_pods)
        if (_settings(obj, replicated) or KEY in of_pods) and job.get("completionMode") != INDEXED:
            detail = f"the annotation {KEY} needs completionMode Indexed"
            problems.append(invalid(f"{path}.spec.completionMode", job.get("completionMode"), detail))
        if _settings(obj, replicated) and "scheduling" in job and "scheduling" not in spec:
            detail = f"may not be set together with the annotation {KEY}; use spec.scheduling of the JobSet"
            problems.append(forbidden_field(f"{path}.spec.scheduling", detail))
    if any(_settings(obj, replicated) for replicated in jobs):
        problems += _grouped(obj, spec, jobs)
    return problems


def check_update(obj: Object, stored: Object) -> list[FieldError]:
    """Jobs that exist were made for what the annotations said; suspended ones are made anew."""
    now, was = ({key: meta.annotations(one).get(key) for key in _BOTH} for one in (obj, stored))
    if now == was or (stored.get("spec") or {}).get("suspend"):
        return []
    return [
        invalid(f"metadata.annotations[{key}]", now[key], "may change only while the JobSet is suspended")
        for key in _BOTH
        if now[key] != was[key]
    ]


def selects_in_vain(obj: Object) -> bool:
    """Whether nodes are selected by label for no exclusive placement."""
    jobs: Sequence[Part] = (obj.get("spec") or {}).get("replicatedJobs") or ()
    holders = [meta.annotations(obj), *(_annotations(one.get("template") or {}) for one in jobs)]
    return any(JOBSET_NODE_SELECTOR in one for one in holders) and not any(KEY in one for one in holders)


def _annotations(holder: Part) -> Part:
    return (holder.get("metadata") or {}).get("annotations") or {}


def _settings(obj: Object, replicated: Part) -> Part:
    """The annotations that a replicated job goes by, its own before the JobSet's; none if it is not exclusive."""
    candidates = (_annotations(replicated.get("template") or {}), meta.annotations(obj))
    return next((found for found in candidates if KEY in found), {})


def _key(path: str, annotations: Part) -> list[FieldError]:
    """The value is the key of a node label."""
    where = f"{path}.annotations[{KEY}]"
    return fields.needed(where, annotations[KEY], fields.label_key) if KEY in annotations else []


def _grouped(obj: Object, spec: Part, jobs: Sequence[Part]) -> list[FieldError]:
    scheduling: Part | None = spec.get("scheduling")
    if scheduling is None:
        detail = f"with the annotation {KEY} there may be at most {MOST} entries"
        return [invalid("spec.replicatedJobs", len(jobs), detail)] if len(jobs) > MOST else []
    exclusive = {
        job.get("name", "")
        for job in jobs
        if (settings := _settings(obj, job)) and JOBSET_NODE_SELECTOR not in settings
    }
    return [
        forbidden_field(where, f"a group of several Jobs cannot hold one domain per Job ({KEY}); {remedy}")
        for where, targets, remedy in _groups_of_several(scheduling, jobs)
        if exclusive & targets
    ]


def _groups_of_several(scheduling: Part, jobs: Sequence[Part]) -> Iterator[tuple[str, set[str], str]]:
    """The path of every group that is not one Job's, the replicated jobs in it, and what to write instead."""
    entries: Sequence[Part] = scheduling.get("replicatedJobs") or ()
    if not entries:
        policy = "basic" if "basic" in (scheduling.get("schedulingPolicy") or {}) else "gang"
        remedy = "group each Job with spec.scheduling.replicatedJobs[].job"
        yield f"spec.scheduling.schedulingPolicy.{policy}", {job.get("name", "") for job in jobs}, remedy
    for index, entry in enumerate(entries):
        if "job" not in entry:
            targets = set(entry.get("targetReplicatedJobs") or ())
            yield f"spec.scheduling.replicatedJobs[{index}]", targets, "group each Job with `job`"
