"""`echelon install` on a real cluster: the programs work under the shipped roles, and everything goes again."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.scheme import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CLUSTER_TRAINING_RUNTIMES,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    DEVICE_CLASSES,
    JOB_SETS,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    SERVICE_ACCOUNTS,
    STORAGE_CLASSES,
    TRAIN_JOBS,
    VOLUME_CLAIMS,
    VOLUMES,
)
from echelon.api.verbs import DeleteOptions, Patch, PatchType
from echelon.client.http import HttpVerbs
from echelon.testing.builders import make_node, make_pod
from echelon.testing.device_builders import claiming, make_claim_template, make_device_class, make_slice
from tests.integration.test_scheduler_late_volumes import LATE, local, wanting
from tests.integration.test_scheduler_volumes import make_class, using

from .controlplane import ControlPlane
from .gangs import count_bound, places, submit_gang
from .installed_programs import kubelet_for
from .installing import REFUSED, everything, kubectl, refusals, run
from .job_objects import jobset, our_jobset, our_runtime, train_job
from .logins import client_of, token_of, with_token
from .open_definitions import open_definition
from .own_planes import own_plane
from .process import echelon
from .shipped_roles import NAMESPACE
from .waiting import eventually, is_gone
from .work_places import namespace_with_account

pytestmark = pytest.mark.cluster

_ALL_BUT_DELETE = ("get", "list", "watch", "create", "patch", "update", "escalate", "bind")


@pytest.fixture(scope="module")
def strict_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with service accounts, and with owners that only those may block who may finalize them."""
    with own_plane(tmp_path_factory, "strict") as plane:
        yield plane


@pytest.fixture
async def verbs(strict_plane: ControlPlane) -> AsyncIterator[HttpVerbs]:
    async with client_of(strict_plane.kubeconfig) as client:
        yield client


@pytest.fixture
async def work_place(verbs: HttpVerbs) -> AsyncIterator[str]:
    """A namespace with a service account, and a node of 16 CPUs."""
    await namespace_with_account(verbs, "work")
    await verbs.create(NODES, make_node("n1", cpu=16))
    yield "work"
    await verbs.delete(NODES, "n1")
    await verbs.delete(NAMESPACES, "work")


async def test_installed_programs_work_under_their_roles_and_leave_nothing(
    strict_plane: ControlPlane, verbs: HttpVerbs, work_place: str, tmp_path: Path
) -> None:
    before, refused = await everything(strict_plane), await refusals(strict_plane)
    async with kubelet_for(verbs, strict_plane, tmp_path) as programs:
        code, said = await run(strict_plane, "install")
        assert code == 0, said
        assert "ready     Deployment/echelon-scheduler" in said
        assert set(programs) == {"echelon-scheduler", "echelon-controllers"}

        gang = await submit_gang(verbs, work_place, "n1", "gang")
        await eventually(places(verbs, work_place, gang), {"n1"})
        await _a_jobset_is_placed(verbs, work_place)
        await _a_trainjob_is_placed(verbs, work_place)
        await _devices_and_volumes_are_given(verbs, work_place)

        code, said = await run(strict_plane, "install")
        assert code == 0, said
        assert re.search(r"^\d+ unchanged$", said, re.MULTILINE), said

        for program in programs.values():
            assert program.process.returncode is None, program.said()
            assert not REFUSED.search(program.said()), program.said()
        assert await refusals(strict_plane) == refused, "somebody was refused something"

        await _remove_work(verbs, work_place)
        code, said = await run(strict_plane, "uninstall", "--timeout", "60")
    assert code == 0, said
    assert await everything(strict_plane) == before, said


async def _a_jobset_is_placed(verbs: HttpVerbs, namespace: str) -> None:
    await verbs.create(JOB_SETS, our_jobset("js"), namespace)
    await eventually(lambda: count_bound(verbs, namespace, "js-"), 4)
    # Jobs end as their status says: there is no kubelet.
    for name in [
        meta.name(job) for job in (await verbs.list(JOBS, namespace)).items if meta.name(job).startswith("js")
    ]:
        assert meta.controller_of(await verbs.get(JOBS, name, namespace)) is not None
    await verbs.patch(JOB_SETS, "js", Patch(PatchType.MERGE, {"spec": {"suspend": True}}), namespace)

    async def is_suspended() -> bool:
        return meta.condition_is(await verbs.get(JOB_SETS, "js", namespace), "Suspended")

    await eventually(is_suspended)


