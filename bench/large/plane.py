"""The plane of a filled directory as a process: tells what its start took, then serves until its input ends."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from pathlib import Path

from echelon.runtime.config import PlaneSettings
from echelon.runtime.plane import run_program, running

from .fill import cluster


def _resident() -> float:
    """Memory of this process, in MB."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) / 1024


async def _main(directory: Path, pods: int) -> None:
    begin, worked = time.perf_counter(), time.process_time()
    async with running(PlaneSettings(directory, cluster=cluster(pods))) as plane:
        started = {"seconds": time.perf_counter() - begin, "cpu": time.process_time() - worked}
        # What follows the start (handlers, timers of the simulated nodes) is over when nothing is done any more.
        quiet = time.process_time()
        while True:
            await asyncio.sleep(1)
            if time.process_time() - quiet < 0.1:
                break
            quiet = time.process_time()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({**started, "resident": _resident(), "peak": peak, "url": plane.url}), flush=True)
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            print(json.dumps({"resident": _resident(), "asked": line.strip()}), flush=True)


if __name__ == "__main__":
    run_program(_main(Path(sys.argv[1]), int(sys.argv[2])))
