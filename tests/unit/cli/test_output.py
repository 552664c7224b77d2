"""Text that keeps within the width of a terminal, and is not cut in a pipe."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.text import Text

from echelon.cli.output import hanging, plain_console


def lines(width: int) -> list[str]:
    return hanging(
        Text("12.0s  waits     PodGroup/train  "), Text("needs five pods in one rack"), 17, width
    ).plain.split("\n")


def test_text_stands_beside_its_head_if_it_fits_and_else_in_a_column_of_its_own() -> None:
    assert lines(60) == ["12.0s  waits     PodGroup/train  needs five pods in one rack"[:60]]
    assert lines(50) == ["12.0s  waits     PodGroup/train", " " * 17 + "needs five pods in one rack"]
    assert lines(40) == ["12.0s  waits     PodGroup/train", " " * 17 + "needs five pods in one", " " * 17 + "rack"]


@pytest.mark.parametrize(("columns", "most"), [("", 2000), ("70", 70)])
def test_lines_are_cut_where_a_width_is_known(monkeypatch: pytest.MonkeyPatch, columns: str, most: int) -> None:
    monkeypatch.setattr("sys.stdout", StringIO())
    monkeypatch.setenv("COLUMNS", columns)
    console = plain_console()
    told = hanging(Text("head "), Text("word " * 399), 4, console.width).plain.split("\n")
    assert (len(told) == 1) == (not columns)
    assert max(map(len, told)) <= most
