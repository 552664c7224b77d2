"""Limits that the kernel enforces: they take effect, the node says so, and no control group is left."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from echelon.agents.process.resources.limit_choice import choose_limits
from echelon.agents.process.rules.limit_settings import EnforcedLimits
from echelon.agents.process.shim.cgroups import remove
from echelon.api.objects import meta
from echelon.api.scheme import NODES

from .local_plane import NODE, local_plane, the_container
from .test_process_containers import execute, manifest

BURN = "command: [python, -c, 'while True: pass']"


async def enforced(tmp_path: Path, controller: str) -> EnforcedLimits:
    found = await choose_limits(tmp_path)
    if controller not in found.controllers:
        pytest.skip(f"the kernel enforces no {controller} limits here: {found.problem}")
    return found


def leftovers(limits: EnforcedLimits) -> list[str]:
    return [folder for folder in limits.folders.values() if Path(folder).exists()]


@pytest.mark.parametrize("tier", ["net", "names", "plain"])
async def test_a_container_gets_no_more_cpu_than_its_limit(tmp_path: Path, tier: str) -> None:
    limits = await enforced(tmp_path, "cpu")
    async with local_plane(tmp_path, tier) as plane:
        await plane.apply(manifest("slow", f"{{name: c, image: x, {BURN}, resources: {{limits: {{cpu: 200m}}}}}}"))
        await plane.phase("slow", "Running")
        local = await plane.local("slow")
        await asyncio.sleep(1)
        begun, first = time.monotonic(), local.uses()["c"].cpu_nanoseconds
        await asyncio.sleep(3.0)
        used = (local.uses()["c"].cpu_nanoseconds - first) / 1e9
        assert 0.0 < used / (time.monotonic() - begun) < 0.4  # both may take longer than they say
        node = await plane.verbs.get(NODES, NODE)
        said = meta.find_condition(node, "echelon.dev/LimitsEnforced")
        assert said is not None
        assert "CPU limits are enforced" in said["message"] or "CPU and memory limits are enforced" in said["message"]
        assert leftovers(limits) or limits.scope
    assert leftovers(limits) == []


async def test_programs_that_are_run_in_a_container_share_its_limit(tmp_path: Path) -> None:
    limits = await enforced(tmp_path, "cpu")
    async with local_plane(tmp_path, "names") as plane:
        quiet = "command: [sleep, '1000'], resources: {limits: {cpu: 200m}}"
        await plane.apply(manifest("one", f"{{name: c, image: x, {quiet}}}"))
        uid = meta.uid(await plane.phase("one", "Running"))
        code, seen = await execute(await plane.local("one"), "cat", "/proc/self/cgroup")
        assert code == 0
        assert "/c.0" in seen if limits.scope else f"{uid}/c.0" in seen
        await plane.delete("one", 0)
        await plane.files_gone(uid)
    assert leftovers(limits) == []


async def test_the_groups_of_a_pod_go_when_its_shim_is_killed(tmp_path: Path) -> None:
    limits = await enforced(tmp_path, "cpu")
    async with local_plane(tmp_path, "plain") as plane:
        await plane.apply(manifest("one", f"{{name: c, image: x, {BURN}, resources: {{limits: {{cpu: 200m}}}}}}"))
        await plane.phase("one", "Running")
        os.kill((await plane.local("one")).directory.shim_pid(), signal.SIGKILL)
        assert the_container(await plane.phase("one", "Failed"))["state"]["terminated"]["exitCode"] == 137
        assert leftovers(limits) == []


async def test_groups_of_a_data_directory_that_was_removed_go_with_the_next_start(tmp_path: Path) -> None:
    """When all was killed, nobody is left to see it; groups of directories that exist are not touched."""
    before, here = tmp_path / "before", tmp_path / "here"
    found = {}
    for data in (before, here):
        data.mkdir()
        found[data] = (await enforced(data, "cpu")).folders
        for folder in set(found[data].values()):
            os.makedirs(f"{folder}/uid/c.0")
            os.setxattr(folder, "user.echelon.data", os.fsencode(data))
    try:
        before.rmdir()
        await choose_limits(tmp_path)
        assert not any(map(os.path.exists, found[before].values()))
        assert all(map(os.path.exists, found[here].values()))
    finally:
        for folder in {*found[before].values(), *found[here].values()}:
            remove(folder)


async def test_the_group_of_a_data_directory_names_it(tmp_path: Path) -> None:
    limits = await enforced(tmp_path, "cpu")
    async with local_plane(tmp_path, "names") as plane:
        await plane.apply(manifest("one", "{name: c, image: x, command: [sleep, '1000']}"))
        await plane.phase("one", "Running")
        named = {os.getxattr(folder, "user.echelon.data") for folder in limits.folders.values()}
        assert named == {os.fsencode(tmp_path)}


async def test_a_container_over_its_memory_limit_is_killed_by_the_kernel(tmp_path: Path) -> None:
    limits = await enforced(tmp_path, "memory")
    async with local_plane(tmp_path, "names") as plane:
        grow = "command: [python, -c, 'import time; x = bytearray(200 << 20); print(1, flush=True); time.sleep(1000)']"
        await plane.apply(manifest("big", f"{{name: c, image: x, {grow}, resources: {{limits: {{memory: 64Mi}}}}}}"))
        said = the_container(await plane.phase("big", "Failed"))["state"]["terminated"]
        assert (said["reason"], said["exitCode"]) == ("OOMKilled", 137)
        assert await plane.log("big") == []
    assert leftovers(limits) == []
