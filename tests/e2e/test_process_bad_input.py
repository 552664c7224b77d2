"""What a machine runs out of: a full disk, a flood of output."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from . import kubectl as kubectl_module
from .api_reading import events_of
from .kubectl import Kubectl
from .test_process_nodes import LONG, client, is_gone, phase, pod, started, state, until

MIB = 1 << 20
pytestmark = pytest.mark.skipif(kubectl_module.PATH is None, reason="no kubectl on PATH")


def shell(name: str, script: str, **more: Any) -> Any:
    """A pod that runs a script once, in a directory `/v` that goes with it."""
    mount = [{"name": "v", "mountPath": "/v"}]
    container = {"name": "c", "image": "x", "command": ["sh", "-c", script], "volumeMounts": mount, **more}
    volumes = [{"name": "v", "emptyDir": {}}]
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "volumes": volumes, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def events(kubectl: Kubectl, name: str) -> str:
    return events_of(kubectl.kubeconfig, name)


# -- a full disk -----------------------------------------------------------------------------------------------

#: Once its first line is logged, fills the disk, talks until it is told enough, makes room, ends with its own code.
FILLING = """
echo before
while [ ! -e $FLAGS/logged ]; do sleep 0.02; done
cat /dev/zero > /v/filler 2> /dev/null
touch $FLAGS/full
while [ ! -e $FLAGS/enough ]; do echo 0123456789012345678901234567890123456789; sleep 0.001; done
[ "$MAKE_ROOM" ] && rm /v/filler
echo after
exit 7
"""


@pytest.fixture
def data_on_a_small_disk(tmp_path: Path) -> Iterator[Path]:
    """A data directory whose pods have 4 MiB in all."""
    pods = tmp_path / "data" / "pods"
    pods.parent.mkdir(mode=0o700)
    pods.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(pods)], check=True)
    yield pods.parent
    subprocess.run(["umount", "--lazy", str(pods)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
@pytest.mark.parametrize("make_room", [True, False])
def test_pods_go_on_when_the_disk_is_full(tmp_path: Path, data_on_a_small_disk: Path, make_room: bool) -> None:
    """Whole lines in their logs, their own exit codes; what cannot begin says why, and begins when there is room."""
    flags = tmp_path / "flags"  # by which test and pods talk
    flags.mkdir()
    with started(data_on_a_small_disk, "--tier", "names") as up:
        kubectl = client(up, tmp_path)
        env = [{"name": "FLAGS", "value": str(flags)}, {"name": "MAKE_ROOM", "value": "1" if make_room else ""}]
        kubectl("apply", manifest=shell("filling", FILLING, env=env))
        phase(kubectl, "filling", "Running")
        until(lambda: "before" in kubectl("logs", "filling"))
        (flags / "logged").touch()
        until((flags / "full").exists)
        pod_uid = pod(kubectl, "filling")["metadata"]["uid"]
        kubectl("apply", manifest=shell("late", "echo began"))
        until(lambda: "LogLost" in events(kubectl, "filling"))
        until(lambda: "No space left on device" in events(kubectl, "late"))
        assert pod(kubectl, "late")["status"]["phase"] == "Pending"
        if not make_room:  # nobody hears how it ends
            up.kill()
            (attempt,) = state(up.data, pod_uid)
            (flags / "enough").touch()
            until(lambda: is_gone(attempt["pid"]))
            up.start()
        (flags / "enough").touch()
        ended = phase(kubectl, "filling", "Failed")["status"]["containerStatuses"][0]["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (7, "Error")
        lines = kubectl("logs", "filling").splitlines()
        assert lines[0] == "before"
        assert set(lines[1:]) <= {"0123456789012345678901234567890123456789", "after"}
        assert "after" in lines or not make_room
        (node,) = kubectl.object("nodes")["items"]
        assert next(one["status"] for one in node["status"]["conditions"] if one["type"] == "Ready") == "True"
        if not make_room:
            kubectl("delete", "pod", "filling")
        phase(kubectl, "late", "Succeeded")
        assert kubectl("logs", "late") == "began\n"


# -- a flood of output -----------------------------------------------------------------------------------------

CHUNK, CHUNKS = 20 * MIB, 500 if LONG else 5
#: Writes chunks and counts them until somebody says enough.
FLOOD = """
while [ ! -e $FLAGS/enough ]; do yes '{line}' | head -c {chunk}; echo; echo >> $FLAGS/chunks; done
echo the end
sleep 1000
"""
LINE = "a line of output as a program may write it in its thousands, with some words more than it needs " * 2


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue
    return total


def read_until_the_end(follower: subprocess.Popen[str], seen_end: threading.Event) -> None:
    assert follower.stdout is not None
    if any("the end" in line for line in follower.stdout):
        seen_end.set()


def test_a_flood_of_output_is_bounded_and_readable(tmp_path: Path) -> None:
    """Disk by rotation, memory of the shim and of the plane; logs are answered meanwhile and a follower keeps up."""
    flags = tmp_path / "flags"
    flags.mkdir()
    with started(tmp_path / "data", "--tier", "names") as up:
        kubectl = client(up, tmp_path)
        script = FLOOD.format(line=LINE, chunk=CHUNK)
        kubectl("apply", manifest=shell("flood", script, env=[{"name": "FLAGS", "value": str(flags)}]))
        uid = phase(kubectl, "flood", "Running")["metadata"]["uid"]
        until((flags / "chunks").exists)
        folder = up.data / "pods" / uid
        shim = json.loads((folder / "shim.json").read_text())["pid"]
        before = resident(up.pid)
        follower = kubectl.start("logs", "-f", "flood", "--tail=1")
        seen_end = threading.Event()
        reading = threading.Thread(target=read_until_the_end, args=(follower, seen_end))
        reading.start()
        largest_disk = largest_shim = largest_plane = 0
        looks = 0
        while looks < 3 or (flags / "chunks").stat().st_size < CHUNKS:
            tail = kubectl("logs", "flood", "--tail=2").splitlines()
            looks += 1
            assert all(line == LINE[: len(line)] for line in tail), tail
            largest_disk = max(largest_disk, size(folder / "logs"))
            largest_shim = max(largest_shim, resident(shim))
            largest_plane = max(largest_plane, resident(up.pid))
        largest_disk = max(largest_disk, size(folder / "logs"))
        (flags / "enough").touch()
        assert 40 * MIB < largest_disk <= 51 * MIB
        assert largest_shim < 30 * MIB
        assert largest_plane - before < 60 * MIB
        whole = kubectl("logs", "flood", "--limit-bytes=1000000")
        assert len(whole) == 1000000
        until(seen_end.is_set, 120)
        follower.kill()
        follower.communicate()
        reading.join()
        kubectl("delete", "pod", "flood")
        until(lambda: not folder.exists())