async def _a_trainjob_is_placed(verbs: HttpVerbs, namespace: str) -> None:
    await verbs.create(CLUSTER_TRAINING_RUNTIMES, our_runtime("torch-distributed"))
    resources = {"requests": {"cpu": "1"}}
    await verbs.create(TRAIN_JOBS, train_job("tj", "torch-distributed", resourcesPerNode=resources), namespace)
    await eventually(lambda: count_bound(verbs, namespace, "tj-"), 2)


async def _devices_and_volumes_are_given(verbs: HttpVerbs, namespace: str) -> None:
    """A pod with a ResourceClaim from a template, and a claim that is bound on first use."""
    around = [
        (DEVICE_CLASSES, make_device_class()),
        (RESOURCE_SLICES, make_slice("n1", 1)),
        (STORAGE_CLASSES, make_class("local", LATE)),
        (VOLUMES, local("volume", "n1")),
    ]
    for resource, obj in around:
        await verbs.create(resource, obj)
    template = make_claim_template("one")
    template["metadata"]["namespace"] = namespace
    await verbs.create(RESOURCE_CLAIM_TEMPLATES, template, namespace)
    claim = wanting("data")
    claim["metadata"]["namespace"] = namespace
    await verbs.create(VOLUME_CLAIMS, claim, namespace)
    pod = make_pod("equipped", namespace=namespace, resourceClaims=claiming(template="one"), volumes=using("data"))
    pod["spec"]["schedulerName"] = "echelon"
    await verbs.create(PODS, pod, namespace)
    await eventually(lambda: count_bound(verbs, namespace, "equipped"), 1)
    (given,) = (await verbs.list(RESOURCE_CLAIMS, namespace)).items
    assert len(given["status"]["allocation"]["devices"]["results"]) == 1
    await verbs.delete(PODS, "equipped", namespace, DeleteOptions(grace_period_seconds=0))

    async def is_given_back() -> bool:
        return not (await verbs.list(RESOURCE_CLAIMS, namespace)).items

    await eventually(is_given_back)
    await verbs.delete(RESOURCE_CLAIM_TEMPLATES, "one", namespace)
    await verbs.delete(VOLUME_CLAIMS, "data", namespace)
    for resource, obj in around:
        await verbs.delete(resource, meta.name(obj))


async def _remove_work(verbs: HttpVerbs, namespace: str) -> None:
    """Users take their objects away; pods that no kubelet ends are ended here."""
    for resource in (TRAIN_JOBS, JOB_SETS):
        for obj in (await verbs.list(resource, namespace)).items:
            with suppress(ApiError):
                await verbs.delete(resource, meta.name(obj), namespace, DeleteOptions(propagation="Background"))
    await verbs.delete(CLUSTER_TRAINING_RUNTIMES, "torch-distributed")

    async def none_left() -> bool:
        for pod in (await verbs.list(PODS, namespace)).items:
            with suppress(ApiError):
                await verbs.delete(PODS, meta.name(pod), namespace, DeleteOptions(grace_period_seconds=0))
        left = [one for kind in (TRAIN_JOBS, JOB_SETS, JOBS, PODS) for one in (await verbs.list(kind, namespace)).items]
        return not left

    await eventually(none_left)


async def test_kinds_with_objects_of_users_stay_unless_they_are_purged(
    strict_plane: ControlPlane, verbs: HttpVerbs
) -> None:
    code, said = await run(strict_plane, "install", "--no-wait", "--only", "controllers")
    assert code == 0, said
    held = jobset("held", suspend=True)
    await verbs.create(JOB_SETS, held, "default")
    code, said = await run(strict_plane, "uninstall", "--timeout", "60")
    assert code == 0, said
    assert "kept      CustomResourceDefinition/jobsets.jobset.x-k8s.io: 1 object of users would go with it" in said
    assert await verbs.get(JOB_SETS, "held", "default")
    code, said = await run(strict_plane, "uninstall", "--purge-crds", "--timeout", "60")
    assert code == 0, said
    with pytest.raises(ApiError, match="not found"):
        await verbs.get(CUSTOM_RESOURCE_DEFINITIONS, "jobsets.jobset.x-k8s.io")


async def test_somebody_without_rights_is_told_what_is_missing_and_changes_nothing(
    strict_plane: ControlPlane, verbs: HttpVerbs, tmp_path: Path
) -> None:
    before = await everything(strict_plane)
    token = await token_of(verbs, "kube-system", "default")
    path = with_token(strict_plane.kubeconfig, token, tmp_path / "nobody")
    async with echelon("install", "--kubeconfig", path) as command:
        assert await command.wait() == 2
    said = "".join(command.said)
    assert "forbidden" in said
    for reading in ("tree", "job/any"), ("doctor",), ("topology",):
        async with echelon(*reading, "--kubeconfig", path) as command:
            assert await command.wait() == 2
        assert "is forbidden: User" in "".join(command.said), "what may not be seen is not said to be missing"
    assert "a cluster administrator may do this" in said
    assert await everything(strict_plane) == before


