"""Who of those that wait for the quotas of a namespace is granted what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from echelon.api.objects import meta
from echelon.api.scheme import JOB_SETS, Object
from echelon.api.views.job_views import JobSetView, JobView
from echelon.base.instants import to_time
from echelon.decide.jobset.stages.quota_queue import Namespace, decide
from tests.unit.decide.jobset.stage import jobset, replicated
from tests.unit.decide.jobset.stages.test_amounts import depends
from tests.unit.decide.plain_api import START, merge

GPU = "requests.nvidia.com/gpu"


def quota(name: str = "q", scopes: Sequence[str] = (), **hard: int | str) -> Object:
    amounts = {{"gpu": GPU, "cpu": "requests.cpu"}.get(key, key): str(value) for key, value in hard.items()}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"hard": amounts, "scopes": list(scopes)}}


def asking(name: str = "w", gpu: int = 0, cpu: int = 0, **extra: Any) -> Object:
    """A replicated job whose pod asks for so much."""
    requests = {"nvidia.com/gpu": str(gpu), "cpu": str(cpu)}
    resources = {"requests": {resource: amount for resource, amount in requests.items() if amount != "0"}}
    pod = {"containers": [{"name": "c", "image": "i", "resources": resources}], **extra.pop("pod", {})}
    return replicated(name, pod=pod, **extra)


def pod_of(gpu: int, jobset: str = "", replicated_job: str = "", phase: str = "Running") -> Object:
    labels = {"jobset.sigs.k8s.io/jobset-name": jobset, "jobset.sigs.k8s.io/replicatedjob-name": replicated_job}
    container = {"name": "c", "resources": {"requests": {"nvidia.com/gpu": str(gpu)}}}
    return {"metadata": {"labels": labels}, "spec": {"containers": [container]}, "status": {"phase": phase}}


class Line:
    """JobSets in the order in which they were made, as the queue sees them."""

    def __init__(self, *quotas: Object, pods: Sequence[Object] = (), limit_ranges: Sequence[Object] = ()) -> None:
        self.quotas, self.pods, self.limit_ranges = list(quotas), list(pods), list(limit_ranges)
        self.jobsets: dict[str, Object] = {}
        self.jobs: dict[str, list[Object]] = {}

    def add(self, name: str, *entries: Object, mode: str = "stage", **spec: Any) -> None:
        made = jobset(*entries, name=name, annotations={"echelon.dev/quota-admission": mode}, **spec)
        made["metadata"] |= {"uid": name, "creationTimestamp": to_time(START + len(self.jobsets))}
        self.jobsets[name] = made

    def done(self, name: str, replicated_job: str) -> None:
        labels = {
            "jobset.sigs.k8s.io/restart-attempt": "0",
            "jobset.sigs.k8s.io/job-index": "0",
            "jobset.sigs.k8s.io/replicatedjob-name": replicated_job,
        }
        ended = {"conditions": [{"type": "Complete", "status": "True"}]}
        job = {"metadata": {"name": f"{name}-{replicated_job}-0", "labels": labels}, "spec": {}, "status": ended}
        self.jobs.setdefault(name, []).append(job)

    def settle(self) -> dict[str, str]:
        """Decide until nothing changes; what each JobSet was granted."""
        for _ in range(5):
            plan = decide(
                Namespace(
                    [JobSetView(obj) for obj in self.jobsets.values()],
                    lambda one: [JobView(job) for job in self.jobs.get(one.name, ())],
                    self.quotas,
                    self.limit_ranges,
                    lambda: self.pods,
                    {"": 0, "high": 100}.__getitem__,
                )
            )
            if plan.empty:
                return {name: self.note(name, "admitted-stages") for name in self.jobsets}
            for (action,) in plan.stages if len(plan.stages[0]) == 1 else [[one] for one in plan.stages[0]]:
                assert action.resource is JOB_SETS
                self.jobsets[action.name] = merge(self.jobsets[action.name], action.patch.body)  # type: ignore[union-attr]
        raise AssertionError("decisions never end")

    def note(self, name: str, annotation: str) -> str:
        return meta.annotations(self.jobsets[name]).get(f"echelon.dev/{annotation}", "")


def test_what_fits_is_granted_and_the_rest_waits_in_line() -> None:
    line = Line(quota(gpu=8))
    for name in ("a", "b", "c"):
        line.add(name, asking(gpu=5))
    assert line.settle() == {"a": "w", "b": "", "c": ""}
    assert line.note("b", "quota-wait") == f"WaitingForQuota: needs 5 of {GPU}; quota q has 3 of 8 left"
    assert line.note("c", "quota-wait") == f"WaitingForQuota: {GPU} of quota q goes to JobSet b first"


def test_a_small_one_does_not_overtake_for_what_the_first_waits_for() -> None:
    line = Line(quota(gpu=8))
    line.add("runs", asking(gpu=5))
    line.add("large", asking(gpu=8))
    line.add("small", asking(gpu=1))
    line.add("other", asking(cpu=64))
    assert line.settle() == {"runs": "w", "large": "", "small": "", "other": "w"}


def test_what_the_first_in_line_does_not_lack_is_kept_for_it() -> None:
    line = Line(quota(gpu=8, cpu=10))
    line.add("runs", asking(gpu=5, cpu=1))
    line.add("first", asking(gpu=8, cpu=6))
    line.add("much", asking(cpu=4))
    line.add("little", asking(cpu=3))
    assert line.settle() == {"runs": "w", "first": "", "much": "", "little": ""}
    line.jobsets["much"]["spec"]["suspend"] = True
    assert line.settle()["little"] == "w"


def test_priority_goes_before_age() -> None:
    line = Line(quota(gpu=8))
    line.add("old", asking(gpu=8))
    line.add("high", asking(gpu=8, pod={"priorityClassName": "high"}))
    assert line.settle() == {"old": "", "high": "w"}


def test_who_has_begun_goes_before_the_older_one() -> None:
    line = Line(quota(gpu=8))
    line.add("old", asking(gpu=8))
    line.add("begun", asking("data"), asking("train", gpu=8, dependsOn=depends(data="Complete")))
    line.done("begun", "data")
    assert line.settle() == {"old": "", "begun": "train"}


def test_pods_that_exist_count_and_those_of_a_granted_stage_only_once() -> None:
    line = Line(quota(gpu=8), pods=[pod_of(2), pod_of(3, "a", "w"), pod_of(8, phase="Succeeded")])
    line.add("a", asking(gpu=6))
    assert line.settle() == {"a": "w"}
    line.add("b", asking(gpu=1))
    assert line.settle()["b"] == ""


def test_a_stage_that_is_over_gives_back_and_the_next_one_asks() -> None:
    line = Line(quota(gpu=8))
    line.add("a", asking("data", gpu=8), asking("train", gpu=4, dependsOn=depends(data="Complete")))
    assert line.settle() == {"a": "data"}
    line.done("a", "data")
    assert line.settle() == {"a": "train"}


def test_the_whole_reserves_the_sum_and_gives_back_what_has_ended() -> None:
    line = Line(quota(gpu=12))
    line.add("a", asking("data", gpu=8), asking("train", gpu=4, dependsOn=depends(data="Complete")), mode="whole")
    line.add("b", asking(gpu=8))
    assert line.settle() == {"a": "*", "b": ""}
    line.done("a", "data")
    assert line.settle() == {"a": "*", "b": "w"}


@pytest.mark.parametrize(("mode", "what"), [("stage", "train needs 9"), ("whole", "the JobSet needs 10")])
def test_what_can_never_run_is_said_and_blocks_nobody(mode: str, what: str) -> None:
    line = Line(quota(gpu=8))
    stages = [asking("data", gpu=1), asking("train", gpu=9, dependsOn=depends(data="Complete"))]
    line.add("never", *stages, mode=mode)
    line.add("b", asking(gpu=8))
    assert line.settle() == {"never": "", "b": "w"}
    assert line.note("never", "quota-wait") == f"QuotaTooSmall: {what} of {GPU} at once, quota q allows 8"


def test_branches_that_do_not_fit_beside_each_other_take_turns() -> None:
    line = Line(quota(gpu=8))
    line.add("a", asking("l"), asking("r"), asking("left", gpu=8, dependsOn=depends(l="Complete")))
    line.jobsets["a"]["spec"]["replicatedJobs"].append(asking("right", gpu=8, dependsOn=depends(r="Complete")))
    line.done("a", "l")
    line.done("a", "r")
    assert line.settle() == {"a": "left"}
    line.done("a", "left")
    assert line.settle() == {"a": "right"}


def test_every_pod_of_every_job_counts() -> None:
    line = Line(quota(gpu=12))
    line.add("a", asking(gpu=2, replicas=2, parallelism=3))
    line.add("b", asking(gpu=1))
    assert line.settle() == {"a": "w", "b": ""}
    assert line.note("b", "quota-wait") == f"WaitingForQuota: needs 1 of {GPU}; quota q has 0 of 12 left"


def test_several_quotas_all_have_to_have_room() -> None:
    line = Line(quota("few", gpu=4), quota("many", gpu=100))
    line.add("a", asking(gpu=4))
    line.add("b", asking(gpu=1))
    assert line.settle() == {"a": "w", "b": ""}


def test_a_quota_of_a_scope_that_does_not_match_does_not_count() -> None:
    line = Line(quota(gpu=0, scopes=["NotBestEffort"]))
    line.add("a", asking(gpu=4))
    assert line.settle() == {"a": "w"}


def test_defaults_of_a_limit_range_are_counted() -> None:
    default = {"spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "3"}}]}}
    line = Line(quota(cpu=4), limit_ranges=[default])
    line.add("a", asking())
    line.add("b", asking())
    assert line.settle() == {"a": "w", "b": ""}


def test_a_template_without_what_a_quota_demands_is_told_so() -> None:
    line = Line(quota(cpu=4))
    line.add("a", asking())
    assert line.settle() == {"a": ""}
    assert line.note("a", "quota-wait") == "QuotaTooSmall: w must specify requests.cpu for: c, says quota q"


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"suspend": True}},
        {"spec": {"managedBy": "example.com/other"}},
        {"metadata": {"annotations": {"echelon.dev/quota-admission": None}}},
        {"metadata": {"deletionTimestamp": "2026-11-17T00:00:00Z"}},
        {"status": {"conditions": [{"type": "Completed", "status": "True"}]}},
    ],
)
def test_who_does_not_run_any_more_gives_back(change: Object) -> None:
    line = Line(quota(gpu=8))
    line.add("a", asking(gpu=8))
    line.add("b", asking(gpu=8))
    assert line.settle() == {"a": "w", "b": ""}
    line.jobsets["a"] = merge(line.jobsets["a"], change)
    assert line.settle() == {"a": "", "b": "w"}


def test_without_a_quota_everything_is_granted() -> None:
    line = Line()
    line.add("a", asking(gpu=1000))
    assert line.settle() == {"a": "w"}
    assert line.note("a", "quota-wait") == ""
