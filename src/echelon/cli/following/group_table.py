"""The table of groups below the lines of `echelon run --local`; what does not fit is cut from log lines first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

#: Name, phases of pods, restarts, last log line.
Cells = tuple[Text, Text, Text, Text]
_HEADER = ("group", "pods", "restarts", "last log line")
_GAP = "  "
#: Columns that a log line has at least, unless names are as short as can be.
_LEAST_LINE, _SHORTEST_NAME = 20, 12


@dataclass(frozen=True)
class GroupTable:
    """As wide as the terminal at most; lines end where their text ends."""

    rows: Sequence[Cells]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        name, pods, restarts, line = (Text(word, style="dim") for word in _HEADER)
        rows = [(name, pods, restarts, line), *self.rows]
        widest = [max(row[column].cell_len for row in rows) for column in range(3)]
        fixed = widest[1] + widest[2] + 3 * len(_GAP)
        widest[0] = min(widest[0], max(_SHORTEST_NAME, options.max_width - fixed - _LEAST_LINE))
        rest = max(1, options.max_width - widest[0] - fixed)
        for row in rows:
            yield _drawn(row, widest, rest)


def _drawn(row: Cells, widest: Sequence[int], rest: int) -> Text:
    name, pods, restarts, line = (cell.copy() for cell in row)
    name.truncate(widest[0], overflow="ellipsis", pad=True)
    pods.truncate(widest[1], pad=True)
    restarts.pad_left(widest[2] - restarts.cell_len)
    line.truncate(rest, overflow="ellipsis")
    drawn = Text(_GAP).join([name, pods, restarts, line])
    drawn.rstrip()
    drawn.no_wrap = True
    return drawn
