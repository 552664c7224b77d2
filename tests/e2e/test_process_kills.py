"""What is killed: Echelon again and again, shims, workers, the holder of the network.  And nothing that is left."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from . import kubectl as kubectl_module
from .kubectl import Kubectl
from .process import UpProcess
from .test_process_nodes import (
    COUNTING,
    LONG,
    client,
    documents,
    is_gone,
    leftovers,
    lines,
    phase,
    pod,
    pod_devices,
    started,
    state,
    until,
)  # fmt: skip

pytestmark = pytest.mark.skipif(kubectl_module.PATH is None, reason="no kubectl on PATH")
ROUNDS = 20 if LONG else 3

FAILING = """
apiVersion: v1
kind: Pod
metadata: {name: failing}
spec:
  restartPolicy: OnFailure
  terminationGracePeriodSeconds: 2
  containers:
  - name: c
    image: x
    command: [sh, -c, 'while ! rm FOLDER/fail 2>/dev/null; do sleep 0.02; done; exit 9']
"""


def brief(number: int) -> Any:
    """A pod that soon ends with a code of its own."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"brief-{number}"},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "x", "command": ["sh", "-c", f"sleep 0.5; exit {number + 1}"]}],
        },
    }


def container(kubectl: Kubectl, name: str) -> Any:
    return pod(kubectl, name)["status"]["containerStatuses"][0]


def restarted(kubectl: Kubectl, name: str, times: int) -> Any:
    """The container once it runs again."""
    one = container(kubectl, name)
    return one if one["restartCount"] == times and "running" in one["state"] else None


def mounts_and_devices(data: Path) -> list[str]:
    """What any process sees mounted for the pods of a data directory, and network devices of pods."""
    found = pod_devices()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "mounts").read_text()
            except OSError:
                continue
            found |= {line for line in text.splitlines() if str(data) in line}
    return sorted(found)


def removed(data: Path) -> bool:
    """Whether a directory is gone that pods still write to: what they add while it is taken away is taken away next."""
    shutil.rmtree(data, ignore_errors=True)
    return not data.exists()


@pytest.mark.conformance("API-127")
@pytest.mark.parametrize("tier", ["net", "names", "plain"] if LONG else ["net"])
def test_echelon_is_killed_again_and_again(tmp_path: Path, tier: str) -> None:
    """Same processes, no line lost or doubled, right exit codes, right counts of restarts."""
    moments = random.Random(7)
    with started(tmp_path / "data", "--tier", tier) as up:
        kubectl = client(up, tmp_path)
        kubectl("apply", manifest=[documents(COUNTING)[0], *documents(FAILING.replace("FOLDER", str(tmp_path)))])
        uid = phase(kubectl, "count", "Running")["metadata"]["uid"]
        phase(kubectl, "failing", "Running")
        (before,) = state(up.data, uid)
        for number in range(ROUNDS):
            kubectl("apply", manifest=brief(number))
            if number % 2:
                phase(kubectl, f"brief-{number}", "Running", "Failed")
            time.sleep(moments.uniform(0, 0.6))
            up.kill()
            (tmp_path / "fail").touch()
            time.sleep(moments.uniform(0.1, 0.8))
            up.start()
            ended = phase(kubectl, f"brief-{number}", "Succeeded", "Failed")["status"]["containerStatuses"][0]
            assert (ended["state"]["terminated"]["exitCode"], ended["restartCount"]) == (number + 1, 0)
            again = until(partial(restarted, kubectl, "failing", number + 1))
            assert again["lastState"]["terminated"]["exitCode"] == 9
        (after,) = state(up.data, uid)
        assert (after["pid"], after["start"], after["attempt"]) == (before["pid"], before["start"], 0)
        assert container(kubectl, "count")["restartCount"] == 0
        seen = lines(up.data, uid)
        assert seen == list(range(len(seen)))
        assert len(seen) > 100 * ROUNDS / 2
        through_kubectl = kubectl("logs", "count").split()
        assert through_kubectl[: len(seen)] == list(map(str, seen))


