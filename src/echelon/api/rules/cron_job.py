"""Rules of CronJob: the schedule, and the rules of a Job for its template."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from zoneinfo import available_timezones

from ...base import cron
from ..errors import FieldError, invalid, not_supported, required
from ..objects.subtree import mapping
from ..scheme import Object
from . import fields, job
from .kind import KindRules

_LONGEST_NAME = 52
_POLICIES = ("Allow", "Forbid", "Replace")


def schedule_problem(schedule: str) -> str:
    """Why a schedule cannot be read; empty if it can."""
    try:
        cron.parse(schedule)
    except cron.BadSchedule as error:
        return str(error)
    return ""


def _validate(obj: Object, allow_zone: bool = False) -> list[FieldError]:
    spec = mapping(obj, "spec")
    schedule, zone = spec.get("schedule", ""), spec.get("timeZone")
    problems: list[FieldError] = []
    if not schedule:
        problems.append(required("spec.schedule"))
    elif found := schedule_problem(schedule):
        problems.append(invalid("spec.schedule", schedule, found))
    if "TZ" in schedule and not allow_zone:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        problems.append(invalid("spec.schedule", schedule, detail))
    if zone is not None and zone not in available_timezones():
        problems.append(invalid("spec.timeZone", zone, f"unknown time zone {zone}"))
    for field in ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        problems += fields.not_negative(f"spec.{field}", spec.get(field))
    policy = spec.get("concurrencyPolicy", "")
    problems += fields.one_of("spec.concurrencyPolicy", policy, _POLICIES) if policy else []
    return problems + _template(mapping(spec, "jobTemplate", "spec"))


def _template(spec: Object) -> list[FieldError]:
    """What a Job of this spec would be refused for; its selector is generated when the Job is."""
    problems = _in_template(one for one in job.check_spec(spec) if not one.field.startswith("spec.selector"))
    if spec.get("selector") is not None:
        problems.append(
            invalid("spec.jobTemplate.spec.selector", spec["selector"], "`selector` will be auto-generated")
        )
    if spec.get("manualSelector"):
        problems.append(not_supported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false")))
    return problems


def _in_template(problems: Iterable[FieldError]) -> list[FieldError]:
    return [replace(problem, field=f"spec.jobTemplate.{problem.field}") for problem in problems]


def _validate_create(obj: Object) -> list[FieldError]:
    """Jobs are named after their CronJob, with up to eleven characters more."""
    name = mapping(obj, "metadata").get("name", "")
    problems = _validate(obj)
    if len(name) > _LONGEST_NAME:
        problems.append(invalid("metadata.name", name, f"must be no more than {_LONGEST_NAME} characters"))
    return problems


def _validate_update(new: Object, old: Object) -> list[FieldError]:
    """The terms of scheduling stay, but for the policy: the next Job may be a gang where the last one was not."""
    now, was = (mapping(one, "spec", "jobTemplate", "spec").get("scheduling") for one in (new, old))
    problems = _validate(new, allow_zone="TZ" in str(mapping(old, "spec").get("schedule", "")))
    return problems + _in_template(job.scheduling_update(now, was, policy_frozen=False))


CRON_JOB = KindRules(validate_create=_validate_create, validate_update=_validate_update)
