"""Small clusters whose room is held by others: tight trees of groups, victims of every kind, terms between pods.

The trees and the victims are those of `hierarchies`; `draw_contest` can give pods of both sides names and terms, so
that evicting more is not always better.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import strategies as st

from echelon.engine import ClusterView, Composite, Group, Identity, Peers, PodTerm, Requirement, Shape, Spread
from tests.properties.hierarchies import Instance, draw_instance
from tests.properties.pod_terms import KEYS

MEANT = (("a",), ("b",), ("a", "b"), ("c",))


def contests(with_terms: bool, max_nodes: int, max_pods: int) -> st.SearchStrategy[Instance]:
    """Demands that mostly have to evict; with `with_terms`, pods on both sides have terms about one another."""
    seeds, nodes, pods = st.integers(0, 1 << 32), st.integers(1, max_nodes), st.integers(1, max_pods)
    return st.builds(draw_contest, seeds, nodes, pods, st.just(with_terms))


def draw_contest(seed: int, nodes: int, pods: int, with_terms: bool) -> Instance:
    instance = draw_instance(seed, nodes, pods, victims=True)
    if not with_terms:
        return instance
    rng = Random(seed)
    _introduce(rng, instance.cluster.view)
    known: dict[Shape, Shape] = {}
    root = _with_terms(rng, instance.demand.root, known)
    return Instance(seed, instance.cluster, replace(instance.demand, root=root))


def _introduce(rng: Random, view: ClusterView) -> None:
    """Running pods get names, and some keep others away."""
    for pod in list(view.all_running()):
        if rng.random() < 0.8:
            repels = (_term(rng),) if rng.random() < 0.2 else ()
            view.bind(pod._replace(identity=_identity(rng), repels=repels))


def _with_terms(rng: Random, group: Group, known: dict[Shape, Shape]) -> Group:
    """The tree without bound members, its shapes with names and terms; equal shapes stay equal."""
    if isinstance(group, Composite):
        return replace(group, children=tuple(_with_terms(rng, child, known) for child in group.children))
    classes = tuple(replace(pods, shape=_tied(rng, pods.shape, known)) for pods in group.classes)
    members = sum(len(pods.members) for pods in classes)
    return replace(group, classes=classes, bound=(), min_count=min(group.min_count, members))


def _tied(rng: Random, shape: Shape, known: dict[Shape, Shape]) -> Shape:
    if shape not in known:
        affinity = tuple(_term(rng) for _ in range(rng.choice((0, 0, 1, 1, 2))))
        anti = tuple(_term(rng) for _ in range(rng.choice((0, 0, 0, 1))))
        spread = tuple(_spread(rng) for _ in range(rng.choice((0, 0, 0, 1))))
        known[shape] = replace(shape, identity=_identity(rng), affinity=affinity, anti_affinity=anti, spread=spread)
    return known[shape]


def _identity(rng: Random) -> Identity:
    return Identity("ns", (("app", rng.choice("abc")),))


def _peers(rng: Random) -> Peers:
    return Peers((Requirement("app", "In", rng.choice(MEANT)),), ("ns",))


def _term(rng: Random) -> PodTerm:
    return PodTerm(rng.choice(KEYS), _peers(rng))


def _spread(rng: Random) -> Spread:
    return Spread(rng.choice(KEYS), rng.randint(1, 2), _peers(rng), rng.choice((1, 1, 2)))
