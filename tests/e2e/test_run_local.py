"""`echelon run --local` as a person meets it: pods that really run, what is told of them, and nothing left behind."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from .process import leftovers
from .test_process_nodes import pod_devices

JOBSET = """
# Two workers that count
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {{name: count}}
spec:
  failurePolicy: {{maxRestarts: {restarts}}}
  replicatedJobs:
  - name: worker
    template:
      spec:
        completions: {pods}
        parallelism: {pods}
        completionMode: Indexed
        backoffLimit: 0
        template:
          spec:
            restartPolicy: {policy}
            terminationGracePeriodSeconds: {grace}
            volumes: [{{name: shared, emptyDir: {{}}}}]
            containers:
"""
CONTAINER = """
            - name: {name}
              image: python
              volumeMounts: [{{name: shared, mountPath: /shared}}]
              env: [{{name: SHARED, value: /shared}}]
              command: [python, -u, -c]
              args:
              - |
"""


def jobset(
    folder: Path, *programs: str, pods: int = 2, restarts: int = 0, policy: str = "Never", grace: int = 30
) -> Path:
    """A JobSet whose pods have a container for each program: a, b, c."""
    text = JOBSET.format(pods=pods, restarts=restarts, policy=policy, grace=grace).lstrip()
    for name, program in zip("abc", programs, strict=False):
        text += CONTAINER.format(name=name).lstrip("\n")
        text += "".join(f"                {line}\n" for line in program.strip().splitlines())
    path = folder / "jobset.yaml"
    path.write_text(text)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where a run keeps its data; whatever the test does, nothing of it stays."""
    devices = pod_devices()
    yield tmp_path
    found = leftovers(tmp_path)
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert not found, "processes are left"
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text(), "mounts are left"
    assert pod_devices() <= devices, "network devices are left"
    assert not list(tmp_path.glob("echelon-*")), "the data directory is left"


def start(folder: Path, manifest: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "echelon", "run", str(manifest), "--local", *options]
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONUNBUFFERED": "1", "COLUMNS": "400"}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, start_new_session=True
    )


def run(folder: Path, manifest: Path, *options: str, code: int = 0) -> str:
    process = start(folder, manifest, *options)
    try:
        said, _ = process.communicate(timeout=240)
    finally:
        process.kill()
    assert process.returncode == code, said
    return said


def read_until(process: subprocess.Popen[str], word: str) -> str:
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if word in line:
            return said
    raise AssertionError(f"{word!r} never came:\n{said}")


def table(said: str, group: str) -> str:
    """The row of a group in the table at the end."""
    below = said[said.index("\ngroup ") :]
    return " ".join(next(line for line in below.splitlines() if line.startswith(f"{group} ")).split())


def placed(said: str, where: str = "") -> int:
    """How many pods were placed, at once or, on a slow machine, one after the other."""
    return sum(map(int, re.findall(rf"placed +count-worker-0 +(\d+) pods?{where}", said)))


# -- how it ends -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tier", ["auto", pytest.param("names", marks=pytest.mark.long), "plain"])
def test_a_run_that_completes_shows_its_phases_and_the_last_line_of_each_group(folder: Path, tier: str) -> None:
    said = run(
        folder, jobset(folder, "print('hello from', __import__('os').environ['JOB_COMPLETION_INDEX'])"), "--tier", tier
    )
    assert re.search(r"submitted +JobSet/count +Two workers that count\n", said)
    assert placed(said) == 2
    assert re.search(r"log +count-worker-0 +hello from [01]\n", said)
    assert re.search(r"complete +JobSet/count\n", said)
    assert re.fullmatch(r"count-worker-0 2 succeeded hello from [01]", table(said, "count-worker-0"))
    assert said.endswith("\ncomplete\n")


def test_a_run_that_fails_shows_the_end_of_the_log_and_the_exit_code(folder: Path) -> None:
    program = """
for number in range(30):
    print("row", number)
raise SystemExit(7)
"""
    said = run(folder, jobset(folder, program, pods=1), code=1)
    assert re.search(r"failed +Pod/count-worker-0-0-\w+ +container a: exit code 7\n", said)
    (tail,) = re.findall(r"^Pod/\S+ container a: exit code 7; the end of its log:\n((?:  .*\n)+)", said, re.MULTILINE)
    assert tail.split("\n")[-3:] == ["  row 28", "  row 29", ""]
    assert "row 2\n" not in said
    assert said.endswith("failed: default/count\n")


