"""What the engine is asked, from what is there."""

from __future__ import annotations

from echelon.api.objects.vocabulary import COMPLETION_INDEX
from echelon.api.scheme import JOBS, Object
from echelon.api.views.job_views import JobView
from echelon.engine import Blocked, Composite, Demand, Fix, Leaf, Shortage
from echelon.scheduler.asking import demands
from echelon.scheduler.intake.group_tree import GroupNode
from echelon.scheduler.queueing.blocked_demands import BlockedDemands
from echelon.testing.builders import make_composite, make_node, make_pod, make_pod_group

from .trees import Stage


def _no_job(key: str) -> Object | None:
    return None


def _demand(root: GroupNode) -> Demand:
    return demands.of_tree(root, _no_job)


def test_equal_members_are_one_class_in_order_of_their_index() -> None:
    stage = Stage()
    stage.put(make_pod_group("g", gang=3))
    for index in (2, 0, 1):
        stage.put(make_pod(f"p{index}", group="g", annotations={COMPLETION_INDEX: str(index)}))
    stage.put(make_pod("big", group="g", cpu=2))
    leaf = _demand(stage.group("g")).root
    assert isinstance(leaf, Leaf)
    assert leaf.min_count == 3
    names = [[stage.translator.members[number].key for number in one.members] for one in leaf.classes]
    assert names == [["default/p0", "default/p1", "default/p2"], ["default/big"]]


def test_gated_and_leaving_members_are_not_asked_for() -> None:
    stage = Stage()
    leaving = make_pod("leaving", group="g", node="n1")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    stage.put(make_pod_group("g"), make_pod("p", group="g"), make_pod("gated", group="g", gates=("x",)), leaving)
    leaf = _demand(stage.group("g")).root
    assert isinstance(leaf, Leaf)
    assert [len(one.members) for one in leaf.classes] == [1]
    assert leaf.bound == ()


def test_children_that_are_not_ready_are_left_out() -> None:
    stage = Stage()
    stage.put(make_composite("root", gang=1), make_pod_group("a", gang=1, parent="root"), make_pod("a0", group="a"))
    stage.put(make_pod_group("b", gang=2, parent="root"), make_pod("b0", group="b"))
    stage.put(
        make_composite("sub", gang=2, parent="root"), make_pod_group("c", parent="sub"), make_pod("c0", group="c")
    )
    root = _demand(stage.group("root", "CompositePodGroup")).root
    assert isinstance(root, Composite)
    assert [child.id for child in root.children] == [stage.group("a").id]


def test_a_tree_of_which_nothing_runs_any_more_is_not_repaired() -> None:
    """One child has succeeded, one wants to run, one is not complete: there is nothing that could go on."""
    stage = Stage()
    placed = {"conditions": [{"type": "CompositePodGroupInitiallyScheduled", "status": "True"}]}
    stage.put({**make_composite("root", gang=3), "status": placed})
    for name, size in (("over", 1), ("ready", 1), ("short", 2)):
        stage.put(make_pod_group(name, gang=size, parent="root"))
    stage.put({**make_pod("a", group="over", node="n1"), "status": {"phase": "Succeeded"}})
    stage.put(make_pod("b", group="ready"), make_pod("c", group="short"))
    root = stage.group("root", "CompositePodGroup")
    assert not demands.repairable(root)
    stage.put(make_pod("d", group="ready", node="n1"))
    assert demands.repairable(root)
    assert demands.of_tree(root, _no_job).root


def test_preemption_needs_the_will_of_the_root_and_of_every_pending_pod() -> None:
    stage = Stage()
    stage.put(make_pod_group("never", never=True), make_pod("p", group="never"))
    stage.put(make_pod_group("g"), make_pod("q", group="g"))
    assert not _demand(stage.group("never")).may_preempt
    assert _demand(stage.group("g")).may_preempt
    stage.put(make_pod("unwilling", group="g", preemptionPolicy="Never"))
    assert not _demand(stage.group("g")).may_preempt


