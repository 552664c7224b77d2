"""Forms of earlier releases: a TrainJob's overrides become one patch of its runtime, with a warning."""

from __future__ import annotations

from typing import Any

from echelon.api.admission import convert_older_forms
from echelon.api.scheme import JOB_SETS, TRAIN_JOBS, Object

MANAGER = "trainer.kubeflow.org/legacy-overrides"


def converted(**spec: Any) -> tuple[Object, list[str]]:
    obj: Object = {"metadata": {"name": "t"}, "spec": {"runtimeRef": {"name": "torch"}, **spec}}
    told: list[str] = []
    convert_older_forms(TRAIN_JOBS, obj, told.append)
    return obj["spec"], told


def template(spec: Object) -> Object:
    (patch,) = spec["runtimePatches"]
    assert patch["manager"] == MANAGER
    return patch["trainingRuntimeSpec"]["template"]  # type: ignore[no-any-return]


def test_overrides_of_pod_templates_become_a_patch() -> None:
    pods = {"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]}
    metadata = {"labels": {"l": "1"}}
    override = {"targetJobs": [{"name": "node"}, {"name": "launcher"}], "metadata": metadata, "spec": pods}
    spec, (told,) = converted(podTemplateOverrides=[override])
    assert "podTemplateOverrides" not in spec
    assert template(spec)["spec"]["replicatedJobs"] == [
        {"name": name, "template": {"spec": {"template": {"metadata": metadata, "spec": pods}}}}
        for name in ("node", "launcher")
    ]
    assert told.startswith("spec.podTemplateOverrides is of an older release: it is stored in spec.runtimePatches")


def test_labels_and_annotations_go_to_the_jobset() -> None:
    spec, told = converted(labels={"l": "1"}, annotations={"a": "2"})
    assert template(spec) == {"metadata": {"labels": {"l": "1"}, "annotations": {"a": "2"}}}
    assert len(told) == 2


def test_flat_overrides_are_those_of_the_first_release() -> None:
    spec, _ = converted(podSpecOverrides=[{"targetJobs": [{"name": "node"}], "serviceAccountName": "me"}])
    (job,) = template(spec)["spec"]["replicatedJobs"]
    assert job["template"]["spec"]["template"] == {"spec": {"serviceAccountName": "me"}}


def test_several_overrides_of_one_job_are_merged_and_the_last_wins() -> None:
    target = [{"name": "node"}]
    first = {"nodeSelector": {"a": "1", "b": "1"}, "containers": [{"name": "x", "env": [{"name": "E", "value": "1"}]}]}
    last = {"nodeSelector": {"b": "2"}, "containers": [{"name": "x", "env": [{"name": "E", "value": "2"}]}]}
    spec, _ = converted(
        podTemplateOverrides=[{"targetJobs": target, "spec": first}, {"targetJobs": target, "spec": last}]
    )
    (job,) = template(spec)["spec"]["replicatedJobs"]
    pods = job["template"]["spec"]["template"]["spec"]
    assert pods["nodeSelector"] == {"a": "1", "b": "2"}
    assert pods["containers"] == [{"name": "x", "env": [{"name": "E", "value": "2"}]}]


def test_the_same_again_changes_nothing_and_other_patches_stay() -> None:
    other = {"manager": "acme.io/m"}
    once, _ = converted(labels={"l": "1"}, runtimePatches=[other])
    twice, _ = converted(labels={"l": "1"}, runtimePatches=once["runtimePatches"])
    assert twice == once
    assert [patch["manager"] for patch in once["runtimePatches"]] == [MANAGER, "acme.io/m"]


def test_everything_else_is_left_alone() -> None:
    assert converted(trainer={"numNodes": 2}) == ({"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 2}}, [])
    jobset: Object = {"spec": {"labels": {}}}
    convert_older_forms(JOB_SETS, jobset, lambda _: None)
    assert jobset == {"spec": {"labels": {}}}
