"""A shim without an agent: what must not end it, what must, and what it leaves."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from echelon.agents.process.pod_directories import PodDirectory
from echelon.agents.process.rules.capabilities import kept_capabilities
from echelon.agents.process.shim.holder import may_administer
from echelon.agents.process.shim.launch import program
from echelon.agents.process.shim_lines import connect_in

from .local_plane import processes_of

_SECONDS = 60.0


class ShimAlone:
    """A real shim and a connection to it."""

    def __init__(self, directory: PodDirectory, tier: str) -> None:
        self.directory = directory
        self.tier = tier
        directory.make()
        directory.hosts.write_text("127.0.0.1 localhost\n")
        directory.hostname.write_text("p\n")
        directory.write(
            "sandbox.json",
            {
                "uid": directory.uid,
                "tier": tier,
                "user_namespace": not may_administer(),
                "hostname": "p",
                "hosts": str(directory.hosts),
                "hostname_file": str(directory.hostname),
            },
        )
        subprocess.run(program("main", str(directory.path)), check=True)
        self.pid = directory.shim_pid()
        self.line: socket.socket = connect_in(str(directory.path), "control.sock")
        self.line.settimeout(_SECONDS)
        self._rest = b""

    def start(self, container: str, script: str, **more: Any) -> None:
        scratch = self.directory.scratch(container)
        scratch.mkdir(parents=True)
        self.send(
            do="start",
            container=container,
            attempt=0,
            argv=["sh", "-c", script],
            env={"PATH": os.environ["PATH"]},
            cwd="/",
            mounts=[],
            scratch=str(scratch),
            log=str(self.directory.log(container, 0)),
            rotation={"bytes": 1 << 20, "files": 2},
            capabilities=kept_capabilities({}),
            may_gain_rights=True,
            **more,
        )

    def send(self, **command: Any) -> None:
        self.line.sendall(json.dumps(command).encode() + b"\n")

    def until(self, what: Callable[[dict[str, dict[str, Any]]], Any]) -> dict[str, dict[str, Any]]:
        """The records of containers once this holds for them."""
        while True:
            while b"\n" not in self._rest:
                data = self.line.recv(1 << 16)
                assert data, "the shim has ended"
                self._rest += data
            told, _, self._rest = self._rest.partition(b"\n")
            records = {one["container"]: one for one in json.loads(told)["attempts"]}
            if what(records):
                return records

    def is_alive(self) -> bool:
        return os.path.exists(f"/proc/{self.pid}") and self.directory.shim_pid() == self.pid

    def wait_gone(self, pid: int) -> None:
        deadline = time.monotonic() + _SECONDS
        while _is_running(pid):
            assert time.monotonic() < deadline, f"{pid} still runs"
            time.sleep(0.02)


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.fixture(params=["names", "plain"])
def shim(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ShimAlone]:
    made = ShimAlone(PodDirectory(tmp_path / "pods" / "uid"), request.param)
    try:
        yield made
    finally:
        made.line.close()
        if _is_running(made.pid):
            os.kill(made.pid, 15)
            made.wait_gone(made.pid)


def test_a_command_that_makes_no_sense_does_not_end_the_pod(shim: ShimAlone) -> None:
    shim.start("c", "sleep 1000", tty=True)
    first = shim.until(lambda found: "c" in found)["c"]
    shim.send(do="resize", container="c", attempt=0, width=-1, height=1 << 20)
    shim.send(do="signal", container="c", attempt=0, signal=4711)
    shim.send(do="signal")
    shim.line.sendall(b"nonsense\n[]\n")
    shim.send(do="start", container="d", attempt=0)
    shim.send(do="signal", container="c", attempt=0, signal=15)
    records = shim.until(lambda found: found["c"]["code"] is not None)
    assert records["c"]["pid"] == first["pid"]
    assert records["c"]["code"] == 143


def test_output_of_a_daemon_that_hides_holds_nobody_up(shim: ShimAlone) -> None:
    """It has left its parent and its environment, and writes as fast as it can, while another container runs."""
    shim.start("other", "sleep 1000")
    shim.start("c", "(env -i setsid yes &); sleep 0.3; exit 3")
    shim.until(lambda found: "c" in found)
    ended = shim.until(lambda found: found["c"]["code"] is not None)["c"]
    assert ended["code"] == 3
    # In tier plain nothing tells whose it is; its output is closed, and so it ends.
    deadline = time.monotonic() + _SECONDS
    while len(_below(shim.pid)) > 1:
        assert time.monotonic() < deadline, "the daemon still runs"
        time.sleep(0.05)


def _below(shim: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if int(parent) == shim and state not in "ZX":
                found.append(int(entry.name))
    return found


@pytest.mark.parametrize("shim", ["names"], indirect=True)
def test_a_quiet_daemon_without_its_environment_ends_with_its_container(shim: ShimAlone) -> None:
    shim.start("other", "sleep 1000")
    shim.start("c", "(env -i setsid sleep 1000 > /dev/null 2>&1 < /dev/null &); sleep 0.3")
    shim.until(lambda found: "c" in found and found["c"]["code"] == 0)
    assert len(_below(shim.pid)) == 1


#: Becomes 64 processes, each with its own memory and most with a session of their own.
MANY = """
import os, time
memory = bytearray(8 << 20)
for _ in range(6):
    os.fork()
if os.getpgid(0) != os.getpid():
    os.setsid()
memory[::4096] = memory[::4096]
open(f"{os.getpid()}.up", "w").close()
time.sleep(1000)
"""


def test_nothing_of_a_container_runs_when_its_end_is_told(shim: ShimAlone, tmp_path: Path) -> None:
    """However long the kernel takes for what was killed."""
    (tmp_path / "many.py").write_text(MANY)
    wait = "until test $(ls | grep -c .up) -ge 64; do sleep 0.05; done"
    shim.start("c", f"cd {tmp_path}; python many.py & cd {tmp_path}; {wait}")
    told = shim.until(lambda found: "c" in found and found["c"]["code"] is not None)["c"]
    assert processes_of(f"{shim.directory.uid}/c/0") == []
    assert told["code"] == 0


def test_a_shim_whose_directory_was_removed_ends_and_makes_nothing_there(shim: ShimAlone) -> None:
    shim.start("c", "sleep 1000")
    pid = shim.until(lambda found: "c" in found)["c"]["pid"]
    path = shim.directory.path
    shutil.rmtree(path)
    shim.send(do="start", container="d", attempt=0, argv=["true"], log=f"{path}/logs/d/0.log", rotation={})
    shim.wait_gone(shim.pid)
    shim.wait_gone(pid)
    assert not path.exists()


def test_a_shim_whose_directory_was_removed_in_part_ends(shim: ShimAlone) -> None:
    """Something was written there while it was removed, so a part of it is left; nobody finds the pod by that."""
    shim.start("c", "sleep 1000")
    pid = shim.until(lambda found: "c" in found)["c"]["pid"]
    path = shim.directory.path
    for entry in path.iterdir():
        if entry.name != "logs":
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    shim.wait_gone(shim.pid)
    shim.wait_gone(pid)
    assert [one.name for one in path.iterdir()] == ["logs"]
