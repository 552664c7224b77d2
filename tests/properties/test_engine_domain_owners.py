"""Exclusive groups among pods of other Jobs: the engine's verdict against the rule in two lines of arithmetic.

A rack may be had alone if no pod of a Job of the rank is there; a pod of a Job may enter a rack that nobody of its rank
has alone.  The scheduler's own translation adds the terms, so the rule is checked through it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from echelon.engine import Blocked, Demand, Group, Identity, Leaf, Placed, ownership_labels, ownership_term, problems
from echelon.scheduler.intake.exclusive_terms import with_ownership
from echelon.scheduler.intake.pod_affinity import with_identities
from echelon.testing.placement import NOW, ClusterBuilder, composite, exclusive, fresh_id, gang, judged, pods
from tests.properties.hierarchies import examples
from tests.properties.reached import Reached, reaches

RANK, SLOTS = 7, 3
ALONE = exclusive("rack", RANK)


@dataclass
class Known:
    """What the translation reads of a pod."""

    identity: Identity


@dataclass
class World:
    """Racks of one node, with what is free in each and which pods of the rank are there."""

    cluster: ClusterBuilder = field(default_factory=ClusterBuilder)
    members: dict[int, Known] = field(default_factory=dict)
    free: dict[str, int] = field(default_factory=dict)
    owners: dict[str, int] = field(default_factory=dict)
    shared: set[str] = field(default_factory=set)

    def rack(self, name: str, rng: Random) -> None:
        self.cluster.node(name, cpu=SLOTS, rack=name)
        self.free[name] = SLOTS
        for _ in range(rng.randrange(SLOTS)):
            self._run(name, rng.choice(("owner", "job", "job", "other rank", "no job", None)))

    def _run(self, rack: str, kind: str | None) -> None:
        if kind is None or (kind == "owner" and rack in self.shared) or (kind == "job" and rack in self.owners):
            return
        rank = RANK + 1 if kind == "other rank" else RANK
        own = ALONE if kind == "owner" else None
        labels = () if kind == "no job" else ownership_labels(rank, own)
        group = self.owners.setdefault(rack, fresh_id()) if own else -1
        self.cluster.run(
            rack,
            cpu=1,
            priority=100,
            group=group,
            exclusive=own,
            identity=Identity("ns", labels),
            repels=(ownership_term(ALONE),) if own else (),
        )
        self.free[rack] -= 1
        if kind == "job":
            self.shared.add(rack)

    def leaf(self, number: int, *, alone: bool) -> Leaf:
        one = pods(number, cpu=1)
        own = ALONE if alone else None
        self.members |= {pod: Known(Identity("ns", ownership_labels(RANK, own))) for pod in one.members}
        return gang(number, one, exclusive=own)

    def asked(self, root: Group) -> Demand:
        demand, index = Demand(root), self.cluster.view.pod_index
        return with_identities(with_ownership(demand, self.members, index), self.members, index)  # type: ignore[arg-type]


def _world(seed: int) -> tuple[World, Random]:
    rng, world = Random(seed), World()
    for number in range(rng.randint(1, 4)):
        world.rack(f"r{number}", rng)
    return world, rng


def _alone(world: World, number: int) -> list[str]:
    """The racks that may be had alone and hold so many."""
    return [
        rack for rack, free in world.free.items() if free >= number and rack not in world.owners.keys() | world.shared
    ]


def _open(world: World, number: int, without: str = "") -> bool:
    return sum(free for rack, free in world.free.items() if rack not in world.owners and rack != without) >= number


@reaches(placed=60, blocked=60)
@examples(300)
@given(st.integers(0, 10**6))
def test_an_exclusive_group_gets_a_rack_without_pods_of_other_jobs(reached: Reached, seed: int) -> None:
    world, rng = _world(seed)
    number = rng.randint(1, SLOTS)
    verdict = judged(world.cluster.view, world.asked(world.leaf(number, alone=True)))
    reached("placed" if isinstance(verdict, Placed) else "blocked")
    assert isinstance(verdict, Placed if _alone(world, number) else Blocked)


@reaches(placed=60, blocked=60)
@examples(300)
@given(st.integers(0, 10**6))
def test_pods_of_a_job_stay_out_of_racks_that_others_have_alone(reached: Reached, seed: int) -> None:
    world, rng = _world(seed)
    number = rng.randint(1, SLOTS * 2)
    verdict = judged(world.cluster.view, world.asked(world.leaf(number, alone=False)))
    reached("placed" if isinstance(verdict, Placed) else "blocked")
    assert isinstance(verdict, Placed if _open(world, number) else Blocked)


@reaches(placed=40, blocked=60)
@examples(300)
@given(st.integers(0, 10**6))
def test_groups_of_one_tree_keep_apart_as_well(reached: Reached, seed: int) -> None:
    world, rng = _world(seed)
    own, other = rng.randint(1, SLOTS), rng.randint(1, SLOTS)
    root = composite(2, world.leaf(own, alone=True), world.leaf(other, alone=False))
    verdict = judged(world.cluster.view, world.asked(root))
    reached("placed" if isinstance(verdict, Placed) else "blocked")
    fits = any(_open(world, other, without=rack) for rack in _alone(world, own))
    assert isinstance(verdict, Placed if fits else Blocked)


def test_the_judge_needs_no_terms_to_see_who_does_not_belong_there() -> None:
    labels = ownership_labels(RANK, None)
    cluster = ClusterBuilder().node("n1", cpu=4, rack="r1")
    owner, guest = gang(1, pods(1, cpu=1), exclusive=ALONE), gang(1, pods(1, cpu=1, identity=Identity("ns", labels)))
    placed = {leaf.id: cluster.place(leaf) for leaf in (owner, guest)}
    cluster.run("n1", cpu=1, identity=Identity("ns", labels))
    assert any("of another Job" in one for one in problems(cluster.view, Demand(owner), placed[owner.id], NOW))
    cluster.run("n1", cpu=1, group=fresh_id(), exclusive=ALONE)
    assert any("has alone" in one for one in problems(cluster.view, Demand(guest), placed[guest.id], NOW))
