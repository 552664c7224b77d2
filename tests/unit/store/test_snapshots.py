"""Snapshots at named revisions: what pages of a list are cut from while others write."""

from __future__ import annotations

import random

import pytest

from echelon.store.interface import Compacted
from echelon.store.log import Log
from echelon.store.watch_history import Window

from .store_values import Open, value


@pytest.mark.parametrize("seed", range(5))
async def test_every_revision_of_the_history_can_be_scanned_whatever_came_after(store: Log, seed: int) -> None:
    chance = random.Random(seed)
    current: dict[str, int] = {}
    then: list[dict[str, int]] = [{}]
    for _ in range(120):
        key = f"/core/{chance.choice(('pods', 'podsets'))}/{chance.choice('ab')}/{chance.randrange(8)}"
        if key in current and chance.random() < 0.4:
            await store.delete(key, value(), None)
            del current[key]
        else:
            current[key] = (await store.put(key, value(), None)).revision
        then.append(dict(current))
    for at in chance.sample(range(len(then)), 40):
        for prefix in ("/core/pods/", "/core/pods/a/", ""):
            expected = sorted((key, revision) for key, revision in then[at].items() if key.startswith(prefix))
            assert [(record.key, record.revision) for record in store.scan(prefix, at)] == expected


async def test_pages_share_one_snapshot_until_the_history_is_cut(backend: str, opened: Open) -> None:
    store = opened(backend, Window(events=1_100))
    for number in range(1_000):
        await store.put(f"/core/pods/a/{number}", value(), 0)
    at = store.revision
    first = store.scan("/core/pods/", at)
    await store.put("/core/pods/a/0", value("new"), None)
    assert store.scan("/core/pods/", at) is first
    for _ in range(1_200):
        await store.put("/core/pods/a/0", value("newer"), None)
    with pytest.raises(Compacted):
        store.scan("/core/pods/", at)
