"""Clusters, demands and running pods for the placement engine, with defaults for whatever a test does not care about.

cluster = ClusterBuilder().node("n1", cpu=4, rack="r1").node("n2", cpu=4, rack="r1")
verdict = cluster.decide(gang(3, pods(3, cpu=1), key="rack"))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count

from ..engine import (
    Blocked,
    Bound,
    Budget,
    ClusterView,
    Composite,
    Demand,
    Exclusive,
    Group,
    Identity,
    Leaf,
    Limits,
    Node,
    Placed,
    PodClass,
    PodTerm,
    Preference,
    Running,
    Shape,
    Taint,
    Toleration,
    Unit,
    Verdict,
    decide,
    problems,
)

LEVELS = {
    "region": "topology.kubernetes.io/region",
    "zone": "topology.kubernetes.io/zone",
    "block": "topology.kubernetes.io/block",
    "rack": "topology.kubernetes.io/rack",
    "host": "kubernetes.io/hostname",
}
GPU = "nvidia.com/gpu"
NOW = 1_000.0

_ids = count(1)


def fresh_id() -> int:
    """An id that no other builder has given out."""
    return next(_ids)


def amounts(cpu: float = 0, gpu: int = 0, pods: int = 1, **other: int) -> tuple[tuple[str, int], ...]:
    """Requests or capacity: cpu in cores, the rest in units."""
    found = {"cpu": round(cpu * 1000), GPU: gpu, "pods": pods, **other}
    return tuple(sorted((name, amount) for name, amount in found.items() if amount))


def shape(cpu: float = 0, gpu: int = 0, **fields: object) -> Shape:
    return Shape(amounts(cpu, gpu), **fields)  # type: ignore[arg-type]


def pods(number: int, cpu: float = 0, gpu: int = 0, role: str = "", **fields: object) -> PodClass:
    """Equal pods with fresh ids."""
    return PodClass(shape(cpu, gpu, **fields), tuple(fresh_id() for _ in range(number)), role)


def gang(
    minimum: int,
    *classes: PodClass,
    key: str | None = None,
    preferred: tuple[str, ...] = (),
    bound: tuple[Bound, ...] = (),
    exclusive: Exclusive | None = None,
    final_size: int | None = None,
) -> Leaf:
    """A PodGroup; `key` may be a level's short name."""
    names = tuple(LEVELS.get(name, name) for name in preferred)
    topology = LEVELS.get(key, key) if key else None
    return Leaf(fresh_id(), minimum, classes, bound, topology, names, exclusive, final_size)


def basic(*classes: PodClass, key: str | None = None, final_size: int | None = None) -> Leaf:
    return gang(1, *classes, key=key, final_size=final_size)


def composite(minimum: int, *children: Group, key: str | None = None, preferred: tuple[str, ...] = ()) -> Composite:
    names = tuple(LEVELS.get(name, name) for name in preferred)
    return Composite(fresh_id(), minimum, children, LEVELS.get(key, key) if key else None, names)


def exclusive(key: str, rank: int = 0) -> Exclusive:
    return Exclusive(LEVELS.get(key, key), rank)


