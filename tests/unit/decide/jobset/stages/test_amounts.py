"""What stages request: one by one, in sum, and at most at the same time."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echelon.api.scheme import Object
from echelon.base import quantity
from echelon.decide.jobset.stages import amounts
from echelon.decide.jobset.stages.partition import stages_of
from tests.unit.decide.jobset.stage import jobset, model, replicated


def gpus(name: str, count: int, **extra: Any) -> Object:
    container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": str(count)}}}
    return replicated(name, pod={"containers": [container]}, **extra)


def peak(*entries: Object) -> dict[str, str]:
    js = model(jobset(*entries))
    needs = {rj.name: amounts.requests_of(js, rj, rj.pods) for rj in js.replicated}
    return amounts.peak(js, stages_of(js), needs)


def depends(**on: str) -> list[Object]:
    return [{"name": name, "status": status} for name, status in on.items()]


def test_stages_one_after_the_other_need_the_largest() -> None:
    chain = [gpus("a", 2), gpus("b", 8, dependsOn=depends(a="Complete")), gpus("c", 1, dependsOn=depends(b="Complete"))]
    assert peak(*chain) == {"nvidia.com/gpu": "8", "pods": "1"}


def test_what_runs_beside_each_other_adds_up() -> None:
    assert peak(gpus("a", 2), gpus("b", 8, dependsOn=depends(a="Ready"))) == {"nvidia.com/gpu": "10", "pods": "2"}


def test_branches_add_up_and_each_resource_has_its_own_peak() -> None:
    entries = [
        gpus("data", 0, replicas=5),
        gpus("left", 4, dependsOn=depends(data="Complete")),
        gpus("far-left", 8, dependsOn=depends(left="Complete")),
        gpus("right", 3, dependsOn=depends(data="Ready")),
    ]
    assert peak(*entries) == {"nvidia.com/gpu": "11", "pods": "6"}


def test_what_one_chain_could_use_is_left_to_another_that_needs_it() -> None:
    """a before c and d, b before c alone: with a → c, b would find nothing; a → d leaves c to b."""
    entries = [gpus("a", 1), gpus("b", 1)]
    entries += [
        gpus("c", 1, dependsOn=depends(a="Complete", b="Complete")),
        gpus("d", 1, dependsOn=depends(a="Complete")),
    ]
    assert peak(*entries)["nvidia.com/gpu"] == "2"


def test_chains_make_room_for_each_other_over_several_steps() -> None:
    """a → x and b → y leave nothing for c, which is before x alone: a moves to y, b to z."""
    entries = [gpus(name, 1) for name in "abc"]
    entries.append(gpus("x", 1, dependsOn=depends(a="Complete", c="Complete")))
    entries.append(gpus("y", 1, dependsOn=depends(a="Complete", b="Complete")))
    entries.append(gpus("z", 1, dependsOn=depends(b="Complete")))
    assert peak(*entries)["nvidia.com/gpu"] == "3"


def test_requests_follow_limits_and_count_every_pod() -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"memory": "2Gi"}, "limits": {"cpu": "500m"}}}
    js = model(jobset(replicated("a", 2, 3, pod={"containers": [container]})))
    (rj,) = js.replicated
    assert amounts.requests_of(js, rj, rj.pods) == {"cpu": "3", "memory": "12Gi", "pods": "6"}


def test_amounts_that_are_none_are_left_out() -> None:
    """Templates are stored as they come; their Jobs are refused later."""
    amounts_ = {"cpu": "lots", "memory": "-1Gi", "ephemeral-storage": ["1"]}
    container = {"name": "c", "image": "i", "resources": {"requests": amounts_, "limits": None}}
    js = model(jobset(replicated("a", pod={"containers": [container], "overhead": {"cpu": "x"}})))
    assert amounts.requests_of(js, js.replicated[0], 1) == {"pods": "1"}


EDGES = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 7), st.sampled_from(["Ready", "Complete", "Complete", "Complete"])),
    max_size=16,
)


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), EDGES)
def test_the_peak_is_that_of_the_heaviest_set_by_brute_force(
    weights: list[int], edges: list[tuple[int, int, str]]
) -> None:
    on: dict[int, dict[str, str]] = {index: {} for index in range(len(weights))}
    for first, second, status in edges:
        if first < second < len(weights) and len(on[second]) < 5:
            on[second][f"r{first}"] = status
    entries = [
        gpus(f"r{index}", weight, **({"dependsOn": depends(**on[index])} if on[index] else {}))
        for index, weight in enumerate(weights)
    ]
    js = model(jobset(*entries))
    stages = stages_of(js)
    after = {rj.name: {f"r{n}" for n in range(8) if stage.after >> n & 1} for stage in stages for rj in stage.members}
    names = [rj.name for rj in js.replicated]
    heaviest = max(
        sum(weights[int(name[1:])] for name in chosen)
        for size in range(1, len(names) + 1)
        for chosen in combinations(names, size)
        if not any(one in after[other] for one in chosen for other in chosen)
    )
    needs = {rj.name: amounts.requests_of(js, rj, rj.pods) for rj in js.replicated}
    assert quantity.exact(amounts.peak(js, stages, needs).get("nvidia.com/gpu", "0")) == quantity.exact(str(heaviest))


def test_a_negative_number_of_pods_requests_nothing() -> None:
    entry = gpus("a", 1)
    entry["template"]["spec"]["parallelism"] = entry["template"]["spec"]["completions"] = -2
    assert peak(entry, gpus("b", 1, dependsOn=depends(a="Complete"))) == {"nvidia.com/gpu": "1", "pods": "1"}


@pytest.mark.parametrize(("amount", "count", "expected"), [("500m", 3, "1500m"), ("2Gi", 512, "1Ti"), ("1", 0, "0")])
def test_multiples_keep_their_notation(amount: str, count: int, expected: str) -> None:
    assert quantity.times(amount, count) == expected
