"""The judge on clusters of many nodes that are alike: proofs confirmed, false ones contradicted."""

from __future__ import annotations

import ast
from pathlib import Path
from random import Random

import pytest

import echelon.engine
from echelon.engine import Blocked, Demand, Group, judge, problems
from echelon.engine.explain.diagnose import shortages
from echelon.testing.placement import NOW, ClusterBuilder, composite, gang, pods


def racks(*sizes: int, per_block: int = 4) -> ClusterBuilder:
    """Racks of so many nodes of 8 GPUs."""
    cluster = ClusterBuilder()
    for number, size in enumerate(sizes):
        cluster.nodes(f"r{number}", size, cpu=8, gpu=8, block=f"b{number // per_block}", rack=f"r{number}")
    return cluster


def rack_gangs(*sizes: int) -> list[Group]:
    return [gang(size, pods(size, gpu=8), key="rack") for size in sizes]


def mixed(large: int, small: int) -> Group:
    return gang(large + small, pods(large, gpu=5, cpu=3), pods(small, gpu=3, cpu=5), key="rack")


#: Racks, and demands of which each adds up to what is free but one cannot be cut from it and the other can.
CASES = {
    "gangs of one size": (racks(10, 10, 10, 10), rack_gangs(*[6] * 5), rack_gangs(*[5] * 8)),
    "gangs of three sizes": (racks(*[20] * 8), rack_gangs(*[7] * 22), rack_gangs(*[7] * 8, *[13] * 8)),
    "blocks": (
        racks(*[10] * 8),
        [composite(5, *rack_gangs(6, 6, 6, 6, 4), key="block"), composite(5, *rack_gangs(8, 7, 7, 7, 4), key="block")],
        [composite(5, *rack_gangs(6, 6, 6, 6, 4), key="block"), composite(4, *rack_gangs(8, 7, 7, 7), key="block")],
    ),
    "some of the children": (
        racks(*[10] * 6),
        [composite(3, *rack_gangs(11, 11, 9, 8), key="block"), *rack_gangs(9)],
        [composite(2, *rack_gangs(11, 11, 9, 8), key="block"), *rack_gangs(9)],
    ),
    "mixed pods": (racks(*[15] * 4), [mixed(16, 1) for _ in range(3)], [mixed(15, 15) for _ in range(4)]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_proof_on_many_nodes_is_confirmed(name: str) -> None:
    cluster, impossible, _ = CASES[name]
    demand = Demand(composite(len(impossible), *impossible), may_preempt=False)
    verdict = cluster.decide(demand.root, may_preempt=False)
    assert isinstance(verdict, Blocked)
    assert verdict.proved
    assert judge(cluster.view, demand, verdict, NOW).confirmed


@pytest.mark.parametrize("name", CASES)
def test_a_false_proof_on_many_nodes_is_contradicted(name: str) -> None:
    """With the right numbers of this cluster, so that only a search can find it out."""
    cluster, _, possible = CASES[name]
    demand = Demand(composite(len(possible), *possible), may_preempt=False)
    false = Blocked(True, shortages(cluster.view, demand))
    assert "it is said to be impossible, but it can be placed" in problems(cluster.view, demand, false, NOW)


def test_what_takes_too_many_steps_is_not_confirmed_and_not_contradicted() -> None:
    rng = Random(3)
    cluster = racks(*(rng.randint(60, 99) for _ in range(9)))
    sizes = [rng.randint(20, 45) for _ in range(20)]
    root = composite(20, *(gang(size, pods(size, gpu=8), pods(1, cpu=1), key="rack") for size in sizes))
    judgement = judge(cluster.view, Demand(root), Blocked(True, (), preemption_tried=True), NOW)
    assert not any("impossible" in problem for problem in judgement.problems)
    assert not judgement.confirmed


@pytest.mark.parametrize("hidden", ["younger", "of lower priority", "under no budget"])
def test_a_loss_said_to_be_the_least_is_seen_among_many_units_if_someone_else_could_go(hidden: str) -> None:
    """A verdict from before some units were known; it was right then."""
    cluster = ClusterBuilder().nodes("n", 40, cpu=1)
    tight = cluster.budget(0)
    for number in range(30):
        cluster.run(f"n-{number}", cpu=1, priority=2, started=NOW - 50, budgets=(tight,))
    for number in range(30, 40):
        cluster.run(f"n-{number}", cpu=1, priority=99)
    demand = Demand(gang(2, pods(2, cpu=1)), priority=5)
    then = cluster.decide(demand.root, 5)
    assert problems(cluster.view, demand, then, NOW) == []
    for pod in [pod for pod in cluster.view.all_running() if pod.node in ("n-38", "n-39")]:
        cluster.view.unbind_all([pod.pod])
    for number in (38, 39):
        budgets = () if hidden == "under no budget" else (tight,)
        priority, age = 1 if hidden == "of lower priority" else 2, 5 if hidden == "younger" else 50
        cluster.run(f"n-{number}", cpu=1, priority=priority, started=NOW - age, budgets=budgets)
    assert any("would cost less" in problem for problem in problems(cluster.view, demand, then, NOW))


def test_the_judge_shares_no_code_with_the_search() -> None:
    """It reads the records of demand, verdict and view, and nothing else of the engine."""
    judges = sorted((Path(echelon.engine.__file__).parent / "check").glob("*.py"))
    assert len(judges) > 5
    own = {path.stem for path in judges} | {"records.demand", "records.reasons", "records.verdict", "cluster.view"}
    for path in judges:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level:
                assert node.module in own, f"{path.name} imports {node.module}"
