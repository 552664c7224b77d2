"""The limit of what is told of probes."""

from __future__ import annotations

from echelon.agents.process.pods.told_failures import ToldFailures


def test_what_fails_for_ever_is_told_often_at_first_and_then_now_and_then() -> None:
    told = ToldFailures()
    assert sum(told.takes(1000.0 + second) for second in range(250)) == 25
    assert sum(told.takes(1250.0 + second) for second in range(3000)) == 10
