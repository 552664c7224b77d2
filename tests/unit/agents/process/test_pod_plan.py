"""What is done next for a pod on its node."""

from __future__ import annotations

import pytest

from echelon.agents.process.rules.pod_plan import plan, will_restart
from echelon.agents.process.rules.probe_state import ProbeHealth
from echelon.agents.process.rules.restart_backoff import Backoff

from .pods import NOW, facts, pod, ran

SIDE = {"name": "side", "image": "i", "restartPolicy": "Always"}
FIRST, SECOND = {"name": "first", "image": "i"}, {"name": "second", "image": "i"}


def test_all_containers_start_together() -> None:
    assert plan(pod("a", "b"), facts()).start == [("a", 0), ("b", 0)]


def test_init_containers_start_one_after_the_other() -> None:
    made = pod("c", init=(FIRST, SECOND))
    assert plan(made, facts()).start == [("first", 0)]
    assert plan(made, facts(ran("first"))).start == []
    assert plan(made, facts(ran("first", 0))).start == [("second", 0)]
    assert plan(made, facts(ran("first", 0), ran("second", 0))).start == [("c", 0)]


def test_an_init_container_that_fails_ends_a_pod_that_never_restarts() -> None:
    assert plan(pod("c", init=(FIRST,), policy="Never"), facts(ran("first", 1))).ended == "Failed"
    assert plan(pod("c", init=(FIRST,)), facts(ran("first", 1))).start == [("first", 1)]


def test_the_policy_of_an_init_container_itself_comes_first() -> None:
    once, again = {**FIRST, "restartPolicy": "Never"}, {**FIRST, "restartPolicy": "OnFailure"}
    assert plan(pod("c", init=(once,)), facts(ran("first", 1))).ended == "Failed"
    assert plan(pod("c", init=(again,), policy="Never"), facts(ran("first", 1))).start == [("first", 1)]


def test_a_sidecar_is_waited_for_until_it_has_started_and_runs_beside_the_others() -> None:
    made = pod("c", init=(SIDE,), policy="Never")
    starting = facts(ran("side"), health={"side": ProbeHealth(started=False, ready=False)})
    assert plan(made, starting).start == []
    assert plan(made, facts(ran("side"))).start == [("c", 0)]


def test_sidecars_stop_when_all_others_have_ended_and_then_the_pod_has() -> None:
    made = pod("c", init=(SIDE,), policy="Never")
    stopping = plan(made, facts(ran("side"), ran("c", 0)))
    assert (stopping.stop, stopping.ended) == (["side"], None)
    assert plan(made, facts(ran("side", 143), ran("c", 0))).ended == "Succeeded"


def test_a_sidecar_that_ends_too_early_is_started_again() -> None:
    assert plan(pod("c", init=(SIDE,), policy="Never"), facts(ran("side", 1), ran("c"))).start == [("side", 1)]


@pytest.mark.parametrize(
    ("policy", "code", "restarts"),
    [("Always", 0, True), ("Always", 1, True), ("OnFailure", 0, False), ("OnFailure", 1, True), ("Never", 1, False)],
)
def test_a_container_is_restarted_as_the_policy_says(policy: str, code: int, restarts: bool) -> None:
    made = plan(pod("c", policy=policy), facts(ran("c", code)))
    assert made.start == ([("c", 1)] if restarts else [])
    assert made.ended == (None if restarts else "Succeeded" if code == 0 else "Failed")


def test_a_rule_of_a_container_restarts_it_on_some_exit_codes() -> None:
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}
    container = {"name": "c", "restartPolicy": "Never", "restartPolicyRules": [rule]}
    assert will_restart(pod(policy="Never"), container, 42)
    assert not will_restart(pod(policy="Never"), container, 1)


def test_a_container_waits_for_the_end_of_its_back_off() -> None:
    held = plan(pod(), facts(ran("c", 1, number=1, ago=4), backoffs={"c": Backoff(10, NOW - 5)}))
    assert held.start == []
    assert held.wake_at == NOW + 6
    due = plan(pod(), facts(ran("c", 1, number=1, ago=10), backoffs={"c": Backoff(10, NOW - 11)}))
    assert due.start == [("c", 2)]


def test_a_pod_whose_sandbox_is_gone_runs_again_only_if_its_policy_lets_it() -> None:
    lost = ran("c", 137, past=True)
    assert plan(pod(policy="Never"), facts(lost, sandbox=False)).ended == "Failed"
    assert plan(pod(policy="OnFailure"), facts(lost, sandbox=False)).start == [("c", 1)]
    before = pod("c", init=(FIRST,), policy="Never")
    assert plan(before, facts(ran("first", 137, past=True), sandbox=False)).ended == "Failed"


def test_init_containers_run_again_in_a_new_sandbox() -> None:
    made = pod("c", init=(FIRST,), policy="OnFailure")
    again = plan(made, facts(ran("first", 0, past=True), ran("c", 137, past=True), sandbox=False))
    assert again.start == [("first", 1)]
    assert plan(made, facts(ran("first", 0, number=1), ran("c", 137, past=True))).start == [("c", 1)]


def test_back_off_doubles_up_to_five_minutes_and_is_forgotten_after_ten() -> None:
    known, delays = Backoff(), []
    for number in range(8):
        delays.append(known.delay_after(NOW + number))
        known = known.restarted(NOW + number, NOW + number)
    assert delays == [0, 10, 20, 40, 80, 160, 300, 300]
    assert known.delay_after(NOW + 700) == 0
