"""CronJobs: schedules that are read and refused as by a real server, and the rules of a Job for their template."""

from __future__ import annotations

import pytest

from echelon.api import rules, scheme
from echelon.api.rules.cron_job import schedule_problem
from echelon.api.schema import defaulting
from echelon.api.scheme import Object

SPEC = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}


def cron_job(**spec: object) -> Object:
    given = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": dict(SPEC)}}}, **spec}
    return {"metadata": {"name": "c", "namespace": "default"}, "spec": given}


def problems(obj: Object) -> list[str]:
    defaulting.filler("io.k8s.api.batch.v1.CronJob")(obj)
    return [str(problem) for problem in rules.validate_create(scheme.CRON_JOBS, obj)]


@pytest.mark.parametrize(
    "schedule",
    ["* * * * *", "*/15 0-6,12 1 jan,MAR 1-5", "@hourly", "@every 1h30m", "? ? * * sun", "0/5 * * * *"],
)
def test_schedule_is_read(schedule: str) -> None:
    assert schedule_problem(schedule) == ""


@pytest.mark.parametrize(
    ("schedule", "problem"),
    [
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("error", "expected exactly 5 fields, found 1: [error]"),
        ("@often", "unrecognized descriptor: @often"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-2 * * * *", "beginning of range (5) beyond end of range (2): 5-2"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
    ],
)
def test_schedule_is_refused(schedule: str, problem: str) -> None:
    assert schedule_problem(schedule) == problem
    assert problems(cron_job(schedule=schedule)) == [f'spec.schedule: Invalid value: "{schedule}": {problem}']


def test_template_has_the_rules_of_a_job() -> None:
    template = {"spec": {"parallelism": -1, "template": {"spec": {**SPEC, "restartPolicy": "Always"}}}}
    found = problems(cron_job(jobTemplate=template))
    where = "spec.jobTemplate.spec"
    assert f"{where}.parallelism: Invalid value: -1: must be greater than or equal to 0" in found
    assert f'{where}.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"' in found


def test_zone_in_a_schedule_is_refused_but_kept_where_it_was() -> None:
    new = cron_job(schedule="TZ=Etc/UTC * * * * *")
    told = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
    assert problems(new) == [f'spec.schedule: Invalid value: "TZ=Etc/UTC * * * * *": {told}']
    assert not rules.validate_update(scheme.CRON_JOBS, new, new)


def test_template_stays_as_it_is_written() -> None:
    obj = cron_job()
    defaulting.filler("io.k8s.api.batch.v1.CronJob")(obj)
    assert obj["spec"]["jobTemplate"]["spec"].keys() == {"template"}
    assert obj["spec"]["successfulJobsHistoryLimit"] == 3


def test_a_name_leaves_room_for_the_minute() -> None:
    long = cron_job()
    long["metadata"]["name"] = "c" * 53
    assert problems(long) == [f'metadata.name: Invalid value: "{"c" * 53}": must be no more than 52 characters']


def update(new: Object, old: Object) -> list[str]:
    """The fields that an update is refused for."""
    for obj in (new, old):
        defaulting.filler("io.k8s.api.batch.v1.CronJob")(obj)
    return [problem.field for problem in rules.validate_update(scheme.CRON_JOBS, new, old)]


def with_scheduling(**scheduling: object) -> Object:
    return cron_job(jobTemplate={"spec": {"template": {"spec": dict(SPEC)}, "scheduling": scheduling}})


BASIC, GANG = {"basic": {}}, {"gang": {}}


@pytest.mark.conformance("JOB-W45")
def test_the_policy_of_a_template_may_change() -> None:
    basic, gang = with_scheduling(schedulingPolicy=BASIC), with_scheduling(schedulingPolicy=GANG)
    assert update(gang, basic) == []
    assert update(basic, gang) == []


@pytest.mark.parametrize(
    ("new", "field"),
    [
        (cron_job(), "spec.jobTemplate.spec.scheduling"),
        (with_scheduling(), "spec.jobTemplate.spec.scheduling.schedulingPolicy"),
        (
            with_scheduling(schedulingPolicy=GANG, disruptionMode={"all": {}}),
            "spec.jobTemplate.spec.scheduling.disruptionMode",
        ),
    ],
)
def test_other_terms_of_scheduling_stay(new: Object, field: str) -> None:
    assert update(new, with_scheduling(schedulingPolicy=GANG)) == [field]
