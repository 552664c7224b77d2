"""Trees lose nodes and pods at random and recover: no unit stays broken that fits as a whole, none is released in vain.

One tree, some pods that stand in its way, and a stand-in for its controller.  While something is lost and made again
the scheduler is down, so what it finds is known exactly: the soak's own ledger and search say what it should do.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
import pytest

from echelon.api.objects import meta
from echelon.api.objects.vocabulary import BLOCK, RACK
from echelon.api.scheme import COMPOSITE_POD_GROUPS, NODES, POD_GROUPS, PODS
from echelon.base.rng import Rng
from echelon.store.interface import Change, Header, Record
from echelon.testing.builders import Mode, make_composite, make_node, make_pod, make_pod_group
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time
from tests.properties.reached import Reached, reaches
from tests.soak.fit_search import Fitting
from tests.soak.ledger import Group, Ledger, Pod

T = TypeVar("T")
SEEDS = 60
ROUNDS = 5
#: A controller makes new pods within this time.
SHORT = 5.0
#: Every back-off has ended by then.
LONG = 130.0


class Life:
    """One tree in a cluster of twelve nodes, each with room for one pod."""

    def __init__(self, world: SchedulerPlane, seed: int, reached: Reached) -> None:
        self.world, self.rng, self.reached = world, Rng(seed), reached
        self.count = 0
        #: PodGroup -> how many pods its controller keeps
        self.wanted: dict[str, int] = {}
        self.absent: list[str] = []

    def pick(self, choices: list[T]) -> T:
        return choices[self.rng.below(len(choices))]

    def _mode(self) -> Mode:
        return "all" if self.rng.below(3) else "single"

    async def begin(self) -> None:
        for number in range(12):
            await self.add_node(f"b{number // 6}-r{number // 3 % 2}-{number % 3}")
        for number in range(self.rng.below(3)):
            await self.world.create(make_pod(f"other{number}"))
        children = 2 + (self.rng.below(4) == 0)
        key = BLOCK if self.rng.below(2) else ""
        gang = children - self.rng.below(2)
        parent = "root"
        if self.rng.below(2):
            await self.world.create(make_composite("root", gang=1, mode=self._mode()))
            parent = "mid"
            await self.world.create(make_composite("mid", parent="root", gang=gang, key=key, mode=self._mode()))
        else:
            await self.world.create(make_composite("root", gang=gang, key=key, mode=self._mode()))
        for child in range(children):
            size = 2 + self.rng.below(2)
            within = RACK if self.rng.below(4) else ""
            await self.world.create(
                make_pod_group(f"g{child}", gang=size, parent=parent, key=within, mode=self._mode())
            )
            self.wanted[f"g{child}"] = size
        await self.controller()
        await self.world.settle(LONG)

    async def add_node(self, name: str) -> None:
        block, rack, _ = name.split("-")
        node = make_node(name, cpu=1, gpu=1, block=block, rack=f"{block}-{rack}")
        await self.world.create(node)

    async def controller(self) -> None:
        pods = (await self.world.verbs.list(PODS, "default")).items
        for group, wanted in self.wanted.items():
            mine = [pod for pod in pods if (pod["spec"].get("schedulingGroup") or {}).get("podGroupName") == group]
            for _ in range(wanted - sum(not meta.deleting(pod) for pod in mine)):
                self.count += 1
                await self.world.create(make_pod(f"{group}-{self.count}", group=group))

    async def befall(self) -> None:
        """Something is lost, or room appears."""
        ledger = await self.ledger()
        running = sorted(pod.name for pod in ledger.pods.values() if pod.group and pod.holds)
        kind = self.rng.below(6)
        if kind < 4 and len(ledger.nodes) > 3:
            name = self.pick(sorted(ledger.nodes))
            await self.world.delete(NODES, name)
            self.absent.append(name)
            await self._delete(sorted(pod.name for pod in ledger.pods.values() if pod.node == name))
        elif kind < 5 and running:
            await self._delete([self.pick(running)])
        elif self.absent:
            await self.add_node(self.absent.pop())

    async def _delete(self, names: list[str]) -> None:
        for name in names:
            await self.world.delete(PODS, name, grace=0)

    async def ledger(self) -> Ledger:
        ledger = Ledger()
        for resource in (NODES, COMPOSITE_POD_GROUPS, POD_GROUPS, PODS):
            namespace = "default" if resource.namespaced else ""
            for obj in (await self.world.verbs.list(resource, namespace)).items:
                key = resource.key(meta.name(obj), namespace)
                record = Record(key, msgspec.json.encode({**obj, "kind": resource.kind}), 1, Header())
                ledger.take(Change(1, key, record, None), 0.0)
        return ledger

    # -- one round -------------------------------------------------------------------------------------

    async def round(self) -> None:
        await self.world.stop()
        await self.befall()
        if self.rng.below(4):
            await self.controller()
        before = await self.ledger()
        self.world.start()
        await self.world.settle(SHORT)
        after = await self.ledger()
        gone = {pod.uid for pod in before.pods.values() if pod.stays} - {pod.uid for pod in after.pods.values()}
        released = [group for group in _units(before) if any(pod.uid in gone for pod in before.members(group))]
        self._judge_released(before, released, gone)
        if released:
            await self._recovered(released)
        await self.world.settle(LONG)
        self._judge_kept(await self.ledger())

    def _judge_released(self, before: Ledger, released: list[Group], gone: set[str]) -> None:
        """Only units are released, whole, below their minimum, with their pods there, and none that fits in place."""
        free = [pod.name for pod in before.pods.values() if pod.uid in gone and before.unit(pod) is None]
        assert not free, f"{free} belong to no unit and are gone"
        for unit in released:
            self.reached("released")
            staying = [pod.name for pod in before.members(unit) if pod.stays and pod.uid not in gone]
            assert not staying, f"{unit.name} was released without {staying}"
            assert not before.counted(unit, _stays), f"{unit.name} was released although it held"
            assert before.counted(unit, _there), f"{unit.name} was released before its pods were there"
            root = before.root(unit)
            in_place = Fitting(before).part(unit) if before.counted(root, _stays) else Fitting(before).group(root)
            assert not in_place, f"{unit.name} was released although it could be completed"

    def _judge_kept(self, after: Ledger) -> None:
        """No unit stays broken that fits as a whole."""
        for unit in after.broken_units():
            root, own = after.root(unit), {pod.uid for pod in after.members(unit)}
            if after.counted(root, lambda pod, own=own: pod.stays or pod.uid in own):
                self.reached("kept")
                assert not Fitting(after, released=own).part(unit), f"{unit.name} stays broken although it fits"

    async def _recovered(self, released: list[Group]) -> None:
        """Nothing else has happened: what was released runs again."""
        await self.controller()
        await self.world.settle(LONG)
        again = await self.ledger()
        for unit in released:
            assert again.counted(unit, _stays), f"{unit.name} was released and does not run again"


def _units(ledger: Ledger) -> list[Group]:
    found = {unit.uid: unit for pod in ledger.pods.values() if (unit := ledger.unit(pod)) is not None}
    return list(found.values())


def _stays(pod: Pod) -> bool:
    return pod.stays


def _there(pod: Pod) -> bool:
    return pod.stays or pod.pending


@in_virtual_time
async def _live(world: SchedulerPlane, seed: int, reached: Reached) -> None:
    life = Life(world, seed, reached)
    await life.begin()
    for _ in range(ROUNDS):
        await life.round()


@reaches(released=14, kept=8)
def test_trees_that_lose_nodes_and_pods_recover_and_nothing_is_released_in_vain(reached: Reached) -> None:
    for seed in range(SEEDS):
        try:
            _live(seed, reached)
        except AssertionError as error:
            pytest.fail(f"seed {seed}: {error}")
