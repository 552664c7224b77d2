"""Workload: the tree of templates, what holds over all of it, and that it never changes shape."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api import rules
from echelon.api.scheme import WORKLOADS, Object

from .builders import branch, edited, leaf, on_create, on_update, workload

TREE = workload(branch("block", branch("rack", leaf("a"), leaf("b")), leaf("c")))
C0 = "spec.compositePodGroupTemplates[0]"


@pytest.mark.conformance("SCH-205")
@pytest.mark.parametrize(
    "obj",
    [
        TREE,
        workload(leaf()),
        workload(*[leaf(f"t{i}") for i in range(8)]),
        workload(branch("l1", branch("l2", branch("l3", leaf())))),
        workload(leaf(), controllerRef={"apiGroup": "batch", "kind": "Job", "name": "j"}),
        workload(leaf("a", priority=5), leaf("b", priority=5)),
    ],
)
def test_a_good_workload_is_accepted(obj: Object) -> None:
    assert on_create(WORKLOADS, obj) == []


@pytest.mark.conformance("SCH-205")
@pytest.mark.parametrize(
    ("obj", "sentence"),
    [
        (workload(), 'spec: Invalid value: "": must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`'),
        (workload(leaf("a"), branch("b", leaf("c"))), "must specify exactly one of: `podGroupTemplates`"),
        (
            workload(*[leaf(f"t{i}") for i in range(9)]),
            "spec.podGroupTemplates: Too many: 9: must have at most 8 items",
        ),
        (workload(branch("b", *[leaf(f"t{i}") for i in range(9)])), f"{C0}.podGroupTemplates: Too many: 9"),
        (workload(leaf(), leaf()), 'spec.podGroupTemplates[1]: Duplicate value: {"name":"leaf"}'),
        (workload(branch("a", leaf("a"))), f'{C0}.podGroupTemplates[0].name: Duplicate value: "a"'),
        (
            workload(branch("a", leaf("x")), branch("b", leaf("x"))),
            '[1].podGroupTemplates[0].name: Duplicate value: "x"',
        ),
        (workload(leaf("Bad")), 'spec.podGroupTemplates[0].name: Invalid value: "Bad"'),
        (workload({"schedulingPolicy": {"gang": {"minCount": 1}}}), "spec.podGroupTemplates[0].name: Required value"),
        (workload(branch("a")), f'{C0}: Invalid value: "a": must have at least one child'),
        (
            workload(branch("l1", branch("l2", branch("l3", branch("l4", leaf()))))),
            f'{C0}: Invalid value: "l1": maximum template hierarchy depth is 4',
        ),
        (
            workload(leaf("a", priorityClassName="high"), leaf("b")),
            "spec: Invalid value: null: detected multiple priority configurations",
        ),
        (workload(branch("a", leaf("b", priority=1))), "detected multiple priority configurations"),
        (
            workload(leaf(schedulingPolicy={"gang": {"minCount": 0}})),
            "[0].schedulingPolicy.gang.minCount: Required value",
        ),
        (workload(leaf(), controllerRef={"kind": "Job"}), "spec.controllerRef.name: Required value"),
        (workload(leaf(), controllerRef={"kind": "a/b", "name": "j"}), "spec.controllerRef.kind: Invalid value"),
    ],
)
def test_a_bad_workload_is_refused(obj: Object, sentence: str) -> None:
    problems = on_create(WORKLOADS, obj)
    assert len(problems) == 1
    assert sentence in problems[0]


@pytest.mark.conformance("SCH-205")
def test_the_minimum_of_a_template_may_move() -> None:
    path = "spec.compositePodGroupTemplates.0"
    assert on_update(WORKLOADS, edited(TREE, f"{path}.schedulingPolicy.gang.minGroupCount", 2), TREE) == []
    assert (
        on_update(WORKLOADS, edited(TREE, f"{path}.podGroupTemplates.0.schedulingPolicy.gang.minCount", 7), TREE) == []
    )
    zero = edited(TREE, f"{path}.podGroupTemplates.0.schedulingPolicy.gang.minCount", 0)
    assert on_update(WORKLOADS, zero, TREE) == [
        f"{C0}.podGroupTemplates[0].schedulingPolicy.gang.minCount: Required value"
    ]


@pytest.mark.conformance("SCH-205")
@pytest.mark.parametrize(
    ("path", "value", "sentences"),
    [
        (
            "controllerRef",
            {"kind": "Job", "name": "j"},
            ["spec.controllerRef: Invalid value: null: field is immutable"],
        ),
        (
            "compositePodGroupTemplates.0.disruptionMode",
            {"all": {}},
            [f"{C0}.disruptionMode: Invalid value: null: field is immutable"],
        ),
        (
            "compositePodGroupTemplates.0.podGroupTemplates.0.schedulingConstraints",
            {"topology": [{"key": "rack"}]},
            [f"{C0}.podGroupTemplates[0].schedulingConstraints: Invalid value: null: field is immutable"],
        ),
        (
            "compositePodGroupTemplates.0.podGroupTemplates",
            [leaf("c"), leaf("d")],
            [f"{C0}.podGroupTemplates[1]: Forbidden: item may not be added"],
        ),
        (
            "compositePodGroupTemplates.0.podGroupTemplates.0.name",
            "renamed",
            [
                f"{C0}.podGroupTemplates[0]: Forbidden: item may not be added",
                f"{C0}.podGroupTemplates: Forbidden: item may not be removed",
            ],
        ),
        (
            "compositePodGroupTemplates.0.compositePodGroupTemplates.0.podGroupTemplates",
            [leaf("a")],
            [f"{C0}.compositePodGroupTemplates[0].podGroupTemplates: Forbidden: item may not be removed"],
        ),
    ],
)
def test_the_tree_keeps_its_shape(path: str, value: Any, sentences: list[str]) -> None:
    assert on_update(WORKLOADS, edited(TREE, f"spec.{path}", value), TREE) == sentences


def test_an_explicit_single_below_all_draws_a_warning() -> None:
    deep = workload(
        branch("top", branch("mid", leaf("low", disruptionMode={"single": {}})), disruptionMode={"all": {}})
    )
    warnings = rules.warnings(WORKLOADS, deep)
    assert len(warnings) == 1
    assert warnings[0].startswith(f"{C0}.compositePodGroupTemplates[0].podGroupTemplates[0].disruptionMode")
    assert rules.warnings(WORKLOADS, TREE) == []
