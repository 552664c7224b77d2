"""The two forms of groups of pods, and how one becomes the other."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.group_definitions import group_definitions
from echelon.api.group_kinds import (
    CHOICES,
    dropped_fields,
    forms,
    group_of,
    labelled,
    labelled_job,
    labelled_jobset,
    probe_group,
    to_native,
    to_own,
    unlabelled_jobset,
    with_own_owners,
)
from echelon.api.objects.vocabulary import POD_GROUP
from echelon.api.scheme import COMPOSITE_POD_GROUPS, OWN_GROUP_KINDS, POD_GROUPS, Object
from echelon.api.views.pod_views import PodView
from echelon.testing.builders import make_composite, make_pod, make_pod_group, make_workload


def jobset(*pods: Object) -> Object:
    entries = [{"name": f"r{n}", "template": {"spec": {"template": pod}}} for n, pod in enumerate(pods)]
    return {"metadata": {"name": "js"}, "spec": {"replicatedJobs": entries}}


@pytest.mark.parametrize("choice", CHOICES)
def test_a_choice_is_what_its_forms_say(choice: str) -> None:
    assert forms(choice).choice == choice


def test_kinds_that_are_not_served_are_not_read() -> None:
    flat = forms("own,native", [one for one in OWN_GROUP_KINDS if one is not COMPOSITE_POD_GROUPS])
    assert flat.of[POD_GROUPS] == (OWN_GROUP_KINDS[POD_GROUPS], POD_GROUPS)
    assert flat.of[COMPOSITE_POD_GROUPS] == (OWN_GROUP_KINDS[COMPOSITE_POD_GROUPS],)
    assert flat.makes_own


@pytest.mark.parametrize("group", [make_pod_group("g", gang=2), make_composite("c"), make_workload("w")])
def test_a_group_comes_back_as_it_left(group: Object) -> None:
    own = to_own(group)
    assert own["apiVersion"] == "scheduling.echelon.dev/v1alpha1"
    assert to_native(own) == group


def test_owners_are_named_as_the_server_knows_them_by_their_uid() -> None:
    owners = [
        {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "Workload", "name": "w", "uid": uid} for uid in ("a", "b")
    ]
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "a"}
    group = {**make_pod_group("g"), "metadata": {"name": "g", "ownerReferences": [*owners, job]}}
    sent = with_own_owners(group, lambda uid: uid == "a")
    versions = [one["apiVersion"] for one in sent["metadata"]["ownerReferences"]]
    assert versions == ["scheduling.echelon.dev/v1alpha1", "scheduling.k8s.io/v1beta1", "batch/v1"]
    assert to_native(to_own(sent))["metadata"]["ownerReferences"] == [*owners, job]
    assert with_own_owners(group, lambda _: False) is group


def test_a_pod_joins_by_label_what_it_named_in_its_spec() -> None:
    pod = make_pod("p", group="g", labels={"a": "b"})
    sent = labelled(pod)
    assert sent["metadata"]["labels"] == {"a": "b", POD_GROUP: "g"}
    assert "schedulingGroup" not in sent["spec"]
    assert group_of(sent) == group_of(pod) == "g"
    alone = make_pod("q")
    assert labelled(alone) is alone
    job: Object = {"spec": {"template": {"spec": {"schedulingGroup": {"podGroupName": "g"}}}}}
    assert labelled_job(job)["spec"]["template"] == {"metadata": {"labels": {POD_GROUP: "g"}}, "spec": {}}


def test_the_label_counts_before_what_the_spec_names() -> None:
    pod = make_pod("p", group="g", labels={POD_GROUP: "other"})
    assert group_of(pod) == PodView(pod).group_name == "other"


@pytest.mark.parametrize(
    "pods",
    [
        [{"spec": {"schedulingGroup": {"podGroupName": "g"}}}, {"spec": {}}],
        [{"metadata": {"labels": {"a": "b"}}, "spec": {"schedulingGroup": {"podGroupName": "g"}}}],
        [{"metadata": {"annotations": {"a": "b"}}, "spec": {"schedulingGroup": {"podGroupName": "g"}}}],
    ],
)
def test_a_jobset_comes_back_as_it_left_even_if_the_server_drops_the_field(pods: list[Object]) -> None:
    sent = labelled_jobset(jobset(*pods))
    assert unlabelled_jobset(sent) == jobset(*pods)
    for entry in sent["spec"]["replicatedJobs"]:
        entry["template"]["spec"]["template"]["spec"] = {}
    assert unlabelled_jobset(sent) == jobset(*pods)


def test_fields_that_a_server_drops_are_named() -> None:
    probe = probe_group()
    assert dropped_fields(probe) == []
    del probe["spec"]["schedulingConstraints"]
    assert dropped_fields(probe) == ["spec.schedulingConstraints"]


def properties(schema: Any, *path: str) -> Any:
    for name in path:
        schema = schema["properties"][name] if name != "[]" else schema["items"]
    return schema


def test_definitions_say_what_the_rules_of_native_groups_say() -> None:
    by_name = {one["metadata"]["name"]: one["spec"]["versions"][0] for one in group_definitions()}
    group = by_name["podgroups.scheduling.echelon.dev"]["schema"]["openAPIV3Schema"]
    assert properties(group, "spec", "schedulingPolicy", "gang", "minCount")["minimum"] == 1
    assert properties(group, "spec", "disruptionMode")["default"] == {"single": {}}
    assert properties(group, "spec", "schedulingConstraints", "topology")["maxItems"] == 1
    assert by_name["podgroups.scheduling.echelon.dev"]["subresources"] == {"status": {}}
    workload = by_name["workloads.scheduling.echelon.dev"]["schema"]["openAPIV3Schema"]
    levels = ["compositePodGroupTemplates", "[]"] * 3
    assert properties(workload, "spec", *levels, "compositePodGroupTemplates")["maxItems"] == 0
    assert properties(workload, "spec", *levels, "podGroupTemplates")["maxItems"] == 8


def test_a_list_of_groups_shows_how_their_placement_stands() -> None:
    for found in group_definitions()[1:]:
        kind = found["spec"]["names"]["kind"]
        paths = {one["name"]: one["jsonPath"] for one in found["spec"]["versions"][0]["additionalPrinterColumns"]}
        assert paths["Status"] == f'.status.conditions[?(@.type=="{kind}InitiallyScheduled")].reason'
