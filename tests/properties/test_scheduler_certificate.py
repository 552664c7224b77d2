"""Whatever happens to a cluster: when the engine says that a blocked demand fits now, its certificate was void before.

Several demands wait on one small cluster while pods end, start and change rank, places are kept and given up, and
nodes come, go and change; every now and then it is asked whose certificates are void, as the scheduler does.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from engine_instances import contested, instances, trees
from hierarchies import examples
from hypothesis import given
from hypothesis import strategies as st

from echelon.engine import prospects
from echelon.engine.cycle import decide
from echelon.engine.demand import Demand, Taint
from echelon.engine.verdict import Blocked, Verdict
from echelon.engine.view import Unit
from echelon.scheduler.certificate import Certificates
from echelon.testing.placement import LEVELS, NOW, Cluster, amounts

PRIORITIES = (10, 20, 50, 60)
#: What happens, to which of those there are, and how much.
Event = tuple[str, int, int]
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["end", "end", "end", "start", "keep", "leave", "rank", "grow", "cordon", "taint", "label", "add", "remove"]
        ),
        st.integers(0, 50),
        st.integers(0, 50),
    ),
    min_size=1,
    max_size=14,
)


@dataclass
class Story:
    cluster: Cluster
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
        """As the scheduler asks: places that are kept for someone less important are no obstacle."""
        view = self.cluster.view
        verdict = decide(view, demand, NOW)
        kept = [pod for pod in view.all_running() if pod.coming and self.rank(pod.unit) < demand.priority]
        if isinstance(verdict, Blocked) and kept:
            with view.without(kept):
                return decide(view, demand, NOW)
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

    def happen(self, event: Event) -> None:
        what, which, amount = event
        view = self.cluster.view
        names = view.node_names()
        own = {one.member for demand in self.demands for leaf in demand.leaves() for one in leaf.bound}
        strangers = [pod for pod in view.all_running() if pod.pod not in own]
        node = view.node(names[which % len(names)]) if names else None
        if what == "add":
            self.added += 1
            self.cluster.node(f"m{self.added}", cpu=amount % 5, zone="ab"[which % 2], rack="12"[amount % 2])
        elif strangers and what in ("end", "leave", "rank"):
            pod = strangers[which % len(strangers)]
            if what == "end":
                view.unbind(pod.pod)
            elif what == "leave":
                view.bind(pod._replace(evictable=False))
            else:
                view.put_unit(Unit(pod.unit, PRIORITIES[amount % 4]))
        elif node is not None and what in ("start", "keep"):
            kept = what == "keep"
            self.cluster.run(
                node.name, cpu=1, priority=PRIORITIES[amount % 4], coming=kept, evictable=not kept or amount > 25
            )
        elif node is not None and what == "remove":
            view.remove_node(node.name)
        elif node is not None and what == "grow":
            view.put_node(replace(node, allocatable=dict(amounts(cpu=amount % 6, pods=110))))
        elif node is not None and what == "cordon":
            view.put_node(replace(node, unschedulable=not node.unschedulable))
        elif node is not None and what == "taint":
            view.put_node(replace(node, taints=() if node.taints else (Taint("k", "v", "NoSchedule"),)))
        elif node is not None and what == "label":
            key, value = [(LEVELS["rack"], "12"), (LEVELS["zone"], "ab"), ("pool", "xy")][amount % 3]
            view.put_node(replace(node, labels={**node.labels, key: value[which % 2]}))


@st.composite
def stories(draw: st.DrawFn) -> Story:
    mixed = draw(st.booleans())
    cluster, first = draw(st.one_of(instances(mixed), contested(mixed)))
    demands = [first]
    for _ in range(draw(st.integers(0, 2))):
        root = draw(trees(cluster, mixed, depth=draw(st.integers(0, 1)), most=draw(st.sampled_from([3, 3, 8]))))
        demands.append(Demand(root, draw(st.sampled_from([0, 50])), draw(st.booleans())))
    return Story(cluster, demands)


@examples(160)
@given(stories(), EVENTS, st.integers(1, 3))
def test_nobody_who_fits_is_left_asleep(story: Story, events: list[Event], burst: int) -> None:
    for number, event in enumerate(events, 1):
        story.happen(event)
        if number % burst == 0:
            story.check()
    story.check()


@examples(60)
@given(stories(), EVENTS)
def test_nor_where_slots_of_wide_domains_are_bounded_instead_of_counted(story: Story, events: list[Event]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prospects, "WIDE", 1)
        for event in events:
            story.happen(event)
            story.check()
