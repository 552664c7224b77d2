"""`echelon up --nodes process` as a process: killed, started again, stopped; as root and as nobody."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

from . import kubectl as kubectl_module
from .api_reading import read
from .kubectl import Kubectl
from .process import UpProcess, leftovers

T = TypeVar("T")
LONG = bool(os.environ.get("ECHELON_LONG"))
pytestmark = pytest.mark.skipif(kubectl_module.PATH is None, reason="no kubectl on PATH")

COUNTING = """
apiVersion: v1
kind: Pod
metadata: {name: count}
spec:
  restartPolicy: OnFailure
  terminationGracePeriodSeconds: 2
  containers:
  - name: c
    image: python
    command: [python, -u, -c]
    args:
    - |
      import os, time
      for number in range(100000):
          print(number, flush=True)
          time.sleep(0.01)
"""


def until(what: Callable[[], T], seconds: float = 90.0) -> T:
    deadline = time.monotonic() + seconds
    while True:
        found = what()
        if found:
            return found
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def documents(text: str) -> list[Any]:
    return list(yaml.safe_load_all(text))


@contextmanager
def started(data: Path, *options: str, within: Sequence[str] = ()) -> Iterator[UpProcess]:
    """Whatever the test does, nothing of it stays."""
    up = UpProcess(data, "--nodes", "process", *options, within=within)
    up.start()
    try:
        yield up
        assert up.stop() == 0
        until(lambda: not leftovers(data))
    finally:
        up.kill_if_alive()
        for pid in leftovers(data):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def client(up: UpProcess, tmp_path: Path) -> Kubectl:
    return Kubectl(up.kubeconfig, tmp_path / "cache")


def pod(kubectl: Kubectl, name: str) -> Any:
    return read(kubectl.kubeconfig, "pods", name)


def phase(kubectl: Kubectl, name: str, *phases: str) -> Any:
    return until(lambda: found if (found := pod(kubectl, name))["status"]["phase"] in phases else None)


def state(data: Path, uid: str) -> Any:
    return json.loads((data / "pods" / uid / "state.json").read_text())["attempts"]


def pod_devices() -> set[str]:
    """Network devices of this machine that have to do with pods."""
    return {name for name in os.listdir("/sys/class/net") if name.startswith(("pods", "v64", "v7f"))}


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def lines(data: Path, uid: str) -> list[int]:
    """What the container of a pod has counted, without a line that is being written."""
    texts = [file.read_text() for file in sorted((data / "pods" / uid / "logs" / "c").iterdir())]
    return [int(line.split(" ")[3]) for text in texts for line in text.rpartition("\n")[0].splitlines()]


@pytest.mark.parametrize("tier", ["net", pytest.param("names", marks=pytest.mark.long), "plain"])
def test_a_killed_shim_takes_its_pod_with_it(tmp_path: Path, tier: str) -> None:
    with started(tmp_path / "data", "--tier", tier) as up:
        kubectl = client(up, tmp_path)
        once = COUNTING.replace("OnFailure", "Never").replace("name: count", "name: once")
        kubectl("apply", manifest=[documents(COUNTING)[0], documents(once)[0]])
        for name in ("count", "once"):
            uid = phase(kubectl, name, "Running")["metadata"]["uid"]
            shim = json.loads((up.data / "pods" / uid / "shim.json").read_text())["pid"]
            (attempt,) = state(up.data, uid)
            os.kill(shim, signal.SIGKILL)
            until(partial(is_gone, attempt["pid"]))
        failed = phase(kubectl, "once", "Failed")["status"]["containerStatuses"][0]
        assert failed["state"]["terminated"]["exitCode"] == 137

        def restarted() -> Any:
            one = pod(kubectl, "count")["status"]["containerStatuses"][0]
            return one if one["restartCount"] == 1 and "running" in one["state"] else None

        assert until(restarted)["lastState"]["terminated"]["exitCode"] == 137


def test_nothing_is_left_of_pods_that_resist(tmp_path: Path) -> None:
    """Ctrl-C, with processes that ignore SIGTERM, fork and leave their session; and their pods say what happened."""
    devices = pod_devices()
    with started(tmp_path / "data") as up:
        resist = documents(COUNTING)[0]
        ignore = "import os, signal\nsignal.signal(15, signal.SIG_IGN)\nif os.fork(): os.setsid()\n"
        container = resist["spec"]["containers"][0]
        container["args"] = [ignore + container["args"][0]]
        kubectl = client(up, tmp_path)
        kubectl("apply", manifest=resist)
        phase(kubectl, "count", "Running")
        assert up.stop() == 0
        until(lambda: not leftovers(up.data))
        assert not [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(tmp_path) in line]
        assert pod_devices() <= devices
        up.start()
        status = pod(kubectl, "count")["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "Terminated")


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGHUP])
def test_a_second_ctrl_c_kills_pods_whatever_grace_they_have(tmp_path: Path, first: signal.Signals) -> None:
    """A closed terminal counts as the first."""
    with started(tmp_path / "data") as up:
        patient = documents(COUNTING)[0]
        patient["spec"]["terminationGracePeriodSeconds"] = 600
        container = patient["spec"]["containers"][0]
        container["args"] = ["import signal\nsignal.signal(15, signal.SIG_IGN)\n" + container["args"][0]]
        kubectl = client(up, tmp_path)
        kubectl("apply", manifest=patient)
        phase(kubectl, "count", "Running")
        until(lambda: "1" in kubectl("logs", "count"))
        assert up.stop_and_kill(first) == "stopping 1 pod; Ctrl-C kills what is left\n"
        until(lambda: not leftovers(up.data))
        up.start()
        status = pod(kubectl, "count")["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "Terminated")


def test_a_node_is_cordoned_and_drained(tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("pools: [{name: here, counts: {node: 2}, runs: processes}]")
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{"name": "c", "image": "x", "command": ["sleep", "1000"]}],
                },
            },
        },
    }
    up = UpProcess(tmp_path / "data", "--cluster", str(cluster))
    up.start()
    try:
        kubectl = client(up, tmp_path)
        kubectl("apply", manifest=deployment)
        kubectl("rollout", "status", "deployment/web", "--timeout=55s")
        kubectl("drain", "here-n0", "--timeout=55s")
        kubectl("rollout", "status", "deployment/web", "--timeout=55s")
        pods = kubectl.object("pods", "-l", "app=web")["items"]
        assert {one["spec"]["nodeName"] for one in pods} == {"here-n1"}
        assert "SchedulingDisabled" in kubectl("get", "node", "here-n0")
        assert up.stop() == 0
        until(lambda: not leftovers(up.data))
    finally:
        up.kill_if_alive()
        for pid in leftovers(up.data):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
