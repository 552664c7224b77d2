"""Names of Workloads, PodGroups and pods, against those a real 1.37 cluster gave."""

from __future__ import annotations

import re

import pytest

from echelon.api.objects import completion_indexes
from echelon.decide.job import child_names

LIVE = [
    ("my-job", "uid-123", "my-job-795ddf89fd", "my-job-795ddf89fd-my-job-pgt-0-74cffdfb57"),
    (
        "my-job",
        "f211053e-ed7e-4c89-80dc-7b7e0b55b091",
        "my-job-5d84b55df7",
        "my-job-5d84b55df7-my-job-pgt-0-5dfbd7f857",
    ),
    (
        "train",
        "00000000-0000-0000-0000-000000000001",
        "train-585bcc5996",
        "train-585bcc5996-train-pgt-0-7654697dd6",
    ),
    (
        "gangjob",
        "7487e23b-cae7-4152-80ae-65f4c2887071",
        "gangjob-7884887bd4",
        "gangjob-7884887bd4-gangjob-pgt-0-848b48b89f",
    ),
    (
        "plainjob",
        "d79d1543-9704-4f19-8c55-e3895459ce6a",
        "plainjob-5f9f6bb64d",
        "plainjob-5f9f6bb64d-plainjob-pgt-0-86459fd5f7",
    ),
]


@pytest.mark.parametrize(("job", "uid", "workload", "group"), LIVE)
def test_names_are_those_of_a_real_cluster(job: str, uid: str, workload: str, group: str) -> None:
    assert child_names.workload(job, uid) == workload
    assert child_names.pod_group(workload, child_names.template(job)) == group


def test_a_delegated_group_is_named_after_the_parent_workload() -> None:
    assert child_names.pod_group("parent-workload", "workers") == "parent-workload-workers-5cfd5c5556"


@pytest.mark.conformance("JOB-W39")
@pytest.mark.parametrize(
    ("workload", "template", "kept"),
    [
        ("w" * 250, "leaf", "-leaf-"),
        ("root", "t" * 250, "root-"),
        ("w" * 250, "t" * 250, "w-t"),
    ],
)
def test_long_names_are_cut_to_fit_and_the_short_part_stays_whole(workload: str, template: str, kept: str) -> None:
    name = child_names.pod_group(workload, template)
    assert len(name) <= 253
    assert kept in name
    assert name == child_names.pod_group(workload, template)
    assert name != child_names.pod_group(workload, template + "x")


@pytest.mark.conformance("JOB-W39")
def test_a_long_job_name_gives_distinct_workloads_per_uid() -> None:
    first, second = child_names.workload("j" * 253, "a"), child_names.workload("j" * 253, "b")
    assert first != second
    assert max(len(first), len(second)) <= 253


_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@pytest.mark.parametrize(
    "name",
    ["v1.2", "a.b.c", "j" * 63, "j" * 253, "a." * 126 + "a", "ab-" * 84 + "a", "a" * 56 + "-b", "a" * 45 + ".b" * 100],
    ids=lambda name: f"{name[:8]}…{len(name)}",
)
def test_any_name_of_a_job_gives_names_that_a_server_takes(name: str) -> None:
    template, workload = child_names.template(name), child_names.workload(name, "uid")
    group = child_names.pod_group(workload, template)
    assert _LABEL.fullmatch(template)
    for made in (workload, group):
        assert _SUBDOMAIN.fullmatch(made)
        assert len(made) <= 253
    assert child_names.template(name + "x") != template


@pytest.mark.conformance("JOB-J64")
def test_the_index_survives_in_the_pod_name_of_a_long_job() -> None:
    prefix = child_names.pod_prefix("j" * 60, 12)
    assert prefix.endswith("j-12-")
    assert len(prefix) == 58


@pytest.mark.parametrize(
    ("text", "members"),
    [("", []), ("1,3-5,7", [1, 3, 4, 5, 7]), ("0,1", [0, 1]), ("0-2", [0, 1, 2]), ("9", [9])],
)
def test_indexes_as_text_both_ways(text: str, members: list[int]) -> None:
    assert completion_indexes.members(text, 100) == completion_indexes.of(members)
    assert str(completion_indexes.of(members)) == text


def test_indexes_beyond_the_completions_are_dropped() -> None:
    assert str(completion_indexes.members("0-5,7,9-12", 10)) == "0-5,7,9"
