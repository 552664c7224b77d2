"""Log lines as text and as JSON."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from echelon.runtime.operations.log_lines import JsonLines, TextLines, set_up_logging


def record(**extra: object) -> logging.LogRecord:
    made = logging.LogRecord("echelon.scheduler.decisions", logging.INFO, "f.py", 1, "placed %s", ("all",), None)
    made.created = 1_800_000_000.25
    for key, value in extra.items():
        setattr(made, key, value)
    return made


def failing() -> logging.LogRecord:
    try:
        raise ValueError("no")
    except ValueError as error:
        return record(exc_info=(ValueError, error, error.__traceback__))


def test_fields_follow_the_message_of_a_text_line() -> None:
    line = TextLines().format(record(fields={"name": "g", "reason": "two words", "members": 4, "domain": ""}))
    assert line == (
        '2027-01-15T08:00:00.250000Z INFO scheduler.decisions: placed all name=g reason="two words" members=4 domain=""'
    )
    assert TextLines().format(failing()).endswith("ValueError: no")


def test_what_others_have_written_makes_no_line_of_its_own() -> None:
    forged = "denied\n2027-01-15T08:00:00Z INFO lease: released"
    line = TextLines().format(record(args=(forged,), fields={"reason": forged, "quoted": 'a "b"', "tab": "a\tb"}))
    assert len(line.splitlines()) == 1
    assert line.endswith(r'reason="denied\n2027-01-15T08:00:00Z INFO lease: released" quoted="a \"b\"" tab="a\tb"')


@pytest.mark.parametrize("odd", ["\x1b[2K\x1b[1A", "\x0b", "\x85", "\u2028", "\x00", "\r"])
def test_a_message_moves_no_cursor_and_has_no_other_line_ends(odd: str) -> None:
    line = TextLines().format(record(args=(f"denied{odd}é 中",)))
    assert line.isprintable()
    assert line.endswith("é 中")


def test_the_text_of_an_error_makes_no_line_that_looks_like_a_record() -> None:
    forged = "2027-01-15T08:00:00Z INFO lease: released"
    try:
        raise ValueError(f"denied\n{forged}\x1b[2K")
    except ValueError as error:
        made = record(exc_info=(ValueError, error, error.__traceback__))
    first, *others = TextLines().format(made).splitlines()
    assert first.endswith("placed all")
    assert f"  {forged}\\x1b[2K" in others
    assert all(line.startswith("  ") and line.isprintable() for line in others)


def test_a_json_line_is_one_object() -> None:
    assert json.loads(JsonLines().format(record(fields={"name": "g", "members": 4}))) == {
        "time": "2027-01-15T08:00:00.250000Z", "level": "info", "logger": "scheduler.decisions",
        "message": "placed all", "name": "g", "members": 4,
    }  # fmt: skip
    line = JsonLines().format(failing())
    assert "\n" not in line
    assert json.loads(line)["exception"].endswith("ValueError: no")


@pytest.fixture
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    root.handlers[:] = handlers


@pytest.mark.usefixtures("logging_as_before")
def test_level_and_form_can_change(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("echelon.here")
    logging.getLogger().addHandler(logging.StreamHandler())  # as `echelon -v` does
    set_up_logging({"logLevel": "warning", "logFormat": "text"})
    log.info("unheard")
    set_up_logging({"logLevel": "info", "logFormat": "json"})
    log.info("heard")
    lines = capsys.readouterr().err.splitlines()
    assert [json.loads(line)["message"] for line in lines] == ["heard"]
