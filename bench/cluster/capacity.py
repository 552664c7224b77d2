"""What a scheduler needs for each node, running pod and waiting gang: memory and processor time of its start.

The same command is started on a server that has more and more: nothing, nodes, running pods, gangs that do not fit.
What one kind needs is the difference to the start before, divided by how many there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from echelon.api.scheme import NAMESPACES

from .contenders import processor_seconds, running
from .many import megabytes, ready_at_once
from .scenarios import busy_cluster, waiting_gangs
from .stage import Stage

_GANG_SIZE = 8


@dataclass(frozen=True)
class Start:
    """A start on what there is; `more` of `kind` came since the start before."""

    kind: str
    more: int
    megabytes: float
    processor: float


async def starts(stage: Stage, scale: float) -> list[Start]:
    nodes, pods = busy_cluster(scale * 0.2)
    gangs = waiting_gangs(int(1000 * scale), _GANG_SIZE)
    for namespace in ("running", "waiting"):
        await stage.verbs.create(NAMESPACES, {"metadata": {"name": namespace}})
    found = [await _start(stage, "", 0)]
    await stage.nodes(nodes)
    found.append(await _start(stage, "node", len(nodes)))
    await stage.pods(pods, "running")
    found.append(await _start(stage, "running pod", len(pods)))
    await stage.submit(gangs, "waiting-gangs")
    found.append(await _start(stage, f"waiting gang of {_GANG_SIZE}", len(gangs.groups)))
    return found


async def _start(stage: Stage, kind: str, more: int) -> Start:
    async with running(ready_at_once(stage), stage.plane.directory) as at_work:
        await at_work.is_waiting()
        await asyncio.sleep(10.0)  # everything that waits is looked at once
        return Start(kind, more, megabytes(at_work.pid), processor_seconds(at_work.pid))


def table(found: Sequence[Start]) -> Table:
    made = Table("on a server with", "memory", "CPU of the start", "more of it", "KB each", "CPU ms each")
    for before, one in zip((None, *found), found, strict=False):
        cells = [f"{one.megabytes:,.0f} MB", f"{one.processor:.1f} s"]
        if before is None:
            made.add_row("nothing", *cells)
            continue
        each = (one.megabytes - before.megabytes) * 1024 / one.more
        spent = (one.processor - before.processor) * 1000 / one.more
        made.add_row(f"+ {one.kind}s", *cells, f"{one.more:,}", f"{each:.1f}", f"{spent:.2f}")
    return made
