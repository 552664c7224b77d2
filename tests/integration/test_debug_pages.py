"""Debug pages over real sockets: who gets them, what they show and what they keep to themselves."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from echelon.runtime.operations.debug_pages import DebugPages, readable
from echelon.runtime.operations.metrics_server import Address, CannotListen, serve_metrics
from echelon.testing.builders import make_node, make_pod, make_pod_group
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time

STATE: Mapping[str, Any] = {"version": "1", "roots": [{"name": "g", "story": ["a", "b"]}], "queue": {"active": 2}}


@asynccontextmanager
async def served(*, on: bool = True, host: str = "127.0.0.1") -> AsyncIterator[str]:
    pages = DebugPages(lambda most: {**STATE, "most": most}, lambda: on)
    async with serve_metrics(CollectorRegistry(), Address(host, 0), lambda: True, pages) as url:
        yield url


async def get(url: str, **headers: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        return answer.status, await answer.text()


async def test_state_is_served_as_json_and_for_reading() -> None:
    async with served() as url:
        status, text = await get(f"{url}/debug/state?limit=7")
        assert (status, json.loads(text)) == (200, {**STATE, "most": 7})
        status, text = await get(f"{url}/debug/state.txt")
        assert text.splitlines() == [
            "version: 1", "roots: 1", "  - name: g", "    story: a, b", "queue:", "  active: 2", "most: 200",
        ]  # fmt: skip
        for wrong in ("0", "x", "-1", "1e9", "nan"):
            assert (await get(f"{url}/debug/state?limit={wrong}"))[0] == 400, wrong


async def test_pages_are_off_unless_switched_on() -> None:
    async with served(on=False) as url:
        status, text = await get(f"{url}/debug/state")
        assert (status, "debugEndpoints" in text) == (404, True)
        assert (await get(f"{url}/healthz"))[0] == 200


async def test_pages_are_for_callers_on_this_machine() -> None:
    async with served() as url:
        assert (await get(f"{url}/debug/state", Host="evil.example"))[0] == 403
        assert (await get(f"{url}/debug/state", Host="localhost:8080"))[0] == 200
    # All of 127/8 is this machine: a program that listens on another address of it has its pages on 127.0.0.1 only.
    async with served(host="127.9.9.9") as url:
        assert (await get(f"{url}/debug/stacks"))[0] == 403
        assert (await get(f"{url}/healthz"))[0] == 200


async def test_a_port_on_another_address_is_open_on_a_loopback_one_too() -> None:
    """As in a pod, where `kubectl port-forward` connects to a loopback address."""
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        own = probe.getsockname()[0]
    async with served(host=own) as url:
        port = url.rpartition(":")[2]
        assert (await get(f"{url}/debug/state"))[0] == 403
        assert (await get(f"http://127.0.0.1:{port}/debug/state"))[0] == 200


async def test_stacks_name_threads_and_tasks() -> None:
    async def sleeping() -> None:
        await asyncio.sleep(60)

    task = asyncio.create_task(sleeping(), name="the-sleeper")
    async with served() as url:
        _, text = await get(f"{url}/debug/stacks")
    task.cancel()
    assert "thread MainThread" in text
    assert re.search(r"task the-sleeper\n.*in sleeping", text)


async def test_a_profile_shows_what_the_loop_does_and_one_is_taken_at_a_time() -> None:
    def work_hard(until: float) -> None:
        while time.monotonic() < until:
            sum(range(1000))

    async def busy() -> None:
        while True:
            work_hard(time.monotonic() + 0.02)
            await asyncio.sleep(0)

    async with served() as url:
        task = asyncio.create_task(busy())
        first = asyncio.create_task(get(f"{url}/debug/profile?seconds=1"))
        await asyncio.sleep(0.2)
        assert (await get(f"{url}/debug/profile?seconds=1"))[0] == 429
        status, text = await first
        task.cancel()
        assert (await get(f"{url}/debug/profile?seconds=61"))[0] == 400
    assert status == 200
    counts = {stack: int(number) for stack, number in (line.rsplit(" ", 1) for line in text.splitlines())}
    hard = sum(number for stack, number in counts.items() if "work_hard" in stack)
    assert hard > sum(counts.values()) / 2


async def test_a_profile_ends_with_the_program() -> None:
    async with served() as url:
        profile = asyncio.create_task(get(f"{url}/debug/profile?seconds=60"))
        await asyncio.sleep(0.3)
        begun = time.monotonic()
    assert time.monotonic() - begun < 30
    status, text = await profile
    assert (status, "run_forever" in text) == (200, True)


async def test_an_address_of_ipv6_stands_in_brackets() -> None:
    try:
        async with served(host="::1") as url:
            assert url.startswith("http://[::1]:")
            assert (await get(f"{url}/debug/state"))[0] == 200
    except CannotListen as error:
        pytest.skip(str(error))


def test_lists_of_plain_values_stay_on_a_line() -> None:
    assert readable({"levels": ["a", "b"], "none": []}) == ["levels: a, b", "none: "]


@in_virtual_time
async def test_the_scheduler_says_who_waits_for_what_and_nothing_from_inside_of_pods(world: SchedulerPlane) -> None:
    await world.create(make_node("n", cpu=1), make_pod_group("wide", gang=2), make_pod_group("short", gang=2))
    await world.create(make_pod("done"))
    pods = [make_pod(f"w-{number}", group="wide", annotations={"note": "sesame"}) for number in range(2)]
    for pod in pods:
        pod["spec"]["containers"][0]["env"] = [{"name": "PASSWORD", "value": "sesame"}]
    await world.create(*pods)
    await world.create(make_pod("s-0", group="short"))
    await world.settle(30)
    assert world.scheduler is not None
    state = world.scheduler.state(10)
    roots = {one["name"]: one for one in state["roots"]}  # type: ignore[attr-defined]
    assert set(roots) == {"wide", "short"}
    assert roots["wide"]["kind"] == "PodGroup"
    assert (roots["wide"]["phase"], roots["wide"]["pendingPods"]) == ("Blocked", 2)
    assert roots["wide"]["waitedSeconds"] >= 29
    assert "needs 2 pods" in roots["wide"]["reason"]
    assert roots["short"]["phase"] == "Incomplete"
    assert (state["nodes"], state["podsOnNodes"], state["leading"]) == (1, 1, True)
    assert "sesame" not in json.dumps(state)
    assert len(world.scheduler.state(1)["roots"]) == 1  # type: ignore[arg-type]


@in_virtual_time
async def test_a_reservation_is_shown_with_its_nodes(world: SchedulerPlane) -> None:
    await world.create(make_node("n", cpu=4), make_pod("old", cpu=3, node="n"), make_pod_group("wide", gang=2))
    await world.pods("wide", "w", 2, cpu=2)
    await world.settle(5)
    await world.create(make_pod("young", cpu=1))
    await world.settle(120)
    assert world.scheduler is not None
    [one] = world.scheduler.state(10)["reservations"]  # type: ignore[misc, attr-defined]
    assert (one["name"], one["nodes"], one["pods"]) == ("wide", ["n"], 2)
