"""An informer of client-go keeps up with a server that is killed and started again.

Two rounds here; `make test-long`'s variable makes it ten minutes.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.scheme import CONFIG_MAPS, Object
from echelon.api.verbs import Verbs
from echelon.client.kubeconfig import connect, load
from tests.e2e.process import UpProcess

from .environments import program

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1800)]

SECONDS = 600.0 if os.environ.get("ECHELON_LONG") else 15.0
NAMESPACE = "default"
_NAMES = [f"m{number}" for number in range(20)]


class Informer:
    """The Go program: asked by a line, it says what its cache holds."""

    def __init__(self, kubeconfig: Path, home: Path) -> None:
        self._process = subprocess.Popen(
            [program("informer"), kubeconfig], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, env={"HOME": str(home)},
        )  # fmt: skip

    def state(self) -> dict[str, dict[str, str]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        found: dict[str, dict[str, str]] = json.loads(self._process.stdout.readline())
        return found

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


async def change_something(verbs: Verbs, chance: random.Random, count: int) -> None:
    """One write; what a plane that is down does not answer is lost, and that is fine."""
    name = chance.choice(_NAMES)
    wanted: Object = {"metadata": {"name": name}, "data": {"count": str(count)}}
    try:
        match chance.choice(("create", "update", "delete")):
            case "create":
                await verbs.create(CONFIG_MAPS, wanted, NAMESPACE)
            case "update":
                await verbs.update(CONFIG_MAPS, wanted, NAMESPACE)
            case _:
                await verbs.delete(CONFIG_MAPS, name, NAMESPACE)
    except ApiError:
        await asyncio.sleep(0.01)


async def restarts(up: UpProcess, chance: random.Random, seconds: float) -> int:
    """Kill and start for as long as that; returns how often."""
    until, count = time.monotonic() + seconds, 0
    while time.monotonic() < until or count < 2:
        await asyncio.sleep(chance.uniform(0.5, 3.0))
        await asyncio.to_thread(up.kill)
        await asyncio.to_thread(up.start)
        count += 1
    return count


async def write_until(done: asyncio.Task[Any], verbs: Verbs, chance: random.Random) -> int:
    count = 0
    while not done.done():
        await change_something(verbs, chance, count)
        count += 1
    return count


async def listed(verbs: Verbs) -> dict[str, str]:
    found = await verbs.list(CONFIG_MAPS, NAMESPACE)
    return {meta.name(one): one["metadata"]["resourceVersion"] for one in found.items}


@pytest.mark.conformance("API-109")
async def test_the_cache_of_an_informer_is_the_list_after_any_restarts(tmp_path: Path) -> None:
    chance = random.Random(7)
    up = UpProcess(tmp_path / "data", "--nodes", "none")
    await asyncio.to_thread(up.start)
    informer = await asyncio.to_thread(Informer, up.kubeconfig, tmp_path)
    verbs = connect(load(up.kubeconfig))
    try:
        killing = asyncio.create_task(restarts(up, chance, SECONDS))
        assert await write_until(killing, verbs, chance) > 0
        assert await killing >= 2
        expected = await listed(verbs)
        deadline = time.monotonic() + 120
        while (found := await asyncio.to_thread(informer.state)) != {"held": expected, "told": expected}:
            assert time.monotonic() < deadline, f"the cache has {found}, the server {expected}"
            await asyncio.sleep(0.2)
    finally:
        await verbs.close()
        informer.end()
        await asyncio.to_thread(up.stop)
