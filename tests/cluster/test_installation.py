"""`echelon install` on a real cluster: the programs work under the shipped roles, and everything goes again."""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.objects.builtin_runtimes import builtin_runtimes
from echelon.api.schema.decoding import copy_tree
from echelon.api.scheme import (
    CLUSTER_TRAINING_RUNTIMES,
    CUSTOM_RESOURCE_DEFINITIONS,
    JOB_SETS,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    TRAIN_JOBS,
)
from echelon.api.verbs import DeleteOptions, Patch, PatchType, Verbs
from echelon.client import kubeconfig
from echelon.client.http import HttpVerbs
from echelon.testing.builders import make_node

from .controlplane import ControlPlane, control_plane, home, missing
from .installed_programs import kubelet_for, token_of, with_token
from .process import echelon
from .test_commands import eventually, places, submit_gang
from .test_training import jobset, train_job

pytestmark = pytest.mark.cluster
NAMESPACE = "echelon-system"
#: What a program logs when the server refuses it.
_REFUSED = re.compile(r"forbidden|cannot (?:get|list|watch|create|update|patch|delete) resource", re.IGNORECASE)


@pytest.fixture(scope="module")
def strict_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with service accounts, and with owners that only those may block who may finalize them."""
    if missing():
        pytest.skip(f"NO REAL CONTROL PLANE in {home()}: `make cluster-tools` builds it where Go is present")
    with control_plane(tmp_path_factory.mktemp("strict"), strict=True) as plane:
        yield plane


@pytest.fixture
async def verbs(strict_plane: ControlPlane) -> AsyncIterator[HttpVerbs]:
    client = kubeconfig.connect(kubeconfig.load(strict_plane.kubeconfig))
    try:
        yield client
    finally:
        await client.close()


@pytest.fixture
async def work_place(verbs: HttpVerbs) -> AsyncIterator[str]:
    """A namespace with a service account, and a node of 16 CPUs."""
    await verbs.create(NAMESPACES, {"metadata": {"name": "work"}})
    await verbs.create(NODES, make_node("n1", cpu=16))

    async def has_account() -> bool:
        with suppress(ApiError):
            return bool(await verbs.get(SERVICE_ACCOUNTS, "default", "work"))
        return False

    await eventually(has_account)
    yield "work"
    await verbs.delete(NODES, "n1")
    await verbs.delete(NAMESPACES, "work")


async def run(plane: ControlPlane, *arguments: str) -> tuple[int, str]:
    async with echelon(*arguments, "--kubeconfig", plane.kubeconfig) as command:
        code = await command.wait()
    return code, "".join(command.said)


async def kubectl(plane: ControlPlane, *arguments: str) -> str:
    command = [plane.kubectl, "--kubeconfig", plane.kubeconfig, *arguments]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True, timeout=60)
    return str(done.stdout)


async def everything(plane: ControlPlane) -> set[str]:
    """Names of all objects that may not come and go by themselves."""
    kinds = "ns,crd,clusterrole,clusterrolebinding,role,rolebinding,sa,deploy,rs,svc,cm,pdb,pod,lease,secret"
    return set((await kubectl(plane, "get", kinds, "-A", "-o", "name")).split())


async def refusals(plane: ControlPlane) -> list[str]:
    """The server's own count of requests that its authorizer did not allow, by what it said."""
    lines = (await kubectl(plane, "get", "--raw", "/metrics")).splitlines()
    attempts = [line for line in lines if line.startswith("authorization_attempts_total{")]
    assert attempts
    return [line for line in attempts if 'result="allowed"' not in line]


async def test_installed_programs_work_under_their_roles_and_leave_nothing(
    strict_plane: ControlPlane, verbs: HttpVerbs, work_place: str, tmp_path: Path
) -> None:
    before, refused = await everything(strict_plane), await refusals(strict_plane)
    async with kubelet_for(verbs, strict_plane.kubeconfig, NAMESPACE, tmp_path) as programs:
        code, said = await run(strict_plane, "install")
        assert code == 0, said
        assert "ready     Deployment/echelon-scheduler" in said
        assert set(programs) == {"echelon-scheduler", "echelon-controllers"}

        gang = await submit_gang(verbs, work_place, "n1", "gang")
        await eventually(places(verbs, work_place, gang), {"n1"})
        await _a_jobset_is_placed(verbs, work_place)
        await _a_trainjob_is_placed(verbs, work_place)

        code, said = await run(strict_plane, "install")
        assert code == 0, said
        assert re.search(r"^\d+ unchanged$", said, re.MULTILINE), said

        for program in programs.values():
            assert program.process.returncode is None, program.said()
            assert not _REFUSED.search(program.said()), program.said()
        assert await refusals(strict_plane) == refused, "somebody was refused something"

        await _remove_work(verbs, work_place)
        code, said = await run(strict_plane, "uninstall", "--timeout", "60")
    assert code == 0, said
    assert await everything(strict_plane) == before, said


async def _a_jobset_is_placed(verbs: HttpVerbs, namespace: str) -> None:
    made = jobset("js")
    pod = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod |= {"schedulerName": "echelon", "restartPolicy": "Never"}
    await verbs.create(JOB_SETS, made, namespace)
    await eventually(lambda: _bound(verbs, namespace, "js-"), 4)
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
    runtime = copy_tree(next(one for one in builtin_runtimes() if meta.name(one) == "torch-distributed"))
    for job in runtime["spec"]["template"]["spec"]["replicatedJobs"]:
        job["template"]["spec"]["template"]["spec"]["schedulerName"] = "echelon"
    await verbs.create(CLUSTER_TRAINING_RUNTIMES, runtime)
    resources = {"requests": {"cpu": "1"}}
    await verbs.create(TRAIN_JOBS, train_job("tj", "torch-distributed", resourcesPerNode=resources), namespace)
    await eventually(lambda: _bound(verbs, namespace, "tj-"), 2)


async def _bound(verbs: Verbs, namespace: str, prefix: str) -> int:
    pods = (await verbs.list(PODS, namespace)).items
    return sum(meta.name(pod).startswith(prefix) and bool(pod["spec"].get("nodeName")) for pod in pods)


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
    assert "a cluster administrator may install" in said
    assert await everything(strict_plane) == before


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
