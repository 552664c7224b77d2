"""Admission policies on a real kube-apiserver, with no process of ours: what is refused, taken and stored."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from echelon.api.errors import ApiError
from echelon.api.objects.builtin_runtimes import builtin_runtimes
from echelon.api.objects.vocabulary import JOB_SCHEDULING, POD_GROUP
from echelon.api.scheme import (
    CLUSTER_TRAINING_RUNTIMES,
    JOB_SETS,
    JOBS,
    OWN_GROUP_KINDS,
    PODS,
    RESOURCES,
    TRAIN_JOBS,
    TRAINING_RUNTIMES,
    Object,
    Resource,
)
from echelon.api.verbs import WriteOptions
from echelon.deploy.admission.admission_policies import policy_objects
from echelon.deploy.admission.kinds import VALIDATING_POLICIES
from echelon.deploy.options import InstallOptions
from tests.admission.cases import Default, Recorded, Write, recorded
from tests.admission.documented import PAGE, is_taken
from tests.admission.judge import refusals, refused_by_definition
from tests.admission.real_server import NAMESPACE, POLICY, RULE, SCHEMA, TAKEN, RealServer, Verdict
from tests.unit.api.rules.builders import refused

from .controlplane import ControlPlane
from .logins import client_of
from .own_planes import own_plane

pytestmark = pytest.mark.cluster
#: Kinds that share a row of the page.
_ROWS = {
    **dict.fromkeys((TRAINING_RUNTIMES, CLUSTER_TRAINING_RUNTIMES), "training runtimes"),
    **dict.fromkeys(OWN_GROUP_KINDS.values(), "groups of our own"),
}
_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Outcome:
    verdicts: list[Verdict]
    #: What was stored of each object that our own server would take.
    stored: list[tuple[Default, Object]]
    #: Errors of objects that must be taken, by what they are.
    examples: dict[str, str]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with own_plane(tmp_path_factory, "admission", manager=False, strict=False) as running:
        yield running


@pytest.fixture(scope="module")
def outcome(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Everything is sent once."""
    return asyncio.run(_send(plane, recorded(tmp_path_factory.mktemp("recorded"))))


async def _send(plane: ControlPlane, cases: Recorded) -> Outcome:
    async with client_of(plane.kubeconfig) as verbs:
        server = RealServer(verbs)
        await server.prepare(cases.writes, _one_for_each_policy(cases))
        verdicts = [await server.judge(case) for case in cases.writes]
        good = [one for one in cases.defaults if _is_good(one)]
        stored = []
        for one in good:
            space = NAMESPACE if one.resource.namespaced else ""
            stored.append((one, await verbs.create(one.resource, one.body, space, WriteOptions(dry_run=True))))
        errors: dict[str, str] = {}
        for name, resource, obj in examples():
            try:
                space = NAMESPACE if resource.namespaced else ""
                metadata = {key: value for key, value in obj["metadata"].items() if key != "namespace"}
                await verbs.create(resource, {**obj, "metadata": metadata}, space, WriteOptions(dry_run=True))
            except ApiError as error:
                errors[name] = str(error)
        return Outcome(verdicts, stored, errors)


def _one_for_each_policy(cases: Recorded) -> list[Write]:
    """For each policy the first write that it refuses: it tells that the policy works."""
    policies = [one for one in policy_objects(InstallOptions()) if one["kind"] == VALIDATING_POLICIES.kind]
    bad = [case for case in cases.writes if case.problems and not refused_by_definition(case)]
    found = []
    for policy in policies:
        refused_by = (one for one in bad if refusals([policy], one.resource, one.new, one.old, one.beside))
        found += [one for one in (next(refused_by, None),) if one is not None]
    assert len(found) >= len(policies) - 1
    return found


def _is_good(one: Default) -> bool:
    policies = policy_objects(InstallOptions())
    return not refused(one.resource, one.stored) and not refusals(policies, one.resource, one.stored, None)


def examples() -> Iterator[tuple[str, Resource, Object]]:
    """What users are shown: it must be taken."""
    kinds = {(one.api_version, one.kind): one for one in RESOURCES if not one.builtin}
    for path in sorted((_ROOT / "examples").rglob("*.yaml")):
        for obj in yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader):
            resource = kinds.get((str(obj.get("apiVersion")), str(obj.get("kind")))) if isinstance(obj, dict) else None
            if resource is not None:
                yield f"{path.relative_to(_ROOT)} {obj['kind']}", resource, obj
    for runtime in builtin_runtimes():
        yield f"runtime {runtime['metadata']['name']}", CLUSTER_TRAINING_RUNTIMES, runtime


def test_what_our_rules_refuse_is_refused(outcome: Outcome) -> None:
    bad = [one for one in outcome.verdicts if one.case.problems]
    assert len(bad) > 150
    wrong = [one for one in bad if (one.by == TAKEN) != is_taken(one.case)]
    assert [(one.case.test, one.case.problems, one.said) for one in wrong] == []


def test_what_our_rules_accept_is_taken(outcome: Outcome) -> None:
    good = [one for one in outcome.verdicts if not one.case.problems]
    assert len(good) > 70
    assert [(one.case.test, one.said) for one in good if one.by != TAKEN] == []


def test_examples_and_built_in_runtimes_are_taken(outcome: Outcome) -> None:
    assert len(list(examples())) > 20
    assert outcome.examples == {}


def test_defaults_are_stored_as_our_own_server_stores_them(outcome: Outcome) -> None:
    assert len(outcome.stored) > 70
    assert (
        len([one for one, _ in outcome.stored if one.resource == JOB_SETS and one.body["spec"] != one.stored["spec"]])
        > 50
    )
    for one, made in outcome.stored:
        assert made.get("spec") == one.stored.get("spec"), one.test


