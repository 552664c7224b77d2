"""Job: generated selector, shape of the spec, and what may change when."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api import rules
from echelon.api.scheme import JOBS, Object

from .builders import edited, job, named, on_create, on_update, stored

GENERATED = {
    "batch.kubernetes.io/controller-uid": "job-uid",
    "batch.kubernetes.io/job-name": "j",
    "controller-uid": "job-uid",
    "job-name": "j",
}
INDEXED = {"completionMode": "Indexed", "completions": 4, "parallelism": 4}


def test_selector_and_labels_are_generated() -> None:
    obj = job()
    assert obj["spec"]["template"]["metadata"]["labels"] == GENERATED
    assert obj["metadata"]["labels"] == GENERATED
    assert obj["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "job-uid"}}
    assert on_create(JOBS, obj) == []


def test_a_manual_selector_is_left_alone() -> None:
    obj = job(manualSelector=True, selector={"matchLabels": {"a": "b"}})
    assert "spec.template.metadata.labels: Invalid value" in on_create(JOBS, obj)[0]
    labelled = edited(obj, "spec.template.metadata", {"labels": {"a": "b"}})
    assert on_create(JOBS, labelled) == []


def test_labels_that_contradict_the_generated_ones_are_refused() -> None:
    made = named(
        "j", spec={"template": {"metadata": {"labels": {"job-name": "k"}}, "spec": job()["spec"]["template"]["spec"]}}
    )
    made["metadata"]["uid"] = "job-uid"
    assert on_create(JOBS, stored(JOBS, made)) == [
        "spec.template.labels[job-name]: Invalid value: \"k\": must be 'j'",
    ]


RULE = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}


def failure(**rule: Any) -> Object:
    return {"podFailurePolicy": {"rules": [{**RULE, **rule}]}}


def codes(**more: Any) -> Object:
    return failure(onExitCodes={"operator": "In", "values": [1], **more})


def success(**rule: Any) -> Object:
    return {**INDEXED, "successPolicy": {"rules": [rule] if rule else []}}


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"parallelism": -1}, "spec.parallelism: Invalid value: -1: must be greater than or equal to 0"),
        ({"backoffLimit": -1}, "spec.backoffLimit: Invalid value: -1"),
        ({"ttlSecondsAfterFinished": -1}, "spec.ttlSecondsAfterFinished: Invalid value: -1"),
        ({"completionMode": "Other"}, 'supported values: "NonIndexed", "Indexed"'),
        ({"completionMode": "Indexed", "parallelism": 2}, "spec.completions: Required value: when completion mode"),
        ({**INDEXED, "parallelism": 100_001}, "spec.parallelism: Invalid value: 100001: must be less than or equal"),
        ({"backoffLimitPerIndex": 1}, "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"),
        ({**INDEXED, "maxFailedIndexes": 1}, "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes"),
        ({**INDEXED, "backoffLimitPerIndex": 1, "maxFailedIndexes": 5}, "must be less than or equal to completions"),
        ({**INDEXED, "backoffLimitPerIndex": 1, "completions": 100_001}, "spec.maxFailedIndexes: Required value"),
        ({"managedBy": "nobody"}, "spec.managedBy: Invalid value"),
        ({"managedBy": "a.io/" + "x" * 60}, "spec.managedBy: Too long: may not be more than 63 bytes"),
        ({**failure(), "podReplacementPolicy": "TerminatingOrFailed"}, 'supported values: "Failed"'),
        (failure(action="Explode"), "spec.podFailurePolicy.rules[0].action: Unsupported value"),
        (failure(action="FailIndex"), "requires the backoffLimitPerIndex to be set"),
        (failure(onPodConditions=[{"type": "T"}]), "specifying both OnExitCodes and OnPodConditions"),
        ({"podFailurePolicy": {"rules": [{"action": "Ignore"}]}}, "specifying one of OnExitCodes and OnPodConditions"),
        ({"podFailurePolicy": {"rules": [RULE] * 21}}, "spec.podFailurePolicy.rules: Too many: 21"),
        (codes(values=[]), "at least one value is required"),
        (codes(values=[0]), "must not be 0 for the In operator"),
        (codes(values=[2, 1]), "must be ordered"),
        (codes(values=[1, 1]), "Duplicate value: 1"),
        (codes(operator="Like"), 'supported values: "In", "NotIn"'),
        (codes(containerName="nosuch"), "must be one of the container or initContainer names"),
        (success(), "spec.successPolicy.rules: Required value"),
        (success(succeededCount=5), "must be less than or equal to 4 (the number of specified completions)"),
        (success(succeededIndexes="0-1", succeededCount=3), "must be less than or equal to 2 (the number of indexes"),
        (success(succeededIndexes="3,1"), "error parsing succeededIndexes: non-increasing order"),
        (success(succeededIndexes="0-9"), "error parsing succeededIndexes: too large index"),
        ({"successPolicy": {"rules": [{"succeededCount": 1}]}}, "spec.successPolicy: Invalid value"),
    ],
)
def test_a_bad_job_is_refused(spec: Object, sentence: str) -> None:
    problems = on_create(JOBS, job(**spec))
    assert len(problems) == 1
    assert sentence in problems[0]


@pytest.mark.parametrize(
    "spec",
    [
        {},
        INDEXED,
        {**INDEXED, "backoffLimitPerIndex": 1, "maxFailedIndexes": 4},
        {**INDEXED, "backoffLimitPerIndex": 1, **failure(action="FailIndex")},
        failure(onExitCodes=None, onPodConditions=[{"type": "DisruptionTarget"}]),
        codes(operator="NotIn", values=[0, 3]),
        success(succeededIndexes="0,2-3", succeededCount=3),
        {"managedBy": "acme.io/manager"},
        {"parallelism": 3},
    ],
)
def test_a_good_job_is_accepted(spec: Object) -> None:
    assert on_create(JOBS, job(**spec)) == []


@pytest.mark.parametrize(
    ("template", "sentence"),
    [
        ({"restartPolicy": "Always"}, 'Required value: valid values: "OnFailure", "Never"'),
        ({"containers": []}, "spec.template.spec.containers: Required value"),
    ],
)
def test_a_bad_template_is_refused(template: Object, sentence: str) -> None:
    problems = on_create(JOBS, job(template))
    assert len(problems) == 1
    assert sentence in problems[0]


def test_a_failure_policy_needs_pods_that_never_restart() -> None:
    problems = on_create(JOBS, job({"restartPolicy": "OnFailure"}, **failure()))
    assert problems == [
        'spec.template.spec.restartPolicy: Invalid value: "OnFailure": '
        'only "Never" is supported when podFailurePolicy is specified'
    ]


def test_the_last_pod_of_an_indexed_job_needs_a_host_name() -> None:
    obj = edited(job(**INDEXED), "metadata.name", "a" * 62)
    assert any("will not able to create pod with invalid DNS label" in problem for problem in on_create(JOBS, obj))


GANG = {"schedulingPolicy": {"gang": {"minCount": 2}}}
CLAIM = {"name": "c", "resourceClaimName": "r"}


def scheduled(**scheduling: Any) -> Object:
    return job(parallelism=4, scheduling={**GANG, **scheduling})


PATH = "spec.scheduling"


@pytest.mark.conformance("JOB-W43")
@pytest.mark.parametrize(
    ("scheduling", "sentence"),
    [
        ({"schedulingPolicy": {}}, f'{PATH}.schedulingPolicy: Invalid value: "": must specify one of'),
        ({"schedulingPolicy": {"basic": {}, "gang": {}}}, f'{PATH}.schedulingPolicy: Invalid value: "{{basic, gang}}"'),
        ({"schedulingPolicy": {"gang": {"minCount": 0}}}, f"{PATH}.schedulingPolicy.gang.minCount: Invalid value: 0"),
        ({"schedulingPolicy": {"gang": {"minCount": -1}}}, f"{PATH}.schedulingPolicy.gang.minCount: Invalid value: -1"),
        (
            {"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
            f"{PATH}.schedulingConstraints.topology: Too many",
        ),
        (
            {"schedulingConstraints": {"topology": [{}]}},
            f"{PATH}.schedulingConstraints.topology[0].key: Required value",
        ),
        (
            {"schedulingConstraints": {"topology": [{"key": "a b"}]}},
            f"{PATH}.schedulingConstraints.topology[0].key: Invalid value",
        ),
        ({"disruptionMode": {}}, f"{PATH}.disruptionMode: Invalid value"),
        ({"resourceClaims": [{**CLAIM, "name": f"c{i}"} for i in range(5)]}, f"{PATH}.resourceClaims: Too many: 5"),
        ({"resourceClaims": [CLAIM, CLAIM]}, f"{PATH}.resourceClaims[1]: Duplicate value"),
        ({"resourceClaims": [{"name": "c"}]}, f"{PATH}.resourceClaims[0]: Invalid value"),
        (
            {"resourceClaims": [{"name": "c", "resourceClaimName": "A b"}]},
            f"{PATH}.resourceClaims[0].resourceClaimName: Invalid",
        ),
        ({"resourceClaims": [{**CLAIM, "name": "C"}]}, f"{PATH}.resourceClaims[0].name: Invalid value"),
    ],
)
def test_bad_scheduling_is_refused_at_its_path(scheduling: Object, sentence: str) -> None:
    problems = on_create(JOBS, scheduled(**scheduling))
    assert len(problems) == 1
    assert problems[0].startswith(sentence)


@pytest.mark.conformance("JOB-W40")
def test_the_minimum_stays_within_parallelism() -> None:
    equal = job(parallelism=2, scheduling=GANG)
    assert on_create(JOBS, equal) == []
    above = edited(equal, "spec.scheduling.schedulingPolicy.gang.minCount", 3)
    sentence = (
        "spec.scheduling.schedulingPolicy.gang.minCount: Invalid value: 3: must not be greater than parallelism (2)"
    )
    assert on_create(JOBS, above) == [sentence]
    assert on_update(JOBS, above, equal) == [sentence]
    assert on_update(JOBS, edited(above, "spec.parallelism", 3), equal) == []


def test_the_minimum_stays_within_completions() -> None:
    (told,) = on_create(JOBS, job(parallelism=3, completions=1, scheduling=GANG))
    assert told.endswith("gang.minCount: Invalid value: 2: must not be greater than completions (1)")


@pytest.mark.conformance("JOB-W41")
@pytest.mark.parametrize(
    ("scheduling", "accepted"),
    [
        ({"disruptionMode": {"all": {}}}, False),
        ({"schedulingPolicy": {"basic": {}}, "disruptionMode": {"all": {}}}, False),
        ({"schedulingPolicy": {"basic": {}}, "disruptionMode": {"single": {}}}, True),
        ({"schedulingPolicy": {"gang": {}}, "disruptionMode": {"all": {}}}, True),
    ],
)
def test_mode_all_needs_a_gang(scheduling: Object, accepted: bool) -> None:
    problems = on_create(JOBS, job(scheduling=scheduling))
    assert [problem.split(":")[0] for problem in problems] == ([] if accepted else ["spec.scheduling.disruptionMode"])


@pytest.mark.conformance("JOB-W42")
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.scheduling", None),
        ("spec.scheduling.schedulingPolicy", None),
        ("spec.scheduling.schedulingPolicy", {"basic": {}}),
        ("spec.scheduling.schedulingConstraints", {"topology": [{"key": "zone"}]}),
        ("spec.scheduling.disruptionMode", {"single": {}}),
        ("spec.scheduling.resourceClaims", [CLAIM]),
    ],
)
def test_scheduling_is_written_once(path: str, value: Any) -> None:
    old = scheduled(disruptionMode={"all": {}}, schedulingConstraints={"topology": [{"key": "rack"}]})
    assert any(problem.startswith(path) for problem in on_update(JOBS, edited(old, path, value), old))


@pytest.mark.conformance("JOB-W42")
def test_scheduling_cannot_be_added_later() -> None:
    old = job(parallelism=4)
    assert on_update(JOBS, edited(old, "spec.scheduling", GANG), old) == [
        "spec.scheduling: Invalid value: null: field cannot be set once created"
    ]


def test_the_minimum_may_appear_change_and_go() -> None:
    old = scheduled()
    for gang in ({}, {"minCount": 4}):
        new = edited(old, "spec.scheduling.schedulingPolicy.gang", gang)
        assert on_update(JOBS, new, old) == []
        assert on_update(JOBS, old, new) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("parallelism", 7),
        ("backoffLimit", 1),
        ("suspend", True),
        ("activeDeadlineSeconds", 5),
        ("ttlSecondsAfterFinished", 5),
    ],
)
def test_what_may_always_change(path: str, value: Any) -> None:
    old = job(parallelism=2, completions=2)
    assert on_update(JOBS, edited(old, f"spec.{path}", value), old) == []


@pytest.mark.conformance("API-19")
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("completions", 9),
        ("selector", {"matchLabels": {"batch.kubernetes.io/job-name": "j"}}),
        ("podFailurePolicy", {"rules": []}),
        ("managedBy", "acme.io/m"),
        ("template", {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "y"}]}}),
    ],
)
def test_what_never_changes(path: str, value: Any) -> None:
    old = job(completions=2)
    sentence = f"spec.{path}: Invalid value"
    assert any(problem.startswith(sentence) for problem in on_update(JOBS, edited(old, f"spec.{path}", value), old))


def test_an_indexed_job_is_elastic() -> None:
    old = job(**INDEXED)
    grown = edited(edited(old, "spec.completions", 6), "spec.parallelism", 6)
    assert on_update(JOBS, grown, old) == []
    assert on_update(JOBS, edited(old, "spec.completions", 6), old) == [
        "spec.completions: Invalid value: 6: can only be modified in tandem with spec.parallelism"
    ]


IN_WINDOW = [
    ("spec.nodeSelector", {"a": "b"}),
    ("spec.tolerations", [{"operator": "Exists"}]),
    ("spec.schedulingGates", [{"name": "g"}]),
    ("spec.affinity", {"nodeAffinity": {}}),
    ("spec.containers.0.resources", {"requests": {"cpu": "2"}}),
    ("metadata.annotations", {"a": "b"}),
]


@pytest.mark.conformance("JOB-J30")
@pytest.mark.parametrize(("path", "value"), IN_WINDOW)
def test_a_suspended_job_may_be_adapted_and_resumed_at_once(path: str, value: Any) -> None:
    old = job(suspend=True)
    new = edited(edited(old, f"spec.template.{path}", value), "spec.suspend", False)
    assert on_update(JOBS, new, old) == []


@pytest.mark.conformance("JOB-J30")
@pytest.mark.parametrize(
    ("spec", "status"),
    [
        ({}, {}),
        ({"suspend": True}, {"active": 1}),
        ({"suspend": True}, {"startTime": "2026-01-01T00:00:00Z"}),
    ],
)
@pytest.mark.parametrize(("path", "value"), IN_WINDOW)
def test_a_running_job_may_not(path: str, value: Any, spec: Object, status: Object) -> None:
    old = {**job(**spec), "status": status}
    problems = on_update(JOBS, edited(old, f"spec.template.{path}", value), old)
    assert [problem.split(":")[0] for problem in problems] == ["spec.template"]


@pytest.mark.parametrize(
    ("path", "value"), [("spec.schedulingGroup", {"podGroupName": "g"}), ("spec.containers.0.image", "y")]
)
def test_even_a_suspended_job_keeps_its_group_and_images(path: str, value: Any) -> None:
    old = job(suspend=True)
    assert len(on_update(JOBS, edited(old, f"spec.template.{path}", value), old)) == 1


def test_names_that_are_no_host_names_draw_a_warning() -> None:
    assert rules.warnings(JOBS, job()) == []
    assert "a DNS label is recommended" in rules.warnings(JOBS, edited(job(), "metadata.name", "a.b"))[0]


def test_very_wide_indexed_jobs_draw_a_warning() -> None:
    wide = job(completionMode="Indexed", completions=100_001, parallelism=10_001)
    assert len(rules.warnings(JOBS, wide)) == 1
