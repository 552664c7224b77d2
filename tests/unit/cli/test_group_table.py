"""The table of groups of a run on this machine."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console
from rich.live import Live
from rich.text import Text

from echelon.cli.following.group_table import GroupTable

LONG = "step 17 of a rather long log line that goes on beyond eighty columns, loss 0.0556 grad 56.1"
TABLE = GroupTable(
    [
        (Text("data-0"), Text("1 succeeded"), Text(""), Text("wrote 4096 points")),
        (Text("trainer-0"), Text("1 running · 1 failed"), Text("12"), Text(LONG)),
    ]
)


def drawn(width: int, *, soft_wrap: bool = True) -> list[str]:
    out = StringIO()
    Console(file=out, width=width, highlight=False, soft_wrap=soft_wrap).print(TABLE)
    return out.getvalue().splitlines()


def test_columns_stand_below_their_names_and_lines_end_with_their_text() -> None:
    assert drawn(10_000) == [
        "group      pods                  restarts  last log line",
        "data-0     1 succeeded                     wrote 4096 points",
        f"trainer-0  1 running · 1 failed        12  {LONG}",
    ]


@pytest.mark.parametrize("width", [80, 60])
@pytest.mark.parametrize("soft_wrap", [True, False])
def test_of_a_line_that_is_too_long_the_end_is_cut_and_pods_and_restarts_stay(width: int, soft_wrap: bool) -> None:
    lines = drawn(width, soft_wrap=soft_wrap)
    assert len(lines) == 3
    assert lines[2].startswith("trainer-0  1 running · 1 failed        12  step 17")
    assert len(lines[2]) == width
    assert lines[2].endswith("…")


def test_a_view_that_changes_in_place_has_all_columns_too() -> None:
    out = StringIO()
    console = Console(file=out, width=80, height=20, force_terminal=True, color_system=None, soft_wrap=True)
    with Live(TABLE, console=console, auto_refresh=False, transient=True):
        pass
    assert "1 running · 1 failed        12  step 17" in out.getvalue()
