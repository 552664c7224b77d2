"""`echelon up` as a real process that tests can kill and start again on the same data."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def leftovers(data: Path) -> list[int]:
    """Processes that have to do with a data directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                told = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                alive = (entry / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
            except OSError:
                continue
            if alive and str(data).encode() in told:
                found.append(int(entry.name))
    return found


class UpProcess:
    """One data directory, one port, any number of lives."""

    def __init__(self, data: Path, *options: str) -> None:
        self.data = data
        self.kubeconfig = data / "kubeconfig"
        self._arguments = ["--data", str(data), "--port", str(free_port()), *options]
        self._process: subprocess.Popen[str] | None = None

    def start(self, seconds: float = 120.0) -> None:
        """Start and wait for the line that says it is ready."""
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "echelon", "up", *self._arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        assert self._process.stdout is not None
        deadline = time.monotonic() + seconds
        told: list[str] = []
        for line in self._process.stdout:
            told.append(line)
            if "is ready at" in line:
                return
            assert time.monotonic() < deadline, "".join(told)
        raise AssertionError(f"echelon up ended early:\n{''.join(told)}")

    def kill(self) -> None:
        """SIGKILL: no chance to finish anything."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM: the orderly way; the exit code."""
        return self._end(signal.SIGTERM)

    def kill_if_alive(self) -> None:
        """For a test that may have failed anywhere."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def _end(self, number: signal.Signals) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        code = self._process.wait(timeout=20)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return code
