"""What the scheduler costs by itself: `python -m bench.cluster.alone --scenario small --profile where.prof`.

    this process: caches ─► scheduler ─► bindings ──HTTPS──► a child that answers (`prompt`)

Only processor time counts, from the first moment as the leader until the watch has shown the last pod bound, so a busy
machine does little harm; of several runs the least counts.  The bare client binds the same pods on the same child.
"""

from __future__ import annotations

import asyncio
import cProfile
import gc
import ssl
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from echelon.api.scheme import PODS, Object
from echelon.client.http import HttpVerbs
from echelon.client.informer import Caches
from echelon.runtime import components as all_parts
from echelon.runtime.clocks import RealClock
from echelon.runtime.components import Component
from echelon.runtime.plane import run_program
from echelon.runtime.supervision import supervised
from echelon.scheduler.loop import Settings

from . import bare, prompt
from .scenarios import SCENARIOS, SCHEDULER, Scenario

_WRITES_AT_ONCE = 72
_BARE_AT_ONCE = 64
_SETTLE_SECONDS = 0.3


@dataclass(frozen=True)
class Spent:
    """Processor seconds of one run, and of it those before the first binding was sent."""

    first: float
    all: float
    pods: int
    groups: int


class _Verbs(HttpVerbs):
    """Notes when the first binding is sent."""

    first = 0.0

    async def bind(self, *names: str, **options: Any) -> None:
        self.first = self.first or time.process_time()
        await super().bind(*names, **options)


@asynccontextmanager
async def _server(scenario: Scenario, scale: float, rate: float) -> AsyncIterator[bare.Endpoint]:
    with tempfile.TemporaryDirectory(prefix="echelon-bench-") as directory:
        arguments = (directory, scenario.name, str(scale), str(rate))
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", prompt.__name__, *arguments, stdin=pipe, stdout=pipe
        )
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            url = (await child.stdout.readline()).decode().strip()
            yield bare.Endpoint(url, ssl.create_default_context(cafile=Path(directory, "ca.crt")), "token")
        finally:
            child.stdin.close()
            await child.wait()


async def _scheduled(scenario: Scenario, scale: float, rate: float, profile: cProfile.Profile | None = None) -> Spent:
    """The scheduler as `echelon scheduler` runs it, from the moment at which it leads."""
    async with _server(scenario, scale, rate) as at:
        verbs = _Verbs(at.url, at.credentials)
        caches, clock = Caches(verbs, RealClock()), RealClock()
        settings = Settings(names=(SCHEDULER,))
        _, parts = all_parts.scheduler(verbs, caches, clock, settings)
        done = _all_bound(caches, len(scenario.pods))
        async with supervised([Component("caches", caches.run)]):
            await caches.wait_synced()
            for part in parts:
                part.prepare()
            await verbs.get_ready(_WRITES_AT_ONCE)
            await asyncio.sleep(_SETTLE_SECONDS)
            begin = time.process_time()
            if profile is not None:
                profile.enable()
            async with supervised(parts):
                await done.wait()
                end = time.process_time()
                if profile is not None:
                    profile.disable()
        await verbs.close()
        return Spent(verbs.first - begin, end - begin, len(scenario.pods), len(scenario.groups))


def _all_bound(caches: Caches, count: int) -> asyncio.Event:
    done, bound = asyncio.Event(), 0

    def hear(_: Object | None, new: Mapping[str, Any] | None) -> None:
        nonlocal bound
        if new is not None and "nodeName" in new["spec"]:
            bound += 1
            if bound == count:
                done.set()

    caches.of(PODS).add_handler(hear)
    return done


async def _bare(scenario: Scenario, scale: float, rate: float) -> Spent:
    async with _server(scenario, scale, rate) as at:
        names = [node["metadata"]["name"] for node in scenario.nodes]
        pods = [pod["metadata"]["name"] for pod in scenario.pods]
        requests = [bare.binding(prompt.NAMESPACE, pod, names[number % len(names)]) for number, pod in enumerate(pods)]
        async with bare.connected(at, _BARE_AT_ONCE) as wire:
            begin = time.process_time()
            await bare.bind_all(wire, requests, _BARE_AT_ONCE)
            return Spent(0.0, time.process_time() - begin, len(pods), len(scenario.groups))


def _run(main: Coroutine[Any, Any, Spent]) -> Spent:
    """What earlier runs left behind is not looked through in this one."""
    gc.collect()
    gc.freeze()
    return run_program(main)


def _row(spent: Spent) -> list[str]:
    each = (spent.first, spent.all, spent.all / spent.pods, spent.all / spent.groups)
    return [
        f"{seconds * 1000:.{digits}f} ms" if seconds else "" for seconds, digits in zip(each, (1, 0, 3, 2), strict=True)
    ]


@click.command()
@click.option("--scenario", "names", multiple=True, type=click.Choice(list(SCENARIOS)), help="[default: all]")
@click.option("--scale", type=click.FloatRange(0, 1, min_open=True), default=1.0, help="Component of the full size.")
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True, help="Runs, of which the least counts.")
@click.option("--rate", type=float, default=1500.0, show_default=True, help="Bindings answered in a second.")
@click.option("--profile", type=click.Path(path_type=Path), help="Write where one more run spends its time here.")
def main(names: tuple[str, ...], scale: float, rounds: int, rate: float, profile: Path | None) -> None:
    """Processor time of the scheduler on a server that says yes."""
    table = Table(title=f"processor time, {rate:,.0f} bindings/s, least of {rounds}")
    for heading in ("scenario", "who", "first binding", "in all", "per pod", "per group"):
        table.add_column(heading, justify="left" if heading in ("scenario", "who") else "right")
    for name in names or SCENARIOS:
        scenario = SCENARIOS[name](scale)
        without = min((_run(_bare(scenario, scale, rate)) for _ in range(rounds)), key=attrgetter("all"))
        table.add_row(scenario.title, "no scheduler", *_row(without))
        least = min((_run(_scheduled(scenario, scale, rate)) for _ in range(rounds)), key=attrgetter("all"))
        table.add_row("", "Echelon", *_row(least))
        if profile is not None:
            profiler = cProfile.Profile(time.thread_time)
            _run(_scheduled(scenario, scale, rate, profiler))
            profiler.dump_stats(profile)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
