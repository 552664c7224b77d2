"""`echelon up` as a real process that tests can kill and start again on the same data."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
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
                told = (entry / "cmdline").read_bytes()
                alive = (entry / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
                with contextlib.suppress(PermissionError):  # shims let nobody look into them
                    told += (entry / "environ").read_bytes()
            except OSError:
                continue
            if alive and str(data).encode() in told:
                found.append(int(entry.name))
    return found


class UpProcess:
    """One data directory, one port, any number of lives."""

    def __init__(self, data: Path, *options: str, within: Sequence[str] = ()) -> None:
        """`within` is a command that runs the rest of its arguments."""
        self.data = data
        self.kubeconfig = data / "kubeconfig"
        #: What it printed until it was ready.
        self.told = ""
        self._within = within
        self._arguments = ["--data", str(data), "--port", str(free_port()), *options]
        self._process: subprocess.Popen[str] | None = None

    def start(self, seconds: float = 120.0) -> None:
        """Start and wait for the line that says it is ready."""
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self._process = subprocess.Popen(
            [*self._within, sys.executable, "-m", "echelon", "up", *self._arguments],
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
            self.told = "".join(told)
            if "is ready at" in line:
                return
            if time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"echelon up was not ready in time:\n{self.told}")
        raise AssertionError(f"echelon up ended early:\n{self.told}")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL: no chance to finish anything."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM: the orderly way; the exit code."""
        return self._end(signal.SIGTERM)

    def stop_and_kill(self, first: signal.Signals) -> str:
        """A signal, and once it says that it stops, Ctrl-C; what it said in between."""
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.send_signal(first)
        said = self._process.stdout.readline()
        assert self._end(signal.SIGINT) == 0
        return said

    def kill_if_alive(self) -> None:
        """For a test that may have failed anywhere."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def _end(self, number: signal.Signals) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        code = self._process.wait(timeout=120)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return code
