"""`echelon install` on servers without gates, with flat groups only, and on one that gets its gates later."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from echelon.api.group_kinds import group_of
from echelon.api.objects import meta
from echelon.api.objects.vocabulary import JOB_SCHEDULING, POD_GROUP
from echelon.api.scheme import (
    CLUSTER_TRAINING_RUNTIMES,
    JOB_SETS,
    JOBS,
    NODES,
    OWN_GROUP_KINDS,
    OWN_POD_GROUPS,
    POD_GROUPS,
    PODS,
    SERVICES,
    TRAIN_JOBS,
    Object,
    Resource,
)
from echelon.api.verbs import Verbs
from echelon.testing.builders import make_node, make_pod, make_pod_group

from .controlplane import ControlPlane, GateSet, etcd_for, servers_on
from .gangs import count_bound
from .installed_programs import Program, kubelet_for
from .installing import REFUSED, everything, refusals, run
from .job_objects import our_jobset, our_runtime, plain_job, train_job
from .logins import client_of
from .own_planes import own_plane, skip_without_control_plane
from .removal import names_of, remove_all
from .waiting import eventually
from .work_places import namespace_with_account

#: What the README applies.
EXAMPLE = Path(__file__).parents[2] / "examples" / "cluster" / "gang.yaml"
WORK = "work"
RUNTIME = "torch-distributed-gang"
TOLD = {
    GateSet.NONE: "groups: scheduling.echelon.dev, because the server does not serve workloads in",
    GateSet.FLAT_GROUPS: "groups: scheduling.echelon.dev, because the server does not serve compositepodgroups in",
    GateSet.ALL: "groups: scheduling.k8s.io",
}


@pytest.fixture
def plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with own_plane(tmp_path_factory, "any", gates=request.param) as running:
        yield running


async def a_work_place(verbs: Verbs) -> None:
    """A namespace with a service account, a node of 32 CPUs, and a runtime whose pods we schedule."""
    await namespace_with_account(verbs, WORK)
    await verbs.create(NODES, make_node("n1", cpu=32))


def gang_of_two(name: str) -> Object:
    """A JobSet of two Jobs of two pods that come together."""
    return our_jobset(name, scheduling={"schedulingPolicy": {"gang": {}}})


async def bound(verbs: Verbs, prefix: str) -> dict[str, str]:
    """uid of every pod of that name that has a node."""
    pods = (await verbs.list(PODS, WORK)).items
    return {meta.name(one): meta.uid(one) for one in pods if meta.name(one).startswith(prefix) and _node(one)}


def _node(pod: Object) -> str:
    return str(pod["spec"].get("nodeName") or "")


async def submit_labelled(verbs: Verbs, group: str, count: int) -> None:
    """A gang as a user writes it where there are no native groups."""
    made = {**make_pod_group(group, gang=count, namespace=WORK), "apiVersion": OWN_POD_GROUPS.api_version}
    made["spec"].pop("preemptionPolicy")
    await verbs.create(OWN_POD_GROUPS, made, WORK)
    await labelled_pods(verbs, group, count)


async def labelled_pods(verbs: Verbs, group: str, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        pod = make_pod(f"{group}-{number}", namespace=WORK, labels={POD_GROUP: group}, schedulerName="echelon")
        await verbs.create(PODS, pod, WORK)


async def groups_in(verbs: Verbs, resource: Resource) -> list[str]:
    return await names_of(verbs, WORK, resource)


async def remove_work(verbs: Verbs) -> None:
    await verbs.delete(CLUSTER_TRAINING_RUNTIMES, RUNTIME)
    groups = [*OWN_GROUP_KINDS, *OWN_GROUP_KINDS.values()]
    await remove_all(verbs, WORK, TRAIN_JOBS, JOB_SETS, JOBS, PODS, *groups)
    # Nobody has to delete these: they go with the JobSets that they are for.
    await eventually(lambda: names_of(verbs, WORK, SERVICES), [])


def alive(programs: dict[str, Program]) -> None:
    assert set(programs) == {"echelon-scheduler", "echelon-controllers"}
    for program in programs.values():
        assert program.process.returncode is None, program.said()


@pytest.mark.parametrize(
    "plane",
    [
        pytest.param(GateSet.NONE, marks=pytest.mark.cluster),
        pytest.param(GateSet.FLAT_GROUPS, marks=pytest.mark.cluster_long),
        pytest.param(GateSet.ALL, marks=pytest.mark.cluster_long),
    ],
    indirect=True,
    ids=str,
)
async def test_gangs_jobsets_and_trainjobs_are_placed_whatever_groups_the_server_has(
    plane: ControlPlane, tmp_path: Path
) -> None:
    async with client_of(plane.kubeconfig) as verbs:
        await a_work_place(verbs)
        before, refused = await everything(plane), await refusals(plane)
        async with kubelet_for(verbs, plane, tmp_path) as programs:
            code, said = await run(plane, "install")
            assert code == 0, said
            assert TOLD[plane.gates] in said
            for program in programs.values():
                assert TOLD[plane.gates] in program.said()
            await verbs.create(CLUSTER_TRAINING_RUNTIMES, our_runtime(RUNTIME))
            own = plane.gates is not GateSet.ALL
            made, other = (OWN_POD_GROUPS, POD_GROUPS) if own else (POD_GROUPS, OWN_POD_GROUPS)
            await verbs.create(JOB_SETS, gang_of_two("js"), WORK)
            trained = train_job("tj", RUNTIME, resourcesPerNode={"requests": {"cpu": "1"}})
            await verbs.create(TRAIN_JOBS, trained, WORK)
            await eventually(lambda: count_bound(verbs, WORK, "js-"), 4)
            await eventually(lambda: count_bound(verbs, WORK, "tj-"), 2)
            assert len(await groups_in(verbs, made)) == 2
            assert await groups_in(verbs, other) == []
            if own:
                await submit_labelled(verbs, "mine", 3)
                await eventually(lambda: count_bound(verbs, WORK, "mine-"), 3)
            if plane.gates is not GateSet.NONE:
                await _native_gangs_of_users_are_whole(verbs)
            await _jobs_of_users_are_gangs(verbs, made)
            if plane.gates is GateSet.NONE:
                await _what_was_written_for_native_groups_is_one_here(verbs)
            code, said = await run(plane, "install")
            assert code == 0, said
            assert re.search(r"^\d+ unchanged$", said, re.MULTILINE), said
            code, said = await run(plane, "doctor")
            assert TOLD[plane.gates] in said
            assert "may not" not in said
            alive(programs)
            assert not [one.said() for one in programs.values() if REFUSED.search(one.said())]
            assert await refusals(plane) == refused, "somebody was refused something"
            await remove_work(verbs)
            code, said = await run(plane, "uninstall", "--timeout", "60")
        assert code == 0, said
        assert await everything(plane) == before, said


async def _native_gangs_of_users_are_whole(verbs: Verbs) -> None:
    """Neither is a pod bound that waits for its group, nor does a group bind fewer than it needs."""
    pods = [make_pod(f"early-{number}", group="early", namespace=WORK, schedulerName="echelon") for number in range(2)]
    await verbs.create(PODS, pods[0], WORK)
    await verbs.create(PODS, make_pod("alone", namespace=WORK, schedulerName="echelon"), WORK)
    await eventually(lambda: count_bound(verbs, WORK, "alone"), 1)
    assert await count_bound(verbs, WORK, "early-") == 0
    group = make_pod_group("early", gang=2, namespace=WORK)
    group["spec"].pop("preemptionPolicy")
    await verbs.create(POD_GROUPS, group, WORK)
    await verbs.create(PODS, pods[1], WORK)
    await eventually(lambda: count_bound(verbs, WORK, "early-"), 2)


async def _jobs_of_users_are_gangs(verbs: Verbs, groups: Resource) -> None:
    """Jobs of kube-controller-manager, the README's and one of a generated name; too large a gang stays outside."""
    asked = {JOB_SCHEDULING: '{"schedulingPolicy": {"gang": {}}}'}
    await verbs.create(JOBS, yaml.safe_load(EXAMPLE.read_text()), WORK)
    await verbs.create(JOBS, plain_job("made-", 2, **asked), WORK)
    await eventually(lambda: count_bound(verbs, WORK, "gang-"), 4)
    assert "gang" in [meta.name(one) for one in (await verbs.list(groups, WORK)).items]
    await eventually(lambda: count_bound(verbs, WORK, "made-"), 2)
    assert [one for one in (await verbs.list(groups, WORK)).items if meta.name(one).startswith("made-")]
    await verbs.create(JOBS, plain_job("large", 40, **asked), WORK)

    async def waits() -> bool:
        found = [one for one in (await verbs.list(groups, WORK)).items if meta.name(one) == "large"]
        known = meta.find_condition(found[0], "PodGroupInitiallyScheduled") if found else None
        return (
            known is not None
            and known["status"] == "False"
            and found[0]["spec"]["schedulingPolicy"] == {"gang": {"minCount": 40}}
        )

    await eventually(waits)
    assert await count_bound(verbs, WORK, "large-") == 0


