"""The servers under test, each as child processes on loopback, all at the same time."""

from __future__ import annotations

import base64
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml
from tests.cluster.controlplane import control_plane, missing
from tests.e2e.process import free_port

from ..cluster.bare import Endpoint
from ..cluster.contenders import processor_seconds

_START_SECONDS = 60.0


@dataclass(frozen=True)
class Contender:
    name: str
    endpoint: Endpoint
    pids: tuple[int, ...]

    def processor(self) -> float:
        """Processor seconds spent so far."""
        return sum(map(processor_seconds, self.pids))


@contextmanager
def everyone(directory: Path, body: bytes) -> Iterator[list[Contender]]:
    """Echelon, bare uvicorn and, where they are built, kube-apiserver with an etcd that syncs its writes."""
    with ExitStack() as stack:
        home = directory / "echelon"
        pid = stack.enter_context(_child("bench.server.echelon_server", str(home)))
        _wait_for(home / "kubeconfig")
        echelon = Contender("echelon", _endpoint(home / "kubeconfig"), (pid,))
        port, pod = free_port(), directory / "pod.json"
        pod.write_bytes(body)
        pid = stack.enter_context(_child("bench.server.bare_uvicorn", str(home / "pki"), str(port), str(pod)))
        url = f"https://127.0.0.1:{port}"
        found = [echelon, Contender("uvicorn", Endpoint(url, echelon.endpoint.trust, ""), (pid,))]
        if not missing():
            (directory / "real").mkdir()
            plane = stack.enter_context(control_plane(directory / "real", manager=False, durable=True))
            found.append(Contender("kube-apiserver", _endpoint(plane.kubeconfig), tuple(plane.pids.values())))
        yield found


def _endpoint(path: Path) -> Endpoint:
    config = yaml.safe_load(path.read_text())
    cluster, token = config["clusters"][0]["cluster"], config["users"][0]["user"]["token"]
    if "certificate-authority-data" in cluster:
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    else:
        authority = Path(cluster["certificate-authority"]).read_text()
    return Endpoint(cluster["server"], ssl.create_default_context(cadata=authority), token)


@contextmanager
def _child(module: str, *arguments: str) -> Iterator[int]:
    command: Sequence[str] = [sys.executable, "-m", module, *arguments]
    child = subprocess.Popen(command)
    try:
        yield child.pid
    finally:
        child.kill()
        child.wait()


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} does not appear"
        time.sleep(0.05)
