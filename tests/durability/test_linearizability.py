"""Concurrent writes of one key are linearizable; the judge is shown to notice when they are not."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from echelon.api.errors import ApiError
from echelon.api.scheme import CONFIG_MAPS, Object
from echelon.api.verbs import Patch, PatchType, Verbs, WriteOptions
from echelon.client import kubeconfig
from echelon.server.objects.stored_objects import Access
from echelon.store.log import Log
from tests.https_server import running

from .histories import History
from .linearizability import Operation, linearizable

HISTORIES = int(os.environ.get("HISTORIES", "1000" if os.environ.get("ECHELON_LONG") else "60"))


@asynccontextmanager
async def served(directory: Path) -> AsyncIterator[Verbs]:
    """The verbs of a client that talks to a server of its own."""
    async with running(directory / "server") as (server, _):
        server.write_kubeconfig(directory / "kubeconfig")
        client = kubeconfig.connect(kubeconfig.load(directory / "kubeconfig"))
        try:
            yield client
        finally:
            await client.close()


async def test_concurrent_creates_updates_applies_and_deletes_of_one_key_are_linearizable(tmp_path: Path) -> None:
    outcomes = set()
    async with served(tmp_path) as verbs:
        for seed in range(HISTORIES):
            history = await History(verbs, seed).record()
            assert linearizable(history), (seed, sorted(history, key=lambda one: one.called))
            outcomes.update((one.kind, one.outcome) for one in history)
    expected = {(kind, "ok") for kind in ("create", "update", "apply", "delete", "get")}
    expected |= {("create", "exists"), ("update", "missing"), ("update", "conflict"), ("delete", "missing")}
    assert outcomes >= expected | {("delete", "conflict"), ("get", "missing")}


async def _first_bad(directory: Path, most: int = 60) -> int | None:
    async with served(directory) as verbs:
        for seed in range(most):
            if not linearizable(await History(verbs, seed).record()):
                return seed
    return None


async def test_the_judge_notices_a_store_that_does_not_compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put = Log.put

    async def blind(self: Log, key: str, encode: Any, expect: Any, header: Any = None) -> Any:
        return await put(self, key, encode, None, header)

    monkeypatch.setattr(Log, "put", blind)
    assert await _first_bad(tmp_path) is not None


async def test_the_judge_notices_reads_of_an_old_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, before = Access.record, dict[str, Any]()

    def stale(self: Access, resource: Any, name: str, namespace: str = "") -> Any:
        found = record(self, resource, name, namespace)
        old, before[name] = before.get(name, found), found
        return old

    monkeypatch.setattr(Access, "record", stale)
    assert await _first_bad(tmp_path) is not None


@pytest.mark.parametrize(
    ("history", "legal"),
    [
        ([Operation("create", 0, 1, "ok", "a", revision=1), Operation("get", 2, 3, "ok", "a", revision=1)], True),
        ([Operation("create", 0, 1, "ok", "a", revision=1), Operation("get", 2, 3, "missing")], False),
        ([Operation("create", 0, 3, "ok", "a", revision=1), Operation("get", 1, 2, "missing")], True),
        ([Operation("create", 0, 2, "ok", "a", revision=1), Operation("create", 1, 3, "ok", "b", revision=2)], False),
        ([Operation("apply", 0, 1, "ok", "a", revision=2), Operation("apply", 2, 3, "ok", "b", revision=1)], False),
        ([Operation("delete", 0, 1, "ok")], False),
    ],
)
def test_the_judge_knows_what_one_copy_can_answer(history: list[Operation], legal: bool) -> None:
    assert linearizable(history) is legal


async def test_an_apply_beside_a_create_of_the_same_object_waits_for_it_and_merges(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, pipeline):
        made: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "1"}}
        applied = Patch(PatchType.APPLY, {**made, "data": {"b": "2"}})
        _, merged = await asyncio.gather(
            pipeline.create(CONFIG_MAPS, made, "default"),
            pipeline.patch(CONFIG_MAPS, "x", applied, "default", options=WriteOptions(field_manager="m")),
        )
        assert merged["data"] == {"a": "1", "b": "2"}


async def test_who_is_told_that_an_object_exists_can_read_it(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, pipeline):
        made: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
        first = asyncio.ensure_future(pipeline.create(CONFIG_MAPS, made, "default"))
        await asyncio.sleep(0)
        with pytest.raises(ApiError, match="already exists"):
            await pipeline.create(CONFIG_MAPS, made, "default")
        assert await pipeline.get(CONFIG_MAPS, "x", "default") == await first


async def test_who_is_told_of_a_conflict_can_read_what_caused_it(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, pipeline):
        base = await pipeline.create(CONFIG_MAPS, {"metadata": {"name": "x"}}, "default")
        first = asyncio.ensure_future(pipeline.update(CONFIG_MAPS, {**base, "data": {"a": "1"}}, "default"))
        await asyncio.sleep(0)
        with pytest.raises(ApiError, match="the object has been modified"):
            await pipeline.update(CONFIG_MAPS, {**base, "data": {"a": "2"}}, "default")
        assert await pipeline.get(CONFIG_MAPS, "x", "default") == await first
