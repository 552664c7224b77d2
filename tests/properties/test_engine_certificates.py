"""Whatever happens to a cluster: when the engine says that a blocked demand fits now, its certificate was void before.

Several demands wait on one small cluster while pods end, start and change rank, places are kept and given up, and
nodes come, go and change; every now and then it is asked whose certificates are void, as the scheduler does.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

import pytest

from echelon.engine import Blocked, Bound, Demand, Group, Leaf, Limits, Node, Taint, Unit, Verdict, decide
from echelon.engine.blocked_certificates import Certificates
from echelon.testing.placement import (
    LEVELS,
    NOW,
    ClusterBuilder,
    amounts,
    composite,
    exclusive,
    fresh_id,
    gang,
    pods,
    tolerate,
)
from tests.forced_ways import with_wide_domains_from

PRIORITIES = (10, 20, 50, 60)
KEYS = (None, None, "zone", "rack", "rack", "host", "pool")
EVENTS = (
    "end", "end", "end", "end", "start", "start", "keep", "leave", "rank", "grow", "cordon", "taint", "label",
    "add", "remove",
)  # fmt: skip


@dataclass
class Story:
    cluster: ClusterBuilder
    demands: list[Demand]
    certificates: Certificates = field(init=False)
    added: int = 0
    #: How many certificates there were, how often one spared a decision, and how often it was void in vain.
    certain: int = 0
    spared: int = 0
    vain: int = 0

    def __post_init__(self) -> None:
        self.certificates = Certificates(self.cluster.view)
        self.waiting: dict[int, bool] = {}
        for number in range(len(self.demands)):
            self.ask(number)

    def ask(self, number: int) -> Verdict:
        """Decide, and keep the certificate if it is blocked."""
        verdict = self.decide(self.demands[number])
        self.waiting.pop(number, None)
        self.certificates.remove(number)
        if not isinstance(verdict, Blocked):
            assert not self.certificates.add(number, self.demands[number], None), "counting proved what is not so"
        else:
            self.waiting[number] = self.certificates.add(number, self.demands[number], verdict)
            self.certain += self.waiting[number]
        return verdict

    def decide(self, demand: Demand) -> Verdict:
        """As the scheduler asks: places that are reserved for someone less important are no obstacle."""
        view = self.cluster.view
        verdict = decide(view, demand, NOW, self.cluster.limits)
        reserved = [pod for pod in view.all_running() if pod.coming and not pod.evictable]
        kept = [pod for pod in reserved if self.rank(pod.unit) < demand.priority]
        if isinstance(verdict, Blocked) and kept:
            with view.without(kept):
                return decide(view, demand, NOW, self.cluster.limits)
        return verdict

    def rank(self, unit: int) -> int:
        found = self.cluster.view.unit(unit)
        return found.priority if found else 0

    def check(self) -> None:
        void = self.certificates.broken()
        for number, certain in list(self.waiting.items()):
            if certain and number not in void:
                verdict = self.decide(self.demands[number])
                assert isinstance(verdict, Blocked), f"nobody woke {self.demands[number]}: {verdict}"
                self.spared += 1
            else:
                self.vain += certain and isinstance(self.ask(number), Blocked)
        for number in range(len(self.demands)):
            if number not in self.waiting:
                self.ask(number)

    def happen(self, rng: Random) -> None:
        """One event, of which a demand of ours is no part."""
        what, view = rng.choice(EVENTS), self.cluster.view
        own = {one.member for demand in self.demands for leaf in demand.leaves() for one in leaf.bound}
        strangers = [pod for pod in view.all_running() if pod.pod not in own]
        names = view.node_names()
        if what == "add":
            self.added += 1
            _add_node(self.cluster, f"m{self.added}", rng)
        elif what in ("end", "leave", "rank") and strangers:
            pod = rng.choice(strangers)
            if what == "end":
                view.unbind(pod.pod)
            elif what == "leave":
                view.bind(pod._replace(evictable=False))
            else:
                view.put_unit(Unit(pod.unit, rng.choice(PRIORITIES)))
        elif names:
            node = view.node(rng.choice(names))
            assert node is not None
            self._happen_to(node, what, rng)

    def _happen_to(self, node: Node, what: str, rng: Random) -> None:
        view, priority = self.cluster.view, rng.choice(PRIORITIES)
        match what:
            case "start":
                alone = exclusive("rack", 7) if rng.random() < 0.4 else None
                group = fresh_id() if alone else -1
                self.cluster.run(node.name, cpu=rng.randint(1, 2), priority=priority, group=group, exclusive=alone)
            case "keep":
                self.cluster.run(node.name, cpu=1, priority=priority, coming=True, evictable=rng.random() < 0.5)
            case "remove":
                view.remove_node(node.name)
            case "grow":
                view.put_node(replace(node, allocatable=dict(amounts(cpu=rng.randint(0, 5), pods=110))))
            case "cordon":
                view.put_node(replace(node, unschedulable=not node.unschedulable))
            case "taint":
                view.put_node(replace(node, taints=() if node.taints else (Taint("k", "v", "NoSchedule"),)))
            case "label":
                key, values = rng.choice([(LEVELS["rack"], "12"), (LEVELS["zone"], "ab"), ("pool", "xy")])
                view.put_node(replace(node, labels={**node.labels, key: rng.choice(values)}))


def _add_node(cluster: ClusterBuilder, name: str, rng: Random) -> None:
    domains = {level: rng.choice(values) for level, values in (("zone", "ab"), ("rack", "12")) if rng.random() < 0.9}
    labels = {"pool": rng.choice("xy")} if rng.random() < 0.7 else {}
    cluster.node(name, cpu=rng.randint(1, 4), labels=labels, cordoned=rng.random() < 0.1, **domains)


def _leaf(cluster: ClusterBuilder, rng: Random, most: int) -> Leaf:
    classes = []
    for _ in range(2 if rng.random() < 0.2 else 1):
        fields: dict[str, object] = {}
        if rng.random() < 0.2:
            fields["node_selector"] = (("pool", "x"),)
        if rng.random() < 0.2:
            fields["tolerations"] = tolerate("k")
        classes.append(pods(rng.randint(1, most), cpu=rng.randint(1, 3), **fields))
    alone = exclusive("rack", 7) if rng.random() < 0.2 else None
    leaf = gang(1, *classes, key=rng.choice(KEYS), exclusive=alone)
    bound = ()
    if rng.random() < 0.25:
        member, node = fresh_id(), rng.choice(cluster.view.node_names())
        cluster.run(node, cpu=1, priority=100, pod=member, group=leaf.id, exclusive=alone)
        bound = (Bound(member, node),)
    everyone = len(bound) + sum(len(one.members) for one in classes)
    return replace(leaf, min_count=rng.randint(1, everyone) if rng.random() < 0.4 else everyone, bound=bound)


def _tree(cluster: ClusterBuilder, rng: Random, depth: int) -> Group:
    if not depth or rng.random() < 0.6:
        return _leaf(cluster, rng, 6 if depth else 3)
    children = [_tree(cluster, rng, depth - 1) for _ in range(rng.randint(1, 3))]
    return composite(rng.randint(1, len(children)), *children, key=rng.choice(KEYS))


def _story(seed: int) -> tuple[Story, Random]:
    cluster, rng = ClusterBuilder(limits=Limits(fixes=0)), Random(seed)
    for number in range(rng.randint(2, 7)):
        _add_node(cluster, f"n{number}", rng)
    for name in cluster.view.node_names():
        unit = fresh_id()
        for _ in range(rng.randint(0, 3)):
            cluster.run(name, cpu=1, priority=rng.choice(PRIORITIES), unit=unit if rng.random() < 0.3 else None)
    trees = [_tree(cluster, rng, 2) for _ in range(4)]
    return Story(cluster, [Demand(tree, rng.choice((20, 50, 50)), rng.random() < 0.6) for tree in trees]), rng


def _live(seed: int, events: int = 40) -> Story:
    story, rng = _story(seed)
    for _ in range(events):
        story.happen(rng)
        if rng.random() < 0.7:
            story.check()
    return story


@pytest.mark.parametrize("seed", range(24))
def test_no_demand_that_fits_is_left_asleep(seed: int) -> None:
    _live(seed)


@pytest.mark.parametrize("seed", range(24, 36))
def test_nor_where_slots_of_wide_domains_are_bounded_instead_of_counted(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_wide_domains_from(monkeypatch, 1)
    _live(seed)


@pytest.mark.parametrize("nodes", [256, 1])
def test_certificates_spare_most_decisions(nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with_wide_domains_from(monkeypatch, nodes)
    stories = [_live(seed, 15) for seed in range(5)]
    spared, vain = sum(story.spared for story in stories), sum(story.vain for story in stories)
    assert spared >= 20
    assert spared > 3 * vain > 0
