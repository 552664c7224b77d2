"""What runs together and what runs one after the other."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echelon.api.scheme import Object
from echelon.decide.jobset.stages.partition import stages_of
from tests.unit.decide.jobset.stage import jobset, model, replicated


def after(name: str, **dependencies: str) -> Object:
    """A replicated job with dependencies by name."""
    return replicated(name, dependsOn=[{"name": on, "status": status} for on, status in dependencies.items()])


def stages(*entries: Object, **spec: Any) -> list[str]:
    return [stage.title for stage in stages_of(model(jobset(*entries, **spec)))]


PIPELINE = (replicated("data"), replicated("train"), replicated("eval"))


@pytest.mark.parametrize(
    ("entries", "spec", "expected"),
    [
        (PIPELINE, {}, ["data+train+eval"]),
        (PIPELINE, {"executionPolicy": {}}, ["data+train+eval"]),
        (PIPELINE, {"startupPolicy": {"startupPolicyOrder": "InOrder"}}, ["data+train+eval"]),
        (PIPELINE, {"executionPolicy": {"executionPolicyOrder": "InOrder"}}, ["data", "train", "eval"]),
    ],
)
def test_orders_of_the_whole_jobset(entries: tuple[Object, ...], spec: Any, expected: list[str]) -> None:
    assert stages(*entries, **spec) == expected


@pytest.mark.conformance("JS-S16")
def test_ready_dependencies_join_and_complete_dependencies_separate() -> None:
    chain = [replicated("data"), after("launcher", data="Complete"), after("workers", launcher="Ready")]
    assert stages(*chain, after("eval", workers="Complete")) == ["data", "launcher+workers", "eval"]


@pytest.mark.conformance("JS-S17")
def test_equal_prerequisites_are_one_stage() -> None:
    assert stages(replicated("a"), after("b", a="Complete"), after("c", a="Complete")) == ["a", "b+c"]


def test_prerequisites_count_near_and_far() -> None:
    """c names a as well, which b implies: the same set."""
    chain = [replicated("a"), after("b", a="Complete"), after("c", a="Complete", b="Complete")]
    assert stages(*chain, after("d", b="Complete")) == ["a", "b", "c+d"]


def test_a_ready_dependency_hands_its_prerequisites_on() -> None:
    chain = [replicated("a"), after("b", a="Complete"), after("c", b="Ready"), after("d", a="Complete")]
    assert stages(*chain) == ["a", "b+c+d"]


def test_what_runs_between_two_members_of_a_stage_belongs_to_it() -> None:
    """b starts beside a, but only after x, which follows a."""
    chain = [replicated("a"), after("x", a="Complete"), after("b", a="Ready", x="Complete"), after("y", x="Complete")]
    assert stages(*chain) == ["a+x+b", "y"]


def test_a_stage_between_members_is_found_through_others() -> None:
    chain = [replicated("a"), after("b", a="Complete"), after("c", b="Ready"), after("d", b="Complete")]
    assert stages(*chain, after("e", a="Ready", d="Complete"), after("f", c="Complete")) == ["a+b+3 more", "f"]


def before(*entries: Object, **spec: Any) -> list[list[str]]:
    """For each stage, what is complete before it begins."""
    js = model(jobset(*entries, **spec))
    names = [rj.name for rj in js.replicated]
    return [[name for number, name in enumerate(names) if stage.after >> number & 1] for stage in stages_of(js)]


def test_a_stage_begins_after_what_all_its_members_need() -> None:
    chain = [replicated("a"), after("b", a="Complete"), after("c", b="Complete"), after("d", c="Ready")]
    assert before(*chain) == [[], ["a"], ["a", "b"]]
    assert before(*chain[:2], after("c", a="Complete"), after("d", b="Ready")) == [[], ["a"]]
    assert before(*chain[:2], replicated("x"), after("c", b="Complete", x="Complete"), after("d", c="Ready")) == [
        [],
        ["a"],
        ["a", "b", "x"],
    ]


def test_a_chain_by_execution_policy_begins_after_all_earlier_entries() -> None:
    order = {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": "Succeeded"}
    assert before(*PIPELINE, executionPolicy=order) == [[], ["data"], ["data", "train"]]


def test_no_entries_are_no_stages() -> None:
    bare = jobset()
    bare["spec"]["replicatedJobs"] = []
    assert stages_of(model(bare)) == ()


EDGES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.sampled_from(["Ready", "Complete"])), max_size=14)


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(st.integers(1, 7), EDGES)
def test_stages_are_as_the_definition_says(size: int, edges: list[tuple[int, int, str]]) -> None:
    """Who can reach each other through "needs" is together, and so is who needs the same to be complete."""
    numbers = range(size)
    status = {(later, first): what for first, later, what in edges if first < later < size}
    needs = {(later, first) for later, first in status}
    needs |= {(first, later) for (later, first), what in status.items() if what == "Ready"} | {(n, n) for n in numbers}
    complete = {(later, first) for (later, first), what in status.items() if what == "Complete"}
    for via in numbers:
        needs |= {(a, b) for a in numbers for b in numbers if (a, via) in needs and (via, b) in needs}
    before: dict[int, set[int]] = {}
    for n in numbers:
        before[n] = {first for later, first in complete if later == n}
        before[n] |= {far for later, first in status if later == n for far in before[first]}
    together = {frozenset(b for b in numbers if (a, b) in needs and (b, a) in needs) for a in numbers}
    expected: dict[object, frozenset[int]] = {}
    for members in together:
        needed = frozenset().union(*(before[n] for n in members))
        key = members if needed & members else needed
        expected[key] = expected.get(key, frozenset()) | members
    entries = [
        after(f"r{n}", **{f"r{first}": what for (later, first), what in status.items() if later == n}) for n in numbers
    ]
    js = model(jobset(*entries))
    found = {frozenset(int(rj.name[1:]) for rj in stage.members): stage.after for stage in stages_of(js)}
    assert found == {
        members: sum(1 << n for n in set.intersection(*(before[one] for one in members)))
        for members in expected.values()
    }


def test_thousands_of_stages_are_found_quickly() -> None:
    many = [replicated("r0"), *(after(f"r{n}", **{f"r{n - 1}": "Complete"}) for n in range(1, 2000))]
    assert len(stages(*many)) == 2000


def test_the_title_of_a_large_stage_is_short() -> None:
    assert stages(*(replicated(name) for name in "abcde")) == ["a+b+3 more"]
