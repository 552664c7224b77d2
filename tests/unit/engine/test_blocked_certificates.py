"""What voids the certificate of a blocked demand, and what does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from echelon.engine import Bound, Demand, Group, Identity, Peers, PodTerm, Requirement, Taint
from echelon.engine.blocked_certificates import Certificates, needs_of
from echelon.testing.placement import (
    LEVELS,
    ClusterBuilder,
    blocked,
    composite,
    exclusive,
    fresh_id,
    gang,
    judged,
    pods,
)


class Waiting:
    """One demand that waits on a cluster of two racks of four nodes, a pod of its own on each."""

    def __init__(self, root: Group, *, running: int = 0, priority: int = 0, may_preempt: bool = True) -> None:
        self.cluster = ClusterBuilder()
        self.pods: dict[str, int] = {}
        for rack in ("r1", "r2"):
            for number in range(4):
                name = f"{rack}-{number}"
                self.cluster.node(name, cpu=4, rack=rack)
                self.pods[name] = fresh_id()
                self.cluster.run(name, cpu=4, priority=running, pod=self.pods[name])
        demand = Demand(root, priority, may_preempt)
        self.certificates = Certificates(self.cluster.view)
        assert self.certificates.add(1, demand, blocked(judged(self.cluster.view, demand)))

    def after_end_on(self, *nodes: str) -> bool:
        """Whether the certificate is void when these pods have ended."""
        for name in nodes:
            self.cluster.view.unbind(self.pods[name])
        return bool(self.certificates.broken())


def test_as_many_nodes_as_it_needs_must_be_free() -> None:
    waiting = Waiting(gang(3, pods(3, cpu=3)))
    assert [waiting.after_end_on(name) for name in ("r1-0", "r2-1", "r1-3")] == [False, False, True]


def test_in_one_rack_if_it_needs_them_there() -> None:
    waiting = Waiting(gang(2, pods(2, cpu=3), key="rack"))
    assert not waiting.after_end_on("r1-0")
    assert not waiting.after_end_on("r2-0")
    assert waiting.after_end_on("r1-1")


def test_what_others_took_meanwhile_counts() -> None:
    waiting = Waiting(gang(2, pods(2, cpu=3)))
    assert not waiting.after_end_on("r1-0")
    waiting.cluster.run("r1-0", cpu=4)
    assert not waiting.after_end_on("r1-1")


def test_every_group_above_must_have_enough() -> None:
    tree = composite(2, gang(2, pods(2, cpu=3)), gang(1, pods(1, cpu=3)), key="rack")
    waiting = Waiting(tree)
    assert not waiting.after_end_on("r1-0", "r1-1")
    assert not waiting.after_end_on("r2-0", "r2-1")
    assert waiting.after_end_on("r1-2")


def test_pods_that_it_could_have_evicted_anyway_do_not_matter() -> None:
    waiting = Waiting(gang(9, pods(9, cpu=3)), running=-5)
    assert not waiting.after_end_on("r1-0", "r1-1", "r2-0")
    waiting.cluster.node("new", cpu=4)
    assert waiting.certificates.broken()


def test_a_node_that_none_of_its_pods_may_use_does_not_matter() -> None:
    waiting = Waiting(gang(1, pods(1, cpu=3)))
    waiting.cluster.node("tainted", cpu=64, taints=(Taint("k", "v", "NoSchedule"),))
    waiting.cluster.node("cordoned", cpu=64, cordoned=True)
    waiting.cluster.node("small", cpu=2)
    assert not waiting.certificates.broken()
    waiting.cluster.node("cordoned", cpu=64)
    assert waiting.certificates.broken()


def test_members_that_run_say_which_rack_matters_and_when_they_move_so_does_it() -> None:
    leaf = gang(2, pods(1, cpu=3), key="rack", bound=(Bound(fresh_id(), "r1-3"),))
    waiting = Waiting(leaf)
    assert not waiting.after_end_on("r2-0", "r2-1")
    node = waiting.cluster.view.node("r1-3")
    assert node is not None
    waiting.cluster.view.put_node(replace(node, labels={**node.labels, LEVELS["rack"]: "r2"}))
    assert waiting.certificates.broken()


def test_a_unit_that_has_become_less_important_is_room() -> None:
    waiting = Waiting(gang(1, pods(1, cpu=3)), running=5, priority=5)
    view = waiting.cluster.view
    unit = view.pods_on("r1-0")[0].unit
    known = view.unit(unit)
    assert known is not None
    view.put_unit(replace(known, priority=1))
    assert waiting.certificates.broken()


def test_once_it_is_removed_nothing_is_left_of_it() -> None:
    waiting = Waiting(gang(3, pods(3, cpu=3)))
    assert waiting.after_end_on("r1-0", "r1-1", "r1-2")
    waiting.certificates.remove(1)
    assert not waiting.certificates.broken()
    assert not len(waiting.certificates)


_SELF = PodTerm(LEVELS["host"], Peers((Requirement("app", "In", ("a",)),), ("",)))


@pytest.mark.parametrize(
    "root",
    [
        gang(1, pods(1, cpu=9), exclusive=exclusive("rack")),
        gang(1, pods(1, cpu=9, anti_affinity=(_SELF,), identity=Identity("", (("app", "a"),)))),
        composite(1, gang(1, pods(1, cpu=9)), gang(1, pods(1, cpu=9), exclusive=exclusive("rack"))),
    ],
    ids=["exclusive", "anti-affinity", "child"],
)
def test_where_counting_does_not_tell_there_is_no_certificate(root: Group) -> None:
    cluster = ClusterBuilder().node("n", cpu=4, rack="r")
    assert needs_of(cluster.view, Demand(root)) is None


def test_nor_is_there_one_for_what_neither_the_engine_nor_counting_has_proved() -> None:
    """Room for both shapes by themselves, and for nothing but one of them together."""
    cluster = ClusterBuilder().node("n", cpu=4)
    demand = Demand(gang(2, pods(1, cpu=3), pods(1, cpu=2)))
    verdict = blocked(judged(cluster.view, demand))
    certificates = Certificates(cluster.view)
    assert not certificates.add(1, demand, replace(verdict, proved=False))
    assert not certificates.add(1, demand, None)
    assert certificates.add(1, demand, verdict)
    cluster.run("n", cpu=1, priority=-1)
    assert not certificates.add(2, demand, verdict), "it may be that somebody could be evicted"
