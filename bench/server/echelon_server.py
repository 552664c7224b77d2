"""A child process: store, pipeline and HTTPS server as `echelon up` runs them, without controllers and scheduler."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.https_server import running

from echelon.runtime.plane import run_program


async def main(directory: Path) -> None:
    async with running(directory) as (server, _):
        server.write_kubeconfig(directory / "kubeconfig")
        await asyncio.Event().wait()


if __name__ == "__main__":
    run_program(main(Path(sys.argv[1])))
