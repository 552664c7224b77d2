"""The checks themselves: each breach, made by hand, is found."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from echelon.api.scheme import JOBS, NODES, POD_GROUPS, PODS, Object, Resource
from echelon.api.vocabulary import RACK
from echelon.store.interface import Change, Header, Record
from echelon.testing.builders import make_node, make_pod, make_pod_group

from . import rest
from .invariants import GRACE_SECONDS, Auditor, Breach

_KINDS = {"Pod": PODS, "Node": NODES, "PodGroup": POD_GROUPS, "Job": JOBS}


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
    [({"key": RACK}, "must be in one"), ({"exclusive": RACK}, "several exclusive groups")],
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


def _preempted(pod: Object) -> Object:
    why = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "preempting"}
    return {**pod, "status": {"conditions": [why]}}


@pytest.mark.parametrize(("waiting", "fair"), [(100, True), (10, False), (5, False)])
def test_a_victim_is_below_someone_who_waits(waiting: int, fair: bool) -> None:
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
    log.put(_preempted(make_pod("p", group="g", node="n1")))
    log.auditor.look(0, fair=True)
    with pytest.raises(Breach, match=r"preempted in part: \['q'\] stayed"):
        log.auditor.look(GRACE_SECONDS + 1, fair=True)


def _job(status: Object, **spec: Any) -> Object:
    return {
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"parallelism": 1, "completions": 1, **spec},
        "status": status,
    }


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
    ],
)
def test_what_rest_must_not_leave(objects: list[Object], found: str) -> None:
    log = Log()
    for number, obj in enumerate(objects):
        uid = f"uid-{obj['metadata']['name']}-{number}"
        log.put(obj, uid=uid)
    if found:
        with pytest.raises(Breach, match=found):
            rest.check(log.auditor)
    else:
        rest.check(log.auditor)


def test_lower_ones_must_give_way() -> None:
    log = Log()
    for node in ("n1", "n2", "n3"):
        log.put(make_pod(f"low-{node}", cpu=2, node=node, priority=1))
    log.put(make_pod("high", cpu=2, priority=5))
    with pytest.raises(Breach, match="lower ones could give way"):
        rest.check(log.auditor)


def test_nothing_is_deleted_for_ever() -> None:
    log = Log()
    log.put(make_pod("p", node="n1"), deletionTimestamp="2027-01-01T00:00:00Z", finalizers=["x/y"])
    with pytest.raises(Breach, match="cannot go"):
        rest.check(log.auditor)
