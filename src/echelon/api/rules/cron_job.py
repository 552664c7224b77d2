"""Rules of CronJob: the schedule, and the rules of a Job for its template.

CronJobs are stored; no controller starts their Jobs, and a warning says so.
"""

from __future__ import annotations

import re
from dataclasses import replace
from zoneinfo import available_timezones

from ..errors import FieldError, invalid, not_supported, required
from ..objects.subtree import mapping
from ..scheme import Object
from . import fields, job
from .kind import KindRules

_POLICIES = ("Allow", "Forbid", "Replace")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
#: Least and largest value of minute, hour, day, month and weekday, and words for values.
_PARTS: tuple[tuple[int, int, tuple[str, ...]], ...] = (
    (0, 59, ()), (0, 23, ()), (1, 31, ()), (1, 12, _MONTHS), (0, 6, _DAYS),
)  # fmt: skip
_NAMED = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_EVERY = re.compile(r"@every ([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+")


def schedule_problem(schedule: str) -> str:
    """Why a schedule cannot be read; empty if it can."""
    if schedule in _NAMED or _EVERY.fullmatch(schedule):
        return ""
    if schedule.startswith("@"):
        return f"unrecognized descriptor: {schedule}"
    parts = re.sub(r"^(CRON_)?TZ=\S+\s+", "", schedule).split()
    if len(parts) != len(_PARTS):
        return f"expected exactly {len(_PARTS)} fields, found {len(parts)}: [{' '.join(parts)}]"
    for text, (least, most, words) in zip(parts, _PARTS, strict=True):
        for one in text.split(","):
            if problem := _range_problem(one, least, most, words):
                return problem
    return ""


def _range_problem(text: str, least: int, most: int, words: tuple[str, ...]) -> str:
    ranged, *steps = text.split("/")
    if len(steps) > 1:
        return f"too many slashes: {text}"
    bounds = ranged.split("-")
    if len(bounds) > 2:
        return f"too many hyphens: {text}"
    numbers: list[int] = []
    for bound in [] if ranged in ("*", "?") else bounds:
        if bound.lower() in words:
            numbers.append(words.index(bound.lower()) + least)
        elif re.fullmatch("[0-9]{1,9}", bound):
            numbers.append(int(bound))
        else:
            return f'failed to parse int from {bound}: strconv.Atoi: parsing "{bound}": invalid syntax'
    if steps and not re.fullmatch("[0-9]{1,9}", steps[0]):
        return f'failed to parse int from {steps[0]}: strconv.Atoi: parsing "{steps[0]}": invalid syntax'
    if numbers and numbers[0] < least:
        return f"beginning of range ({numbers[0]}) below minimum ({least}): {text}"
    if numbers and numbers[-1] > most:
        return f"end of range ({numbers[-1]}) above maximum ({most}): {text}"
    if numbers and numbers[0] > numbers[-1]:
        return f"beginning of range ({numbers[0]}) beyond end of range ({numbers[-1]}): {text}"
    if steps and int(steps[0]) == 0:
        return f"step of range should be a positive number: {text}"
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
    problems = [
        replace(problem, field=f"spec.jobTemplate.{problem.field}")
        for problem in job.check_spec(spec)
        if not problem.field.startswith("spec.selector")
    ]
    if spec.get("selector") is not None:
        problems.append(
            invalid("spec.jobTemplate.spec.selector", spec["selector"], "`selector` will be auto-generated")
        )
    if spec.get("manualSelector"):
        problems.append(not_supported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false")))
    return problems


def _validate_update(new: Object, old: Object) -> list[FieldError]:
    return _validate(new, allow_zone="TZ" in str(mapping(old, "spec").get("schedule", "")))


def _warnings(obj: Object) -> list[str]:
    return ["CronJobs are stored, but no controller starts their Jobs"]


CRON_JOB = KindRules(validate_create=_validate, validate_update=_validate_update, warnings=_warnings)