def test_a_killed_worker_is_reported_with_its_signal(tmp_path: Path) -> None:
    with started(tmp_path / "data") as up:
        kubectl = client(up, tmp_path)
        once = COUNTING.replace("OnFailure", "Never").replace("name: count", "name: once")
        kubectl("apply", manifest=[documents(COUNTING)[0], documents(once)[0]])
        for name in ("count", "once"):
            uid = phase(kubectl, name, "Running")["metadata"]["uid"]
            until(partial(lines, up.data, uid))
            os.kill(state(up.data, uid)[0]["pid"], signal.SIGKILL)
        ended = phase(kubectl, "once", "Failed")["status"]["containerStatuses"][0]["state"]["terminated"]
        assert (ended["exitCode"], ended["signal"], ended["reason"]) == (137, 9, "Error")
        again = until(partial(restarted, kubectl, "count", 1))
        assert again["lastState"]["terminated"]["exitCode"] == 137
        assert "0\n" in kubectl("logs", "count", "--previous")


def test_shims_that_are_killed_while_echelon_is_dead_are_found_missing(tmp_path: Path) -> None:
    with started(tmp_path / "data") as up:
        kubectl = client(up, tmp_path)
        once = COUNTING.replace("OnFailure", "Never").replace("name: count", "name: once")
        kubectl("apply", manifest=[documents(COUNTING)[0], documents(once)[0]])
        uids = [phase(kubectl, name, "Running")["metadata"]["uid"] for name in ("count", "once")]
        up.kill()
        for uid in uids:
            shim = json.loads((up.data / "pods" / uid / "shim.json").read_text())["pid"]
            os.kill(shim, signal.SIGKILL)
            until(partial(is_gone, state(up.data, uid)[0]["pid"]))
        up.start()
        ended = phase(kubectl, "once", "Failed")["status"]["containerStatuses"][0]
        assert ended["state"]["terminated"]["exitCode"] == 137
        assert until(partial(restarted, kubectl, "count", 1))["lastState"]["terminated"]["exitCode"] == 137


def test_pods_get_a_new_sandbox_when_the_holder_of_their_network_is_killed(tmp_path: Path) -> None:
    with started(tmp_path / "data", "--tier", "net") as up:
        kubectl = client(up, tmp_path)
        kubectl("apply", manifest=documents(COUNTING)[0])
        phase(kubectl, "count", "Running")
        os.kill(json.loads((up.data / "network" / "holder.json").read_text())["pid"], signal.SIGKILL)
        assert until(partial(restarted, kubectl, "count", 1))["lastState"]["terminated"]["exitCode"] == 137
        until(lambda: "SandboxChanged" in kubectl("get", "events"))
        assert "eth0" in kubectl("exec", "count", "--", "cat", "/proc/net/dev")


@pytest.mark.parametrize("tier", ["net", pytest.param("names", marks=pytest.mark.long), "plain"])
def test_nothing_is_left_when_echelon_is_killed_and_its_data_removed(tmp_path: Path, tier: str) -> None:
    """Processes, mounts, network devices: all go though nobody stops them, also those that resist."""
    data = tmp_path / "data"
    up = UpProcess(data, "--nodes", "process", "--tier", tier)
    up.start()
    try:
        kubectl = client(up, tmp_path)
        resist = documents(COUNTING)[0]
        one = resist["spec"]["containers"][0]
        one["args"] = ["import os, signal\nsignal.signal(15, 1)\nif os.fork(): os.setsid()\n" + one["args"][0]]
        kubectl("apply", manifest=resist)
        phase(kubectl, "count", "Running")
        up.kill()
        assert leftovers(data), "pods outlive a killed Echelon"
        until(partial(removed, data))
        until(lambda: not leftovers(data) and not mounts_and_devices(data))
    finally:
        up.kill_if_alive()
        for pid in leftovers(data):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_nothing_is_left_of_an_echelon_that_is_stopped(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with started(data) as up:
        kubectl = client(up, tmp_path)
        kubectl("apply", manifest=documents(COUNTING))
        phase(kubectl, "count", "Running")
        assert mounts_and_devices(data), "the check sees mounts while pods run"
        up.kill()
        up.start()
        assert up.stop() == 0
        until(lambda: not leftovers(data) and not mounts_and_devices(data))
        up.start()
