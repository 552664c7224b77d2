"""Components beside a block: they end together, and one that fails starts again."""

from __future__ import annotations

import asyncio

import pytest

from echelon.runtime import supervision
from echelon.runtime.components import Component
from echelon.runtime.supervision import ComponentFailed, supervised


async def forever() -> None:
    await asyncio.Event().wait()


async def breaks() -> None:
    await asyncio.sleep(0.01)
    raise RuntimeError("out of luck")


async def test_parts_end_with_the_block() -> None:
    task: asyncio.Task[None] | None = None

    async def remembered() -> None:
        nonlocal task
        task = asyncio.current_task()
        await forever()

    async with supervised([Component("one", remembered)]):
        await asyncio.sleep(0)
    assert task is not None
    assert task.cancelled()


async def test_what_the_block_raises_is_raised_unchanged() -> None:
    with pytest.raises(ValueError, match="mine"):
        async with supervised([Component("one", forever)]):
            raise ValueError("mine")


async def test_a_part_that_breaks_starts_again_and_the_block_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "_FIRST_RETRY_SECONDS", 0.01)
    starts: list[int] = []
    again = asyncio.Event()

    async def breaks_twice() -> None:
        starts.append(len(starts))
        if len(starts) <= 2:
            raise RuntimeError("out of luck")
        again.set()
        await forever()

    async with supervised([Component("scheduler", breaks_twice), Component("other", forever)]):
        async with asyncio.timeout(60):
            await again.wait()
    assert starts == [0, 1, 2]


async def test_a_vital_part_that_breaks_ends_the_block() -> None:
    with pytest.raises(ComponentFailed, match="component lease failed") as error:
        async with supervised([Component("lease", breaks, vital=True), Component("other", forever)]):
            await forever()
    assert isinstance(error.value.__cause__, RuntimeError)


async def test_cancelling_the_block_stays_a_cancellation() -> None:
    async def block() -> None:
        async with supervised([Component("one", forever)]):
            await forever()

    task = asyncio.create_task(block())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
