"""A scheduler on a large cluster that is at work already: 10,000 nodes with 50,000 running pods.

    nodes and running pods are there ─► the scheduler starts ─► caches filled ─► it leads
                                                             └► gangs, one after the other: submitted ─► bound

What is told: from its start until it leads, processor time and memory until then, and for each gang the time from its
last create until a watch has seen its last pod bound, beside what the engine took for the decision.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from echelon.api.objects.vocabulary import RACK
from echelon.api.scheme import NAMESPACES, Object

from .contenders import Contender, Running, echelon, processor_seconds, running
from .scenarios import Scenario, busy_cluster, gang_of
from .stage import Stage

_RUNNING = "busy"
_PATIENCE_SECONDS = 600.0
#: How many gangs of which size, within one domain of which key.
_GANGS = ((20, 16, RACK), (10, 64, ""), (3, 512, ""))


@dataclass(frozen=True)
class Gangs:
    size: int
    key: str
    #: Seconds from the last create until all were bound, and of the decision alone.
    bound: list[float]
    decided: list[float]


@dataclass(frozen=True)
class Large:
    nodes: int
    pods: int
    #: From its start until it leads.
    to_lead: float
    processor: float
    megabytes: float
    peak_megabytes: float
    gangs: list[Gangs]


async def large_cluster(stage: Stage, scale: float) -> Large:
    nodes, pods = busy_cluster(scale)
    await stage.nodes(nodes)
    await stage.verbs.create(NAMESPACES, {"metadata": {"name": _RUNNING}})
    await stage.pods(pods, _RUNNING)
    await stage.tidy()
    contender = ready_at_once(stage)
    begin = time.perf_counter()
    async with running(contender, stage.plane.directory) as at_work:
        await at_work.is_waiting()
        led = time.perf_counter() - begin
        spent, resident = processor_seconds(at_work.pid), megabytes(at_work.pid)
        await asyncio.sleep(stage.settle)
        log = stage.plane.directory / f"{contender.name}.log"
        gangs = [await _one_by_one(stage, at_work, log, *each) for each in _GANGS]
        return Large(len(nodes), len(pods), led, spent, resident, at_work.peak_megabytes, gangs)


def ready_at_once(stage: Stage) -> Contender:
    """Echelon, waited for until it leads."""
    plain = echelon(stage.plane, "--log-format", "json")
    return Contender(plain.name, plain.lease, "is ready at", plain.command)


async def _one_by_one(stage: Stage, at_work: Running, log: Path, count: int, size: int, key: str) -> Gangs:
    bound: list[float] = []
    names = [f"gang-{size}-{number}" for number in range(count)]
    for name in names:
        scenario = gang_of(name, size, key)
        bound.append(await _submitted(stage, at_work, scenario))
    decided = [one["ms"] / 1000 for one in _placed(log) if one["name"] in names]
    return Gangs(size, key, bound, decided)


async def _submitted(stage: Stage, at_work: Running, scenario: Scenario) -> float:
    """Submit a gang and see it bound; it stays, so the cluster fills."""
    space, count = scenario.name, len(scenario.pods)
    created: list[float] = []

    async def submit() -> None:
        await stage.submit(scenario, space)
        created.append(time.perf_counter())

    async with stage.binds(space, count, lambda: [processor_seconds(at_work.pid)]) as binds:
        await submit()
        await binds.wait(_PATIENCE_SECONDS, at_work.check)
        if not binds.complete:
            raise RuntimeError(f"{space}: {len(binds.seen)} of {count} pods bound")
        return binds.last - created[0]


def _placed(log: Path) -> list[Object]:
    lines = (json.loads(line) for line in log.read_text().splitlines() if line.startswith("{"))
    return [line for line in lines if line["message"] == "placed"]


def megabytes(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


def table(found: Sequence[Large]) -> Table:
    made = Table("nodes", "running pods", "to lead", "CPU", "memory", "peak", "gangs", "created to bound", "decision")
    for one in found:
        head = [f"{one.nodes:,}", f"{one.pods:,}", f"{one.to_lead:.1f} s", f"{one.processor:.1f} s"]
        head += [f"{one.megabytes:,.0f} MB", f"{one.peak_megabytes:,.0f} MB"]
        for gangs in one.gangs:
            where = " in one rack" if gangs.key else ""
            made.add_row(
                *head, f"{len(gangs.bound)} of {gangs.size}{where}", _spread(gangs.bound), _spread(gangs.decided)
            )
            head = [""] * len(head)
    return made


def _spread(seconds: Sequence[float]) -> str:
    """Median and most, in milliseconds."""
    if not seconds:
        return "–"
    return f"{statistics.median(seconds) * 1000:,.1f} ms (at most {max(seconds) * 1000:,.1f})"
