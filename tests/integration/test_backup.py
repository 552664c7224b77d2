"""A copy of the database that is made while a plane writes is a plane of its own, as the operations guide says."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

from echelon.api.objects import meta
from echelon.api.scheme import CONFIG_MAPS
from echelon.runtime.config import PlaneSettings
from echelon.runtime.plane import running


def config_map(number: int) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c-{number}"}, "data": {"n": str(number)}}


async def test_a_backup_of_a_running_plane_is_restored_elsewhere(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    second.mkdir(mode=0o700)
    async with running(PlaneSettings(first, nodes="none")) as plane:
        for number in range(20):
            await plane.verbs.create(CONFIG_MAPS, config_map(number), "default")
        source = sqlite3.connect(first / "echelon.db")
        target = sqlite3.connect(second / "echelon.db")
        source.backup(target)
        source.close()
        target.close()
        shutil.copytree(first / "pki", second / "pki")
        for file in first.glob("clock.*"):
            shutil.copy(file, second / file.name)
        await plane.verbs.create(CONFIG_MAPS, config_map(20), "default")
    async with running(PlaneSettings(second, nodes="none")) as plane:
        names = {meta.name(one) for one in (await plane.verbs.list(CONFIG_MAPS, "default")).items}
        assert {f"c-{number}" for number in range(20)} <= names
        assert "c-20" not in names
        await plane.verbs.create(CONFIG_MAPS, config_map(20), "default")
