"""Demands with terms between their pods on 25 to 100 nodes, drawn from a source of chance.

Every app has one shape, with terms about itself and about other apps.  Pods are laid out one after the other where
they break the fewest terms, and nodes get just about the room that this takes: about half of the demands just fit.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from echelon.engine import (
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
from echelon.testing.placement import LEVELS, ClusterBuilder, amounts, fresh_id
from tests.properties.hierarchies import Instance
from tests.properties.pod_terms import domain_in, is_meant

APPS = "abcdef"
Terms = dict[str, tuple[object, ...]]


def draw_with_terms(family: str, seed: int, nodes: int, pods: int) -> Instance:
    rng = Random(seed)
    apps = APPS[: rng.randint(2, 5)]
    shapes = [_shape(rng, family, app, apps) for app in apps]
    root = _tree(rng, shapes, rng.randint(2, 3), pods)
    cluster = _cluster(rng, nodes)
    for _ in range(rng.choice((0, 0, 2, 6))):
        repels = (_term(rng, rng.choice(apps), apps),) if rng.random() < 0.3 else ()
        name = rng.choice(cluster.view.node_names())
        cluster.run(name, priority=100, identity=_identity(rng.choice(apps)), repels=repels)
    _make_room(rng, cluster, root)
    return Instance(seed, cluster, Demand(root, 50, may_preempt=False))


# ---- pods


def _shape(rng: Random, family: str, app: str, apps: str) -> Shape:
    kinds = [family] if family in KINDS else rng.choices((*KINDS, ""), k=2)
    terms: Terms = {}
    for kind in kinds:
        for field, found in KINDS[kind](rng, app, apps).items() if kind else ():
            terms[field] = (*terms.get(field, ()), *found)
    size = rng.choice((1, 1, 2, 3))
    return Shape(amounts(size), identity=_identity(app), **terms)  # type: ignore[arg-type]


def _apart(rng: Random, app: str, apps: str) -> Terms:
    return {"anti_affinity": tuple(_term(rng, app, apps) for _ in range(rng.choice((0, 1, 1, 2))))}


def _near(rng: Random, app: str, apps: str) -> Terms:
    """Near to an app that comes before it in the alphabet, or to its own."""
    other = rng.choice(apps[: apps.index(app) + 1])
    key = LEVELS[rng.choice(("rack", "rack", "zone"))]
    return {"affinity": (PodTerm(key, _peers(other)),)} if rng.random() < 0.7 else {}


def _even(rng: Random, app: str, apps: str) -> Terms:
    peers = _peers(rng.choice((app, app, app + rng.choice(apps), rng.choice(apps))))
    key = LEVELS[rng.choice(("zone", "rack", "host"))]
    return {"spread": (Spread(key, rng.randint(1, 2), peers, rng.choice((1, 1, 1, 3))),)}


KINDS: dict[str, Callable[[Random, str, str], Terms]] = {"apart": _apart, "near": _near, "even": _even}
FAMILIES = (*KINDS, "all")


def _term(rng: Random, app: str, apps: str) -> PodTerm:
    key = LEVELS[rng.choice(("host", "rack", "rack"))]
    return PodTerm(key, _peers(rng.choice((app, app + rng.choice(apps), rng.choice(apps)))))


def _peers(apps: str) -> Peers:
    return Peers((Requirement("app", "In", tuple(sorted(set(apps)))),), ("ns",))


def _identity(app: str) -> Identity:
    return Identity("ns", (("app", app),))


# ---- groups


def _tree(rng: Random, shapes: list[Shape], depth: int, pods: int) -> Group:
    if depth == 1 or pods == 1:
        return _leaf(rng, shapes, pods)
    shares = [pods // 3 + (number < pods % 3) for number in range(3)] if pods > 5 else [pods]
    children = tuple(_tree(rng, shapes, depth - 1, share) for share in shares)
    minimum = len(children) - (rng.random() < 0.2 and len(children) > 1)
    return Composite(fresh_id(), minimum, children, LEVELS["zone"] if rng.random() < 0.2 and depth == 2 else None)


def _leaf(rng: Random, shapes: list[Shape], pods: int) -> Leaf:
    first = rng.randint(1, pods)
    classes = tuple(
        PodClass(rng.choice(shapes), tuple(fresh_id() for _ in range(number)))
        for number in (first, pods - first)
        if number
    )
    minimum = pods if rng.random() < 0.8 else rng.randint(1, pods)
    return Leaf(fresh_id(), minimum, classes, (), LEVELS[rng.choice(("rack", "zone"))] if rng.random() < 0.2 else None)


# ---- the cluster around a demand


def _cluster(rng: Random, nodes: int) -> ClusterBuilder:
    """Two or three zones of a few racks each; nodes without any room yet."""
    cluster, zones, racks = ClusterBuilder(), rng.randint(2, 3), rng.randint(2, 5)
    for number in range(nodes):
        zone = f"z{number % zones}"
        cluster.node(f"n{number:03}", zone=zone, rack=f"r{number // zones % racks}")
    return cluster


def _make_room(rng: Random, cluster: ClusterBuilder, root: Group) -> None:
    """Room for the pods, each where it breaks the fewest terms of a few places, and now and then for one more."""
    view, laid = cluster.view, list[tuple[Shape, str]]()
    names = view.node_names()
    room = dict.fromkeys(names, 0)
    old = [(Shape((), identity=pod.identity, anti_affinity=pod.repels), pod.node) for pod in view.all_running()]
    for leaf in Demand(root).leaves():
        home = rng.choice(names)
        for shape in [pods.shape for pods in leaf.classes for _ in pods.members]:
            fine = [n for n in names if not leaf.topology or _together(cluster, n, home, leaf.topology)]
            tried = rng.choices(fine, k=12)
            best = min(tried, key=lambda name: _broken(cluster, shape, name, old + laid))
            laid.append((shape, best))
            room[best] += dict(shape.requests)["cpu"] if rng.random() < 0.98 else 0
    for _ in range(rng.choice((0, 2, 5, 10))):
        room[rng.choice(names)] += 1000
    for name in names:
        node = view.node(name)
        assert node is not None
        cluster.node(name, room[name] / 1000, 0, node.labels)


def _together(cluster: ClusterBuilder, one: str, other: str, key: str) -> bool:
    return domain_in(cluster.view, one, key) == domain_in(cluster.view, other, key)


def _broken(cluster: ClusterBuilder, shape: Shape, name: str, others: list[tuple[Shape, str]]) -> int:
    """Roughly how many terms a pod breaks on a node."""
    broken = 0
    for other, where in others:
        broken += sum(_means(t.peers, other) and _together(cluster, name, where, t.key) for t in shape.anti_affinity)
        broken += sum(_means(t.peers, shape) and _together(cluster, name, where, t.key) for t in other.anti_affinity)
    for term in shape.affinity:
        meant = [where for other, where in others if _means(term.peers, other)]
        broken += 10 * (bool(meant) and not any(_together(cluster, name, where, term.key) for where in meant))
    for spread in shape.spread:
        broken += sum(_means(spread.peers, o) and _together(cluster, name, where, spread.key) for o, where in others)
    return broken


def _means(peers: Peers, shape: Shape) -> bool:
    return shape.identity is not None and is_meant(peers, dict(shape.identity.labels))
