"""Admission of JobSets: claims that exist, and features that are switched off."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.admission import check_create, check_update
from echelon.api.admission.feature_gates import FEATURES, disabled
from echelon.api.errors import ApiError
from echelon.api.scheme import JOB_SETS, VOLUME_CLAIMS, Object

from ..rules.builders import Cluster, edited, job_set, named, replicated, stored

SIZE = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
INDEXED = {"completionMode": "Indexed", "completions": 2, "parallelism": 2}


def with_claim(retention: str = "Retain", **spec: Any) -> Object:
    mounts = {"containers": [{"name": "c", "image": "x", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]}
    template = {"metadata": {"name": "data"}, "spec": {**SIZE, **spec}}
    policy = {"templates": [template], "retentionPolicy": {"whenDeleted": retention}}
    return job_set(replicated(pods=mounts), volumeClaimPolicies=[policy])


def claim(owner: Object | None = None, **spec: Any) -> Cluster:
    made = stored(VOLUME_CLAIMS, named("data-js", spec={**SIZE, "volumeName": "pv", **spec}))
    if owner is not None:
        made["metadata"]["ownerReferences"] = [{"controller": True, **owner}]
    return Cluster((VOLUME_CLAIMS, made))


def refusal(cluster: Cluster, obj: Object, old: Object | None = None) -> str:
    with pytest.raises(ApiError) as caught:
        check_create(JOB_SETS, obj, cluster) if old is None else check_update(JOB_SETS, obj, old, cluster)
    assert caught.value.code == 422
    return str(caught.value)


@pytest.mark.conformance("JS-U10")
def test_a_claim_is_used_again_if_it_is_as_its_template_says() -> None:
    check_create(JOB_SETS, with_claim(), claim())
    check_create(JOB_SETS, with_claim(resources={"requests": {"storage": "1024Mi"}}), claim())


@pytest.mark.conformance("JS-U10")
def test_a_claim_of_another_spec_or_without_retain_is_refused() -> None:
    assert "exists with another spec" in refusal(claim(), with_claim(storageClassName="fast"))
    assert "exists with another spec" in refusal(claim(), with_claim(resources={"requests": {"storage": "2Gi"}}))
    assert "used only with retentionPolicy.whenDeleted Retain" in refusal(claim(), with_claim("Delete"))


def test_the_claim_of_an_earlier_jobset_of_that_name_is_about_to_go() -> None:
    check_create(JOB_SETS, with_claim("Delete"), claim({"kind": "JobSet", "name": "js"}))
    assert "Retain" in refusal(claim({"kind": "JobSet", "name": "other"}), with_claim("Delete"))


def without(feature: str) -> Cluster:
    cluster = Cluster()
    cluster.disabled_features = frozenset({feature})
    return cluster


IN_PLACE = {**INDEXED, "backoffLimit": 2**31 - 1, "podReplacementPolicy": "Failed"}


@pytest.mark.parametrize(
    ("feature", "obj"),
    [
        pytest.param(
            "RestartJob",
            job_set(failurePolicy={"rules": [{"name": "r", "action": "RestartJob"}]}),
            marks=pytest.mark.conformance("JS-U07"),
        ),
        pytest.param(
            "InPlaceRestart",
            job_set(replicated(job=IN_PLACE), failurePolicy={"restartStrategy": "InPlaceRestart"}),
            marks=pytest.mark.conformance("JS-U11"),
        ),
    ],
)
def test_a_feature_that_is_off_is_refused(feature: str, obj: Object) -> None:
    check_create(JOB_SETS, obj, Cluster())
    assert f"the feature {feature} is switched off" in refusal(without(feature), obj)


@pytest.mark.parametrize(
    ("feature", "path", "value"),
    [
        pytest.param("ElasticJobSet", "parallelism", 4, marks=pytest.mark.conformance("JS-W37")),
        pytest.param(
            "MutablePodResourcesForSuspendedJobSets",
            "template.spec.containers.0.resources",
            {"requests": {"cpu": "2"}},
            marks=pytest.mark.conformance("JS-K09"),
        ),
    ],
)
def test_a_change_needs_its_feature(feature: str, path: str, value: Any) -> None:
    old = job_set(replicated(job=INDEXED), suspend=True)
    new = edited(old, f"spec.replicatedJobs.0.template.spec.{path}", value)
    check_update(JOB_SETS, new, old, Cluster())
    assert "field is immutable" in refusal(without(feature), new, old)


def test_feature_gates_are_read_as_kubernetes_writes_them() -> None:
    assert disabled("") == frozenset()
    assert disabled("ElasticJobSet=false, RestartJob=true") == {"ElasticJobSet"}
    assert disabled(",".join(f"{name}=false" for name in FEATURES)) == set(FEATURES)
    for wrong, sentence in [("Nope=false", "unknown feature 'Nope'"), ("RestartJob", "say RestartJob=true")]:
        with pytest.raises(ValueError, match=sentence):
            disabled(wrong)
