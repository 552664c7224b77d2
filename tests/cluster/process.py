"""`echelon` commands as processes of their own, which tests can interrupt and kill."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

#: What never comes has not come by then, on any machine.
_READY_SECONDS = 180.0
_END_SECONDS = 120.0


@dataclass
class Command:
    """One running command and what it has said so far."""

    process: asyncio.subprocess.Process
    said: list[str] = field(default_factory=list)

    async def says(self, words: str) -> None:
        """Wait until it says a line with these words."""
        assert self.process.stdout is not None
        async with asyncio.timeout(_READY_SECONDS):
            async for line in self.process.stdout:
                self.said.append(line.decode())
                if words in self.said[-1]:
                    return
        raise AssertionError(f"ended without saying {words!r}:\n{''.join(self.said)}")

    async def end(self, number: signal.Signals = signal.SIGINT) -> int:
        """Send it a signal; the exit code."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        return await self.wait()

    async def wait(self) -> int:
        async with asyncio.timeout(_END_SECONDS):
            rest, _ = await self.process.communicate()
        self.said.append(rest.decode())
        assert self.process.returncode is not None
        return self.process.returncode


def _can_be_interrupted() -> None:
    """Shells start what runs in the background with interrupts ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@asynccontextmanager
async def scheduler_as(login: Path, *options: str | Path) -> AsyncIterator[Command]:
    """A scheduler process that leads, as whom a kubeconfig says."""
    async with echelon("scheduler", "--kubeconfig", login, *options) as scheduler:
        await scheduler.says("is ready at https://")
        yield scheduler


@asynccontextmanager
async def echelon(*arguments: str | Path) -> AsyncIterator[Command]:
    """Start a command; killed at the end if it still runs then."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-u", "-m", "echelon", *map(str, arguments),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, preexec_fn=_can_be_interrupted,
    )  # fmt: skip
    command = Command(process)
    try:
        yield command
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
