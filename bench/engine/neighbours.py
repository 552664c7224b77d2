"""Nearly full clusters whose pods mind one another: 64 nodes of 8 GPUs in 8 racks, a placement known to exist.

Pods with terms are laid out first; what is left of each rack, but for one pod, is cut into a gang without any terms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random

from echelon.engine import Demand, Group, Identity, Peers, PodTerm, Requirement, Shape, Spread

from .harness import World
from .worlds import HOST, RACK, all_of, gang, mixed_gang, shape, tree

RACKS, NODES, GPUS = 8, 8, 8
SPACE = "bench"


class _Plan:
    """GPUs that are free on every node of every rack while a placement is laid out."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.free = [[GPUS] * NODES for _ in range(RACKS)]
        self.pods: dict[Shape, int] = {}

    def put(self, rack: int, one: Shape, gpus: int) -> None:
        """One more pod somewhere in a rack, if there is room."""
        fitting = [node for node, free in enumerate(self.free[rack]) if free >= gpus]
        if fitting:
            self.free[rack][self.rng.choice(fitting)] -= gpus
            self.pods[one] = self.pods.get(one, 0) + 1

    def demand(self) -> Demand:
        gangs: list[Group] = [gang(number, one) for one, number in self.pods.items()]
        for nodes in self.free:
            pieces = [size for free in nodes for size in _halved(free)]
            rest = Counter(sorted(pieces)[:-1])
            gangs.append(mixed_gang([(shape(size), number) for size, number in sorted(rest.items())], RACK))
        self.rng.shuffle(gangs)
        return Demand(all_of(gangs))


def _halved(free: int) -> list[int]:
    return [size for size in (4, 2, 1) for _ in range(free // size if size == 4 else free // size % 2)]


def app(name: str) -> Identity:
    return Identity(SPACE, (("app", name),))


def peers(*names: str) -> Peers:
    return Peers((Requirement("app", "In", names),), (SPACE,))


def apart(seed: int) -> World:
    """Six apps, each with one pod in nearly every rack; two of them keep off one another's nodes."""
    plan = _Plan(Random(seed))
    for number in range(6):
        name, gpus = f"a{number}", plan.rng.choice((1, 2, 3, 4))
        terms = [PodTerm(RACK, peers(name))]
        if number == 1:
            terms.append(PodTerm(HOST, peers("a0")))
        one = replace(shape(gpus), identity=app(name), anti_affinity=tuple(terms))
        for rack in range(RACKS):
            plan.put(rack, one, gpus)
    return tree(1, 2, RACKS // 2, NODES), [plan.demand()]


def near(seed: int) -> World:
    """Five apps with leaders in two or three racks each, and followers that need one in their rack."""
    plan = _Plan(Random(seed))
    for number in range(5):
        name, lead, follow = f"a{number}", plan.rng.choice((3, 4, 5)), plan.rng.choice((1, 2, 3))
        leader = replace(shape(lead), identity=app(name))
        follower = replace(shape(follow), identity=app(f"{name}-follower"), affinity=(PodTerm(RACK, peers(name)),))
        for rack in plan.rng.sample(range(RACKS), plan.rng.choice((2, 3))):
            plan.put(rack, leader, lead)
            for _ in range(plan.rng.randint(2, 8)):
                plan.put(rack, follower, follow)
    return tree(1, 2, RACKS // 2, NODES), [plan.demand()]


def even(seed: int) -> World:
    """Four apps that are spread over racks, none with more than one pod beyond the emptiest."""
    plan = _Plan(Random(seed))
    for number in range(4):
        name, gpus, base = f"a{number}", plan.rng.choice((1, 2, 3)), plan.rng.choice((1, 2))
        one = replace(shape(gpus), identity=app(name), spread=(Spread(RACK, 1, peers(name)),))
        for rack in range(RACKS):
            for _ in range(base):
                plan.put(rack, one, gpus)
    return tree(1, 2, RACKS // 2, NODES), [plan.demand()]


FAMILIES: dict[str, Callable[[int], World]] = {
    "pods apart by rack and node": apart,
    "followers near leaders": near,
    "pods even over racks": even,
}
