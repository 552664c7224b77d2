"""Logs, exec, attach, cp, port-forward and top of pods that run as processes, with the real clients."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import kubectl as kubectl_module
from tests.e2e.kubectl import Kubectl
from tests.e2e.process import UpProcess, free_port

pytestmark = pytest.mark.skipif(kubectl_module.PATH is None, reason="needs kubectl")

#: Prints ten lines on each output, then waits for a file.
TALKER = """
i=0; while [ $i -lt 10 ]; do echo line $i; echo err $i >&2; i=$((i+1)); done
while [ ! -e /memory/end ]; do sleep 0.05; done; echo bye
"""
CRASHER = """
if [ -e /memory/was-here ]; then echo second life; sleep 1000; fi
touch /memory/was-here; echo first life; exit 5
"""


def pod(name: str, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    named = [{"image": "registry.example/c:1", **container} for container in containers]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": named, **spec}}  # fmt: skip


def shell(name: str, script: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "command": ["sh", "-c", script], **more}


MEMORY = {"volumeMounts": [{"name": "memory", "mountPath": "/memory"}]}
VOLUMES = [{"name": "memory", "emptyDir": {}}]
PODS = [
    pod("talker", shell("c", TALKER, **MEMORY), restartPolicy="Never", volumes=VOLUMES),
    pod("pair", {"name": "web", "command": ["python3", "-m", "http.server", "8080"]},
        {"name": "cat", "stdin": True, "command": ["cat"]}),
    pod("shell", {"name": "c", "stdin": True, "tty": True, "command": ["sh"]}),
    pod("once", {"name": "c", "stdin": True, "stdinOnce": True, "command": ["cat"]}, restartPolicy="Never"),
    pod("crasher", shell("c", CRASHER, **MEMORY), volumes=VOLUMES),
    pod("looper", shell("c", "ls /memory | wc -l; touch /memory/$(date +%N); exit 1", **MEMORY), volumes=VOLUMES),
]  # fmt: skip


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    folder: Path = tmp_path_factory.mktemp("streams")
    up = UpProcess(folder / "data", "--nodes", "process")
    up.start()
    kubectl = Kubectl(up.kubeconfig, folder / "cache")
    try:
        kubectl("apply", manifest=PODS)
        kubectl("wait", "pod", "talker", "pair", "shell", "once", "--for=condition=Ready", "--timeout=55s")
        until(lambda: "line 9" in kubectl("logs", "talker"), "the talker")
        yield kubectl
        kubectl("delete", "pods", "--all", "--wait=true")
    finally:
        up.stop()


def until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.1)


@pytest.mark.conformance("API-112")
def test_logs_are_read_by_lines_times_and_containers(kubectl: Kubectl) -> None:
    everything = kubectl("logs", "talker").splitlines()
    assert sorted(everything) == sorted([f"{word} {n}" for n in range(10) for word in ("line", "err")])
    assert kubectl("logs", "talker", "--tail=3").splitlines() == everything[-3:]
    stamped = kubectl("logs", "talker", "--timestamps", "--tail=1").split(" ", 1)
    assert stamped[0].endswith("Z")
    assert stamped[1].rstrip() == everything[-1]
    assert kubectl("logs", "talker", "--since=1h").splitlines() == everything
    assert kubectl("logs", "-l", "app=talker", "--tail=-1", "--prefix").splitlines() == [
        f"[pod/talker/c] {line}" for line in everything
    ]
    refused = kubectl.run("get", "--raw", "/api/v1/namespaces/default/pods/pair/log")
    assert "a container name must be specified for pod pair, choose one of: [web cat]" in refused.err
    assert "container nobody is not valid for pod pair" in kubectl.run("logs", "pair", "-c", "nobody").err


@pytest.mark.conformance("API-112")
def test_the_log_before_a_restart_is_kept(kubectl: Kubectl) -> None:
    until(lambda: "second life" in kubectl.run("logs", "crasher").out, "the restart")
    assert kubectl("logs", "crasher", "--previous") == "first life\n"
    assert "previous terminated container" in kubectl.run("logs", "pair", "-c", "web", "--previous").err


@pytest.mark.conformance("API-112")
def test_the_previous_log_of_a_container_that_waits_is_that_of_its_last_state(kubectl: Kubectl) -> None:
    def waits_again() -> bool:
        (one,) = json.loads(kubectl("get", "pod", "looper", "-o", "json"))["status"]["containerStatuses"]
        return one["restartCount"] >= 1 and (one["state"].get("waiting") or {}).get("reason") == "CrashLoopBackOff"

    until(waits_again, "the second failure")
    # It may be started again between two questions.
    until(lambda: kubectl("logs", "looper", "--previous") == kubectl("logs", "looper"), "the same log twice")
    assert int(kubectl("logs", "looper")) >= 1


@pytest.mark.conformance("API-112")
def test_following_ends_when_the_container_ends(kubectl: Kubectl) -> None:
    following = kubectl.start("logs", "-f", "talker", "--tail=1")
    time.sleep(1)
    kubectl("exec", "talker", "--", "touch", "/memory/end")
    out, _ = following.communicate(timeout=120)
    assert following.returncode == 0
    assert out.splitlines()[-1] == "bye"


@pytest.mark.conformance("API-111")
def test_exec_carries_outputs_input_and_exit_codes(kubectl: Kubectl) -> None:
    done = kubectl.run("exec", "pair", "-c", "web", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.code, done.out) == (3, "out\n")
    assert done.err.splitlines()[0] == "err"
    command = kubectl.command("exec", "-i", "pair", "-c", "web", "--", "sh", "-c", "tr a-z A-Z; hostname")
    given = subprocess.run(command, input="x" * 100_000, capture_output=True, text=True, timeout=120, check=True)
    assert given.stdout == "X" * 100_000 + "pair\n"
    words = ("printf", "<%s>", "a", "", "b c")
    assert kubectl("exec", "pair", "-c", "web", "--", *words) == "<a><><b c>"
    assert "container cat" not in kubectl("exec", "pair", "-c", "cat", "--", "env")
    missing = kubectl.run("exec", "pair", "-c", "web", "--", "no-such-program")
    assert missing.code == 127


def test_a_program_that_reads_nothing_ends_with_its_client(kubectl: Kubectl) -> None:
    command = kubectl.command("exec", "-i", "pair", "-c", "web", "--", "sh", "-c", "echo $$; exec sleep 1000")
    with open("/dev/zero") as much, subprocess.Popen(command, stdin=much, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        pid = client.stdout.readline().strip()
        time.sleep(2)  # until its input is full
        client.kill()
    look = ("exec", "pair", "-c", "web", "--", "sh", "-c", f"kill -0 {pid}")
    until(lambda: kubectl.run(*look).code != 0, "the end of the program")


def test_a_program_that_reads_late_gets_all_of_its_input(kubectl: Kubectl) -> None:
    command = kubectl.command("exec", "-i", "pair", "-c", "web", "--", "sh", "-c", "sleep 12; wc -c")
    done = subprocess.run(command, input="x" * 3_000_000, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "3000000"), done.stderr


def test_exec_on_a_terminal(kubectl: Kubectl) -> None:
    command = " ".join(
        kubectl.command("exec", "-it", "pair", "-c", "web", "--", "sh", "-c", "'tty && stty size && exit 4'")
    )
    done = subprocess.run(
        ["script", "-qec", command, "/dev/null"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 4, done.stdout
    assert "/dev/pts/" in done.stdout


def test_a_shell_by_exec_has_jobs_of_its_own(kubectl: Kubectl) -> None:
    """It leads its session, as in a container: Ctrl-C ends what it runs, and its own end is the exit code."""
    screen, terminal = pty.openpty()
    command = kubectl.command("exec", "-it", "pair", "-c", "web", "--", "sh")
    shell = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True)
    os.close(terminal)
    try:
        leads = b"read _ _ _ _ _ session _ < /proc/$$/stat; echo leads $(($$ - session))\r"
        until(lambda: b"leads 0" in _typed(screen, leads), "the shell, which leads its session")
        _typed(screen, b"sleep 1000\r")
        until(lambda: b"alive" in _typed(screen, b"\x03echo ali''ve\r"), "the end of what Ctrl-C ends")
        os.write(screen, b"exit 4\r")
        assert shell.wait(120) == 4
    finally:
        shell.kill()
        shell.wait()
        os.close(screen)


def test_attach_writes_to_the_container_and_reads_from_it(kubectl: Kubectl) -> None:
    command = kubectl.command("attach", "-i", "pair", "-c", "cat")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as attached:
        assert attached.stdin is not None
        assert attached.stdout is not None
        attached.stdin.write("typed\n")
        attached.stdin.flush()
        assert attached.stdout.readline() == "typed\n"
        attached.terminate()
    assert kubectl("logs", "pair", "-c", "cat") == "typed\n"


def test_a_container_has_a_terminal(kubectl: Kubectl) -> None:
    """Attached to from a terminal: it echoes, knows its size and asks without ending the line; its log has it all."""
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
    command = kubectl.command("attach", "-it", "shell")
    attached = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True)
    os.close(terminal)
    said = b""

    def read_until(words: bytes) -> None:
        nonlocal said
        deadline = time.monotonic() + 60
        while words not in said:
            assert time.monotonic() < deadline, said
            if select.select([screen], [], [], 1.0)[0]:
                said += os.read(screen, 4096)

    try:
        read_until(b"try pressing enter")
        os.write(screen, b"tty; echo $TERM; printf 'your na''me? '; read name; echo hello $name\r")
        read_until(b"/dev/pts/")
        read_until(b"xterm")
        read_until(b"your name? ")
        os.write(screen, b"Ada\r")
        read_until(b"hello Ada")
        until(lambda: b"33 77" in _typed(screen, b"stty size\r"), "the size of the terminal")
    finally:
        attached.kill()
        attached.wait()
        os.close(screen)
    assert "hello Ada" in kubectl("logs", "shell")
    assert kubectl.object("pod", "shell")["status"]["containerStatuses"][0]["restartCount"] == 0


def _typed(screen: int, text: bytes) -> bytes:
    """What is said within a moment after something is typed."""
    os.write(screen, text)
    said = b""
    while select.select([screen], [], [], 0.5)[0]:
        said += os.read(screen, 4096)
    return said


def test_the_input_of_a_container_that_reads_once_ends_with_its_client(kubectl: Kubectl) -> None:
    command = kubectl.command("attach", "-i", "once")
    text = "".join(f"line {number} of many\n" for number in range(20_000))
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    until(lambda: kubectl.object("pod", "once")["status"]["phase"] == "Succeeded", "cat, which reads the end")
    assert kubectl("logs", "once") == text


def test_files_are_copied_both_ways(kubectl: Kubectl, tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(bytes(range(256)) * 1000)
    kubectl("cp", str(tmp_path / "there"), "pair:/tmp/echelon-copied", "-c", "web")
    kubectl("cp", "pair:/tmp/echelon-copied", str(tmp_path / "back"), "-c", "web")
    assert (tmp_path / "back").read_bytes() == (tmp_path / "there").read_bytes()
    kubectl("exec", "pair", "-c", "web", "--", "rm", "/tmp/echelon-copied")


def test_ports_are_forwarded(kubectl: Kubectl) -> None:
    local = free_port()
    with kubectl.start("port-forward", "pod/pair", f"{local}:8080") as forwarding:
        assert forwarding.stdout is not None
        assert "Forwarding from" in forwarding.stdout.readline()
        for _ in range(3):
            with urllib.request.urlopen(f"http://127.0.0.1:{local}/", timeout=60) as answer:
                assert b"Directory listing" in answer.read()
        forwarding.terminate()


def test_top_shows_what_is_used(kubectl: Kubectl) -> None:
    until(lambda: "pair" in kubectl.run("top", "pod").out, "the second measurement")
    rows = [line.split() for line in kubectl("top", "pod", "--containers", "--no-headers").splitlines()]
    assert {("pair", "web"), ("pair", "cat")} <= {(row[0], row[1]) for row in rows}
    assert any(row[1] == "web" and row[3] not in ("0Mi", "0") for row in rows)
    assert kubectl("top", "node", "--no-headers").split()[1].endswith("m")


@pytest.mark.conformance("API-111", "API-112")
def test_the_python_client_reads_logs_runs_programs_and_forwards_ports(kubectl: Kubectl) -> None:
    program = [sys.executable, "-m", "tests.e2e.pod_streams_client", str(kubectl.kubeconfig)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert "line 0" in seen["log"]
    assert len(seen["tail"].splitlines()) == 2
    assert "tailLines: Invalid value: -1: must be greater than or equal to 0" in seen["refused"]
    assert seen["exec"] == ["got abc\n", 3]
    assert seen["forwarded"] == "HTTP/1.0 200 OK"
    assert "Connection refused" in seen["not forwarded"]
