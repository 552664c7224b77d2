"""Ports of nodes: any pod may ask for any, and none is remembered for ever."""

from __future__ import annotations

from echelon.engine import (
    PORT,
    PORT_SHARES,
    Blocked,
    ClusterView,
    Demand,
    Leaf,
    Node,
    Placed,
    PodClass,
    Running,
    Shape,
    Unit,
    decide,
)


def _demand(port: int) -> Demand:
    asked = (("pods", 1), (f"{PORT}{port}/TCP", PORT_SHARES))
    return Demand(Leaf(1, 1, (PodClass(Shape(tuple(sorted(asked))), (1,)),)), 0, False)


def _place(view: ClusterView, port: int, pod: int) -> None:
    demand = _demand(port)
    verdict = decide(view, demand, 0.0)
    assert isinstance(verdict, Placed)
    (leaf,) = demand.leaves()
    view.put_unit(Unit(pod, 0, f"Pod/{pod}"))
    view.bind(Running(pod, verdict.assignment[1], leaf.classes[0].shape.requests, pod, 0.0))


def test_ports_that_no_pod_takes_any_more_cost_nothing() -> None:
    view = ClusterView(())
    view.put_node(Node("n1", {}, {"pods": 110}))
    _place(view, 80, pod=0)
    for number in range(1, 1000):
        _place(view, 1000 + number, pod=number)
        view.unbind(number)
    assert len(view.node_table.resources) < 200
    assert isinstance(decide(view, _demand(80), 0.0), Blocked), "one pod still has it"
    assert isinstance(decide(view, _demand(1001), 0.0), Placed)
    assert view.node_table.free[view.node_table.resources["pods"], 0] == 109
