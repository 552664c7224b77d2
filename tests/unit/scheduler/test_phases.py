"""The table of legal transitions, the door that keeps to it, and the page that shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from echelon.api.views.pod_views import PodView
from echelon.base.clock import ManualClock
from echelon.engine import Shape
from echelon.scheduler.intake.group_tree import Member
from echelon.scheduler.queueing.root_phases import MEANING, TRANSITIONS, Event, Phase, diagram
from echelon.scheduler.queueing.root_state import RootState, RootStates
from echelon.testing.builders import make_pod

PAGE = Path(__file__).parents[3] / "docs" / "design" / "scheduler.md"


def _reachable() -> set[Phase]:
    found, stack = {Phase.NEW}, [Phase.NEW]
    while stack:
        for after in TRANSITIONS[stack.pop()].values():
            if after not in found:
                found.add(after)
                stack.append(after)
    return found


def test_every_phase_can_be_reached_and_left_for_good() -> None:
    assert _reachable() == set(Phase) == set(TRANSITIONS) == set(MEANING)
    for phase, arrows in TRANSITIONS.items():
        assert arrows.get(Event.ENDED) is (None if phase is Phase.GONE else Phase.GONE)


def test_every_event_is_caused_by_some_phase() -> None:
    assert {event for arrows in TRANSITIONS.values() for event in arrows} == set(Event)


def test_a_change_of_the_root_is_never_lost() -> None:
    """Whatever a root waits for between two cycles, its own change puts it into the queue."""
    for phase, arrows in TRANSITIONS.items():
        if phase not in (Phase.DECIDING, Phase.GONE):
            assert arrows[Event.CHANGED] is Phase.QUEUED


def test_a_cycle_never_ends_where_it_began() -> None:
    assert Phase.DECIDING not in TRANSITIONS[Phase.DECIDING].values()


def test_the_page_shows_the_table() -> None:
    page = PAGE.read_text()
    assert f"```mermaid\n{diagram()}\n```" in page
    for phase, text in MEANING.items():
        assert f"| {phase} | {text} |" in page


def _fresh() -> tuple[RootStates, RootState]:
    """States that log what they refuse, as a running scheduler does, and one root in the queue."""
    states = RootStates(ManualClock())
    pod = Member(1, "uid", PodView(make_pod("p")), Shape(()), "", 0, (0, "2026-01-01T00:00:00Z", "p"))
    state = states.of(pod)
    states.again(state, Event.CHANGED)
    return states, state


def test_an_event_that_the_table_does_not_allow_raises_with_the_story_of_its_root(
    every_transition_is_legal: list[str],
) -> None:
    states, state = _fresh()
    with pytest.raises(AssertionError, match=r"not valid.* in phase Queued: … ─changed─► Queued"):
        states.invalid(state)
    every_transition_is_legal.clear()


def test_a_running_scheduler_goes_on_and_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    states, state = _fresh()
    assert states.problems() == []
    states.invalid(state)
    assert state.phase is Phase.INVALID
    [illegal, misplaced] = states.problems()
    assert "not valid" in illegal
    assert "is Invalid with active=True" in misplaced


def test_a_story_keeps_its_end() -> None:
    states, state = _fresh()
    for _ in range(100):
        states.again(state, Event.CHANGED)
        states.taken(state)
        states.ignored(state)
    assert 16 <= len(state.story) <= 32
    assert state.story[-1] == (Event.FOREIGN, Phase.IGNORED)


def test_a_cycle_without_an_outcome_is_refused(every_transition_is_legal: list[str]) -> None:
    states, state = _fresh()
    states.taken(state)
    with pytest.raises(AssertionError, match="ended without an outcome"):
        states.left_undecided(state)
    every_transition_is_legal.clear()
