"""What holds for all tests: no scheduler under test acts on a verdict that the engine's judge refuses, no root goes a
way that the table of phases does not have, no tree that objects share is changed, and no random example fails for
taking long, since that is a matter of the machine.  Programs under test can be interrupted, however tests are started.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from echelon.scheduler.queueing.root_state import RootState, RootStates
from echelon.server.objects.sharing import LABELS, TREES
from tests.judging import Judge

#: A fixture lives as long as its test, over all examples; counters of reached branches rely on that.
settings.register_profile(
    "whatever the machine", deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.load_profile("whatever the machine")

# Shells and nohup start what runs in the background with these ignored, and children inherit that.
for _number, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)


@pytest.fixture(autouse=True)
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[Judge]:
    """Every verdict is judged; what the judge finds wrong fails the test at its end."""
    judge = Judge()
    judge.install(monkeypatch)
    yield judge
    assert not judge.wrong


@pytest.fixture(autouse=True)
def every_transition_is_legal(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What the table of phases refuses raises there, and fails the test at its end."""
    wrong: list[str] = []

    def refuse(states: RootStates, state: RootState, problem: str) -> None:
        wrong.append(f"{state.root.key}: {problem}: {state.told_story()}")
        raise AssertionError(wrong[-1])

    monkeypatch.setattr(RootStates, "refuse", refuse)
    yield wrong
    assert not wrong


@pytest.fixture(autouse=True, scope="module")
def shared_trees_stay_as_they_are() -> Iterator[None]:
    """Whoever changes a tree of the server's cache changes it for all objects that have the same part."""
    yield
    assert not [*TREES.changed(), *LABELS.changed()]
