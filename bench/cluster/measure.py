"""One scenario, every contender in turn, on the same server and the same objects."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from echelon.api.scheme import Object

from . import bare
from .contenders import Contender, Cost, running
from .scenarios import Scenario
from .stage import Stage

#: The numbers of connections that the limit is tried with; the best one counts.
_CONNECTIONS = (8, 16, 32, 64)
#: How many bindings decide which is the best.
_SAMPLE = 300
_LEADING_SECONDS = 60.0
_SAID_SECONDS = 120.0


@dataclass(frozen=True)
class Limit:
    """What the server can take."""

    pods: int
    seconds: float
    connections: int

    @property
    def rate(self) -> float:
        return self.pods / self.seconds


@dataclass(frozen=True)
class Result:
    """What a contender made of it, from its first moment as the leader."""

    contender: str
    pods: int
    bound: int
    to_last_bind: float
    #: Until all groups said that they are scheduled; None if they did not in time.
    to_last_word: float | None
    cost: Cost

    @property
    def rate(self) -> float:
        return self.bound / self.to_last_bind if self.bound else 0.0


@dataclass
class Outcome:
    scenario: Scenario
    limit: Limit
    results: dict[str, Result] = field(default_factory=dict)


async def limit(stage: Stage, scenario: Scenario) -> Limit:
    """Bind the pods without a scheduler: some with each number of connections to find the best, then all with that."""
    tried: dict[int, float] = {}
    for connections in _CONNECTIONS:
        sample = scenario.pods[:_SAMPLE]
        tried[connections] = await _bind(stage, f"trial-{connections}", scenario, sample, connections)
    best = min(tried, key=lambda connections: tried[connections])
    return Limit(len(scenario.pods), await _bind(stage, "bare", scenario, scenario.pods, best), best)


async def _bind(stage: Stage, namespace: str, scenario: Scenario, pods: list[Object], connections: int) -> float:
    """The seconds that it takes to bind so many pods, with nobody deciding; they are gone afterwards."""
    await stage.submit(replace(scenario, pods=pods), namespace)
    names = [node["metadata"]["name"] for node in scenario.nodes]
    requests = [
        bare.binding(namespace, pod["metadata"]["name"], names[index % len(names)]) for index, pod in enumerate(pods)
    ]
    async with stage.binds(namespace) as binds:
        seconds = await bare.bind_all(stage.endpoint, requests, connections)
        await binds.wait_for(len(pods), _SAID_SECONDS)
    await stage.clear(namespace)
    return seconds


async def race(stage: Stage, scenario: Scenario, contender: Contender, patience: float, settle: float) -> Result:
    """Let one scheduler bind all pods."""
    namespace = contender.name
    await stage.submit(scenario, namespace)
    async with running(contender, stage.plane.directory) as at_work, stage.binds(namespace) as binds:
        async with stage.lease(contender.lease):
            await at_work.is_waiting()
            await asyncio.sleep(settle)
            before = at_work.cost()
        begin = await stage.led_since(contender.lease, _LEADING_SECONDS)
        await binds.wait_for(len(scenario.pods), patience, at_work.check)
        said = await stage.all_said(namespace, _SAID_SECONDS if binds.complete(len(scenario.pods)) else 0.0)
        cost = at_work.cost().since(before)
    await stage.clear(namespace)
    last = binds.last - begin if binds.seen else 0.0
    return Result(
        contender.name, len(scenario.pods), len(binds.seen), last, said - begin if said is not None else None, cost
    )


async def run(
    stage: Stage, scenario: Scenario, contenders: Sequence[Contender], patience: float, settle: float = 1.0
) -> Outcome:
    await stage.nodes(scenario.nodes)
    outcome = Outcome(scenario, await limit(stage, scenario))
    for contender in contenders:
        await asyncio.sleep(settle)
        outcome.results[contender.name] = await race(stage, scenario, contender, patience, settle)
    return outcome
