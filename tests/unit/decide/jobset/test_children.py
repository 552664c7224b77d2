"""Jobs, Service and metadata that a JobSet makes."""

from __future__ import annotations

import pytest

from echelon.api.objects import meta
from echelon.api.objects.vocabulary import QUEUED_SINCE
from echelon.api.scheme import JOB_SETS, JOBS, POD_GROUPS, SERVICES
from echelon.decide.jobset.model import PodPlacement
from tests.unit.decide.jobset.stage import A, B, Stage, jobset, replicated

P = "jobset.sigs.k8s.io/"


@pytest.mark.conformance("JS-I02")
def test_every_replica_gets_a_job() -> None:
    assert Stage(jobset()).job_names() == [f"test-js-{A}-0", *(f"test-js-{B}-{i}" for i in range(3))]


@pytest.mark.conformance("JS-U17")
def test_the_golden_sample_comes_out_with_its_labels_and_annotations() -> None:
    stage = Stage(jobset(replicated("workers", 1, 4), replicated("driver"), name="paralleljobs"))
    job = stage.get(JOBS, "paralleljobs-workers-0")
    expected = {
        "jobset-name": "paralleljobs",
        "jobset-uid": "u",
        "replicatedjob-name": "workers",
        "restart-attempt": "0",
        "replicatedjob-replicas": "1",
        "global-replicas": "2",
        "job-index": "0",
        "job-global-index": "0",
        "group-name": "default",
        "group-replicas": "2",
        "job-group-index": "0",
        "job-key": "32d672edc82776df1fbf3120a8fc54a9192afa69",
    }
    keys = {P + key: value for key, value in expected.items()}
    template = job["spec"]["template"]
    for written in (job["metadata"], template["metadata"]):
        assert written["labels"] == keys
        assert {key: value for key, value in written["annotations"].items() if key != QUEUED_SINCE} == {
            **keys,
            P + "execution-attempt": "0",
        }
    assert QUEUED_SINCE not in template["metadata"]["annotations"]
    assert template["spec"]["subdomain"] == "paralleljobs"
    assert job["spec"]["suspend"] is False
    assert meta.controlled_by(job, "u")
    driver = meta.labels(stage.get(JOBS, "paralleljobs-driver-0"))
    assert driver[P + "job-key"] == "23fe3a038fecdfc71532aaef1d942c435e6293b7"
    assert (driver[P + "job-global-index"], driver[P + "job-group-index"]) == ("1", "1")


@pytest.mark.conformance("JS-U17")
def test_groups_number_their_own_jobs() -> None:
    stage = Stage(jobset(replicated("a", 2), replicated("b", 1, groupName="g"), replicated("c", 2, groupName="g")))
    labels = meta.labels(stage.get(JOBS, "test-js-c-1"))
    assert labels[P + "job-global-index"] == "4"
    assert labels[P + "group-name"] == "g"
    assert labels[P + "group-replicas"] == "3"
    assert labels[P + "job-group-index"] == "2"


def test_template_metadata_is_kept_and_ours_wins() -> None:
    entry = replicated("a", annotations={"mine": "1", P + "job-index": "99"})
    job = Stage(jobset(entry)).get(JOBS, "test-js-a-0")
    assert meta.annotations(job)["mine"] == "1"
    assert meta.annotations(job)[P + "job-index"] == "0"


@pytest.mark.conformance("JS-I53")
def test_the_coordinator_is_named_on_every_job() -> None:
    stage = Stage(jobset(coordinator={"replicatedJob": A, "jobIndex": 0, "podIndex": 0}))
    assert len(stage.all(JOBS)) == 4
    for job in stage.all(JOBS):
        assert meta.labels(job)[P + "coordinator"] == f"test-js-{A}-0-0.test-js"
        assert meta.annotations(job)[P + "coordinator"] == f"test-js-{A}-0-0.test-js"


@pytest.mark.conformance("JS-U19")
def test_a_suspended_jobset_builds_suspended_jobs_whatever_the_template_says() -> None:
    entry = replicated("a")
    entry["template"]["spec"]["suspend"] = False
    assert Stage(jobset(entry, suspend=True)).get(JOBS, "test-js-a-0")["spec"]["suspend"] is True


def test_a_child_keeps_no_ttl_of_its_own() -> None:
    entry = replicated("a")
    entry["template"]["spec"]["ttlSecondsAfterFinished"] = 5
    assert "ttlSecondsAfterFinished" not in Stage(jobset(entry)).get(JOBS, "test-js-a-0")["spec"]


@pytest.mark.conformance("JS-I11", "JS-I12")
def test_one_headless_service_serves_all_replicated_jobs() -> None:
    stage = Stage(jobset())
    (service,) = stage.all(SERVICES)
    assert meta.name(service) == "test-js"
    assert service["spec"] == {
        "clusterIP": "None",
        "selector": {P + "jobset-name": "test-js"},
        "publishNotReadyAddresses": True,
    }
    stage.complete(*stage.job_names())
    assert stage.condition("Completed") == ("True", "AllJobsCompleted")


@pytest.mark.conformance("JS-U20")
@pytest.mark.parametrize(
    ("network", "services"),
    [
        ({"enableDNSHostnames": False}, []),
        (None, []),
        ({"enableDNSHostnames": True, "subdomain": "net"}, ["net"]),
    ],
)
def test_the_service_follows_the_network(network: dict[str, object] | None, services: list[str]) -> None:
    stage = Stage(jobset(network=network))
    assert stage.names(SERVICES) == services
    pod = stage.get(JOBS, f"test-js-{A}-0")["spec"]["template"]["spec"]
    assert pod.get("subdomain") == (services[0] if services else None)


