"""One scenario, the bare client and every contender in turn, on the same server and equal objects.

    three times: bare client ─► Echelon ─► (once) kube-scheduler

The machine is not the same from minute to minute, so bare client and Echelon alternate and of each the median counts.
"""

from __future__ import annotations

import asyncio
import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from echelon.api.scheme import Object

from . import bare
from .contenders import Contender, processor_seconds, running
from .scenarios import Scenario
from .stage import Stage

#: The numbers of connections that the bare client is tried with; the best one is used from then on.
_CONNECTIONS = (16, 32, 64)
#: How many bindings decide which is the best.
_SAMPLE = 300
_LEADING_SECONDS = 60.0
_SAID_SECONDS = 120.0
BARE = "bare"


@dataclass(frozen=True)
class Result:
    """What one run came to, from the first moment until a watch has seen the last pod bound."""

    pods: int
    bound: int
    seconds: float
    #: Processor time meanwhile: of the server (etcd and kube-apiserver), and of the scheduler or the bare client.
    server: float
    own: float
    #: Until all groups said that they are scheduled; None if they did not in time.
    to_last_word: float | None = None
    peak_megabytes: float = 0.0

    @property
    def rate(self) -> float:
        return self.bound / self.seconds if self.bound else 0.0


@dataclass
class Outcome:
    scenario: Scenario
    connections: int
    #: By contender, the bare client among them, in the order in which they ran.
    results: dict[str, list[Result]] = field(default_factory=dict)

    def add(self, contender: str, result: Result) -> None:
        self.results.setdefault(contender, []).append(result)

    def median(self, contender: str) -> Result:
        """The run in the middle."""
        return sorted(self.results[contender], key=lambda one: one.rate)[(len(self.results[contender]) - 1) // 2]

    def rate(self, contender: str) -> float:
        return statistics.median(one.rate for one in self.results[contender])


async def _best_connections(stage: Stage, scenario: Scenario) -> int:
    """How many at a time the server takes best."""
    pods = scenario.pods[:_SAMPLE]
    wanted = {pod["spec"]["schedulingGroup"]["podGroupName"] for pod in pods}
    groups = [one for one in scenario.groups if one[1]["metadata"]["name"] in wanted]
    sample = replace(scenario, pods=pods, groups=groups)
    tried = {count: await _bare(stage, f"trial-{count}", sample, count) for count in _CONNECTIONS}
    return max(tried, key=lambda count: tried[count].rate)


async def _bare(stage: Stage, namespace: str, scenario: Scenario, connections: int) -> Result:
    """Bind all pods with nobody deciding; they are gone afterwards."""
    await stage.submit(scenario, namespace)
    names = [node["metadata"]["name"] for node in scenario.nodes]
    requests = [_binding(namespace, pod, names[index % len(names)]) for index, pod in enumerate(scenario.pods)]
    count = len(requests)
    async with stage.binds(namespace, count, _reading(stage, os.getpid())) as binds:
        before = binds.read()
        begin = await bare.bind_all(stage.endpoint, requests, connections)
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


async def _race(stage: Stage, scenario: Scenario, contender: Contender, namespace: str, patience: float) -> Result:
    """Let one scheduler bind all pods."""
    await stage.submit(scenario, namespace)
    count = len(scenario.pods)
    async with (
        running(contender, stage.plane.directory) as at_work,
        stage.binds(namespace, count, _reading(stage, at_work.pid)) as binds,
    ):
        async with stage.lease(contender.lease):
            await at_work.is_waiting()
            await asyncio.sleep(stage.settle)
        begin, before = await stage.led_since(contender.lease, _LEADING_SECONDS, binds.read)
        await binds.wait(patience, at_work.check)
        said = await stage.all_said(namespace, _SAID_SECONDS if binds.complete else 0.0)
        peak = at_work.peak_megabytes
    await stage.clear(namespace)
    server, own = binds.spent_since(before)
    last = binds.last - begin if binds.seen else 0.0
    return Result(count, len(binds.seen), last, server, own, said - begin if said is not None else None, peak)


async def run(
    stage: Stage, scenario: Scenario, contenders: Sequence[Contender], rounds: int, patience: float
) -> Outcome:
    await stage.nodes(scenario.nodes)
    outcome = Outcome(scenario, await _best_connections(stage, scenario))
    for number in range(rounds):
        await asyncio.sleep(stage.settle)
        outcome.add(BARE, await _bare(stage, f"{BARE}-{number}", scenario, outcome.connections))
        for contender in contenders:
            if not (number and contender.once):
                await asyncio.sleep(stage.settle)
                namespace = f"{contender.name}-{number}"
                outcome.add(contender.name, await _race(stage, scenario, contender, namespace, patience))
    return outcome