def test_a_refusal_names_the_field_and_the_policy(outcome: Outcome) -> None:
    by_policies = [one for one in outcome.verdicts if one.by == POLICY]
    assert by_policies
    for one in by_policies:
        assert re.search(r"'[a-z-]+\.echelon\.dev' denied request: ", one.said), one.said


@pytest.mark.usefixtures("outcome")
async def test_a_jobset_with_more_containers_than_rules_can_compare_is_resumed(plane: ControlPlane) -> None:
    """An expression that costs too much refuses."""
    containers = [{"name": f"c{number}", "image": "image", "resources": {}} for number in range(100)]
    pods = {"spec": {"containers": containers}}
    jobs = [{"name": f"j{number}", "template": {"spec": {"template": pods}}} for number in range(20)]
    async with client_of(plane.kubeconfig) as verbs:
        body = {"metadata": {"name": "large"}, "spec": {"suspend": True, "replicatedJobs": jobs}}
        made = await verbs.create(JOB_SETS, body, NAMESPACE)
        for job in made["spec"]["replicatedJobs"]:
            job["template"]["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "a"}
        made["spec"]["suspend"] = False
        resumed = await verbs.update(JOB_SETS, made, NAMESPACE)
        assert not resumed["spec"]["suspend"]


def _replicated_jobs(count: int) -> list[Object]:
    pods = {"spec": {"containers": [{"name": "node", "image": "image"}]}}
    return [{"name": f"j{number}", "template": {"spec": {"template": pods}}} for number in range(count)]


@pytest.mark.usefixtures("outcome")
async def test_a_runtime_with_more_jobs_than_rules_can_compare_is_changed(plane: ControlPlane) -> None:
    async with client_of(plane.kubeconfig) as verbs:
        body = {
            "metadata": {"name": "large"},
            "spec": {"template": {"spec": {"replicatedJobs": _replicated_jobs(500)}}},
        }
        made = await verbs.create(CLUSTER_TRAINING_RUNTIMES, body)
        made["spec"]["template"]["spec"]["replicatedJobs"][-1]["replicas"] = 2
        assert await verbs.update(CLUSTER_TRAINING_RUNTIMES, made)


@pytest.mark.usefixtures("outcome")
async def test_a_trainjob_with_as_many_patches_as_there_can_be_is_changed(plane: ControlPlane) -> None:
    """Every manager patches every job; only those of one manager are compared."""
    jobs = _replicated_jobs(100)
    pods = {"template": {"spec": {"template": {"spec": {"nodeSelector": {"pool": "a"}}}}}}
    patched = [{"name": job["name"], **pods} for job in jobs]
    async with client_of(plane.kubeconfig) as verbs:
        runtime = {"metadata": {"name": "patched"}, "spec": {"template": {"spec": {"replicatedJobs": jobs}}}}
        await verbs.create(CLUSTER_TRAINING_RUNTIMES, runtime)
        patch = {"template": {"spec": {"replicatedJobs": patched}}}
        patches = [{"manager": f"of.{number}/patches", "trainingRuntimeSpec": patch} for number in range(16)]
        spec = {"suspend": True, "runtimeRef": {"name": "patched"}, "runtimePatches": patches}
        made = await verbs.create(TRAIN_JOBS, {"metadata": {"name": "patched"}, "spec": spec}, NAMESPACE)
        del made["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"][0]
        assert await verbs.update(TRAIN_JOBS, made, NAMESPACE)


@pytest.mark.usefixtures("outcome")
async def test_pods_of_a_job_whose_name_is_generated_join_a_group_of_that_name(plane: ControlPlane) -> None:
    """The name is not known when the Job is admitted, nor its uid."""
    container = {"name": "c", "image": "image"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    async with client_of(plane.kubeconfig) as verbs:
        body = {
            "metadata": {"generateName": "made-", "annotations": {JOB_SCHEDULING: "{}"}},
            "spec": {"template": template},
        }
        job = await verbs.create(JOBS, body, NAMESPACE)
        labels = job["spec"]["template"]["metadata"]["labels"]
        assert labels[POD_GROUP] == ""
        pod = await verbs.create(PODS, {"metadata": {"name": "p", "labels": labels}, **template}, NAMESPACE)
        assert pod["metadata"]["labels"][POD_GROUP] == job["metadata"]["name"]
        named = {**body, "metadata": {"name": "named", "annotations": {JOB_SCHEDULING: "{}"}}}
        job = await verbs.create(JOBS, named, NAMESPACE)
        assert job["spec"]["template"]["metadata"]["labels"][POD_GROUP] == "named"


def test_the_page_has_the_counts(outcome: Outcome) -> None:
    counted: Counter[tuple[str, str, str]] = Counter()
    for one in outcome.verdicts:
        if one.case.problems:
            kind = _ROWS.get(one.case.resource, one.case.resource.kind)
            counted[kind, "new" if one.case.old is None else "changed", one.by] += 1
    rows: list[str] = []
    for kind, operation in sorted({(kind, operation) for kind, operation, _ in counted}):
        numbers = [counted[kind, operation, by] for by in (SCHEMA, RULE, POLICY, TAKEN)]
        cells = " | ".join(str(number) for number in (sum(numbers), *numbers))
        rows.append(f"| {kind}, {operation} | {cells} |")
    missing_rows = "\n".join(row for row in rows if row not in PAGE.read_text())
    assert missing_rows == ""
