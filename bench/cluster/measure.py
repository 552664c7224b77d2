"""One scenario, the bare client and every contender in turn, on the same server and equal objects.

    seven times:  everything is there ─► bare client ─► Echelon ─► (once) kube-scheduler
    three times:  a scheduler leads, everything is submitted to it ─► Echelon ─► (once) kube-scheduler

The first says how near a scheduler comes to what the server can take at all, the second what a user waits for.  The
machine is not the same from minute to minute, so bare client and Echelon alternate and of each the median counts.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from echelon.api.scheme import Object

from . import bare
from .contenders import Contender, Running, processor_seconds, running
from .observer import Binds
from .scenarios import Scenario
from .stage import Stage

#: The numbers of connections that the bare client is tried with; the best one is the limit.
_CONNECTIONS = (32, 64)
#: What a user waits for is several times what is compared with the limit, so it is seen from fewer runs.
SUBMISSIONS = 3
_LEADING_SECONDS = 60.0
#: What passes between tidying up and the first moment of a leader, who looks for the lease every other second.  A
#: server that comes from its rest is a little slower, so the bare client waits as long with its connections open.
_LEASE_SECONDS = 2.0
_SAID_SECONDS = 120.0


@dataclass(frozen=True)
class Result:
    """What one run came to, from the first moment until a watch has seen the last pod bound."""

    pods: int
    bound: int
    seconds: float
    #: Processor time meanwhile: of the server (etcd and kube-apiserver), and of the scheduler or the bare client.
    server: float
    own: float
    #: Until the last pod was created, where that is part of it.
    to_last_create: float = 0.0
    #: Until all groups said that they are scheduled; None if they did not in time.
    to_last_word: float | None = None
    peak_megabytes: float = 0.0

    @property
    def rate(self) -> float:
        return self.bound / self.seconds if self.bound else 0.0


class Runs:
    """The runs of each contender, in the order in which they ran."""

    def __init__(self) -> None:
        self._results: dict[str, list[Result]] = {}

    def add(self, contender: str, result: Result) -> None:
        self._results.setdefault(contender, []).append(result)

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def rates(self, contender: str) -> list[float]:
        return sorted(one.rate for one in self._results[contender])

    def rate(self, contender: str) -> float:
        return statistics.median(self.rates(contender))

    def median(self, contender: str) -> Result:
        """The run in the middle."""
        return sorted(self._results[contender], key=lambda one: one.rate)[(len(self._results[contender]) - 1) // 2]


@dataclass
class Outcome:
    scenario: Scenario
    #: By the number of bindings that the bare client had under way.
    bare: Runs = field(default_factory=Runs)
    #: Everything was there when the scheduler began.
    waiting: Runs = field(default_factory=Runs)
    #: The scheduler was there when everything was submitted.
    submitted: Runs = field(default_factory=Runs)

    @property
    def best(self) -> str:
        """The bare client that came furthest."""
        return max(self.bare, key=self.bare.rate)

    def share(self, contender: str) -> float:
        """Of the limit."""
        return self.waiting.rate(contender) / self.bare.rate(self.best)


async def _bare(stage: Stage, namespace: str, scenario: Scenario, connections: int) -> Result:
    """Bind all pods with nobody deciding; they are gone afterwards."""
    await stage.submit(scenario, namespace)
    names = [node["metadata"]["name"] for node in scenario.nodes]
    requests = [_binding(namespace, pod, names[index % len(names)]) for index, pod in enumerate(scenario.pods)]
    count = len(requests)
    async with stage.binds(namespace, count, _reading(stage, os.getpid())) as binds:
        await stage.tidy()
        async with bare.connected(stage.endpoint, connections) as wire:
            await asyncio.sleep(_LEASE_SECONDS)
            before = binds.read()
            begin = await bare.bind_all(wire, requests, connections)
            await binds.wait(_SAID_SECONDS)
    await stage.clear(namespace)
    server, own = binds.spent_since(before)
    return Result(count, len(binds.seen), binds.last - begin, server, own)


def _binding(namespace: str, pod: Object, node: str) -> tuple[str, bytes]:
    return bare.binding(namespace, pod["metadata"]["name"], node)


def _reading(stage: Stage, client: int) -> Callable[[], list[float]]:
    """Reads the processor time spent so far by the server, and by a client of it."""
    server = list(stage.plane.pids.values())
    return lambda: [sum(map(processor_seconds, server)), processor_seconds(client)]


async def waiting(stage: Stage, scenario: Scenario, contender: Contender, namespace: str, patience: float) -> Result:
    """Let one scheduler bind pods that are all there when it begins."""
    await stage.submit(scenario, namespace)
    async with _contest(stage, scenario, contender, namespace) as (at_work, binds):
        begin, before = await _let_lead(stage, at_work, binds)
        return await _concluded(stage, at_work, binds, begin, before, patience)


async def submitted(stage: Stage, scenario: Scenario, contender: Contender, namespace: str, patience: float) -> Result:
    """Let one scheduler bind pods as they come, with the clock running from the first create."""
    async with _contest(stage, scenario, contender, namespace) as (at_work, binds):
        await _let_lead(stage, at_work, binds)
        await asyncio.sleep(stage.settle)
        begin, before = time.perf_counter(), binds.read()
        await stage.submit(scenario, namespace)
        created = time.perf_counter() - begin
        return replace(await _concluded(stage, at_work, binds, begin, before, patience), to_last_create=created)


@asynccontextmanager
async def _contest(
    stage: Stage, scenario: Scenario, contender: Contender, namespace: str
) -> AsyncIterator[tuple[Running, Binds]]:
    """The scheduler at work and who sees it; when both are gone, so are the objects."""
    async with (
        running(contender, stage.plane.directory) as at_work,
        stage.binds(namespace, len(scenario.pods), _reading(stage, at_work.pid)) as binds,
    ):
        yield at_work, binds
    await stage.clear(namespace)


async def _let_lead(stage: Stage, at_work: Running, binds: Binds) -> tuple[float, list[float]]:
    """Let it fill its caches, then have the lease; when it began, and the meters at that time."""
    lease = at_work.contender.lease
    async with stage.lease(lease):
        await at_work.is_waiting()
        await stage.tidy()
        await asyncio.sleep(stage.settle)
    return await stage.led_since(lease, _LEADING_SECONDS, binds.read)


async def _concluded(
    stage: Stage, at_work: Running, binds: Binds, begin: float, before: list[float], patience: float
) -> Result:
    """What it came to."""
    await binds.wait(patience, at_work.check)
    said = await stage.all_said(binds.namespace, _SAID_SECONDS if binds.complete else 0.0)
    server, own = binds.spent_since(before)
    return Result(
        binds.count,
        len(binds.seen),
        binds.last - begin if binds.seen else 0.0,
        server,
        own,
        to_last_word=said - begin if said is not None else None,
        peak_megabytes=at_work.peak_megabytes,
    )


async def run(
    stage: Stage, scenario: Scenario, contenders: Sequence[Contender], rounds: int, patience: float
) -> Outcome:
    await stage.nodes(scenario.nodes)
    await stage.around(scenario.around)
    outcome = Outcome(scenario)
    for number in range(rounds):
        for connections in _CONNECTIONS:
            await asyncio.sleep(stage.settle)
            result = await _bare(stage, f"bare-{connections}-{number}", scenario, connections)
            outcome.bare.add(f"{connections} at once", result)
        for contender in contenders:
            for kind, runs, race, most in (
                ("waiting", outcome.waiting, waiting, rounds),
                ("submitted", outcome.submitted, submitted, SUBMISSIONS),
            ):
                if number >= (1 if contender.once else most):
                    continue
                await asyncio.sleep(stage.settle)
                namespace = f"{contender.name}-{kind}-{number}"
                runs.add(contender.name, await race(stage, scenario, contender, namespace, patience))
    return outcome
