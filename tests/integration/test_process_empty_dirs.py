"""Empty directories in memory and on disk, and how large they may become."""

from __future__ import annotations

from pathlib import Path

import pytest

from echelon.agents.process import process_nodes

from .local_plane import local_plane
from .test_process_containers import CONFIG_ERROR, manifest

MEMORY = "volumes: [{name: v, emptyDir: {medium: Memory, sizeLimit: 1Mi}}]"
DISK = "volumes: [{name: v, emptyDir: {sizeLimit: 1Mi}}]"


def writes(script: str) -> str:
    return f"{{name: c, image: x, command: [sh, -c, '{script}'], volumeMounts: [{{name: v, mountPath: /v}}]}}"


@pytest.mark.parametrize("tier", ["net", "names"])
async def test_a_directory_in_memory_is_shared_and_has_its_size(tmp_path: Path, tier: str) -> None:
    async with local_plane(tmp_path, tier) as plane:
        first = writes("stat -f -c %T /v; echo kept > /v/a").replace("name: c,", "name: first,")
        second = writes("cat /v/a; head -c 2M /dev/zero > /v/b || echo full")
        await plane.apply(manifest("p", second, f"restartPolicy: Never\n  {MEMORY}", first))
        await plane.phase("p", "Succeeded")
        assert await plane.log("p", "first") == ["tmpfs"]
        said = await plane.log("p")
        assert said[0] == "kept"
        assert "full" in said  # beside what head writes to its other stream, in any order
        assert list((await plane.local("p")).directory.volume("v").iterdir()) == []


@pytest.mark.parametrize("tier", ["net", "names"])
async def test_a_part_of_a_directory_in_memory_is_made_and_leads_nowhere_else(tmp_path: Path, tier: str) -> None:
    async with local_plane(tmp_path, tier) as plane:
        inner = "volumeMounts: [{name: v, mountPath: /v, subPath: a/b}]"
        first = f"{{name: first, image: x, command: [sh, -c, 'stat -f -c %T /v; echo kept > /v/file'], {inner}}}"
        link = writes("cat /v/a/b/file; ln -s /etc /v/way").replace("name: c,", "name: link,")
        astray = f"{{name: c, image: x, command: [ls, /v], {inner.replace('a/b', 'way')}}}"
        await plane.apply(manifest("p", astray, f"restartPolicy: Never\n  {MEMORY}", f"{first}, {link}"))
        ended = await plane.phase("p", "Failed")
        assert await plane.log("p", "first") == ["tmpfs"]
        assert await plane.log("p", "link") == ["kept"]
        assert "symbolic link" in ended["status"]["containerStatuses"][0]["state"]["terminated"]["message"]
        assert list((await plane.local("p")).directory.volume("v").iterdir()) == []


async def test_memory_is_refused_where_nothing_can_be_mounted(tmp_path: Path) -> None:
    async with local_plane(tmp_path, "plain") as plane:
        await plane.apply(manifest("p", writes("ls /v"), f"restartPolicy: Never\n  {MEMORY}"))
        said = await plane.waiting("p", CONFIG_ERROR)
        assert "emptyDir.medium Memory of volume v is refused" in said["state"]["waiting"]["message"]


async def test_a_pod_with_a_directory_over_its_limit_is_evicted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_nodes, "VOLUME_SECONDS", 0.3)
    async with local_plane(tmp_path, "names") as plane:
        await plane.apply(manifest("small", writes("echo 1 > /v/a; exec sleep 100"), DISK))
        await plane.phase("small", "Running")
        await plane.apply(manifest("large", writes("head -c 3M /dev/urandom > /v/a; exec sleep 100"), DISK))
        status = (await plane.phase("large", "Failed"))["status"]
        assert status["reason"] == "Evicted"
        assert status["message"] == 'Usage of EmptyDir volume "v" exceeds the limit "1Mi". '
        assert (await plane.pod("small"))["status"]["phase"] == "Running"
