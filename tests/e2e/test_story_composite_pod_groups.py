"""Hierarchies of gangs (CompositePodGroup) are placed as one, or not at all, and say why."""

from __future__ import annotations

from pathlib import Path

import pytest

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.objects.vocabulary import BLOCK, RACK
from echelon.api.scheme import COMPOSITE_POD_GROUPS, NODES, POD_GROUPS, PODS, Object
from tests.e2e.harness import Echelon, cluster, echelon

WORKLOAD = """
apiVersion: scheduling.k8s.io/v1beta1
kind: Workload
metadata: {name: w}
spec:
  compositePodGroupTemplates:
  - name: root
    schedulingPolicy: {gang: {minGroupCount: 2}}
    schedulingConstraints: {topology: [{key: topology.kubernetes.io/block}]}
    podGroupTemplates:
    - name: rack
      schedulingPolicy: {gang: {minCount: 4}}
      schedulingConstraints: {topology: [{key: topology.kubernetes.io/rack}]}
"""


def composite(name: str, template: str, parent: str = "", key: str = "", groups: int = 1, **spec: object) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "CompositePodGroup",
        "metadata": {"name": name},
        "spec": {
            "workloadRef": {"workloadName": "w", "templateName": template},
            "schedulingPolicy": {"gang": {"minGroupCount": groups}},
            **({"parentCompositePodGroupName": parent} if parent else {}),
            **({"schedulingConstraints": {"topology": [{"key": key}]}} if key else {}),
            **spec,
        },
    }


def group(name: str, template: str, parent: str, key: str = "", count: int = 4, **spec: object) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {
            "parentCompositePodGroupName": parent,
            "workloadRef": {"workloadName": "w", "templateName": template},
            "schedulingPolicy": {"gang": {"minCount": count}},
            **({"schedulingConstraints": {"topology": [{"key": key}]}} if key else {}),
            **spec,
        },
    }


def gang_member(name: str, of: str, gpus: int = 8) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"group": of}},
        "spec": {
            "schedulingGroup": {"podGroupName": of},
            "containers": [
                {"name": "c", "image": "registry.example/c:1", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
            ],
        },
    }


async def submit_two_rack_gangs(e: Echelon) -> None:
    await e.apply(WORKLOAD)
    await e.create(composite("root", "root", key=BLOCK, groups=2))
    for name in ("rack-0", "rack-1"):
        await e.create(group(name, "rack", "root", key=RACK))
        for index in range(4):
            await e.create(gang_member(f"{name}-{index}", name))


async def test_a_hierarchy_is_bound_whole_each_gang_in_its_own_rack(tmp_path: Path) -> None:
    async with echelon(tmp_path) as e:
        await submit_two_rack_gangs(e)
        await e.until_condition(COMPOSITE_POD_GROUPS, "root", "CompositePodGroupInitiallyScheduled")

        async def all_bound() -> bool:
            return len(await e.bound()) == 8

        await e.until(all_bound, "all eight pods to be bound")
        racks = [{await e.domain(one, RACK) for one in await e.bound(f"group={name}")} for name in ("rack-0", "rack-1")]
        assert [len(rack) for rack in racks] == [1, 1]
        assert racks[0] != racks[1]
        assert len({await e.domain(one, BLOCK) for one in await e.bound()}) == 1