async def test_an_interrupted_installation_says_what_is_left_and_goes_on_or_is_taken_back(
    strict_plane: ControlPlane,
) -> None:
    before = await everything(strict_plane)
    image = "registry.example/echelon:1"
    try:
        async with echelon("install", "--image", image, "--kubeconfig", strict_plane.kubeconfig) as command:
            await command.says("created   ServiceAccount/")
            assert await command.end() == 130
        assert "run it again to go on, or `echelon uninstall` to take it back" in command.said[-1]
        code, said = await run(strict_plane, "install", "--no-wait", "--image", image)
        assert code == 0, said
        await kubectl(strict_plane, "delete", "deployment", "echelon-controllers", "-n", NAMESPACE)
        _, said = await run(strict_plane, "doctor")
        assert "half an installation: Deployment echelon-controllers is not there" in said
        code, said = await run(strict_plane, "install", "--no-wait")
        assert code == 0, said
        assert f"image {image} of the installation is kept" in said
        made = await kubectl(strict_plane, "get", "deployments", "-n", NAMESPACE, "-o", "wide", "--no-headers")
        assert made.count(image) == 2
    finally:
        code, said = await run(strict_plane, "uninstall", "--timeout", "60")
    assert code == 0, said
    assert await everything(strict_plane) == before, said


async def test_fields_that_somebody_else_has_set_are_not_taken_over_silently(
    strict_plane: ControlPlane, verbs: HttpVerbs
) -> None:
    code, said = await run(strict_plane, "install", "--no-wait", "--only", "scheduler")
    assert code == 0, said
    try:
        edit = ("patch", "deployment", "echelon-scheduler", "-p", '{"spec":{"replicas":3}}')
        await kubectl(strict_plane, "-n", NAMESPACE, *edit)
        code, said = await run(strict_plane, "install", "--no-wait", "--only", "scheduler")
        assert code == 2
        assert "nothing was changed" in said
        assert ".spec.replicas" in said
        assert "--force-conflicts" in said
        code, said = await run(strict_plane, "install", "--no-wait", "--only", "scheduler", "--force-conflicts")
        assert code == 0, said
        assert "changed   Deployment/echelon-scheduler" in said
    finally:
        await run(strict_plane, "uninstall", "--timeout", "60")
    with pytest.raises(ApiError):
        await verbs.get(LEASES, "echelon-scheduler", "kube-system")


async def test_somebody_with_half_of_the_rights_is_told_and_changes_nothing(
    strict_plane: ControlPlane, verbs: HttpVerbs, tmp_path: Path
) -> None:
    """Who may read everything and make what is in namespaces, but no roles and no kinds."""
    rules = [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]},
        {"apiGroups": ["", "apps", "policy"], "resources": ["*"], "verbs": ["create", "patch"]},
    ]
    await verbs.create(CLUSTER_ROLES, {"metadata": {"name": "half"}, "rules": rules})
    subject = {"kind": SERVICE_ACCOUNTS.kind, "name": "default", "namespace": "kube-system"}
    role = {"apiGroup": CLUSTER_ROLES.group, "kind": CLUSTER_ROLES.kind, "name": "half"}
    await verbs.create(CLUSTER_ROLE_BINDINGS, {"metadata": {"name": "half"}, "roleRef": role, "subjects": [subject]})
    before = await everything(strict_plane)
    path = with_token(strict_plane.kubeconfig, await token_of(verbs, "kube-system", "default"), tmp_path / "half")
    try:
        async with echelon("install", "--no-wait", "--kubeconfig", path) as command:
            assert await command.wait() == 2
        said = "".join(command.said)
        assert "a cluster administrator may install" in said
        assert await everything(strict_plane) == before, said
    finally:
        await verbs.delete(CLUSTER_ROLE_BINDINGS, "half")
        await verbs.delete(CLUSTER_ROLES, "half")


