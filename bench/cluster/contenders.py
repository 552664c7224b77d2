"""The schedulers as processes of their own, and what they cost in processor time and memory, by the kernel's books.

Both start beside a lease that the bench holds, fill their caches and wait; when it is given up they begin.  So start-up
is not measured, and neither has a head start.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml
from tests.cluster.controlplane import GATES, ControlPlane, home

from .scenarios import SCHEDULER

LEASE_NAMESPACE = "kube-system"
_TICKS = os.sysconf("SC_CLK_TCK")
_END_SECONDS = 20.0


@dataclass(frozen=True)
class Contender:
    name: str
    lease: str
    #: What it says once its caches are filled and only the lease is missing.
    waiting: str
    command: list[str]
    #: Whether one run must do, because it takes minutes.
    once: bool = False


def echelon(plane: ControlPlane, *more: str) -> Contender:
    arguments = ["scheduler", "--name", SCHEDULER, "--kubeconfig", str(plane.kubeconfig), *more]
    command = [sys.executable, "-u", "-m", "echelon", *arguments]
    return Contender("echelon", f"echelon-scheduler-{SCHEDULER}", "waiting for lease", command)


def kube_scheduler(plane: ControlPlane) -> Contender:
    """With the gates of the server, and no limit on its own requests but the server's, as upstream benchmarks it."""
    lease = "kube-scheduler-bench"
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(plane.kubeconfig), "qps": 5000, "burst": 5000},
        "leaderElection": {
            "leaderElect": True,
            "leaseDuration": "15s",
            "renewDeadline": "10s",
            "retryPeriod": "1s",
            "resourceNamespace": LEASE_NAMESPACE,
            "resourceName": lease,
        },
        "profiles": [{"schedulerName": SCHEDULER}],
    }
    path = plane.directory / "kube-scheduler.yaml"
    path.write_text(yaml.safe_dump(configuration))
    command = [str(home() / "kube-scheduler"), f"--config={path}", "--secure-port=0", f"--feature-gates={GATES}"]
    return Contender("kube-scheduler", lease, "Attempting to acquire leader lease", command, once=True)


def processor_seconds(pid: int) -> float:
    """What a process has spent since its start."""
    # Fields after the command's name, which is in brackets and may hold anything.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


class Running:
    """A contender at work."""

    def __init__(self, contender: Contender, process: asyncio.subprocess.Process, log: Path) -> None:
        self.contender = contender
        self._process = process
        self._log = log

    def check(self) -> None:
        """Say so if it has ended although nobody asked it to."""
        if self._process.returncode is not None:
            raise RuntimeError(
                f"{self.contender.name} ended with {self._process.returncode}; the end of its log:\n"
                f"{self._log.read_text(errors='replace')[-3000:]}"
            )

    async def is_waiting(self) -> None:
        """Return once it wants nothing but the lease."""
        while self.contender.waiting not in self._log.read_text(errors="replace"):
            self.check()
            await asyncio.sleep(0.1)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def peak_megabytes(self) -> float:
        status = Path(f"/proc/{self.pid}/status").read_text()
        peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(peak.split()[1]) / 1024


@asynccontextmanager
async def running(contender: Contender, directory: Path) -> AsyncIterator[Running]:
    """For as long as the block lasts; ended by its own handle."""
    path = directory / f"{contender.name}.log"
    with path.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *contender.command, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        yield Running(contender, process, path)
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), _END_SECONDS)
            except TimeoutError:
                process.kill()
                await process.wait()
