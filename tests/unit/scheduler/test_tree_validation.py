"""Trees that may not be scheduled, and the link that is named for each."""

from __future__ import annotations

import pytest

from echelon.api.scheme import Object
from echelon.api.views.group_views import CompositePodGroupView, GroupView, PodGroupView, WorkloadView
from echelon.scheduler.asking.tree_validation import problem_of
from echelon.scheduler.intake.forest import Forest, Ids
from echelon.scheduler.intake.group_policy import Problem
from echelon.scheduler.intake.group_tree import GroupNode
from echelon.testing.builders import composite_template, group_template, make_composite, make_pod_group, make_workload

WORKLOAD = make_workload("w", composite_template("root", composite_template("mid", group_template("leaf"))))


def view_of(group: Object) -> GroupView:
    return (PodGroupView if group["kind"] == "PodGroup" else CompositePodGroupView)(group)


def _root(*groups: Object) -> GroupNode:
    """The root of the last group given, all of them being known."""
    forest = Forest(Ids())
    for group in groups:
        last = forest.put(view_of(group))
    return forest.root(last)


def _problem(*groups: Object, workload: Object | None = None) -> Problem | None:
    return problem_of(_root(*groups), lambda namespace, name: None if workload is None else WorkloadView(workload))


def _chain(levels: int) -> list[Object]:
    """A tree of that many levels, composites over one PodGroup."""
    composites = [make_composite(f"c{n}", parent=f"c{n - 1}" if n else "") for n in range(levels - 1)]
    return [*composites, make_pod_group("leaf", parent=f"c{levels - 2}")]


@pytest.mark.parametrize("levels", [2, 3, 4])
def test_up_to_four_levels_are_sound(levels: int) -> None:
    assert _problem(*_chain(levels)) is None


def test_depth_five_is_refused() -> None:
    problem = _problem(*_chain(5))
    assert problem == Problem("PodGroup/leaf is at level 5 below CompositePodGroup/c0, but a tree has at most 4 levels")


def test_a_cycle_is_named_and_has_one_root_wherever_one_asks() -> None:
    groups = [make_composite("a", parent="b"), make_composite("b", parent="a"), make_pod_group("leaf", parent="b")]
    forest = Forest(Ids())
    placed = [forest.put(view_of(group)) for group in groups]
    assert {forest.root(group).key.name for group in placed} == {"a"}
    problem = problem_of(forest.root(placed[2]), lambda namespace, name: None)
    assert problem is not None
    assert not problem.waiting
    assert "CompositePodGroup/a → CompositePodGroup/b → CompositePodGroup/a" in problem.text


def test_a_missing_parent_is_waited_for() -> None:
    problem = _problem(make_pod_group("leaf", parent="top"))
    assert problem == Problem(
        "waiting for CompositePodGroup/top, the parent of PodGroup/leaf, to be created; "
        "fix: create CompositePodGroup top",
        waiting=True,
    )


def test_several_workloads_in_one_tree() -> None:
    problem = _problem(make_composite("root", workload="w1"), make_pod_group("leaf", parent="root", workload="w2"))
    assert problem is not None
    assert "PodGroup/leaf belongs to Workload/w2" in problem.text
    assert "root CompositePodGroup/root to Workload/w1" in problem.text


def test_mixed_priorities() -> None:
    problem = _problem(make_composite("root", priority=10), make_pod_group("leaf", parent="root", priority=5))
    assert problem is not None
    assert "PodGroup/leaf has priority 5" in problem.text


def test_a_tree_that_follows_its_workload_is_sound() -> None:
    groups = [
        make_composite("r", template="root"),
        make_composite("m", template="mid", parent="r"),
        make_pod_group("l0", template="leaf", parent="m"),
        make_pod_group("l1", template="leaf", parent="m"),
    ]
    assert _problem(*groups, workload=WORKLOAD) is None


@pytest.mark.parametrize(
    ("leaf", "said"),
    [
        (make_pod_group("l", template="other", parent="m"), "template other, which Workload/w does not have"),
        (make_pod_group("l", template="leaf", parent="r"), "does not have below root, the template of its parent"),
    ],
    ids=["unknown template", "template elsewhere"],
)
def test_a_tree_that_does_not_match_its_workload(leaf: Object, said: str) -> None:
    groups = [make_composite("r", template="root"), make_composite("m", template="mid", parent="r"), leaf]
    problem = _problem(*groups, workload=WORKLOAD)
    assert problem is not None
    assert said in problem.text


def test_parents_may_arrive_after_their_children_and_leave_before_them() -> None:
    forest = Forest(Ids())
    leaf = forest.put(view_of(make_pod_group("leaf", parent="mid")))
    assert forest.root(leaf).key.name == "mid"
    forest.put(view_of(make_composite("mid", parent="root")))
    assert forest.root(leaf).key.name == "root"
    root = forest.put(view_of(make_composite("root")))
    assert root.obj is not None
    assert forest.root(leaf) is root
    forest.remove(view_of(make_composite("mid")))
    assert forest.root(leaf).key.name == "mid"
    assert not root.children
