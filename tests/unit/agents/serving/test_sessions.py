"""Sessions with containers that run anyway."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from echelon.agents.process.serving.sessions import AttachedSession


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