def test_a_signal_is_named(folder: Path) -> None:
    said = run(folder, jobset(folder, "import os; os.kill(os.getpid(), 9)", pods=1), code=1)
    assert "container a: exit code 137 (SIGKILL); it wrote nothing" in said


def test_a_program_that_does_not_exist_is_said(folder: Path) -> None:
    manifest = jobset(folder, "pass", pods=1)
    manifest.write_text(manifest.read_text().replace("[python, -u, -c]", "[no-such-program]"))
    said = run(folder, manifest, code=1)
    line = r'failed +Pod/\S+ +container a: exit code 128; exec: "no-such-program": executable file not'
    assert re.search(line, said), said
    assert "\nPod/count-worker-0-0" in said


def test_of_several_rounds_the_last_failure_is_shown(folder: Path) -> None:
    program = """
import os, sys
print("round with", os.environ["HOSTNAME"])
sys.exit(3)
"""
    said = run(folder, jobset(folder, program, pods=1, restarts=2), code=1)
    assert re.search(r"restarts +JobSet/count +counts towards maxRestarts", said)
    failed = re.findall(r"failed +Pod/(\S+) ", said)
    assert len(failed) == 3
    assert re.findall(r"^Pod/(\S+) container a: exit code 3; the end", said, re.MULTILINE) == failed[-1:]
    assert "count-worker-0 1 failed 2 round with" in table(said, "count-worker-0")


def test_a_container_without_a_program_blocks_the_run(folder: Path) -> None:
    manifest = folder / "pod.yaml"
    manifest.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers: [{name: c, image: nginx}]\n"
    )
    said = run(folder, manifest, code=3)
    assert re.search(r"^  Pod/p: InvalidImageName: images are not pulled on process nodes", said, re.MULTILINE)
    assert "blocked: no progress for 5 s" in said


def test_a_pod_alone_is_followed_to_its_end(folder: Path) -> None:
    manifest = folder / "pod.yaml"
    manifest.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  restartPolicy: Never\n"
        "  containers: [{name: c, image: x, command: [sh, -c, 'sleep 1; echo at last; exit 4']}]\n"
    )
    said = run(folder, manifest, code=1)
    assert "container c: exit code 4; the end of its log:\n  at last\n" in said


# -- what is told on the way -----------------------------------------------------------------------------------


def test_a_container_that_is_restarted_is_shown(folder: Path) -> None:
    program = """
import os, sys
if not os.path.exists("/shared/been-here"):
    open("/shared/been-here", "w")
    sys.exit("the first time fails")
print("the second time works")
"""
    manifest = jobset(folder, program, pods=1, policy="OnFailure")
    manifest.write_text(manifest.read_text().replace("backoffLimit: 0", "backoffLimit: 3"))
    said = run(folder, manifest)
    assert re.search(r"restarts +Pod/count-worker-0-0-\w+ +container a: exit code 1\n", said)
    assert table(said, "count-worker-0") == "count-worker-0 1 succeeded 1 the second time works"


def test_logs_are_complete_and_in_order(folder: Path) -> None:
    """Of each pod: two containers that write in turns, then many lines at once, then one without an end of line."""
    program = """
import os, pathlib, sys, time
me = {me!r}
for turn in range(20):
    before = f"/shared/b-{{turn - 1}}" if me == "a" else f"/shared/a-{{turn}}"
    while before != "/shared/b--1" and not os.path.exists(before):
        time.sleep(0.001)
    print("turn", turn, me)
    time.sleep(0.002)
    pathlib.Path(f"/shared/{{me}}-{{turn}}").touch()
for number in range(3000):
    print("number", number)
sys.stdout.write("the end")
"""
    manifest = jobset(folder, program.format(me="a"), program.format(me="b"))
    said = run(folder, manifest, "--logs")
    lines = [line.split(" | ", 1) for line in said.splitlines() if " | " in line]
    of_pod: dict[str, list[tuple[str, str]]] = {}
    for name, text in lines:
        pod, container = name.strip().split("/")
        of_pod.setdefault(pod, []).append((container, text))
    assert len(of_pod) == 2
    for written in of_pod.values():
        turns = [text for _, text in written if text.startswith("turn")]
        for me in "ab":  # a busy machine reads both pipes at once, so the order between containers is not certain
            assert [turn for turn in turns if turn.endswith(me)] == [f"turn {turn} {me}" for turn in range(20)]
        for container in "ab":
            mine = [text for name, text in written if name == container and not text.startswith("turn")]
            assert mine == [*(f"number {number}" for number in range(3000)), "the end"]


