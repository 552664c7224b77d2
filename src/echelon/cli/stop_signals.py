"""How `echelon up` and `echelon run` are told to end: Ctrl-C, SIGTERM, a closed terminal."""

from __future__ import annotations

import asyncio
import signal

from ..runtime.config import ProcessNodes


class StopSignals:
    """The first asks for the end, the next ones kill the pods of this machine that still run."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.nodes: ProcessNodes | None = None
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it, or a shell in the background
                loop.add_signal_handler(number, self._signalled)

    def _signalled(self) -> None:
        if self.asked.is_set() and self.nodes is not None:
            self.nodes.kill()
        self.asked.set()
