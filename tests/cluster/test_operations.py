"""A scheduler as a process with a config file: JSON lines, debug pages and metrics, while the file changes."""

from __future__ import annotations

import json
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp

from echelon.api.scheme import POD_GROUPS, PODS
from echelon.base.program_options import API_VERSION
from echelon.deploy.options import SCHEDULER
from echelon.testing.builders import make_pod, make_pod_group

from .conftest import Side
from .process import Command, echelon
from .shipped_roles import scheduler_named

HEAD = f"apiVersion: {API_VERSION}\nkind: SchedulerConfiguration\nlogFormat: json\nmetricsPort: 0\n"


async def line(command: Command, words: str) -> dict[str, Any]:
    """The next line with these words."""
    await command.says(words)
    found: dict[str, Any] = json.loads(command.said[-1])
    return found


async def get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


async def test_a_config_file_is_read_again_and_a_bad_one_is_not_used(
    side: Side, namespace: str, tmp_path: Path
) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text(HEAD + f"name: [{namespace}]\n")
    async with AsyncExitStack() as stack:
        if side.real:
            await stack.enter_async_context(scheduler_named(side.verbs, namespace))
        command = ("scheduler", "--kubeconfig", side.acting_as(SCHEDULER).kubeconfig, "--config", path)
        scheduler = await stack.enter_async_context(echelon(*command))
        serving = await line(scheduler, "serving metrics at")
        await scheduler.says("is ready at")
        assert all(text.startswith("{") for text in scheduler.said), scheduler.said
        url = serving["message"].split()[-1].removesuffix("/metrics")
        assert (await get(f"{url}/debug/state"))[0] == 404

        path.write_text(HEAD + f"name: [{namespace}]\ndebugEndpoints: true\nreserveAfter: 30\n")
        again = await line(scheduler, "config file read again")
        assert again["reserveAfter"] == 30.0
        await side.verbs.create(POD_GROUPS, make_pod_group("wide", gang=2, namespace=namespace), namespace)
        for number in range(2):
            pod = make_pod(f"w-{number}", group="wide", namespace=namespace, schedulerName=namespace, cpu=100_000)
            await side.verbs.create(PODS, pod, namespace)
        blocked = await line(scheduler, '"message":"blocked"')
        assert (blocked["kind"], blocked["namespace"], blocked["name"]) == ("PodGroup", namespace, "wide")
        status, text = await get(f"{url}/debug/state")
        state = json.loads(text)
        assert status == 200
        assert state["leader"]["held"] is True
        assert state["caches"]["synced"] is True
        assert state["configuration"]["values"]["reserveAfter"] == 30.0
        assert [(one["name"], one["phase"]) for one in state["scheduler"]["roots"]] == [("wide", "Blocked")]

        path.write_text(HEAD + "reserveAftre: 5\n")
        refused = await line(scheduler, "config file not used")
        assert "unknown key 'reserveAftre', did you mean 'reserveAfter'?" in refused["message"]
        _, metrics = await get(f"{url}/metrics")
        assert "echelon_config_last_reload_successful 0.0" in metrics
        assert "leader_election_master_status" in metrics
        path.write_text(HEAD + f"name: [{namespace}, more]\ndebugEndpoints: true\n")
        restart = await line(scheduler, "restart needed")
        assert (restart["key"], restart["new"]) == ("name", [namespace, "more"])
        assert await scheduler.end(signal.SIGTERM) == 0
