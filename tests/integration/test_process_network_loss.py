"""The network of the pods is lost: the node says so, the pods restart or fail as after the end of any sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import pytest

from echelon.api.objects import meta
from echelon.api.scheme import NODES, Object

from .local_plane import NODE, LocalPlane, local_plane, the_container
from .test_process_containers import manifest

SERVER = "{name: c, image: x, command: [python, -m, http.server, '8000']}"


async def network_states(plane: LocalPlane, seen: list[str]) -> None:
    """Every state of the condition that is written."""
    while True:
        said = meta.find_condition(await plane.verbs.get(NODES, NODE), "NetworkUnavailable")
        if said is not None and (not seen or seen[-1] != said["status"]):
            seen.append(said["status"])
        await asyncio.sleep(0.005)


async def test_who_stops_waiting_for_a_connection_leaves_it_to_nobody_else(tmp_path: Path) -> None:
    async with local_plane(tmp_path, "net") as plane:
        for name in ("one", "two"):
            await plane.apply(manifest(name, SERVER))
            await plane.phase(name, "Running")
        one, two = await plane.local("one"), await plane.local("two")
        os.kill(one.network.holder, signal.SIGSTOP)
        try:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(one.connect(8000), 0.3)
            later = asyncio.create_task(two.connect(8000))
            await asyncio.sleep(0.3)
        finally:
            os.kill(one.network.holder, signal.SIGCONT)

        async def connected() -> bool:
            nonlocal later
            if later.done() and later.exception() is not None:  # its server has not begun yet
                later = asyncio.create_task(two.connect(8000))
            return later.done() and later.exception() is None

        await plane.until(connected)
        with later.result() as made:
            assert made.getpeername() == (two.address, 8000)


async def test_pods_are_made_anew_when_the_network_holder_is_killed(tmp_path: Path) -> None:
    async with local_plane(tmp_path, "net") as plane:
        await plane.apply(manifest("stays", SERVER, "restartPolicy: Always"))
        await plane.apply(manifest("fails", SERVER))
        for name in ("stays", "fails"):
            await plane.phase(name, "Running")
        assert plane.plane.process_nodes is not None
        holder = (await plane.local("stays")).network.holder
        seen: list[str] = []
        watching = asyncio.create_task(network_states(plane, seen))

        async def are_seen(*states: str) -> bool:
            return seen == [*states]

        await plane.until(lambda: are_seen("False"))
        os.kill(holder, signal.SIGKILL)

        failed = await plane.phase("fails", "Failed")
        assert the_container(failed)["state"]["terminated"]["exitCode"] == 137

        async def restarted() -> Object | None:
            pod = await plane.pod("stays")
            one = the_container(pod)
            return pod if one["restartCount"] == 1 and "running" in one["state"] else None

        await plane.until(restarted)

        async def answers() -> bool:
            try:
                (await (await plane.local("stays")).connect(8000)).close()
            except OSError:
                return False
            return True

        await plane.until(answers)
        await plane.until(lambda: are_seen("False", "True", "False"))
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
        await plane.told("stays", "SandboxChanged")
        await plane.told(NODE, "PodNetworkLost")
        await plane.told(NODE, "PodNetworkReady")