async def _what_was_written_for_native_groups_is_one_here(verbs: Verbs) -> None:
    """The server drops spec.schedulingGroup; a policy of ours has made a label of it before."""
    await verbs.create(PODS, make_pod("native-0", group="native", namespace=WORK, schedulerName="echelon"), WORK)
    assert group_of(await verbs.get(PODS, "native-0", WORK)) == "native"
    job = plain_job("grouped", 1)
    job["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": "native"}
    assert group_of((await verbs.create(JOBS, job, WORK))["spec"]["template"]) == "native"
    await verbs.create(PODS, make_pod("single", namespace=WORK, schedulerName="echelon"), WORK)
    await eventually(lambda: count_bound(verbs, WORK, "single"), 1)
    assert await count_bound(verbs, WORK, "native-") + await count_bound(verbs, WORK, "grouped-") == 0


@pytest.mark.cluster
async def test_gates_that_are_switched_on_later_restart_no_pod(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Groups of our own stay with their pods, which can still be joined; new groups are native."""
    skip_without_control_plane()
    with etcd_for(tmp_path_factory.mktemp("later")) as storage:
        with servers_on(storage, strict=True, gates=GateSet.NONE) as plane:
            async with client_of(plane.kubeconfig) as verbs:
                await a_work_place(verbs)
                (tmp_path / "before").mkdir()
                async with kubelet_for(verbs, plane, tmp_path / "before"):
                    code, said = await run(plane, "install")
                    assert code == 0, said
                    await verbs.create(JOB_SETS, gang_of_two("old"), WORK)
                    await submit_labelled(verbs, "mine", 3)
                    await eventually(lambda: count_bound(verbs, WORK, "old-"), 4)
                    await eventually(lambda: count_bound(verbs, WORK, "mine-"), 3)
                    old, mine = await bound(verbs, "old-"), await bound(verbs, "mine-")
        with servers_on(storage, strict=True, gates=GateSet.ALL) as plane:
            async with client_of(plane.kubeconfig) as verbs:
                code, said = await run(plane, "upgrade", "--no-wait")
                assert code == 0, said
                assert "groups: scheduling.k8s.io; groups of scheduling.echelon.dev are read too" in said
                assert "changed   Deployment/echelon-scheduler" in said
                (tmp_path / "after").mkdir()
                async with kubelet_for(verbs, plane, tmp_path / "after") as programs:
                    await verbs.create(JOB_SETS, gang_of_two("new"), WORK)
                    await eventually(lambda: count_bound(verbs, WORK, "new-"), 4)
                    await labelled_pods(verbs, "mine", 1, first=3)
                    await eventually(lambda: count_bound(verbs, WORK, "mine-"), 4)
                    alive(programs)
                assert await bound(verbs, "old-") == old
                assert mine.items() <= (await bound(verbs, "mine-")).items()
                (group,) = await groups_in(verbs, POD_GROUPS)
                joined = {
                    (group_of(pod), "schedulingGroup" in pod["spec"])
                    for pod in (await verbs.list(PODS, WORK)).items
                    if meta.name(pod).startswith("new-")
                }
                assert joined == {(group, True)}
                assert len(await groups_in(verbs, OWN_POD_GROUPS)) == 2
