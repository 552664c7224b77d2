"""CronJobs by the clock: when Jobs start, which may run at a time, which are kept, and what users are told."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from echelon.api.objects import meta
from echelon.api.scheme import CRON_JOBS, JOBS, Object
from echelon.api.views.cron_job_views import CronJobView
from echelon.api.views.job_views import JobView
from echelon.base.instants import to_time
from echelon.decide.cronjob.model import Observed
from echelon.decide.cronjob.reconcile import reconcile
from echelon.decide.plan import Plan
from tests.unit.decide.plain_api import PlainApi

TEMPLATE = {
    "metadata": {"labels": {"app": "report"}, "annotations": {"note": "1"}},
    "spec": {"parallelism": 2, "scheduling": {"schedulingPolicy": {"gang": {}}}, "template": {"spec": {}}},
}
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC).timestamp()


def cron_job(schedule: str = "0 * * * *", **spec: Any) -> Object:
    defaults = {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
        "jobTemplate": TEMPLATE,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "report", "namespace": "default", "uid": "c"},
        "spec": {"schedule": schedule, **defaults, **spec},
    }


class Stage(PlainApi):
    """One CronJob, from its creation on; Jobs change only as the test says."""

    def __init__(self, the_cron_job: Object, at: float = NEW_YEAR, *beside: Object) -> None:
        super().__init__()
        self.now = at
        self.add(CRON_JOBS, the_cron_job)
        for job in beside:
            self.add(JOBS, job)
        self.wake: float | None = None
        self.look()

    def plan(self) -> Plan:
        view = CronJobView(self.get(CRON_JOBS, "report"))
        zone = view.spec.time_zone
        known = ZoneInfo(zone) if zone and zone != "Mars/Crater" else None
        jobs = [JobView(job) for job in self.owned(JOBS, view.obj)]
        return reconcile(Observed(view, jobs, known if zone else UTC, self.find), self.now)

    def look(self) -> None:
        after = self.settle()
        self.wake = None if after is None else self.now + after

    def until(self, moment: str | float) -> None:
        """Time passes; decisions are taken when they were asked for."""
        end = moment if isinstance(moment, float) else datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()
        while self.wake is not None and self.wake <= end:
            self.now = self.wake
            self.look()
        self.now = end

    def end(self, name: str, condition: str = "Complete") -> None:
        job = self.get(JOBS, name)
        status = {"conditions": [{"type": condition, "status": "True"}], "startTime": to_time(self.now)}
        if condition == "Complete":
            status["completionTime"] = to_time(self.now)
        self.objects[JOBS, name] = {**job, "status": status}
        self.look()

    @property
    def status(self) -> Object:
        status: Object = self.get(CRON_JOBS, "report").get("status") or {}
        return status


def test_a_job_starts_at_each_time_of_the_schedule_and_says_which() -> None:
    stage = Stage(cron_job())
    assert stage.names(JOBS) == []
    stage.until("2026-01-01T02:30")
    minutes = int(NEW_YEAR) // 60
    assert stage.names(JOBS) == [f"report-{minutes + 60}", f"report-{minutes + 120}"]
    made = stage.get(JOBS, f"report-{minutes + 60}")
    assert made["metadata"]["annotations"] == {
        "note": "1",
        "batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-01-01T01:00:00Z",
    }
    assert made["metadata"]["labels"] == {"app": "report"}
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["controller"], owner["blockOwnerDeletion"]) == ("CronJob", True, True)
    assert made["spec"] == TEMPLATE["spec"]
    assert stage.status["lastScheduleTime"] == "2026-01-01T02:00:00Z"
    assert [one["name"] for one in stage.status["active"]] == stage.names(JOBS)
    assert stage.reasons() == ["SuccessfulCreate", "SuccessfulCreate"]
    assert stage.wake == datetime(2026, 1, 1, 3, tzinfo=UTC).timestamp() + 0.1


def test_a_finished_job_leaves_the_list_and_success_is_remembered() -> None:
    stage = Stage(cron_job())
    stage.until("2026-01-01T01:10")
    (name,) = stage.names(JOBS)
    stage.end(name)
    assert "active" not in stage.status
    assert stage.status["lastSuccessfulTime"] == "2026-01-01T01:10:00Z"
    assert ("Normal", "SawCompletedJob", f"Saw completed job: {name}, condition: Complete") in stage.events
    stage.until("2026-01-01T02:10")
    stage.end(stage.names(JOBS)[-1], "Failed")
    assert stage.status["lastSuccessfulTime"] == "2026-01-01T01:10:00Z"


def test_the_schedule_is_that_of_the_time_zone_also_when_summer_begins_and_ends() -> None:
    stage = Stage(cron_job("30 2 * * *", timeZone="Europe/Berlin"), datetime(2026, 3, 28, tzinfo=UTC).timestamp())
    stage.until("2026-03-31T00:00")
    stamps = [
        job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"] for job in stage.all(JOBS)
    ]
    assert stamps == ["2026-03-28T02:30:00+01:00", "2026-03-30T02:30:00+02:00"]  # there is no 02:30 on the 29th
    stage = Stage(cron_job("30 2 * * *", timeZone="Europe/Berlin"), datetime(2026, 10, 24, 12, tzinfo=UTC).timestamp())
    stage.until("2026-10-25T12:00")
    stamps = [
        job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"] for job in stage.all(JOBS)
    ]
    assert stamps == ["2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00"]


def test_forbid_waits_for_the_job_before_and_then_starts_the_one_that_waited() -> None:
    stage = Stage(cron_job(concurrencyPolicy="Forbid"))
    stage.until("2026-01-01T02:10")
    (first,) = stage.names(JOBS)
    assert "JobAlreadyActive" in stage.reasons()
    stage.end(first)
    assert len(stage.names(JOBS)) == 2
    assert stage.status["lastScheduleTime"] == "2026-01-01T02:00:00Z"


def test_replace_deletes_the_job_before() -> None:
    stage = Stage(cron_job(concurrencyPolicy="Replace"))
    stage.until("2026-01-01T02:10")
    minutes = int(NEW_YEAR) // 60
    assert stage.names(JOBS) == [f"report-{minutes + 120}"]
    assert ("Normal", "SuccessfulDelete", f"Deleted job report-{minutes + 60}") in stage.events
    assert [one["name"] for one in stage.status["active"]] == stage.names(JOBS)


def test_allow_runs_them_side_by_side() -> None:
    stage = Stage(cron_job())
    stage.until("2026-01-01T03:10")
    assert len(stage.status["active"]) == 3


def test_history_limits_keep_the_newest() -> None:
    stage = Stage(cron_job(successfulJobsHistoryLimit=2, failedJobsHistoryLimit=0))
    made: list[str] = []
    for hour in range(1, 6):
        stage.until(f"2026-01-01T0{hour}:10")
        made.append(stage.names(JOBS)[-1])
        stage.end(made[-1], "Failed" if hour == 3 else "Complete")
    assert stage.names(JOBS) == [made[3], made[4]]
    assert ("Normal", "SuccessfulDelete", f"Deleted job {made[2]}") in stage.events


def test_suspended_nothing_starts_and_resumed_the_latest_time_does() -> None:
    stage = Stage(cron_job(suspend=True))
    assert stage.wake is None
    stage.until("2026-01-01T05:30")
    stage.edit(CRON_JOBS, "report", suspend=False)
    stage.look()
    assert len(stage.names(JOBS)) == 1
    assert stage.status["lastScheduleTime"] == "2026-01-01T05:00:00Z"


def test_a_time_beyond_the_starting_deadline_is_missed_and_told() -> None:
    stage = Stage(cron_job(suspend=True, startingDeadlineSeconds=600))
    stage.until("2026-01-01T01:30")
    stage.edit(CRON_JOBS, "report", suspend=False)
    stage.look()
    assert stage.names(JOBS) == []
    message = "Missed scheduled time to start a job: Thu, 01 Jan 2026 01:00:00 +0000"
    assert ("Warning", "MissSchedule", message) in stage.events
    stage.until("2026-01-01T02:01")
    assert len(stage.names(JOBS)) == 1


def test_within_the_starting_deadline_a_late_job_starts() -> None:
    stage = Stage(cron_job(suspend=True, startingDeadlineSeconds=600))
    stage.until("2026-01-01T01:09")
    stage.edit(CRON_JOBS, "report", suspend=False)
    stage.look()
    assert len(stage.names(JOBS)) == 1


def test_after_a_long_absence_one_job_starts_and_too_many_missed_times_are_told() -> None:
    stage = Stage(cron_job("* * * * *", suspend=True))
    stage.until("2026-01-01T01:40:30")
    stage.edit(CRON_JOBS, "report", suspend=False)
    stage.look()
    assert "TooManyMissedTimes" not in stage.reasons()  # a hundred
    stage = Stage(cron_job("* * * * *", suspend=True))
    stage.until("2026-01-01T01:41:30")
    stage.edit(CRON_JOBS, "report", suspend=False)
    stage.look()
    assert len(stage.names(JOBS)) == 1
    assert "TooManyMissedTimes" in stage.reasons()


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"timeZone": "Mars/Crater"}, "UnknownTimeZone"),
        ({"schedule": "0 0 30 2 *"}, "InvalidSchedule"),
        ({"schedule": "never"}, "UnparseableSchedule"),
    ],
)
def test_a_schedule_that_cannot_come_true_is_told_and_not_looked_at_again(spec: Object, reason: str) -> None:
    stage = Stage(cron_job(**spec))
    assert stage.reasons() == [reason]
    assert stage.wake is None


def test_a_jobs_crash_between_job_and_status_makes_it_once() -> None:
    stage = Stage(cron_job())
    stage.now = datetime(2026, 1, 1, 1, 0, 1, tzinfo=UTC).timestamp()
    plan = stage.plan()
    assert plan.status is None
    stage.enact(plan)  # and here the process ends
    stage.now += 300
    stage.look()
    assert len(stage.names(JOBS)) == 1
    assert stage.status["lastScheduleTime"] == "2026-01-01T01:00:00Z"
    assert "UnexpectedJob" not in stage.reasons()


def test_a_foreign_job_under_the_name_is_told_and_left_alone() -> None:
    name = f"report-{int(NEW_YEAR) // 60 + 60}"
    foreign = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {}}
    stage = Stage(cron_job(), NEW_YEAR, foreign)
    stage.until("2026-01-01T01:30")
    text = f"Error creating job: Job {name} exists and does not belong to this CronJob; delete or rename it"
    assert ("Warning", "FailedCreate", text) in stage.events
    assert stage.get(JOBS, name)["spec"] == {}
    assert "active" not in stage.status
    stage.until("2026-01-01T02:01")
    assert len(stage.names(JOBS)) == 2


def test_a_job_that_went_missing_and_one_that_came_unasked_are_told() -> None:
    stage = Stage(cron_job())
    stage.until("2026-01-01T01:10")
    (name,) = stage.names(JOBS)
    del stage.objects[JOBS, name]
    stage.look()
    assert ("Normal", "MissingJob", f"Active job went missing: {name}") in stage.events
    owner = [meta.owner_reference(stage.get(CRON_JOBS, "report"), CRON_JOBS)]
    by_hand = {
        "name": "manual",
        "ownerReferences": owner,
        "annotations": {"cronjob.kubernetes.io/instantiate": "manual"},
    }
    stage.add(JOBS, {"metadata": by_hand})
    stage.look()
    assert "UnexpectedJob" not in stage.reasons()
    stage.add(JOBS, {"metadata": {"name": "stranger", "ownerReferences": owner}})
    stage.look()
    assert "UnexpectedJob" in stage.reasons()
    assert "active" not in stage.status


def test_intervals_count_from_the_last_job() -> None:
    stage = Stage(cron_job("@every 90m"))
    stage.until("2026-01-01T05:00")
    stamps = [
        job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"] for job in stage.all(JOBS)
    ]
    assert [stamp[11:16] for stamp in stamps] == ["01:30", "03:00", "04:30"]


def test_an_interval_is_looked_at_when_it_is_over() -> None:
    stage = Stage(cron_job("@every 90m"))
    stage.now += 600
    stage.look()
    assert stage.wake == NEW_YEAR + 5400 + 0.1


def test_only_times_within_the_starting_deadline_are_too_many() -> None:
    stage = Stage(cron_job("* * * * *", suspend=True, startingDeadlineSeconds=600))
    stage.until("2026-01-01T05:00:30")
    stage.edit(CRON_JOBS, "report", suspend=False)
    stage.look()
    assert len(stage.names(JOBS)) == 1
    assert "TooManyMissedTimes" not in stage.reasons()


def test_a_finished_job_is_told_once() -> None:
    stage = Stage(cron_job())
    stage.until("2026-01-01T01:10")
    stage.end(*stage.names(JOBS))
    stage.look()
    stage.until("2026-01-01T01:50")
    assert stage.reasons().count("SawCompletedJob") == 1
