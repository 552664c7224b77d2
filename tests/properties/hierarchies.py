"""Small clusters with tight demands, drawn from a source of chance: up to 12 nodes, 10 pods, 4 levels of groups.

The capacity of the cluster is measured out to the demand, so that about half of the demands just fit and the
others just do not.  Hypothesis chooses the sizes and a seed, chance does the rest.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from random import Random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from echelon.engine import (
    Bound,
    Composite,
    Demand,
    Group,
    Identity,
    Leaf,
    Peers,
    PodClass,
    PodTerm,
    Requirement,
    Shape,
    Spread,
)
from echelon.testing.placement import GPU, LEVELS, NOW, ClusterBuilder, amounts, exclusive, fresh_id

#: Topology keys a group may ask for; `pool` is no level of the configuration.
KEYS = (LEVELS["zone"], LEVELS["block"], LEVELS["rack"], LEVELS["rack"], LEVELS["host"], "pool")
PRIORITY = 50
LONG = bool(os.environ.get("ECHELON_LONG"))
#: Instances of a long run for one of a short one: together more than 50,000 comparisons with brute force.
MORE = 16


def examples(number: int) -> settings:
    """So many instances, the same in every run; many more in a long one."""
    return settings(
        max_examples=number * MORE if LONG else number,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


@dataclass(frozen=True)
class Instance:
    seed: int
    cluster: ClusterBuilder
    demand: Demand

    def __repr__(self) -> str:
        return f"seed {self.seed}: {self.demand}\non {self.cluster}"


def instances(
    victims: bool = False, max_nodes: int = 12, max_pods: int = 10, with_terms: bool = False
) -> st.SearchStrategy[Instance]:
    """Demands on clusters of about their size; with `victims`, much is held by units of other priorities.

    With `with_terms`, pods have terms about one another and about pods that run.
    """
    seeds, nodes, pods = st.integers(0, 1 << 32), st.integers(1, max_nodes), st.integers(1, max_pods)
    return st.builds(draw_instance, seeds, nodes, pods, st.just(victims), st.just(with_terms))


def draw_instance(seed: int, nodes: int, pods: int, victims: bool, with_terms: bool = False) -> Instance:
    rng = Random(seed)
    shapes = [_shape(rng) for _ in range(rng.choice((1, 1, 2, 3)))]
    if with_terms:
        shapes = [_with_terms(rng, shape) for shape in shapes]
    root = _tree(rng, shapes, rng.randint(1, 4), pods)
    cluster = _cluster(rng, root, nodes, victims)
    root = _with_bound(rng, root, cluster)
    for _ in range(rng.choice((0, 1, 2)) if with_terms else 0):
        name, repels = rng.choice(cluster.view.node_names()), _terms(rng, (0, 0, 1))
        cluster.run(name, priority=100, identity=_identity(rng), repels=repels)
    return Instance(seed, cluster, Demand(root, PRIORITY, may_preempt=victims))


def _shape(rng: Random) -> Shape:
    selector = (("pool", rng.choice("xy")),) if rng.random() < 0.15 else ()
    return Shape(amounts(rng.randint(1, 4), rng.choice((0, 0, 1, 2))), selector)


def _with_terms(rng: Random, shape: Shape) -> Shape:
    """Pods that keep apart, now and then also pods that want others near or want to be even."""
    apart, near = _terms(rng, (0, 1, 1, 2)), _terms(rng, (0, 0, 0, 1))
    even = tuple(Spread(term.key, rng.randint(1, 2), term.peers) for term in _terms(rng, (0, 0, 0, 1)))
    return replace(shape, identity=_identity(rng), anti_affinity=apart, affinity=near, spread=even)


def _identity(rng: Random) -> Identity:
    return Identity("ns", (("app", rng.choice("abc")),))


def _terms(rng: Random, numbers: tuple[int, ...]) -> tuple[PodTerm, ...]:
    found = []
    for _ in range(rng.choice(numbers)):
        values = rng.choice((("a",), ("b",), ("a", "b"), ("c",)))
        peers = Peers((Requirement("app", "In", values),), ("ns",))
        found.append(
            PodTerm(rng.choice((LEVELS["host"], LEVELS["host"], LEVELS["rack"], LEVELS["zone"], "pool")), peers)
        )
    return tuple(found)


def _tree(rng: Random, shapes: list[Shape], depth: int, pods: int) -> Group:
    if depth == 1 or pods == 1 or rng.random() < 0.2:
        return _leaf(rng, shapes, pods)
    shares = _shares(rng, pods, rng.randint(1, min(3, pods)))
    children = tuple(_tree(rng, shapes, depth - 1, share) for share in shares)
    minimum = len(children) if rng.random() < 0.6 else rng.randint(1, len(children))
    return Composite(fresh_id(), minimum, children, _key(rng, 0.5), _preferred(rng))


def _leaf(rng: Random, shapes: list[Shape], pods: int) -> Leaf:
    shares = _shares(rng, pods, rng.randint(1, min(2, pods)))
    classes = tuple(
        PodClass(rng.choice(shapes), tuple(fresh_id() for _ in range(share)), rng.choice(("", "", "driver")))
        for share in shares
    )
    minimum = pods if rng.random() < 0.6 else rng.randint(1, pods)
    alone = exclusive(rng.choice(("rack", "host")), 7) if rng.random() < 0.12 else None
    final = pods + rng.randint(1, 3) if rng.random() < 0.1 else None
    return Leaf(fresh_id(), minimum, classes, (), _key(rng, 0.5), _preferred(rng), alone, final)


def _key(rng: Random, chance: float) -> str | None:
    return rng.choice(KEYS) if rng.random() < chance else None


def _preferred(rng: Random) -> tuple[str, ...]:
    if rng.random() < 0.75:
        return ()
    levels = [LEVELS[name] for name in ("host", "rack", "block", "zone")]
    start = rng.randrange(len(levels))
    return tuple(levels[start : start + rng.randint(1, 2)])


def _shares(rng: Random, total: int, parts: int) -> list[int]:
    marks = sorted(rng.sample(range(1, total), parts - 1)) if parts > 1 else []
    return [high - low for low, high in zip([0, *marks], [*marks, total], strict=True)]


# ---- the cluster around a demand


def _cluster(rng: Random, root: Group, nodes: int, victims: bool) -> ClusterBuilder:
    """Nodes that together hold a little less or a little more than the demand."""
    pods = [pod.shape for leaf in Demand(root).leaves() for pod in leaf.classes for _ in pod.members]
    room = [{"cpu": 0, GPU: 0} for _ in range(nodes)]
    for shape in pods:
        if rng.random() < 0.93:
            _give(room[_near(rng, nodes)], shape)
    for _ in range(rng.choice((0, 0, 1, 2))):
        _give(rng.choice(room), rng.choice(pods))
    cluster = ClusterBuilder()
    budgets = [cluster.budget(rng.randint(0, 1))] if victims and rng.random() < 0.3 else []
    held = [dict.fromkeys(offer, 0) for offer in room]
    names = [f"n{number}" for number in range(nodes)]
    if victims:
        _hold(rng, cluster, names, room, held, budgets)
    for name, offer in zip(names, room, strict=True):
        spare = rng.choice((0, 0, 0, 1))
        _node(rng, cluster, name, offer["cpu"] // 1000 + spare, offer[GPU])
    return cluster


def _give(offer: dict[str, int], shape: Shape) -> None:
    asked = dict(shape.requests)
    for name in offer:
        offer[name] += asked.get(name, 0)


def _near(rng: Random, nodes: int) -> int:
    """Mostly the first nodes, so that some get much and some little."""
    return min(rng.randrange(nodes), rng.randrange(nodes))


def _node(rng: Random, cluster: ClusterBuilder, name: str, cpu: int, gpu: int) -> None:
    domains = {"zone": rng.choice("ab"), "block": rng.choice("12"), "rack": rng.choice("rst")}
    domains = {level: value for level, value in domains.items() if rng.random() < 0.95}
    labels = {"pool": rng.choice("xy")} if rng.random() < 0.8 else {}
    cluster.node(name, cpu, gpu, labels, cordoned=rng.random() < 0.03, **domains)


def _hold(
    rng: Random, cluster: ClusterBuilder, names: list[str], room: list[dict[str, int]], held: list[dict[str, int]],
    budgets: list[int],
) -> None:  # fmt: skip
    """Units of one to three pods on nodes that keep, more or less, the room the demand needs once they are gone."""
    for _ in range(rng.randint(1, 6)):
        unit, priority = fresh_id(), rng.choice((10, 10, 20, 60))
        holding = exclusive("rack", 7) if rng.random() < 0.1 else None
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            spot = rng.randrange(len(names))
            cpu = rng.randint(1, 3)
            gpu = rng.choice((0, 1)) if room[spot][GPU] else 0
            held[spot]["cpu"] += cpu * 1000
            held[spot][GPU] += gpu
            cluster.run(
                names[spot], cpu, gpu, priority, unit, NOW - rng.choice((0, 100, 100, 200)), unit, holding,
                tuple(budget for budget in budgets if rng.random() < 0.6), evictable=rng.random() < 0.95,
            )  # fmt: skip
    for offer, taken in zip(room, held, strict=True):
        for name in offer:
            offer[name] = max(offer[name], taken[name])


def _with_bound(rng: Random, group: Group, cluster: ClusterBuilder) -> Group:
    """Let some leaves have members that run already."""
    if isinstance(group, Composite):
        children = tuple(_with_bound(rng, child, cluster) for child in group.children)
        return Composite(group.id, group.min_groups, children, group.topology, group.preferred)
    if rng.random() > 0.15:
        return group
    name, member = rng.choice(cluster.view.node_names()), fresh_id()
    cluster.run(name, 0, 0, 100, fresh_id(), group=group.id, exclusive=group.exclusive, pod=member)
    bound = (Bound(member, name, rng.choice(("", "driver"))),)
    minimum = group.min_count + rng.choice((0, 1))
    return Leaf(
        group.id, minimum, group.classes, bound, group.topology, group.preferred, group.exclusive, group.final_size
    )
