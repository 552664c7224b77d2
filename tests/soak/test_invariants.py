"""The checks themselves: each breach, made by hand, is found."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import msgspec
import pytest

from echelon.api.objects.vocabulary import HOSTNAME, RACK
from echelon.api.scheme import (
    COMPOSITE_POD_GROUPS,
    JOBS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    Object,
    Resource,
)
from echelon.store.interface import Change, Header, Record
from echelon.testing.builders import make_budget, make_composite, make_node, make_pod, make_pod_group

from . import final_checks, pod_rules
from .invariants import GRACE_SECONDS, Auditor, Breach
from .pod_terms import LATE_SECONDS

_KINDS = {one.kind: one for one in (PODS, NODES, POD_GROUPS, COMPOSITE_POD_GROUPS, JOBS, POD_DISRUPTION_BUDGETS)}


class Log:
    """A change log written by hand."""

    def __init__(self) -> None:
        self.auditor = Auditor()
        self._revision = 0
        for name, rack in (("n1", "r1"), ("n2", "r1"), ("n3", "r2")):
            self.put(make_node(name, cpu=2, gpu=4, block="b", rack=rack))

    def put(self, obj: Object, now: float = 0.0, **metadata: Any) -> None:
        self._revision += 1
        resource: Resource = _KINDS[obj["kind"]]
        name = obj["metadata"]["name"]
        tree = {"status": _truth(obj), **obj, "metadata": {"uid": f"uid-{name}", **obj["metadata"], **metadata}}
        key = resource.key(name, "default" if resource.namespaced else "")
        record = Record(key, msgspec.json.encode(tree), self._revision, Header())
        self.auditor.read([Change(self._revision, key, record, None)], now)


def _truth(obj: Object) -> Object:
    """What a pod rightly says of itself."""
    bound = {"type": "PodScheduled", "status": "True"}
    waits = {"type": "PodScheduled", "status": "False", "message": "no room"}
    return {"conditions": [bound if obj.get("spec", {}).get("nodeName") else waits]}


def group(name: str, **terms: Any) -> Object:
    priority = terms.pop("priority", 0)
    return make_pod_group(name, priority=priority, **terms)


def test_a_pod_that_moves() -> None:
    log = Log()
    log.put(make_pod("p", node="n1"))
    with pytest.raises(Breach, match="moved from n1 to n2"):
        log.put(make_pod("p", node="n2"))


def test_a_node_with_too_much_on_it() -> None:
    log = Log()
    log.put(make_pod("p", node="n1", cpu=2))
    with pytest.raises(Breach, match="over-commits n1: 3000 of 2000 cpu"):
        log.put(make_pod("q", node="n1", cpu=1))


def test_an_ended_pod_holds_nothing() -> None:
    log = Log()
    log.put({**make_pod("p", node="n1", cpu=2), "status": {"phase": "Succeeded"}})
    log.put(make_pod("q", node="n1", cpu=2))


def test_a_node_with_one_port_for_two() -> None:
    log = Log()
    ports = {"ports": [{"containerPort": 80, "hostPort": 80}]}
    for name in ("p", "q"):
        pod = make_pod(name, node="n1")
        pod["spec"]["containers"][0] |= ports
        if name == "p":
            log.put(pod)
            continue
        with pytest.raises(Breach, match="over-commits n1: 2 of 1 port 80"):
            log.put(pod)


@pytest.mark.parametrize("closed", [{"unschedulable": True}, {"taints": [{"key": "repair", "effect": "NoSchedule"}]}])
def test_a_node_that_takes_no_one(closed: Object) -> None:
    log = Log()
    log.put(make_node("n1", cpu=2, gpu=4, block="b", rack="r1", **closed))
    log.put(make_pod("p", node="n1"), now=LATE_SECONDS)  # decided before the door was closed
    with pytest.raises(Breach, match="n1, which does not take it"):
        log.put(make_pod("q", node="n1"), now=LATE_SECONDS + 1)


def test_a_node_that_was_not_chosen() -> None:
    log = Log()
    with pytest.raises(Breach, match="n1, which does not take it"):
        log.put(make_pod("p", node="n1", nodeSelector={"disk": "ssd"}))


def _apart(key: str, app: str) -> Object:
    return pod_rules.Wish("web", pod_rules.term("podAntiAffinity", key, app)).spec


def _near(key: str, app: str) -> Object:
    return pod_rules.Wish("web", pod_rules.term("podAffinity", key, app)).spec


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        (("n1", {}), ("n2", _apart(RACK, "web")), "q wants no .* but p is there"),
        (("n1", _apart(RACK, "web")), ("n2", {}), "p wants no .* but q is there"),
        (("n1", _apart(RACK, "db")), ("n2", _apart(RACK, "db")), ""),
        (("n1", {}), ("n3", _near(RACK, "web")), "q wants .* and is alone there"),
        (("n1", {}), ("n2", _near(RACK, "web")), ""),
        (("n1", {}), ("n1", _near(RACK, "db")), "q wants .* and is alone there"),
        (("n1", {}), ("n1", pod_rules.spread(HOSTNAME, 1, "web")), r"q wants .* spread over .*\[0, 0, 2\]"),
        (("n1", {}), ("n1", pod_rules.spread(HOSTNAME, 2, "web")), ""),
    ],
)
def test_terms_between_pods(first: tuple[str, Object], second: tuple[str, Object], found: str) -> None:
    log = Log()
    for name, (node, spec) in zip("pq", (first, second), strict=True):
        log.put(make_pod(name, node=node, labels={"app": "web"}, **spec), now=LATE_SECONDS + 1)
    log.auditor.look(0, fair=True)
    if not found:
        log.auditor.look(GRACE_SECONDS + 1, fair=True)
        return
    with pytest.raises(Breach, match=found):
        log.auditor.look(GRACE_SECONDS + 1, fair=True)


def test_a_required_neighbour_may_arrive_a_moment_later() -> None:
    log = Log()
    log.put(make_pod("q", node="n1", **_near(RACK, "db")))
    log.auditor.look(0, fair=True)
    log.put(make_pod("p", node="n2", labels={"app": "db"}), now=1)
    log.auditor.look(GRACE_SECONDS + 1, fair=True)


def _says(obj: Object, status: str) -> Object:
    return {**obj, "status": {"conditions": [{"type": "PodGroupInitiallyScheduled", "status": status}]}}


def test_a_group_that_says_it_was_placed_before_it_was() -> None:
    log = Log()
    log.put(make_pod("p", group="g", node="n1"))
    with pytest.raises(Breach, match="says that it was placed, but never was"):
        log.put(_says(group("g", gang=2), "True"))


def test_a_group_that_takes_its_word_back() -> None:
    log = Log()
    log.put(make_pod("p", group="g", node="n1"))
    log.put(_says(group("g", gang=1), "True"))
    with pytest.raises(Breach, match="was placed and now says that it was not"):
        log.put(_says(group("g", gang=1), "False"))


def test_a_gang_that_stays_partial() -> None:
    log = Log()
    log.put(group("g", gang=2))
    log.put(make_pod("p", group="g", node="n1"))
    log.put(make_pod("q", group="g"))
    log.auditor.look(0, fair=True)
    log.auditor.look(GRACE_SECONDS, fair=True)
    log.auditor.look(GRACE_SECONDS + 100, fair=False)
    with pytest.raises(Breach, match="PodGroup g is bound in part"):
        log.auditor.look(GRACE_SECONDS + 101, fair=True)


def test_a_gang_whose_minimum_is_raised_above_its_pods_waits_for_more() -> None:
    log = Log()
    log.put(group("g", gang=1))
    log.put(make_pod("p", group="g"))
    log.put(group("g", gang=2))
    log.put(make_pod("p", group="g", node="n1"))
    log.auditor.look(0, fair=True)
    log.auditor.look(1000, fair=True)


def test_a_gang_that_was_whole_may_lose_a_member() -> None:
    log = Log()
    log.put(group("g", gang=2))
    log.put(make_pod("p", group="g", node="n1"))
    log.put(make_pod("q", group="g", node="n1"))
    log.put({**make_pod("q", group="g", node="n1"), "status": {"phase": "Failed"}})
    log.auditor.look(0, fair=True)
    log.auditor.look(1000, fair=True)


@pytest.mark.parametrize(
    ("terms", "found"),
    [({"key": RACK}, "must be in one"), ({"exclusive": RACK}, "has for itself")],
)
def test_domains_that_are_torn_or_shared(terms: dict[str, str], found: str) -> None:
    log = Log()
    apart = "key" in terms
    log.put(group("g", **terms))
    log.put(group("h", **terms))
    log.put(make_pod("p", group="g", node="n1"))
    log.put(make_pod("q", group="g" if apart else "h", node="n3" if apart else "n2"))
    log.auditor.look(0, fair=True)
    with pytest.raises(Breach, match=found):
        log.auditor.look(GRACE_SECONDS + 1, fair=True)


@pytest.mark.parametrize(("in_job", "priority", "shared"), [(True, 0, True), (True, 1, False), (False, 0, False)])
def test_pods_of_a_job_in_a_domain_that_a_group_of_their_priority_has_for_itself(
    in_job: bool, priority: int, shared: bool
) -> None:
    log = Log()
    log.put(group("g", exclusive=RACK))
    log.put(make_pod("p", group="g", node="n1"))
    guest = make_pod("q", node="n2", priority=priority)
    if in_job:
        guest["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "j", "uid": "j", "controller": True}]
    log.put(guest)
    log.auditor.look(0, fair=True)
    with pytest.raises(Breach, match="q on n2 is in the domain that g has") if shared else nullcontext():
        log.auditor.look(GRACE_SECONDS + 1, fair=True)


def _preempted(pod: Object) -> Object:
    why = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "preempting"}
    return {**pod, "status": {"conditions": [why]}}


@pytest.mark.parametrize(("waiting", "fair"), [(100, True), (10, False), (5, False)])
def test_a_victim_has_a_lower_priority_than_a_waiting_pod(waiting: int, fair: bool) -> None:
    log = Log()
    victim = make_pod("victim", node="n1", priority=10)
    log.put(victim)
    log.put(make_pod("waits", priority=waiting))
    if fair:
        log.put(_preempted(victim))
    else:
        with pytest.raises(Breach, match="nobody above it waits"):
            log.put(_preempted(victim))


def test_preemption_in_turns() -> None:
    log = Log()
    log.put(make_pod("waits", priority=100))
    log.auditor.left_alone(True)
    index = {"batch.kubernetes.io/job-completion-index": "0"}
    victims = [make_pod(f"p{n}", node="n1", cpu=0, annotations=index, owner={"uid": "job"}) for n in range(5)]
    for victim in victims[:4]:
        log.put(_preempted(victim))
    with pytest.raises(Breach, match="5 times in a row"):
        log.put(_preempted(victims[4]))


def test_a_unit_that_is_evicted_in_part() -> None:
    log = Log()
    log.put(group("g", gang=2, mode="all"))
    log.put(make_pod("p", group="g", node="n1"))
    log.put(make_pod("q", group="g", node="n1"))
    log.put(make_pod("waits", priority=100))
    log.put(_preempted(make_pod("p", group="g", node="n1")), now=10)
    log.auditor.look(10, fair=True)
    with pytest.raises(Breach, match=r"evicted in part: \['q'\] stayed"):
        log.auditor.look(10 + GRACE_SECONDS + 1, fair=True)


@pytest.mark.parametrize("lost", [True, False])
def test_a_unit_that_is_released_although_it_holds_its_minimum(lost: bool) -> None:
    log = Log()
    log.put(group("g", gang=2, mode="all"))
    for name in "pq":
        log.put(make_pod(name, group="g", node="n1"))
    if lost:
        log.put(make_pod("q", group="g", node="n1"), deletionTimestamp="2027-01-01T00:00:00Z")
    mark = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "releasing"}
    released = {**make_pod("p", group="g", node="n1"), "status": {"conditions": [mark]}}
    with nullcontext() if lost else pytest.raises(Breach, match="released although it holds its minimum"):
        log.put(released, now=10)


def _broken(**terms: Any) -> list[Object]:
    """A gang of three in rack r1, of which one pod waits; r1 has no room for it, and r2 has for all."""
    return [
        make_pod("other", node="n1", cpu=2),
        make_node("n4", cpu=4, gpu=4, block="b", rack="r2"),
        make_composite("t", gang=1, mode="all", workload="t", priority=0),
        {**make_pod_group("g", gang=3, key=RACK, parent="t", workload="t", priority=0), "status": {}, **terms},
        *(make_pod(f"p{n}", group="g", node="n2") for n in range(2)),
        make_pod("p2", group="g"),
    ]


def _job(status: Object, **spec: Any) -> Object:
    return {
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"parallelism": 1, "completions": 1, **spec},
        "status": status,
    }


def _tree(app: str, apart_from: str) -> list[Object]:
    """Two gangs that must be in one rack; the pods of the second have anti-affinity to some kind of pod there."""
    waits = {"labels": {"app": app}}
    return [
        make_composite("t", gang=2, key=RACK, workload="t", priority=0),
        *(make_pod_group(name, gang=1, parent="t", workload="t", priority=0) for name in ("g", "h")),
        make_pod("p", group="g", **waits),
        make_pod("q", group="h", **waits, **_apart(RACK, apart_from)),
    ]


@pytest.mark.parametrize(
    ("objects", "found"),
    [
        ([make_pod("p", owner={"uid": "nobody"})], "has outlived its owners"),
        ([make_pod("p", cpu=2)], "p is pending although it fits"),
        ([make_pod("p", cpu=2, priority=1, node=n) for n in ("n1", "n2", "n3")], ""),
        ([group("g", gang=4, key=RACK), *(make_pod(f"p{n}", group="g") for n in range(4))], "g is pending although"),
        ([group("g", gang=5, key=RACK), *(make_pod(f"p{n}", group="g") for n in range(5))], ""),
        ([_job({"uncountedTerminatedPods": {"failed": ["u"]}}, suspend=True)], "never counted"),
        ([_job({"active": 1})], "nobody works on it"),
        ([{**make_pod("p", cpu=3), "status": {}}], "p is pending and nobody says why"),
        ([group("g", gang=1), make_pod("p", group="g", node="n1")], "g is bound and does not say so"),
        ([_job({"conditions": [{"type": "Complete", "status": "True"}]})], "complete with 0 of 1"),
        ([make_budget("b", {"app": "web"}, min_available=1)], "budget b says"),
        ([{**make_pod("p", cpu=3), "status": {**_truth({}), "nominatedNodeName": "n1"}}], "p keeps a place"),
        ([make_pod("p", labels={"app": "web"}, cpu=2, **_apart(RACK, "web"))], "p is pending although it fits"),
        ([make_pod(f"p{n}", labels={"app": "web"}, node="n1", cpu=0) for n in range(2)], ""),
        ([make_pod("p", **_near(RACK, "db"))], ""),
        (_tree("web", apart_from="db"), "t is pending although it fits"),
        (_tree("web", apart_from="web"), ""),
        (_broken(), "t runs in part although it fits as a whole"),
        ([one for one in _broken() if one["metadata"]["name"] != "n4"], ""),
        ([one for one in _broken() if one["metadata"]["name"] != "p2"], ""),
    ],
)
def test_what_rest_must_not_leave(objects: list[Object], found: str) -> None:
    log = Log()
    for number, obj in enumerate(objects):
        uid = f"uid-{obj['metadata']['name']}-{number}"
        log.put(obj, uid=uid)
    if found:
        with pytest.raises(Breach, match=found):
            final_checks.check(log.auditor)
    else:
        final_checks.check(log.auditor)


def test_lower_ones_must_give_way() -> None:
    log = Log()
    for node in ("n1", "n2", "n3"):
        log.put(make_pod(f"low-{node}", cpu=2, node=node, priority=1))
    log.put(make_pod("high", cpu=2, priority=5))
    with pytest.raises(Breach, match="lower ones could give way"):
        final_checks.check(log.auditor)


def test_nothing_is_deleted_for_ever() -> None:
    log = Log()
    log.put(make_pod("p", node="n1"), deletionTimestamp="2027-01-01T00:00:00Z", finalizers=["x/y"])
    with pytest.raises(Breach, match="cannot go"):
        final_checks.check(log.auditor)
