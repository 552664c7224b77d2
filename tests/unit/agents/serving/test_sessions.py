"""Sessions with containers that run anyway."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from echelon.agents.process.serving.log_reading import LogReader
from echelon.agents.process.serving.sessions import AttachedSession
from echelon.api.running_pods import LogOptions, Output


def test_who_attaches_to_a_container_that_has_closed_its_input_still_sees_its_output(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "stdin")

    async def attach() -> int:
        async def ended() -> int:
            return 0

        session = AttachedSession({}, ended, tmp_path / "stdin", lambda **_: None, reads_once=False)
        await session.write(b"nobody reads this")
        await session.close_input()
        await session.close()
        return await session.ended()

    assert asyncio.run(attach()) == 0


def test_who_is_attached_is_told_of_the_end_though_an_output_cannot_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def lost() -> bool:
        raise OSError("the disk is gone")

    async def attached() -> list[tuple[Output, bytes]]:
        async def ended() -> int:
            return 0

        readers: dict[Output, LogReader] = {
            "stdout": LogReader(tmp_path / "0.log", lambda: False, LogOptions(follow=True)),
            "stderr": LogReader(tmp_path / "0.log", lost, LogOptions(follow=True)),
        }
        session = AttachedSession(readers, ended, None, lambda **_: None, reads_once=False)
        async with asyncio.timeout(60):
            return [piece async for piece in session.output()]

    assert asyncio.run(attached()) == []
    assert "the disk is gone" in caplog.text