@pytest.mark.conformance("JS-U20")
def test_unready_addresses_can_be_hidden() -> None:
    stage = Stage(jobset(network={"enableDNSHostnames": True, "publishNotReadyAddresses": False}))
    assert stage.get(SERVICES, "test-js")["spec"]["publishNotReadyAddresses"] is False


@pytest.mark.conformance("JS-I39")
def test_a_deleted_service_comes_back() -> None:
    stage = Stage(jobset())
    del stage.objects[SERVICES, "test-js"]
    stage.settle()
    assert stage.names(SERVICES) == ["test-js"]


@pytest.mark.conformance("JS-U18")
def test_the_node_selector_strategy_marks_pods_for_reserved_nodes() -> None:
    words = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack", "alpha.jobset.sigs.k8s.io/node-selector": "true"}
    pod = Stage(jobset(annotations=words)).get(JOBS, f"test-js-{B}-1")["spec"]["template"]
    assert pod["spec"]["nodeSelector"] == {"alpha.jobset.sigs.k8s.io/namespaced-job": f"default_test-js-{B}-1"}
    toleration = {"key": "alpha.jobset.sigs.k8s.io/no-schedule", "operator": "Exists", "effect": "NoSchedule"}
    assert pod["spec"]["tolerations"] == [toleration]
    assert words.items() <= pod["metadata"]["annotations"].items()
    assert "schedulingGroup" not in pod["spec"]


ALONE = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def elsewhere(classes: dict[str, int]) -> PodPlacement:
    """A cluster where kube-scheduler places what does not name us, and nobody completes its pods."""
    return PodPlacement(("echelon",), classes.get)


def test_pods_that_another_scheduler_places_get_no_group_and_are_left_to_admission() -> None:
    other = replicated("a", pod={"schedulerName": "other"})
    stage = Stage(jobset(other, replicated("b"), annotations=ALONE))
    assert len(stage.all(POD_GROUPS)) == 1
    pod = stage.get(JOBS, "test-js-a-0")["spec"]["template"]
    assert "schedulingGroup" not in pod["spec"]
    assert "affinity" not in pod["spec"]


def test_where_nobody_completes_pods_the_template_says_who_keeps_apart() -> None:
    mine = {"topologyKey": "host", "labelSelector": {}}
    affinity = {"podAntiAffinity": {REQUIRED: [mine]}}
    low = replicated("a", pod={"priorityClassName": "low", "affinity": affinity})
    stage = Stage(jobset(low, annotations=ALONE), placement=elsewhere({"low": -1, "": 0}))
    pod = stage.get(JOBS, "test-js-a-0")["spec"]["template"]
    assert pod["metadata"]["labels"][P + "priority"] == "n1"
    terms = pod["spec"]["affinity"]
    (near,) = terms["podAffinity"][REQUIRED]
    kept, far = terms["podAntiAffinity"][REQUIRED]
    own = pod["metadata"]["labels"][P + "job-key"]
    assert kept == mine
    assert near["labelSelector"]["matchExpressions"] == [{"key": P + "job-key", "operator": "In", "values": [own]}]
    assert far["labelSelector"]["matchExpressions"][-1] == {"key": P + "priority", "operator": "In", "values": ["n1"]}
    assert near["topologyKey"] == far["topologyKey"] == "rack"
    assert stage.all(POD_GROUPS) == []


def test_there_pods_without_the_annotation_say_their_priority_too() -> None:
    stage = Stage(jobset(replicated("a")), placement=elsewhere({"": 7}))
    pod = stage.get(JOBS, "test-js-a-0")["spec"]["template"]
    assert pod["metadata"]["labels"][P + "priority"] == "7"
    assert "affinity" not in pod["spec"]


def test_there_exclusive_jobs_wait_for_their_priority_class_and_say_so() -> None:
    classes: dict[str, int] = {}
    later = replicated("a", pod={"priorityClassName": "later"})
    stage = Stage(jobset(later, annotations=ALONE), placement=elsewhere(classes))
    assert stage.job_names() == []
    assert "JobCreationFailed" in stage.reasons()
    classes["later"] = 3
    stage.settle()
    assert stage.job_names() == ["test-js-a-0"]


@pytest.mark.conformance("JS-I59", "JS-I60", "JS-I61")
@pytest.mark.parametrize("suspend", [True, False])
def test_a_jobset_managed_elsewhere_is_left_alone(suspend: bool) -> None:
    stage = Stage(jobset(managedBy="other.io/controller", suspend=suspend))
    stage.objects[JOB_SETS, "test-js"] = {**stage.jobset, "status": {"restarts": 7, "conditions": []}}
    stage.settle()
    assert stage.job_names() == []
    assert stage.status == {"restarts": 7, "conditions": []}


def test_a_jobset_being_deleted_makes_nothing() -> None:
    obj = jobset()
    obj["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z"
    assert Stage(obj).job_names() == []


def test_a_foreign_job_of_the_name_is_reported_not_adopted() -> None:
    foreign = {"metadata": {"name": "test-js-a-0"}, "spec": {}}
    stage = Stage(jobset(replicated("a", 2)), beside=[(JOBS, foreign)])
    assert stage.job_names() == ["test-js-a-0", "test-js-a-1"]
    assert not meta.controlled_by(stage.get(JOBS, "test-js-a-0"), "u")
    message, *_ = [message for _, reason, message in stage.events if reason == "JobCreationFailed"]
    assert message == "Job test-js-a-0 exists and has no owner; delete it, or rename the JobSet"


def test_no_replicated_jobs_is_legal_and_never_ends() -> None:
    obj = jobset(replicated("x"))
    obj["spec"]["replicatedJobs"] = []
    stage = Stage(obj)
    assert stage.job_names() == []
    assert stage.is_active()
