"""Rounds of SIGKILL: a plane under 64 writers, killed after a random number of writes, started again on its data.

Every writer keeps ConfigMaps of its own and notes, per object, the state that was acknowledged last and the one that an
unanswered request would make.  After each restart every object must be in one of these two states, and the revision
must not have gone back; at the end, all Jobs of all rounds must complete.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.scheme import CONFIG_MAPS, JOBS, Object
from echelon.api.verbs import Patch, PatchType, Verbs, WriteOptions
from echelon.client.kubeconfig import connect, load
from tests.e2e.process import UpProcess

NAMESPACE = "default"
WRITERS = 64
_OBJECTS_PER_WRITER = 3
_CLUSTER = "pools:\n- {name: cpu, counts: {node: 4}, capacity: {cpu: 64, memory: 256Gi, pods: 110}}\n"
#: What a client is told while the plane is down.
_UNREACHABLE = (503, 504)
_PAYLOAD = "x" * 500


@dataclass
class Noted:
    """What a writer knows of one object; a state is the text of its data, None for an absent object."""

    acknowledged: str | None = None
    #: States that requests without an answer may have made.
    possible: set[str | None] = field(default_factory=set)

    def may_be(self, state: str | None) -> bool:
        return state == self.acknowledged or state in self.possible

    def settle(self, state: str | None) -> None:
        self.acknowledged = state
        self.possible.clear()


@dataclass
class Figures:
    rounds: int = 0
    writes: int = 0
    #: Unanswered writes that turned out to be stored.
    unanswered: int = 0


class Writer:
    """One client: creates, updates, patches, applies and deletes its objects as fast as it is answered."""

    def __init__(self, verbs: Verbs, number: int, chance: random.Random, figures: Figures) -> None:
        self._verbs = verbs
        self._chance = chance
        self._figures = figures
        self.noted = {f"w{number}-{one}": Noted() for one in range(_OBJECTS_PER_WRITER)}
        self._count = 0
        self.revision = 0

    async def write_until_killed(self) -> None:
        while True:
            name = self._chance.choice(list(self.noted))
            if not await self._write(name, self.noted[name]):
                return

    async def _write(self, name: str, noted: Noted) -> bool:
        """One write; False if the plane did not answer."""
        self._count += 1
        state: str | None = str(self._count)
        if noted.acknowledged is None:
            kind = self._chance.choice(("create", "apply"))
        else:
            kind = self._chance.choice(("update", "merge", "apply", "delete"))
            state = None if kind == "delete" else state
        noted.possible.add(state)
        try:
            answer = await self._call(kind, name, state)
        except ApiError as error:
            if error.code not in _UNREACHABLE:
                raise AssertionError(f"{kind} of {name}: {error}") from error
            return False
        self.revision = max(self.revision, int(answer["metadata"].get("resourceVersion", 0)))
        self._figures.writes += 1
        noted.settle(state)
        return True

    async def _call(self, kind: str, name: str, state: str | None) -> Object:
        made: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        made["data"] = {"state": state, "payload": _PAYLOAD}
        verbs = self._verbs
        if kind == "create":
            return await verbs.create(CONFIG_MAPS, made, NAMESPACE)
        if kind == "update":
            return await verbs.update(CONFIG_MAPS, made, NAMESPACE)
        if kind == "delete":
            return await verbs.delete(CONFIG_MAPS, name, NAMESPACE)
        patch = Patch(PatchType.APPLY if kind == "apply" else PatchType.MERGE, made)
        options = WriteOptions(field_manager="writer", force=kind == "apply")
        return await verbs.patch(CONFIG_MAPS, name, patch, NAMESPACE, options=options)


async def run(directory: Path, rounds: int, seed: int = 1) -> Figures:
    """All rounds on one data directory; raises AssertionError if something acknowledged is lost."""
    up = _process(directory)
    chance, figures = random.Random(seed), Figures()
    await asyncio.to_thread(up.start)
    verbs = connect(load(up.kubeconfig))
    try:
        writers = [Writer(verbs, number, random.Random(f"{seed}-{number}"), figures) for number in range(WRITERS)]
        for number in range(rounds):
            with suppress(ApiError):
                await verbs.create(JOBS, _job(f"round-{number}"), NAMESPACE)
            tasks = [asyncio.create_task(writer.write_until_killed()) for writer in writers]
            await _acknowledged(figures, figures.writes + chance.randint(WRITERS, 20 * WRITERS), tasks)
            await asyncio.sleep(chance.uniform(0, 0.02))
            await asyncio.to_thread(up.kill)
            await asyncio.gather(*tasks)
            await asyncio.to_thread(up.start)
            await _check(verbs, writers, figures)
            figures.rounds += 1
        await _all_complete(verbs)
    finally:
        await verbs.close()
        await asyncio.to_thread(up.stop)
    return figures


async def _acknowledged(figures: Figures, writes: int, tasks: list[asyncio.Task[None]]) -> None:
    """Until this number of writes, or until a writer fails; a busy machine may not write anything for seconds."""
    while figures.writes < writes:
        ended, _ = await asyncio.wait(tasks, timeout=0.005, return_when=asyncio.FIRST_COMPLETED)
        if ended:
            return


def _process(directory: Path) -> UpProcess:
    cluster = directory / "cluster.yaml"
    cluster.write_text(_CLUSTER)
    return UpProcess(directory / "data", "--cluster", str(cluster), "--speed", "20")


async def _check(verbs: Verbs, writers: Iterable[Writer], figures: Figures) -> None:
    found = await verbs.list(CONFIG_MAPS, NAMESPACE)
    states = {meta.name(one): one["data"]["state"] for one in found.items if "state" in (one.get("data") or {})}
    for writer in writers:
        assert int(found.resource_version) >= writer.revision, "the revision went back"
        for name, noted in writer.noted.items():
            state = states.get(name)
            assert noted.may_be(state), f"{name} is {state}, acknowledged {noted.acknowledged}, {noted.possible}"
            figures.unanswered += state != noted.acknowledged
            noted.settle(state)


def _job(name: str) -> Object:
    container = {"name": "c", "image": "i", "command": ["sleep", "1"], "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"parallelism": 2, "completions": 4, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


async def _all_complete(verbs: Verbs, seconds: float = 120.0) -> None:
    async with asyncio.timeout(seconds):
        while True:
            jobs = (await verbs.list(JOBS, NAMESPACE)).items
            if all(meta.condition_is(job, "Complete") for job in jobs):
                return
            await asyncio.sleep(0.2)
