"""What one pod's end costs the scheduler while many gangs wait, none equal to another: `python -m bench.waking 500`.

Every node is taken by one pod.  Each gang needs four nodes, so that the end of one pod helps none of them, and that of
four helps one.  Time is virtual, so what is measured is CPU time, the server's (in memory) included.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from echelon.api.scheme import PODS
from echelon.scheduler.loop import Scheduler
from echelon.testing.builders import make_node, make_pod, make_pod_group
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time

_NODES = 1000
_RACK = 20
_NEED = 4


@dataclass(frozen=True)
class Cost:
    """What the scheduler did and spent."""

    what: str
    cpu_seconds: float
    decisions: float


def _decisions(scheduler: Scheduler) -> float:
    """How often the engine was asked."""
    samples = (sample for family in scheduler.metrics.registry.collect() for sample in family.samples)
    return sum(sample.value for sample in samples if sample.name == "echelon_scheduler_engine_steps_count")


async def _until_quiet(scheduler: Scheduler) -> None:
    while True:
        await asyncio.sleep(0.01)
        if scheduler.at_rest:
            return


async def _costs(world: SchedulerPlane, gangs: int, found: list[Cost]) -> None:
    scheduler = world.scheduler
    assert scheduler is not None
    for number in range(_NODES):
        await world.submit(make_node(f"n{number}", cpu=64, rack=f"r{number // _RACK}"))
        await world.submit(make_pod(f"full{number}", cpu=62, node=f"n{number}"))
    await _until_quiet(scheduler)
    asked, began = _decisions(scheduler), time.process_time()
    for number in range(gangs):
        await world.submit(make_pod_group(f"g{number}", gang=_NEED))
        for member in range(_NEED):
            await world.submit(make_pod(f"g{number}-{member}", group=f"g{number}", cpu=f"{33_000 + number}m"))

    def spent(what: str) -> None:
        nonlocal began, asked
        seconds, decisions = time.process_time() - began, _decisions(scheduler)
        found.append(Cost(what, seconds, decisions - asked))
        asked, began = decisions, time.process_time()

    await _until_quiet(scheduler)
    spent("all gangs come, are tried and told")
    for number in range(_NEED):
        await world.delete(PODS, f"full{number}")
        await _until_quiet(scheduler)
        spent(f"pod {number + 1} ends")


def measure(gangs: int) -> list[Cost]:
    found: list[Cost] = []
    in_virtual_time(_costs)(gangs, found)
    return found


def table(gangs: int, costs: Sequence[Cost]) -> Table:
    drawn = Table(title=f"{gangs:,} different gangs wait on {_NODES:,} full nodes")
    for heading in ("what", "CPU", "decisions"):
        drawn.add_column(heading, justify="left" if heading == "what" else "right")
    for cost in costs:
        drawn.add_row(cost.what, f"{cost.cpu_seconds * 1000:,.0f} ms", f"{cost.decisions:.0f}")
    return drawn


if __name__ == "__main__":
    for argument in sys.argv[1:] or ["500"]:
        Console(width=100).print(table(int(argument), measure(int(argument))))
