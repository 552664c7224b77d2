"""The console that commands print to, and text that keeps within its width."""

from __future__ import annotations

import os
import re

from rich.console import Console
from rich.text import Text

#: Without a terminal and without $COLUMNS, lines are as long as they are.
_PLAIN_WIDTH = 10_000
#: No text is wrapped into a narrower column than this.
_NARROWEST = 20


def plain_console() -> Console:
    """A console as wide as the terminal, or as $COLUMNS says; a file or a pipe gets lines that are not cut."""
    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal and not os.environ.get("COLUMNS"):
        console.width = _PLAIN_WIDTH
    return console


def counting_order(name: str) -> list[tuple[int, str]]:
    """Sort key that orders numbers in names by value: worker-2 before worker-10."""
    return [(int(word), "") if word.isdecimal() else (-1, word) for word in re.split(r"(\d+)", name)]


def hanging(head: Text, text: Text, indent: int, width: int) -> Text:
    """Head and text in one line if they fit; otherwise the text wraps in a column of its own.

    The column is beside the head if that leaves half of the width, else below it, `indent` in.
    """
    if len(head) + len(text) <= width:
        lines = [Text.assemble(head, text)]
    elif 2 * len(head) <= width:
        first, *rest = _wrapped(text, width - len(head))
        lines = [Text.assemble(head, first), *(Text(" " * len(head)).append_text(line) for line in rest)]
    else:
        lines = [head, *(Text(" " * indent).append_text(line) for line in _wrapped(text, width - indent))]
    for line in lines:
        line.rstrip()
    return Text("\n").join(lines)


def _wrapped(text: Text, width: int) -> list[Text]:
    return list(text.wrap(Console(width=width), max(width, _NARROWEST)))