async def test_one_rack_too_small_binds_nothing_and_says_why_on_every_group(tmp_path: Path) -> None:
    async with echelon(tmp_path) as e:
        nodes = sorted(await e.list(NODES), key=meta.name)
        missing = nodes[-1]
        await e.verbs.delete(NODES, meta.name(missing))
        await submit_two_rack_gangs(e)
        root = await e.until_condition(
            COMPOSITE_POD_GROUPS, "root", "CompositePodGroupInitiallyScheduled", status="False"
        )
        leaves = [
            await e.until_condition(POD_GROUPS, name, "PodGroupInitiallyScheduled", status="False")
            for name in ("rack-0", "rack-1")
        ]
        for obj, type_ in [(root, "CompositePodGroupInitiallyScheduled")] + [
            (leaf, "PodGroupInitiallyScheduled") for leaf in leaves
        ]:
            state = meta.find_condition(obj, type_)
            assert state is not None
            assert state["reason"] == "Unschedulable"
            assert state["message"], f"{meta.name(obj)} says nothing"
        told = " ".join(
            str((meta.find_condition(leaf, "PodGroupInitiallyScheduled") or {})["message"]) for leaf in leaves
        )
        assert f"3 of 4 pods in {meta.labels(missing)[RACK]} (short of nvidia.com/gpu)" in told, told

        async def nothing_bound() -> bool:
            return not await e.bound()

        await e.stays(nothing_bound, "a part of the hierarchy was bound")

        metadata = {"name": "spare", "labels": {**meta.labels(missing), "kubernetes.io/hostname": "spare"}}
        await e.create(
            {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": missing["status"]}
        )

        async def all_bound() -> bool:
            return len(await e.bound()) == 8

        await e.until(all_bound, "the hierarchy to be bound after a node was added")
        await e.until_condition(COMPOSITE_POD_GROUPS, "root", "CompositePodGroupInitiallyScheduled")


FOUR_LEVELS = """
apiVersion: scheduling.k8s.io/v1beta1
kind: Workload
metadata: {name: w}
spec:
  compositePodGroupTemplates:
  - name: all
    schedulingPolicy: {gang: {minGroupCount: 1}}
    compositePodGroupTemplates:
    - name: zone
      schedulingPolicy: {gang: {minGroupCount: 1}}
      compositePodGroupTemplates:
      - name: block
        schedulingPolicy: {gang: {minGroupCount: 2}}
        schedulingConstraints: {topology: [{key: topology.kubernetes.io/block}]}
        podGroupTemplates:
        - name: rack
          schedulingPolicy: {gang: {minCount: 2}}
          schedulingConstraints: {topology: [{key: topology.kubernetes.io/rack}]}
"""


async def test_a_tree_of_four_levels_is_placed(tmp_path: Path) -> None:
    async with echelon(tmp_path) as e:
        await e.apply(FOUR_LEVELS)
        await e.create(composite("all", "all"))
        await e.create(composite("zone", "zone", parent="all"))
        await e.create(composite("block", "block", parent="zone", key=BLOCK, groups=2))
        for name in ("rack-0", "rack-1"):
            await e.create(group(name, "rack", "block", key=RACK, count=2))
            for index in range(2):
                await e.create(gang_member(f"{name}-{index}", name))
        for name in ("all", "zone", "block"):
            await e.until_condition(COMPOSITE_POD_GROUPS, name, "CompositePodGroupInitiallyScheduled")

        async def all_bound() -> bool:
            return len(await e.bound()) == 4

        await e.until(all_bound, "all four pods to be bound")
        for name in ("rack-0", "rack-1"):
            assert len({await e.domain(one, RACK) for one in await e.bound(f"group={name}")}) == 1


async def test_a_workload_of_five_levels_is_refused(tmp_path: Path) -> None:
    deep: Object = {"name": "leaf", "schedulingPolicy": {"gang": {"minCount": 1}}}
    children: Object = {"podGroupTemplates": [deep]}
    for name in ("d", "c", "b", "a"):
        children = {
            "compositePodGroupTemplates": [
                {"name": name, "schedulingPolicy": {"gang": {"minGroupCount": 1}}, **children}
            ]
        }
    async with echelon(tmp_path) as e:
        workload = {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "Workload",
            "metadata": {"name": "w"},
            "spec": children,
        }
        with pytest.raises(ApiError, match="maximum template hierarchy depth is 4") as refusal:
            await e.create(workload)
        assert refusal.value.code == 422


async def test_a_run_time_tree_of_five_levels_is_reported_and_never_bound(tmp_path: Path) -> None:
    async with echelon(tmp_path) as e:
        await e.create(composite("a", "t"))
        for name, parent in (("b", "a"), ("c", "b"), ("d", "c")):
            await e.create(composite(name, "t", parent=parent))
        await e.create(group("leaf", "t", "d", count=1))
        await e.create(gang_member("p", "leaf"))
        await _reported(e, composites="abcd", groups=["leaf"], word="level")


async def test_a_cycle_is_reported_on_every_group_of_it(tmp_path: Path) -> None:
    async with echelon(tmp_path) as e:
        await e.create(composite("a", "t", parent="b"))
        await e.create(composite("b", "t", parent="a"))
        await e.create(group("leaf", "t", "a", count=1))
        await e.create(gang_member("p", "leaf"))
        await _reported(e, composites="ab", groups=["leaf"], word="cycle")


async def test_mixed_priorities_in_one_tree_are_reported(tmp_path: Path) -> None:
    async with echelon(tmp_path) as e:
        await e.apply("{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: urgent}, value: 5}")
        await e.create(composite("root", "t", priorityClassName="urgent"))
        await e.create(group("leaf", "t", "root", count=1))
        await e.create(gang_member("p", "leaf"))
        await _reported(e, composites=["root"], groups=["leaf"], word="priority")


async def test_a_missing_parent_is_waited_for_with_a_reason(tmp_path: Path) -> None:
    async with echelon(tmp_path, cluster()) as e:
        await e.create(group("leaf", "t", "nowhere", count=1))
        await e.create(gang_member("p", "leaf"))

        async def told() -> bool:
            state = meta.find_condition(await e.get(POD_GROUPS, "leaf"), "PodGroupInitiallyScheduled")
            return state is not None and "nowhere" in str(state["message"])

        await e.until(told, "the group to name its missing parent")
        await e.create(composite("nowhere", "t"))

        async def bound() -> bool:
            return bool(await e.bound())

        await e.until(bound, "the pod to be bound once the parent exists")


async def _reported(e: Echelon, composites: str | list[str], groups: list[str], word: str) -> None:
    for resource, names, type_, reason in (
        (COMPOSITE_POD_GROUPS, composites, "CompositePodGroupInitiallyScheduled", "CompositePodGroupError"),
        (POD_GROUPS, groups, "PodGroupInitiallyScheduled", "PodGroupError"),
    ):
        for name in names:
            obj = await e.until_condition(resource, name, type_, status="False")
            state = meta.find_condition(obj, type_)
            assert state is not None
            assert state["reason"] == reason
            assert word in state["message"].lower(), state["message"]
    stuck = await e.until_condition(PODS, "p", "PodScheduled", status="False")
    assert not await e.bound()
    assert (meta.find_condition(stuck, "PodScheduled") or {}).get("reason") == "SchedulerError"
