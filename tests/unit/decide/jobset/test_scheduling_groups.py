"""Groups that a JobSet forms for the scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api import rules
from echelon.api.objects import meta
from echelon.api.scheme import COMPOSITE_POD_GROUPS, JOB_SETS, JOBS, POD_GROUPS, WORKLOADS, Object
from echelon.decide.jobset import child_names, group_objects
from echelon.decide.jobset.group_objects import workload_name
from echelon.decide.jobset.scheduling_groups import compile_tree
from tests.unit.decide.jobset.stage import Stage, jobset, model, replicated

RACK, BLOCK = "topology.kubernetes.io/rack", "topology.kubernetes.io/block"
WORKERS = replicated("workers", 2, 3)
DRIVER = replicated("driver")
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"


#: Replicas and parallelism.
SIZES = {"workers": (2, 3), "driver": (1, 1)}


def parent_of(group: Object) -> str:
    found: str = group["spec"].get("parentCompositePodGroupName", "")
    return found


def topology(key: str) -> Object:
    return {"topology": [{"key": key}]}


def gang(count: int) -> Object:
    return {"gang": {"minCount": count}}


def entry(*targets: str, **fields: Any) -> Object:
    return {"targetReplicatedJobs": list(targets), **fields}


def policies(stage: Stage) -> list[Object]:
    """The policies of all pod groups, by name."""
    return [group["spec"]["schedulingPolicy"] for group in stage.all(POD_GROUPS)]


def group_of(stage: Stage, job: str) -> str:
    return str(stage.get(JOBS, job)["spec"]["template"]["spec"]["schedulingGroup"]["podGroupName"])


@pytest.mark.conformance("JS-G01", "JS-G15")
def test_no_scheduling_no_groups() -> None:
    mine = replicated("a")
    mine["template"]["spec"]["scheduling"] = {"schedulingPolicy": {"gang": {}}}
    stage = Stage(jobset(mine))
    assert [stage.all(kind) for kind in (WORKLOADS, COMPOSITE_POD_GROUPS, POD_GROUPS)] == [[], [], []]
    assert stage.get(JOBS, "test-js-a-0")["spec"]["scheduling"] == {"schedulingPolicy": {"gang": {}}}
    assert "schedulingGroup" not in stage.get(JOBS, "test-js-a-0")["spec"]["template"]["spec"]


@pytest.mark.conformance("JS-G02")
def test_a_gang_over_the_whole_jobset() -> None:
    stage = Stage(jobset(WORKERS, DRIVER, scheduling={"schedulingPolicy": {"gang": {}}}))
    (workload,) = stage.all(WORKLOADS)
    (group,) = stage.all(POD_GROUPS)
    assert workload["spec"]["controllerRef"] == {"apiGroup": "jobset.x-k8s.io", "kind": "JobSet", "name": "test-js"}
    (template,) = workload["spec"]["podGroupTemplates"]
    assert template["schedulingPolicy"] == group["spec"]["schedulingPolicy"] == gang(7)
    assert group["spec"]["workloadRef"] == {
        "workloadName": meta.name(workload),
        "templateName": template["name"],
    }
    assert meta.controlled_by(workload, "u")
    assert meta.controlled_by(group, "u")
    for job in stage.all(JOBS):
        assert group_of(stage, meta.name(job)) == meta.name(group)
        assert meta.annotations(job)["scheduling.k8s.io/group-template-name"] == template["name"]


@pytest.mark.conformance("JS-G03")
def test_a_basic_group_has_no_minimum() -> None:
    stage = Stage(jobset(WORKERS, scheduling={"schedulingPolicy": {"basic": {}}}))
    assert policies(stage) == [{"basic": {}}]


@pytest.mark.conformance("JS-G04", "JS-G05")
def test_entries_share_a_group_among_their_targets() -> None:
    scheduling = {
        "replicatedJobs": [
            entry("workers", "driver", schedulingConstraints=topology(RACK)),
            entry("other", schedulingPolicy={"basic": {}}),
        ]
    }
    stage = Stage(jobset(WORKERS, DRIVER, replicated("other", 2), scheduling=scheduling))
    shared, other = group_of(stage, "test-js-workers-0"), group_of(stage, "test-js-other-1")
    assert group_of(stage, "test-js-driver-0") == group_of(stage, "test-js-workers-1") == shared
    assert stage.get(POD_GROUPS, shared)["spec"]["schedulingPolicy"] == gang(7)
    assert stage.get(POD_GROUPS, shared)["spec"]["schedulingConstraints"] == topology(RACK)
    assert stage.get(POD_GROUPS, other)["spec"]["schedulingPolicy"] == {"basic": {}}
    assert shared.startswith("test-js-workers-driver-")


@pytest.mark.conformance("JS-G06", "JS-G12")
def test_a_group_per_job_on_one_template() -> None:
    claim = {"name": "c", "resourceClaimTemplateName": "imex"}
    job = {"schedulingConstraints": topology(RACK), "disruptionMode": {"all": {}}, "resourceClaims": [claim]}
    scheduling = {"replicatedJobs": [entry("workers", job=job), entry("driver")]}
    stage = Stage(jobset(WORKERS, DRIVER, scheduling=scheduling))
    (workload,) = stage.all(WORKLOADS)
    templates = workload["spec"]["podGroupTemplates"]
    assert templates[0] == {"name": "workers-job", "schedulingPolicy": gang(3), **job}
    groups = [group_of(stage, f"test-js-workers-{i}") for i in range(2)]
    assert len(set(groups)) == 2
    for index, name in enumerate(groups):
        assert name == child_names.group_name("PodGroup", "default", "test-js", f"workers-{index}")
        assert name.startswith(f"test-js-workers-{index}-")
        spec = stage.get(POD_GROUPS, name)["spec"]
        assert spec["workloadRef"]["templateName"] == "workers-job"
        assert {key: spec[key] for key in job} == job
    assert len(stage.all(POD_GROUPS)) == 3


GANGS = {
    "schedulingPolicy": {"gang": {}},
    "schedulingConstraints": topology(BLOCK),
    "disruptionMode": {"all": {}},
    "replicatedJobs": [
        entry("workers", job={"schedulingConstraints": topology(RACK)}),
        entry("driver", job={"schedulingPolicy": {"basic": {}}}),
    ],
}


GANGS_OF_WORKERS = {**GANGS, "replicatedJobs": GANGS["replicatedJobs"][:1]}


def test_a_gang_of_gangs_is_a_tree_of_three_levels() -> None:
    stage = Stage(jobset(WORKERS, DRIVER, scheduling=GANGS))
    (workload,) = stage.all(WORKLOADS)
    (root,) = workload["spec"]["compositePodGroupTemplates"]
    assert "podGroupTemplates" not in workload["spec"]
    assert root["name"] == "root"
    assert root["schedulingPolicy"] == {"gang": {"minGroupCount": 2}}
    assert root["schedulingConstraints"] == topology(BLOCK)
    assert [child["name"] for child in root["compositePodGroupTemplates"]] == ["workers", "driver"]
    workers = root["compositePodGroupTemplates"][0]
    assert workers["schedulingPolicy"] == {"gang": {"minGroupCount": 2}}
    (leaf,) = workers["podGroupTemplates"]
    assert leaf == {"name": "workers-job", "schedulingPolicy": gang(3), "schedulingConstraints": topology(RACK)}


def test_the_objects_of_a_gang_of_gangs_name_their_parents() -> None:
    stage = Stage(jobset(WORKERS, DRIVER, scheduling=GANGS))
    root = child_names.group_name("CompositePodGroup", "default", "test-js")
    middle = child_names.group_name("CompositePodGroup", "default", "test-js", "workers")
    assert "parentCompositePodGroupName" not in stage.get(COMPOSITE_POD_GROUPS, root)["spec"]
    assert stage.get(COMPOSITE_POD_GROUPS, middle)["spec"]["parentCompositePodGroupName"] == root
    leaf = stage.get(POD_GROUPS, group_of(stage, "test-js-workers-1"))
    assert leaf["spec"]["parentCompositePodGroupName"] == middle
    assert (len(stage.all(COMPOSITE_POD_GROUPS)), len(stage.all(POD_GROUPS))) == (3, 3)


def test_groups_are_made_root_first_and_before_any_job() -> None:
    stage = Stage(jobset(WORKERS, DRIVER, scheduling=GANGS))
    kinds = [kind for kind, _ in stage.created if kind not in ("JobSet", "Service")]
    assert kinds == ["Workload"] + ["CompositePodGroup"] * 3 + ["PodGroup"] * 3 + ["Job"] * 3
    composites = [name for kind, name in stage.created if kind == "CompositePodGroup"]
    assert composites[0] == child_names.group_name("CompositePodGroup", "default", "test-js")


def test_an_explicit_minimum_of_groups_is_kept() -> None:
    scheduling = {**GANGS, "schedulingPolicy": {"gang": {"minGroupCount": 1}}}
    (root,) = compile_tree(model(jobset(WORKERS, DRIVER, scheduling=scheduling)))
    assert root.terms["schedulingPolicy"] == {"gang": {"minGroupCount": 1}}


ORDERED: list[dict[str, Any]] = [
    {"startupPolicy": {"startupPolicyOrder": "InOrder"}},
    {"executionPolicy": {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": "Succeeded"}},
]


@pytest.mark.parametrize("policy", ORDERED)
def test_a_sequenced_root_is_basic(policy: dict[str, Any]) -> None:
    (root,) = compile_tree(model(jobset(WORKERS, DRIVER, scheduling=GANGS, **policy)))
    assert root.terms["schedulingPolicy"] == {"basic": {}}


@pytest.mark.conformance("JS-G08")
@pytest.mark.parametrize("policy", [*ORDERED, {"depends": True}])
def test_a_sequenced_gang_falls_apart_into_one_per_replicated_job(policy: dict[str, Any]) -> None:
    driver = {**DRIVER, "dependsOn": [{"name": "workers", "status": "Ready"}]} if policy.pop("depends", 0) else DRIVER
    tree = compile_tree(model(jobset(WORKERS, driver, scheduling={"schedulingPolicy": {"gang": {}}}, **policy)))
    assert [leaf.terms["schedulingPolicy"] for leaf in tree] == [gang(6), gang(1)]


@pytest.mark.conformance("JS-G08")
def test_any_order_keeps_one_gang() -> None:
    assert len(compile_tree(model(jobset(WORKERS, DRIVER, scheduling={"schedulingPolicy": {"gang": {}}})))) == 1


@pytest.mark.conformance("JS-G07", "JS-G12")
def test_groups_live_only_while_the_jobset_is_not_suspended() -> None:
    stage = Stage(jobset(WORKERS, DRIVER, scheduling=GANGS, suspend=True))
    assert stage.all(WORKLOADS) + stage.all(POD_GROUPS) == []
    named = group_of(stage, "test-js-workers-0")
    for _ in range(2):
        stage.edit_jobset(suspend=False)
        assert named in stage.names(POD_GROUPS)
        stage.edit_jobset(suspend=True)
        assert stage.all(WORKLOADS) + stage.all(COMPOSITE_POD_GROUPS) + stage.all(POD_GROUPS) == []


def test_a_policy_changed_while_suspended_gives_the_jobs_their_new_groups() -> None:
    stage = Stage(jobset(WORKERS, scheduling={"schedulingPolicy": {"gang": {}}}, suspend=True))
    shared = group_of(stage, "test-js-workers-0")
    stage.edit_jobset(scheduling={"replicatedJobs": [entry("workers", job={})]})
    stage.finalize(JOBS)
    stage.settle()
    assert group_of(stage, "test-js-workers-0") != shared
    assert group_of(stage, "test-js-workers-0") != group_of(stage, "test-js-workers-1")
    stage.edit_jobset(suspend=False)
    assert sorted(stage.names(POD_GROUPS)) == sorted(group_of(stage, f"test-js-workers-{i}") for i in range(2))


def test_jobs_resume_only_when_an_old_group_is_gone() -> None:
    stage = Stage(jobset(WORKERS, scheduling={"schedulingPolicy": {"gang": {}}}))
    stage.edit_jobset(suspend=True)
    leaving = {"name": group_of(stage, "test-js-workers-0"), "deletionTimestamp": "2027-01-15T08:00:00Z"}
    stage.add(POD_GROUPS, {"metadata": leaving})
    stage.edit_jobset(suspend=False)
    assert stage.get(JOBS, "test-js-workers-0")["spec"]["suspend"] is True
    stage.finalize(POD_GROUPS)
    stage.settle()
    assert stage.get(JOBS, "test-js-workers-0")["spec"]["suspend"] is False


def test_a_tree_whose_root_is_leaving_is_taken_down_before_jobs_resume() -> None:
    """A suspension was cut short after its first deletion, and taken back meanwhile."""
    stage = Stage(jobset(WORKERS, scheduling=GANGS_OF_WORKERS))
    for job in ("test-js-workers-0", "test-js-workers-1"):
        stage.edit(JOBS, job, suspend=True)
    root = stage.get(COMPOSITE_POD_GROUPS, child_names.group_name("CompositePodGroup", "default", "test-js"))
    root["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z"
    middle = child_names.group_name("CompositePodGroup", "default", "test-js", "workers")
    stage.enact(stage.plan())
    assert middle not in stage.names(COMPOSITE_POD_GROUPS) or meta.deleting(stage.get(COMPOSITE_POD_GROUPS, middle))
    assert stage.get(JOBS, "test-js-workers-0")["spec"]["suspend"] is True


def test_a_restart_keeps_the_groups() -> None:
    stage = Stage(jobset(WORKERS, scheduling={"schedulingPolicy": {"gang": {}}}, failurePolicy={"maxRestarts": 1}))
    before = [meta.uid(group) for group in stage.all(WORKLOADS) + stage.all(POD_GROUPS)]
    stage.fail("test-js-workers-0")
    stage.finalize(JOBS)
    stage.settle()
    assert stage.attempts() == {"1": 2}
    assert [meta.uid(group) for group in stage.all(WORKLOADS) + stage.all(POD_GROUPS)] == before


@pytest.mark.conformance("JS-G11")
def test_a_foreign_workload_of_the_name_is_left_alone_and_reported() -> None:
    obj = jobset(WORKERS, scheduling={"schedulingPolicy": {"gang": {}}})
    foreign = {"metadata": {"name": workload_name(model(obj))}, "spec": {"podGroupTemplates": []}}
    stage = Stage(obj, beside=[(WORKLOADS, foreign)])
    assert stage.all(WORKLOADS)[0]["spec"] == {"podGroupTemplates": []}
    assert stage.job_names() == []
    assert "GroupNameTaken" in stage.reasons()


@pytest.mark.conformance("JS-G10")
def test_long_names_are_cut_and_stay_apart() -> None:
    names = [child_names.group_name("PodGroup", "ns", "j" * 50, f"workers-{i}") for i in range(20)]
    assert len(set(names)) == 20
    assert all(len(name) <= 63 and f"-workers-{i}-" in name for i, name in enumerate(names))
    assert names[3] == child_names.group_name("PodGroup", "ns", "j" * 50, "workers-3")
    assert len(child_names.group_name("PodGroup", "ns", "j", "w" * 80)) <= 63


@pytest.mark.parametrize(("classes", "expected"), [(("high", "high"), "high"), (("high", "low"), None)])
def test_groups_take_the_priority_class_on_which_their_pods_agree(
    classes: tuple[str, str], expected: str | None
) -> None:
    entries = [replicated(name, pod={"priorityClassName": value}) for name, value in zip("ab", classes, strict=True)]
    (leaf,) = compile_tree(model(jobset(*entries, scheduling={"schedulingPolicy": {"gang": {}}})))
    assert leaf.terms.get("priorityClassName") == expected


def test_a_composite_carries_the_priority_of_its_tree() -> None:
    high = replicated("workers", 2, 3, pod={"priorityClassName": "high"})
    scheduling = {**GANGS, "replicatedJobs": [entry("workers", job={})]}
    stage = Stage(jobset(high, scheduling=scheduling))
    groups = stage.all(COMPOSITE_POD_GROUPS) + stage.all(POD_GROUPS)
    assert len(groups) == 4
    assert [group["spec"]["priorityClassName"] for group in groups] == ["high"] * 4


def test_the_minimum_counts_pods_that_run_at_the_same_time() -> None:
    fewer = replicated("a", 2, 4)
    fewer["template"]["spec"]["completions"] = 3
    (leaf,) = compile_tree(model(jobset(fewer, scheduling={})))
    assert leaf.terms["schedulingPolicy"] == gang(6)


@pytest.mark.conformance("JS-U18")
def test_exclusive_placement_is_a_group_per_job_over_a_whole_domain() -> None:
    low, driver = (replicated(name, *size, pod={"priorityClassName": "low"}) for name, size in SIZES.items())
    stage = Stage(jobset(low, driver, annotations={EXCLUSIVE: RACK}))
    (workload,) = stage.all(WORKLOADS)
    (root,) = workload["spec"]["compositePodGroupTemplates"]
    assert [t["name"] for t in root["podGroupTemplates"]] == ["workers-job", "driver-job"]
    group = stage.get(POD_GROUPS, group_of(stage, "test-js-workers-1"))
    assert meta.annotations(group)["echelon.dev/exclusive-topology"] == RACK
    assert group["spec"] == {
        "workloadRef": {"workloadName": meta.name(workload), "templateName": "workers-job"},
        "parentCompositePodGroupName": meta.name(stage.all(COMPOSITE_POD_GROUPS)[0]),
        "schedulingPolicy": gang(3),
        "schedulingConstraints": topology(RACK),
        "disruptionMode": {"all": {}},
        "priorityClassName": "low",
    }
    assert len(stage.all(POD_GROUPS)) == 3


@pytest.mark.conformance("JS-U18")
def test_an_entrys_own_exclusive_key_goes_before_the_jobsets() -> None:
    own = replicated("a", annotations={EXCLUSIVE: RACK})
    (root,) = compile_tree(model(jobset(own, DRIVER, annotations={EXCLUSIVE: BLOCK})))
    assert [leaf.annotations["echelon.dev/exclusive-topology"] for leaf in root.children] == [RACK, BLOCK]


@pytest.mark.conformance("JS-S06")
def test_with_the_annotation_alone_the_jobset_comes_and_leaves_as_a_whole() -> None:
    stage = Stage(jobset(WORKERS, DRIVER, annotations={EXCLUSIVE: RACK}))
    (root,) = stage.all(COMPOSITE_POD_GROUPS)
    assert root["spec"]["schedulingPolicy"] == {"gang": {"minGroupCount": 3}}
    assert root["spec"]["disruptionMode"] == {"all": {}}


def test_jobs_without_the_annotation_start_one_by_one_and_leave_with_the_rest() -> None:
    (root,) = compile_tree(model(jobset(replicated("a", annotations={EXCLUSIVE: RACK}), replicated("b", 2, 3))))
    exclusive, other = root.children
    assert exclusive.terms["schedulingPolicy"] == gang(1)
    assert other.terms == {"schedulingPolicy": {"basic": {}}}
    assert other.annotations == {}
    assert list(other.groups.values()) == [("b-0", "b-1")]
    assert root.terms["schedulingPolicy"] == {"gang": {"minGroupCount": 2}}


def test_jobs_that_make_their_own_groups_stay_outside() -> None:
    own = replicated("b")
    own["template"]["spec"]["scheduling"] = {"schedulingPolicy": {"gang": {}}}
    (leaf,) = compile_tree(model(jobset(replicated("a", annotations={EXCLUSIVE: RACK}), own)))
    assert list(leaf.groups) == ["a-0"]


def test_one_exclusive_job_needs_no_root() -> None:
    (leaf,) = compile_tree(model(jobset(replicated("a", 1, 3), annotations={EXCLUSIVE: RACK})))
    assert leaf.terms["disruptionMode"] == {"all": {}}


def test_jobs_that_start_one_after_the_other_leave_together() -> None:
    later = replicated("b", dependsOn=[{"name": "workers", "status": "Ready"}])
    (root,) = compile_tree(model(jobset(WORKERS, later, annotations={EXCLUSIVE: RACK})))
    assert root.terms["schedulingPolicy"] == {"basic": {}}
    assert root.terms["disruptionMode"] == {"all": {}}


def test_every_priority_and_every_scheduler_has_a_tree_and_a_workload_of_its_own() -> None:
    kinds: list[Object] = [{"priorityClassName": "high"}, {"priorityClassName": "low"}, {"schedulerName": "echelon"}]
    entries = [replicated(f"r{number}", 2, pod=pod) for number, pod in enumerate([*kinds, *kinds])]
    stage = Stage(jobset(*entries, annotations={EXCLUSIVE: RACK}))
    roots = stage.all(COMPOSITE_POD_GROUPS)
    assert [root["spec"].get("priorityClassName") for root in roots] == ["high", "low", None]
    assert len({root["spec"]["workloadRef"]["workloadName"] for root in roots}) == len(stage.all(WORKLOADS)) == 3
    for workload in stage.all(WORKLOADS):
        assert rules.validate_create(WORKLOADS, workload) == []


@pytest.mark.parametrize("number", [8, 9, 64, 65, 512])
def test_where_a_level_of_templates_is_full_groups_are_nested(number: int) -> None:
    entries = [replicated(f"r{index}", 2) for index in range(number)]
    js = model(jobset(*entries, annotations={EXCLUSIVE: RACK}))
    made = group_objects.build(js, compile_tree(js))
    ((_, workload),) = made.layers[0]
    assert rules.validate_create(WORKLOADS, workload) == []
    assert len(made.members) == 2 * number
    composites = [obj for layer in made.layers for kind, obj in layer if kind is COMPOSITE_POD_GROUPS]
    for composite in composites:
        below = [obj for layer in made.layers for _, obj in layer if meta.name(composite) == parent_of(obj)]
        assert composite["spec"]["schedulingPolicy"] == {"gang": {"minGroupCount": len(below)}}
    assert len([composite for composite in composites if not parent_of(composite)]) == 1


def test_pods_that_bring_their_own_group_are_left_in_it() -> None:
    mine = replicated("a", pod={"schedulingGroup": {"podGroupName": "mine"}})
    stage = Stage(jobset(mine, annotations={EXCLUSIVE: RACK}))
    assert stage.all(POD_GROUPS) == []
    assert group_of(stage, "test-js-a-0") == "mine"


def test_a_preferred_topology_reaches_the_group() -> None:
    words = {"echelon.dev/preferred-topology": RACK}
    (leaf,) = compile_tree(model(jobset(replicated("a", annotations=words), scheduling={})))
    assert leaf.annotations == words


def test_an_unwanted_kind_of_object_is_never_touched() -> None:
    stage = Stage(jobset(WORKERS, scheduling={"schedulingPolicy": {"gang": {}}}, suspend=True))
    stage.add(POD_GROUPS, {"metadata": {"name": "someone-elses"}})
    stage.settle()
    assert stage.names(POD_GROUPS) == ["someone-elses"]
    assert stage.get(JOB_SETS, "test-js")["spec"]["suspend"] is True