async def test_what_an_earlier_installation_left_goes_and_who_may_not_remove_all_of_it_changes_nothing(
    strict_plane: ControlPlane, verbs: HttpVerbs, tmp_path: Path
) -> None:
    """Who may do everything but delete, Deployments aside, is told before anything is changed."""
    before = await everything(strict_plane)
    code, said = await run(strict_plane, "install", "--no-wait")
    assert code == 0, said
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": [*_ALL_BUT_DELETE]}]
    rules.append({"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["delete"]})
    await verbs.create(CLUSTER_ROLES, {"metadata": {"name": "keeper"}, "rules": rules})
    subject = {"kind": SERVICE_ACCOUNTS.kind, "name": "default", "namespace": "kube-system"}
    role = {"apiGroup": CLUSTER_ROLES.group, "kind": CLUSTER_ROLES.kind, "name": "keeper"}
    await verbs.create(CLUSTER_ROLE_BINDINGS, {"metadata": {"name": "keeper"}, "roleRef": role, "subjects": [subject]})
    path = with_token(strict_plane.kubeconfig, await token_of(verbs, "kube-system", "default"), tmp_path / "keeper")
    fewer = ("install", "--no-wait", "--controllers", "jobset,stage-quota", "--no-dashboard")
    try:
        whole = await everything(strict_plane)
        async with echelon(*fewer, "--kubeconfig", path) as command:
            assert await command.wait() == 2
        said = "".join(command.said)
        assert "nothing was changed, because the server refuses to remove MutatingAdmissionPolicyBinding/" in said
        async with echelon("uninstall", "--kubeconfig", path) as command:
            assert await command.wait() == 2
        said = "".join(command.said)
        assert "nothing was removed, because the server refuses to remove MutatingAdmissionPolicyBinding/" in said
        assert said.rstrip().endswith("more; a cluster administrator may do this")
        assert _lasting(await everything(strict_plane)) == _lasting(whole)
        code, said = await run(strict_plane, *fewer)
        assert code == 0, said
        gone = {one.rpartition("/")[2] for one in whole - await everything(strict_plane)}
        assert {"echelon-dashboard", "trainjob-create.echelon.dev", "job-groups.echelon.dev"} <= gone
        assert not [one for one in gone if "jobset" in one]
    finally:
        await verbs.delete(CLUSTER_ROLE_BINDINGS, "keeper")
        await verbs.delete(CLUSTER_ROLES, "keeper")
        code, said = await run(strict_plane, "uninstall", "--timeout", "60")
    assert code == 0, said
    assert await everything(strict_plane) == before, said


async def test_a_definition_of_another_version_is_in_the_way_and_nothing_is_changed(
    strict_plane: ControlPlane, verbs: HttpVerbs
) -> None:
    name = JOB_SETS.qualified
    other = open_definition(JOB_SETS.group, "v1alpha9", JOB_SETS.plural, JOB_SETS.kind)
    await verbs.create(CUSTOM_RESOURCE_DEFINITIONS, other)
    try:
        before = await everything(strict_plane)
        code, said = await run(strict_plane, "install", "--no-wait")
        assert code == 2
        assert f"CustomResourceDefinition {name} serves v1alpha9, and Echelon needs v1alpha2" in said
        assert await everything(strict_plane) == before, said
    finally:
        await verbs.delete(CUSTOM_RESOURCE_DEFINITIONS, name)
        await eventually(lambda: is_gone(verbs, CUSTOM_RESOURCE_DEFINITIONS, name))


async def test_half_an_installation_is_told_and_made_whole_and_a_second_one_is_refused(
    strict_plane: ControlPlane, verbs: HttpVerbs
) -> None:
    before = await everything(strict_plane)
    code, said = await run(strict_plane, "install", "--no-wait", "--only", "scheduler")
    assert code == 0, said
    whole = await everything(strict_plane)
    try:
        await verbs.delete(DEPLOYMENTS, "echelon-scheduler", NAMESPACE)
        await verbs.delete(CLUSTER_ROLES, "echelon-scheduler")
        _, said = await run(strict_plane, "doctor")
        assert f"half an installation in {NAMESPACE}" in said
        code, said = await run(strict_plane, "install", "--no-wait", "--only", "scheduler", "--namespace", "other")
        assert code == 2
        assert f"installed in namespace {NAMESPACE} already" in said
        assert "namespace/other" not in await everything(strict_plane)
        code, said = await run(strict_plane, "install", "--no-wait", "--only", "scheduler")
        assert code == 0, said
        assert "created   ClusterRole/echelon-scheduler" in said
        assert _lasting(whole) <= await everything(strict_plane)
        await verbs.delete(CLUSTER_ROLES, "echelon-scheduler")
    finally:
        code, said = await run(strict_plane, "uninstall", "--timeout", "60")
    assert code == 0, said
    assert await everything(strict_plane) == before, said


def _lasting(names: set[str]) -> set[str]:
    """Those whose names nobody generates."""
    return {name for name in names if not name.startswith(("pod/", "replicaset"))}
