"""Pods that run as processes of this machine: what a kubelet would report about them, in every tier."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest

from echelon.agents.process.shim.container_log import ContainerLog
from echelon.api.cluster.pools import parse
from echelon.api.objects import meta
from echelon.api.objects.vocabulary import NODE_LEASES
from echelon.api.scheme import LEASES, NODES, PODS

from .local_plane import LocalPlane, local_plane, processes_of, the_container

TIERS = ("net", "names", "plain")
pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/ns/pid"), reason="process nodes need Linux")


def pod(name: str, script: str, more: str = "", container: str = "") -> str:
    """A pod that runs a shell script once."""
    indented = "\n".join(f"        {line}" for line in script.splitlines())
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 5
{more}
  containers:
  - name: c
    image: example
    command: [sh, -c]
    args:
    - |
{indented}
{container}
"""


async def run(plane: LocalPlane, name: str, script: str, more: str = "", container: str = "") -> tuple[str, list[str]]:
    """The phase that a pod ends with, and its log."""
    await plane.apply(pod(name, script, more, container))
    ended = await plane.phase(name, "Succeeded", "Failed")
    return ended["status"]["phase"], await plane.log(name)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.conformance("API-126")
async def test_ends_are_reported_as_a_kubelet_reports_them(tmp_path: Path, tier: str) -> None:
    async with local_plane(tmp_path, tier) as plane:
        await plane.apply(pod("good", "echo out; echo err >&2"))
        await plane.apply(pod("bad", "exit 3"))
        await plane.apply(pod("killed", "kill -9 $$$$"))
        good, bad, killed = [await plane.phase(name, "Succeeded", "Failed") for name in ("good", "bad", "killed")]
        assert good["status"]["phase"] == "Succeeded"
        assert the_container(good)["state"]["terminated"].items() >= {"exitCode": 0, "reason": "Completed"}.items()
        assert sorted(await plane.log("good")) == ["err", "out"]
        assert bad["status"]["phase"] == killed["status"]["phase"] == "Failed"
        assert the_container(bad)["state"]["terminated"].items() >= {"exitCode": 3, "reason": "Error"}.items()
        expected = {"exitCode": 137, "reason": "Error", "signal": 9}
        assert the_container(killed)["state"]["terminated"].items() >= expected.items()


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.conformance("API-127")
async def test_a_process_that_ignores_sigterm_is_killed_when_its_grace_is_over(tmp_path: Path, tier: str) -> None:
    async with local_plane(tmp_path, tier) as plane:
        script = "trap '' TERM\n(setsid sh -c 'trap \"\" TERM; sleep 1000' &)\necho ready\nsleep 1000"
        (made,) = await plane.apply(pod("stubborn", script))
        await plane.phase("stubborn", "Running")
        await plane.until(lambda: plane.log("stubborn"))
        begun = time.monotonic()
        await plane.delete("stubborn", grace=2)
        await plane.gone(PODS, "stubborn")
        assert time.monotonic() - begun > 1.9
        assert processes_of(meta.uid(made)) == []
        await plane.files_gone(meta.uid(made))


MIXED = """
pools:
  - name: sim
    counts: {node: 3}
    capacity: {cpu: 4}
  - name: real
    counts: {rack: 2, node: 1}
    runs: processes
"""


async def test_process_nodes_and_simulated_nodes_live_in_one_cluster(tmp_path: Path) -> None:
    async with local_plane(tmp_path, "names", parse(MIXED, "mixed.yaml"), capacity={"cpu": "8"}) as plane:
        nodes = {meta.name(node): node for node in (await plane.verbs.list(NODES)).items}
        assert set(nodes) == {"sim-n0", "sim-n1", "sim-n2", "real-r0-n0", "real-r1-n0"}
        assert nodes["real-r0-n0"]["status"]["capacity"]["cpu"] == "4"
        for name, node in (("here", "real-r1-n0"), ("there", "sim-n1")):
            where = f"  nodeSelector: {{kubernetes.io/hostname: {node}}}"
            await plane.apply(pod(name, "echo ran; sleep 1000", where))
        await plane.phase("here", "Running")
        await plane.phase("there", "Running")
        await plane.until(lambda: plane.log("here"))
        assert len(list((tmp_path / "pods").iterdir())) == 1
        assert meta.condition_is(nodes["real-r0-n0"], "Ready")
        assert (await plane.verbs.get(LEASES, "real-r0-n0", NODE_LEASES))["spec"]["leaseDurationSeconds"] == 40


LISTEN = """
import socket, sys
with socket.create_server(("", int(sys.argv[1]))):
    print("listening")
"""


@pytest.mark.parametrize("tier", TIERS)
async def test_a_port_that_somebody_else_has(tmp_path: Path, tier: str) -> None:
    """In tier net it is the pod's own; else the program fails as anywhere, and an event says what it may be."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        container = {"name": "c", "image": "x", "command": ["python", "-c", LISTEN, str(port)]}
        spec = {"restartPolicy": "Never", "containers": [{**container, "ports": [{"containerPort": port}]}]}
        async with local_plane(tmp_path, tier) as plane:
            await plane.verbs.create(PODS, {"metadata": {"name": "p"}, "spec": spec}, "default")
            ended = await plane.phase("p", "Succeeded", "Failed")
            told = f"PortInUse: port {port} of container c is in use on this machine"
            if tier == "net":
                assert (ended["status"]["phase"], await plane.log("p")) == ("Succeeded", ["listening"])
                assert not any(told in line for line in await plane.events("p"))
                return
            assert the_container(ended)["state"]["terminated"]["exitCode"] == 1
            assert "Address already in use" in (await plane.log("p"))[-1]
            await plane.told("p", told, "--tier net")


async def test_a_log_that_grows_without_end_is_rotated(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    log = ContainerLog(str(folder / "0.log"), most_bytes=10_000, most_files=3)
    for number in range(1000):
        log.feed("stdout", f"line {number}\n".encode() * 2)
    log.feed("stderr", b"x" * 40_000)
    log.feed("stdout", b"no end of line")
    log.close()
    files = sorted(folder.iterdir())
    assert len(files) == 3
    pieces = [line for file in (*files[1:], files[0]) for line in file.read_text().splitlines()]
    assert [line.split(" ", 3)[1:3] for line in pieces[-4:]] == [
        ["stderr", "P"], ["stderr", "P"], ["stdout", "F"], ["stderr", "F"],
    ]  # fmt: skip
    assert pieces[-2].endswith(" no end of line")