def test_what_a_pod_wrote_before_it_was_deleted_is_not_lost(folder: Path) -> None:
    """A JobSet that restarts deletes its pods at once, and their logs with them."""
    program = """
import os, sys
for number in range(2000):
    print("number", number)
sys.exit(1)
"""
    said = run(folder, jobset(folder, program, pods=1, restarts=3), "--logs", code=1)
    of_pod: dict[str, list[str]] = {}
    for pod, text in re.findall(r"^(\S+)/a +\| (.*)$", said, re.MULTILINE):
        of_pod.setdefault(pod, []).append(text)
    assert len(of_pod) == 4
    assert all(written == [f"number {number}" for number in range(2000)] for written in of_pod.values())


def test_logs_as_json_name_pod_container_and_attempt(folder: Path) -> None:
    said = run(folder, jobset(folder, "print('hello')", pods=1), "--logs", "-o", "json")
    told = list(map(json.loads, said.splitlines()))
    (line,) = [one for one in told if one["type"] == "log"]
    assert line["pod"].startswith("count-worker-0-0-")
    assert (line["container"], line["attempt"], line["output"], line["text"]) == ("a", 0, "stdout", "hello")
    assert told[-1]["groups"] == [
        {"name": "count-worker-0", "phases": {"Succeeded": 1}, "restarts": 0, "lastLine": "hello"}
    ]


def test_on_a_terminal_a_table_is_kept_up_to_date(folder: Path) -> None:
    program = f"""
import os, pathlib, time
pathlib.Path("{folder}/up-" + os.environ["JOB_COMPLETION_INDEX"]).touch()
while not all(map(os.path.exists, ("{folder}/up-0", "{folder}/up-1"))):
    time.sleep(0.05)  # both run at the same time, however slow the machine is
for number in range(20):
    print("step", number)
    time.sleep(0.2)
"""
    screen, terminal = pty.openpty()
    environment = {**os.environ, "TMPDIR": str(folder), "TERM": "xterm-256color", "COLUMNS": "100"}
    command = [sys.executable, "-m", "echelon", "run", str(jobset(folder, program)), "--local", "--logs"]
    process = subprocess.Popen(command, stdout=terminal, stderr=terminal, env=environment, start_new_session=True)
    os.close(terminal)
    said = b""
    try:
        while True:
            said += os.read(screen, 65536)
    except OSError:  # the other side is closed
        os.close(screen)
    assert process.wait(timeout=120) == 0
    text = said.decode()
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)
    assert re.search(r"count-worker-0 +2 running +step \d+\s", plain)
    assert re.search(r"\x1b\[\d+mcount-worker-0-0-\w+/a +│ ", text), "the prefix has a colour"
    assert plain.count("step 19") >= 2


# -- the end on demand -----------------------------------------------------------------------------------------

STUBBORN = """
import os, signal, subprocess, time
signal.signal(signal.SIGTERM, lambda *_: print("asked to end"))
subprocess.Popen(["setsid", "sh", "-c", "trap '' TERM; while true; do sleep 0.1; done"])
print("ready")
while True:
    time.sleep(0.1)
"""


@pytest.mark.parametrize("tier", ["auto", "plain"])
def test_ctrl_c_ends_everything_within_its_grace(folder: Path, tier: str) -> None:
    process = start(folder, jobset(folder, STUBBORN, grace=2), "--logs", "--tier", tier)
    for _ in range(2):
        read_until(process, "| ready")
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert time.monotonic() - began >= 2.0
    assert said.count("| asked to end") == 2
    assert "stopping 2 pods" in said
    assert table(said, "count-worker-0").startswith("count-worker-0 2 stopped ")
    assert said.endswith("\ninterrupted\n")


