"""What earlier versions have stored is read as they meant it: a sample of every label and annotation of ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from echelon.agents.node_objects import failure_of
from echelon.agents.pod_lifecycle import read_script
from echelon.api.cluster.pools import runs_processes
from echelon.api.objects import meta, vocabulary
from echelon.api.scheme import PODS, Object
from echelon.api.views.group_views import PodGroupView
from echelon.api.views.job_views import JobSetView, JobView
from echelon.api.views.pod_views import PodView
from echelon.api.views.trainjob_views import TrainJobView
from echelon.decide.job.annotated_groups import _group_spec
from echelon.decide.jobset import model as jobset_model
from echelon.decide.jobset.child import _named_group
from echelon.decide.jobset.stages import admission
from echelon.decide.jobset.stages.kept_jobs import kept
from echelon.decide.trainjob import model as trainjob_model
from echelon.decide.trainjob.reporting_pods import wanted
from echelon.decide.trainjob.scheduling_groups import _leaf_terms
from echelon.runtime.install.gathering import _installation
from echelon.scheduler.intake.group_policy import policy_of
from echelon.testing.builders import make_node, make_pod, make_pod_group
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time

SAMPLES: dict[str, dict[str, Any]] = {
    one["key"]: one for one in yaml.safe_load((Path(__file__).parent / "stored_keys.yaml").read_text())
}


def _kept(obj: Object) -> list[str]:
    done = {
        "metadata": {"name": "d", "labels": {vocabulary.REPLICATED_JOB_NAME: "prepare"}},
        "status": {"conditions": [{"type": "Complete", "status": "True"}]},
    }
    return sorted(kept(jobset_model.read(JobSetView(obj)), [JobView(done)]))


#: How each key is read today.
READERS: dict[str, Callable[[Object], Any]] = {
    vocabulary.RUN_SECONDS: lambda obj: read_script(obj).seconds,
    vocabulary.EXIT_CODE: lambda obj: read_script(obj).exit_code,
    vocabulary.NODE_FAILURE: failure_of,
    vocabulary.SIMULATED: lambda obj: meta.labels(obj)[vocabulary.SIMULATED],
    vocabulary.RUNS: runs_processes,
    vocabulary.POD_GROUP: lambda obj: PodView(obj).group_name,
    vocabulary.EXCLUSIVE_TOPOLOGY: lambda obj: policy_of(PodGroupView(obj)).exclusive,
    vocabulary.PREFERRED_TOPOLOGY: lambda obj: list(policy_of(PodGroupView(obj)).preferred),
    vocabulary.REQUIRED_TOPOLOGY: lambda obj: _leaf_terms({}, 2, meta.annotations(obj))["schedulingConstraints"],
    vocabulary.GROUP_PER_JOB: lambda obj: _named_group(jobset_model.read(JobSetView(obj)).replicated[0], "1"),
    vocabulary.PROGRESS_REPORTS: lambda obj: wanted(trainjob_model.read(TrainJobView(obj)), {}),
    vocabulary.INSTALLATION: _installation,
    vocabulary.QUEUED_SINCE: lambda obj: PodGroupView(obj).queued_since,
    vocabulary.QUOTA_ADMISSION: lambda obj: admission.mode_of(JobSetView(obj)),
    vocabulary.QUOTA_TIMEOUT: lambda obj: admission.timeout_of(JobSetView(obj)),
    vocabulary.ADMITTED_STAGES: lambda obj: sorted(admission.admitted(JobSetView(obj))),
    vocabulary.QUOTA_WAIT: lambda obj: list(admission.wait(JobSetView(obj))),
    vocabulary.KEEP_COMPLETED_STAGES: _kept,
    vocabulary.JOB_SCHEDULING: lambda obj: _group_spec(JobView(obj))["schedulingPolicy"],
}


def test_there_is_a_sample_of_every_key() -> None:
    assert set(SAMPLES) == vocabulary.OURS - {vocabulary.PREFIX}


@pytest.mark.parametrize("key", READERS)
def test_a_stored_key_means_what_it_meant(key: str) -> None:
    sample = SAMPLES[key]
    assert key in str(sample["object"])
    assert READERS[key](sample["object"]) == sample["means"]


@in_virtual_time
async def test_a_marked_victim_is_deleted_by_the_scheduler_that_starts(world: SchedulerPlane) -> None:
    await world.stop()
    stored = SAMPLES[vocabulary.EVICTED_BY]["object"]["metadata"]
    mark = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "m"}
    await world.create(make_node("n", cpu=4), make_pod(stored["name"], node="n", annotations=stored["annotations"]))
    await world.patch(PODS, stored["name"], {"status": {"conditions": [mark]}}, status=True)
    await world.restart()
    await world.settle()
    assert await world.gone(stored["name"])


@in_virtual_time
async def test_pods_of_a_unit_bound_later_than_its_mark_says_are_left_alone(world: SchedulerPlane) -> None:
    await world.stop()
    key = vocabulary.EVICTED_BOUND_UNTIL
    notes = SAMPLES[key]["object"]["metadata"]["annotations"]
    mark = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "m"}
    await world.create(make_node("n", cpu=4), make_pod_group("g", gang=2, mode="all"))
    for name, bound in (("victim", notes[key]), ("mate", notes[key]), ("later", "2027-01-15T08:00:01Z")):
        await world.create(make_pod(name, node="n", group="g", annotations=notes if name == "victim" else {}))
        conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": bound}]
        conditions += [mark] if name == "victim" else []
        await world.patch(PODS, name, {"status": {"conditions": conditions}}, status=True)
    await world.restart()
    await world.settle()
    assert [name for name in ("victim", "mate", "later") if await world.gone(name)] == ["victim", "mate"]


def test_every_key_has_a_reader_or_a_test_of_its_own() -> None:
    assert set(READERS) | {vocabulary.EVICTED_BY, vocabulary.EVICTED_BOUND_UNTIL} == set(SAMPLES)