class ClusterBuilder:
    """A view under construction; every call returns the cluster."""

    def __init__(self, levels: tuple[str, ...] = tuple(LEVELS.values()), limits: Limits = Limits()) -> None:
        self.view = ClusterView(levels)
        self.limits = limits

    def __repr__(self) -> str:
        nodes = [self.view.node(name) for name in self.view.node_names()]
        return f"ClusterBuilder({nodes}, {list(self.view.all_running())}, {self.view.units()})"

    def node(
        self,
        name: str,
        cpu: float = 0,
        gpu: int = 0,
        labels: Mapping[str, str] | None = None,
        taints: tuple[Taint, ...] = (),
        cordoned: bool = False,
        **domains: str,
    ) -> ClusterBuilder:
        """A node with 110 pod slots; domains by short name: `rack="r1"`."""
        all_labels = {LEVELS["host"]: name, **{LEVELS[level]: value for level, value in domains.items()}}
        all_labels.update(labels or {})
        self.view.put_node(Node(name, all_labels, dict(amounts(cpu, gpu, pods=110)), taints, cordoned))
        return self

    def nodes(self, prefix: str, number: int, cpu: float = 0, gpu: int = 0, **domains: str) -> ClusterBuilder:
        for index in range(number):
            self.node(f"{prefix}-{index}", cpu, gpu, None, (), False, **domains)
        return self

    def run(
        self,
        node: str,
        cpu: float = 0,
        gpu: int = 0,
        priority: int = 0,
        unit: int | None = None,
        started: float = 0.0,
        group: int = -1,
        exclusive: Exclusive | None = None,
        budgets: tuple[int, ...] = (),
        pod: int | None = None,
        evictable: bool = True,
        identity: Identity | None = None,
        repels: tuple[PodTerm, ...] = (),
        coming: bool = False,
        preferences: tuple[Preference, ...] = (),
    ) -> int:
        """A running pod; returns its unit, a fresh one unless given."""
        unit_id = fresh_id() if unit is None else unit
        self.view.put_unit(Unit(unit_id, priority, f"unit-{unit_id}"))
        pod_id = fresh_id() if pod is None else pod
        requests = amounts(cpu, gpu)
        own = (group, exclusive, budgets, evictable, identity, repels, coming, preferences)
        self.view.bind(Running(pod_id, node, requests, unit_id, started, *own))
        return unit_id

    def budget(self, allowed: int) -> int:
        budget_id = fresh_id()
        self.view.put_budget(Budget(budget_id, allowed))
        return budget_id

    def decide(self, root: Group, priority: int = 0, may_preempt: bool = True) -> Verdict:
        """What the engine says, passed by the judge."""
        return judged(self.view, Demand(root, priority, may_preempt), limits=self.limits)

    def place(self, root: Group) -> Placed:
        """The same where it is to be a placement."""
        verdict = self.decide(root)
        assert isinstance(verdict, Placed), verdict
        return verdict


def judged(view: ClusterView, demand: Demand, now: float = NOW, limits: Limits = Limits()) -> Verdict:
    """The engine's verdict: it leaves the view as it was, and the independent judge finds nothing wrong with it."""
    before = view.fingerprint()
    verdict = decide(view, demand, now, limits)
    assert view.fingerprint() == before, "deciding has changed the view"
    wrong = problems(view, demand, verdict, now)
    assert not wrong, f"{wrong} in {verdict}"
    return verdict


def blocked(verdict: Verdict) -> Blocked:
    """The verdict, which is to be a blocked one."""
    assert isinstance(verdict, Blocked), verdict
    return verdict


def copied(view: ClusterView, without: Callable[[Running], bool] = lambda pod: False) -> ClusterView:
    """A view of the same cluster in which some pods are not."""
    fresh = ClusterView(view.levels)
    for node in map(view.node, view.node_names()):
        assert node is not None
        fresh.put_node(node)
    for unit in view.units():
        fresh.put_unit(unit)
    for pod in view.all_running():
        for budget in map(view.budget, pod.budgets):
            if budget is not None:
                fresh.put_budget(budget)
        if not without(pod):
            fresh.bind(pod)
    return fresh


def gpu_racks(*sizes: int) -> ClusterBuilder:
    """Racks `r1`, `r2`, … of one block, with so many nodes of 8 GPUs each: `r1-0`, `r1-1`, …"""
    cluster = ClusterBuilder()
    for number, size in enumerate(sizes, 1):
        cluster.nodes(f"r{number}", size, gpu=8, block="b1", rack=f"r{number}")
    return cluster


def tolerate(key: str) -> tuple[Toleration, ...]:
    return (Toleration(key, "Exists"),)