def test_ctrl_c_before_the_plane_is_ready_starts_nothing(folder: Path) -> None:
    process = start(folder, jobset(folder, STUBBORN, grace=600))
    deadline = time.monotonic() + 60
    while not list(folder.glob("echelon-*/lock")):
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=120)
    assert (process.returncode, said[-13:]) == (130, "\ninterrupted\n")
    assert "submitted" not in said


def test_a_second_ctrl_c_kills(folder: Path) -> None:
    process = start(folder, jobset(folder, STUBBORN, grace=600), "--logs")
    read_until(process, "ready")
    process.send_signal(signal.SIGINT)
    read_until(process, "asked to end")
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=120)  # the grace is longer
    assert (process.returncode, said[-13:]) == (130, "\ninterrupted\n")


def test_a_closed_terminal_ends_everything_too(folder: Path) -> None:
    process = start(folder, jobset(folder, STUBBORN, grace=1), "--logs")
    read_until(process, "ready")
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=120)
    assert process.returncode == 130


@pytest.mark.parametrize("tier", ["auto", pytest.param("plain", marks=pytest.mark.long)])
def test_pods_of_a_run_that_is_killed_end_soon(folder: Path, tier: str) -> None:
    """Nobody can come back to them: they do not wait for the end of their programs."""
    process = start(folder, jobset(folder, STUBBORN), "--logs", "--tier", tier)
    read_until(process, "ready")
    process.kill()
    process.communicate(timeout=120)
    assert leftovers(folder), "shims outlive it"
    deadline = time.monotonic() + 120
    while leftovers(folder):
        assert time.monotonic() < deadline, "they run on"
        time.sleep(0.5)
    for data in folder.glob("echelon-*"):
        shutil.rmtree(data)


# -- options ---------------------------------------------------------------------------------------------------

MIXED = """
levels: [{name: rack, key: topology.kubernetes.io/rack}]
pools:
- {name: far, counts: {rack: 2, node: 8}, capacity: {cpu: 32, memory: 64Gi}, taints: [{key: far, effect: NoSchedule}]}
- {name: here, counts: {rack: 2, node: 1}, runs: processes}
"""


def test_a_cluster_file_may_have_both_kinds_of_nodes(folder: Path) -> None:
    cluster = folder / "cluster.yaml"
    cluster.write_text(MIXED)
    said = run(folder, jobset(folder, "print('hello')"), "--cluster", str(cluster))
    assert re.search(r"this machine as 2 nodes \(.* each\) and 16 simulated nodes in 2 domains", said)
    assert placed(said, " → here") == 2
    assert table(said, "count-worker-0") == "count-worker-0 2 succeeded hello"


def test_a_node_has_what_it_is_said_to_have(folder: Path) -> None:
    manifest = jobset(folder, "pass", pods=1)
    wanted = "image: python\n              resources: {requests: {cpu: 64}}"
    manifest.write_text(manifest.read_text().replace("image: python", wanted))
    assert "blocked" in run(folder, manifest, code=3)
    run(folder, manifest, "--capacity", "cpu=64")


def test_options_that_cannot_take_effect_are_refused(folder: Path) -> None:
    cluster = folder / "cluster.yaml"
    cluster.write_text("pools: [{name: far, counts: {node: 1}, capacity: {cpu: 1}}]\n")
    manifest = jobset(folder, "pass")
    simulated = [sys.executable, "-m", "echelon", "run", str(manifest)]
    for options, words in (
        (["--local", "--cluster", str(cluster)], "--local: no node of the cluster file runs processes"),
        (["--local", "--speed", "10"], "--speed 10: pods that run as processes take real time"),
        (["--logs"], "--logs: all nodes are simulated"),
        (["--tier", "net"], "--tier: all nodes are simulated"),
        (["--allow-host-paths"], "--allow-host-paths: all nodes are simulated"),
    ):
        done = subprocess.run([*simulated, *options], capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr.startswith(f"echelon: {words}")) == (2, True), done.stderr