def test_the_final_size_of_a_basic_group_is_its_jobs_parallelism() -> None:
    stage = Stage()
    owner = {"apiVersion": JOBS.api_version, "kind": "Job", "name": "j", "uid": "u"}
    job = {"metadata": {"name": "j", "namespace": "default", "uid": "u"}, "spec": {"parallelism": 8}}
    stage.put(make_pod_group("g", owner=owner), make_pod("p", group="g"))
    leaf = demands.of_tree(stage.group("g"), {"default/j": JobView(job)}.get).root
    assert isinstance(leaf, Leaf)
    assert leaf.final_size == 8


def test_counts_follow_single_pods_up_the_tree() -> None:
    stage = Stage()
    stage.put(make_composite("root", gang=2), make_composite("sub", gang=1, parent="root"))
    stage.put(make_pod_group("a", gang=2, parent="sub"), make_pod_group("b", gang=1, parent="root"), make_node("n1"))
    root = stage.group("root", "CompositePodGroup")
    assert not root.counts.ready
    stage.put(make_pod("a0", group="a"), make_pod("b0", group="b"))
    assert (root.counts.ready, root.counts.waiting, root.counts.pending) == (False, 2, 1)
    stage.put(make_pod("a1", group="a"))
    assert (root.counts.ready, root.counts.waiting, root.counts.pending) == (True, 3, 3)
    for name in ("a0", "a1", "b0"):
        assert not root.counts.holds
        stage.translator.assume({stage.member(name).id: "n1"})
    assert (root.counts.holds, root.counts.pending) == (True, 0)
    stage.translator.evict(stage.member("a1"))
    assert not root.counts.holds
    assert not root.counts.ready


def test_equal_demands_learn_from_each_other_in_their_own_names() -> None:
    stage = Stage()
    memory = BlockedDemands(stage.translator.view)
    for root in ("x", "y"):
        stage.put(make_composite(root), make_pod_group(f"{root}1", gang=2, parent=root))
        stage.put(*(make_pod(f"{root}{n}", group=f"{root}1") for n in range(2)))
    x, y = (stage.group(name, "CompositePodGroup") for name in "xy")
    leaf_x, leaf_y = stage.group("x1").id, stage.group("y1").id
    memory.keep(_demand(x), Blocked(True, (Shortage(leaf_x, 2, 1, "", (), 1),), (Fix("lower", x.id),)), brief=False)
    known = memory.recall(_demand(y), brief=True)
    assert known is not None
    assert not known.brief
    assert [one.group for one in known.verdict.shortages] == [leaf_y]
    assert [one.group for one in known.verdict.fixes] == [y.id]


def test_what_was_learnt_is_forgotten_when_room_appears_that_matters_and_not_used_for_others() -> None:
    stage = Stage()
    memory = BlockedDemands(stage.translator.view)
    for name, gang in (("a", 2), ("b", 2), ("c", 1)):
        stage.put(make_pod_group(name, gang=gang), *(make_pod(f"{name}{n}", group=name) for n in range(2)))
    a, b, c = (_demand(stage.group(name)) for name in "abc")
    awaits = memory.keep(a, Blocked(True, (Shortage(a.root.id, 2, 1, "", (), 1),)), brief=True)
    assert memory.recall(b, brief=True) is not None
    assert memory.recall(b, brief=False) is None, "a verdict without remedies is not for telling"
    assert memory.recall(c, brief=True) is None
    assert not memory.room(lambda _: True)
    assert memory.recall(b, brief=True) is not None, "no node has come"
    stage.put(make_node("n1"))
    assert memory.room(lambda _: True) == [awaits]
    assert memory.recall(b, brief=True) is None


def test_what_was_in_doubt_and_is_no_longer_asked_for_is_forgotten() -> None:
    stage = Stage()
    memory = BlockedDemands(stage.translator.view)
    node = make_node("n1", cpu=64)
    for number in range(600):
        pod = make_pod("p", cpu=f"{1000 + number}m")
        stage.put(pod)
        memory.keep(demands.of_pod(stage.member("p")), Blocked(True, ()), brief=True)
        stage.put(node)
        assert memory.room(lambda _: True)
        stage.remove(pod)
        stage.remove(node)
        memory.room(lambda _: False)
    assert len(memory._doubtful) < 300
