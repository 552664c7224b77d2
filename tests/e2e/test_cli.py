"""The command line as a person meets it: outcomes, exit codes, and one clear message for every mistake."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from echelon.api.objects.vocabulary import RACK
from tests.e2e import kubectl as kubectl_module
from tests.e2e.kubectl import Kubectl
from tests.e2e.process import UpProcess

EXAMPLES = Path(__file__).parents[2] / "examples"
JOB = """
# Two pods, one after the other
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}}}
spec:
  parallelism: 2
  completions: 2
  backoffLimit: 0
  template:
    metadata:
      annotations: {{echelon.dev/run-seconds: "{seconds}", echelon.dev/exit-code: "{code}"}}
    spec:
      restartPolicy: Never
      containers:
      - name: c
        image: registry.example/c:1
        resources: {{limits: {{nvidia.com/gpu: "{gpus}"}}}}
"""
ORPHAN = """
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: leaf}
spec:
  parentCompositePodGroupName: nowhere
  workloadRef: {workloadName: w, templateName: t}
  schedulingPolicy: {gang: {minCount: 1}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  schedulingGroup: {podGroupName: leaf}
  containers: [{name: c, image: "registry.example/c:1"}]
"""
UNKNOWN_RUNTIME = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: t}
spec:
  runtimeRef: {name: no-such-runtime}
"""


def echelon(
    *arguments: str | Path, timeout: float = 60, given: str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "echelon", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, check=False, input=given,
        env={**os.environ, **environment},
    )  # fmt: skip


def job(tmp_path: Path, name: str = "job", seconds: int = 2, code: int = 0, gpus: int = 8) -> Path:
    path = tmp_path / f"{name}.yaml"
    path.write_text(JOB.lstrip().format(name=name, seconds=seconds, code=code, gpus=gpus))
    return path


def test_a_run_that_completes_ends_with_0_and_a_picture(tmp_path: Path) -> None:
    done = echelon("run", job(tmp_path), "--speed", "20")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "submitted" in done.stdout
    assert "Two pods, one after the other" in done.stdout
    assert "placed" in done.stdout
    assert "complete" in done.stdout
    assert "gpu-b0" in done.stdout
    assert "AA" in done.stdout


def test_a_run_of_standard_input_tells_one_json_object_per_line(tmp_path: Path) -> None:
    done = echelon("run", "-", "--speed", "20", "--output", "json", given=job(tmp_path).read_text())
    assert done.returncode == 0, done.stdout + done.stderr
    start, *events, end = map(json.loads, done.stdout.splitlines())
    assert (start["type"], len(start["nodes"])) == ("start", 24)
    assert [(event["event"], event["object"]) for event in events] == [
        ("submitted", "Job/job"),
        ("placed", "job"),
        ("complete", "Job/job"),
    ]
    assert (end["outcome"], end["exitCode"], end["waiting"]) == ("complete", 0, [])
    assert all(stay["unit"] == "job" and 0 <= stay["begin"] < stay["end"] <= end["at"] for stay in end["stays"])
    assert len(end["stays"]) == 2


def test_a_blocked_run_tells_in_json_what_waits(tmp_path: Path) -> None:
    job(tmp_path, gpus=9)
    done = echelon("run", tmp_path, "--speed", "20", "-o", "json")
    end = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, end["outcome"], end["exitCode"]) == (3, "blocked", 3)
    assert "nvidia.com/gpu" in end["waiting"][0]["reason"]


def test_a_run_that_fails_ends_with_1_and_says_why(tmp_path: Path) -> None:
    done = echelon("run", job(tmp_path, code=3), "--speed", "20")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "BackoffLimitExceeded" in done.stdout


def test_a_run_that_cannot_be_placed_ends_with_3_and_the_explanation(tmp_path: Path) -> None:
    done = echelon("run", job(tmp_path, gpus=9), "--speed", "20")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "blocked: no progress for 5 s" in done.stdout
    assert "nvidia.com/gpu" in done.stdout


def test_a_group_that_names_a_missing_parent_is_explained(tmp_path: Path) -> None:
    manifest = tmp_path / "orphan.yaml"
    manifest.write_text(ORPHAN)
    done = echelon("run", manifest, "--speed", "20")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "nowhere" in done.stdout


def test_ctrl_c_ends_a_run_with_130(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "echelon", "run", str(job(tmp_path, seconds=600))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if "placed" in line:
            break
    process.send_signal(signal.SIGINT)
    rest = process.stdout.read()
    assert process.wait(timeout=120) == 130
    assert "interrupted" in rest
    process.stdout.close()


def test_ctrl_c_ends_a_command_that_has_not_begun_with_130(tmp_path: Path) -> None:
    """While it reads its manifest, from a pipe that nobody writes to."""
    manifest = tmp_path / "pipe.yaml"
    os.mkfifo(manifest)
    command = [sys.executable, "-m", "echelon", "run", str(manifest)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with manifest.open("w"):  # opens when the other side does
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err.strip()) == (130, "", "echelon: interrupted")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("kind: Job\n  metadata: {", "manifest.yaml:2: not YAML"),
        ("metadata: {name: x}\n", "manifest.yaml:1: apiVersion is missing"),
        ("apiVersion: v1\nkind: Pod\nspec: {}\n", "manifest.yaml:1: metadata.name is missing"),
        ("apiVersion: batch/v2\nkind: Job\nmetadata: {name: x}\n", "Job is not served as batch/v2; use batch/v1"),
        (
            "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: x}\n",
            "unknown kind HorizontalPodAutoscaler in autoscaling/v2",
        ),
        ("- 1\n", "expected an object"),
        ("", "contains no objects"),
        (UNKNOWN_RUNTIME, "no-such-runtime"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {}\n", "spec.containers: Required value"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {contaners: []}\n", 'unknown field "spec.contaners"'),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n---\napiVersion: v1\nkind: Pod\n"
            "metadata: {name: x}\nspec: {contaners: []}\n",
            "manifest.yaml:5: Pod in version",
        ),
    ],
)
def test_a_bad_manifest_gets_one_clear_message(tmp_path: Path, content: str, message: str) -> None:
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(content)
    done = echelon("run", manifest)
    assert done.returncode == 2, done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("echelon: ")
    assert message in line


def test_a_missing_file_gets_one_clear_message(tmp_path: Path) -> None:
    done = echelon("run", tmp_path / "none.yaml")
    assert done.returncode == 2
    assert done.stderr == f"echelon: {tmp_path / 'none.yaml'}: No such file or directory\n"


def test_a_typo_in_a_cluster_file_is_named_by_line_and_key(tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("pools:\n- name: gpu\n  counts: {racks: 2, node: 4}\n  capacity: {cpu: 8}\n")
    done = echelon("run", job(tmp_path), "--cluster", cluster)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert f"{cluster}:3" in line
    assert "racks" in line


def test_a_port_in_use_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = echelon("up", "--data", tmp_path / "data", "--port", port)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert f"port {port}" in line
    assert "in use" in line


def test_an_address_of_another_machine_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    done = echelon("up", "--data", tmp_path / "data", "--bind", "192.0.2.1", "--port", 0)
    assert done.returncode == 2
    assert done.stderr == "echelon: 192.0.2.1 is no address of this machine; set another with --bind\n"


def test_a_second_process_on_the_same_data_is_refused(tmp_path: Path) -> None:
    first = UpProcess(tmp_path / "data")
    first.start()
    try:
        done = echelon("up", "--data", tmp_path / "data", "--port", "0")
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert str(tmp_path / "data") in line
        assert "process" in line
    finally:
        assert first.stop() == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--speed", "2"), "take real time"),
        (("--cluster", "examples/clusters/small.yaml"), "runs: processes"),
        (("--capacity", "cpu=much"), "NAME=AMOUNT"),
        (("--images", "no-such-file.yaml"), "no-such-file.yaml"),
    ],
)
def test_process_nodes_refuse_what_they_cannot_do(tmp_path: Path, options: tuple[str, str], said: str) -> None:
    done = echelon("up", "--data", tmp_path / "data", "--nodes", "process", *options)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / "data").exists()


def test_ephemeral_and_data_exclude_each_other(tmp_path: Path) -> None:
    done = echelon("up", "--ephemeral", "--data", tmp_path / "data")
    assert done.returncode == 2
    assert "mutually exclusive" in done.stderr


def test_up_prints_the_kubeconfig_and_tree_and_topology_read_it(tmp_path: Path) -> None:
    up = UpProcess(tmp_path / "data", "--speed", "20")
    up.start()
    try:
        assert (up.kubeconfig.stat().st_mode & 0o777) == 0o600
        missing = echelon("tree", "jobset/none", "--kubeconfig", up.kubeconfig)
        assert missing.returncode == 2
        assert 'jobsets.jobset.x-k8s.io "none" not found in namespace default' in missing.stderr
        nonsense = echelon("tree", "thing/none", "--kubeconfig", up.kubeconfig)
        assert nonsense.returncode == 2
        assert "unknown kind 'thing'" in nonsense.stderr
        seen = json.loads(echelon("topology", "-o", "json", "--kubeconfig", up.kubeconfig).stdout)
        assert (seen["source"], seen["cluster"]["nodes"]) == ("node labels", 24)
        assert [len(block["children"]) for block in seen["cluster"]["children"]] == [3, 3]
        assert seen["cluster"]["free"] == {"nvidia.com/gpu": "192"}
        own = json.loads(
            echelon("topology", "--topology-levels", RACK, "-o", "json", "--kubeconfig", up.kubeconfig).stdout
        )
        assert (own["source"], len(own["cluster"]["children"])) == ("configured", 6)
        refused = echelon("topology", "--topology-levels", f"{RACK},{RACK}", "--kubeconfig", up.kubeconfig)
        assert refused.returncode == 2
        assert refused.stderr == f"echelon: --topology-levels: {RACK}: is listed twice\n"
    finally:
        begin = time.monotonic()
        assert up.stop() == 0
        assert time.monotonic() - begin < 20


@pytest.mark.skipif(kubectl_module.PATH is None, reason="no kubectl on PATH")
def test_tree_finds_the_plane_that_up_started(tmp_path: Path) -> None:
    state = {"XDG_STATE_HOME": str(tmp_path), "KUBECONFIG": "", "HOME": str(tmp_path)}
    alone = echelon("tree", "job/job", **state)
    assert alone.returncode == 2
    assert "start one with echelon up" in alone.stderr
    up = UpProcess(tmp_path / "echelon", "--speed", "20")
    up.start()
    try:
        missing = echelon("tree", "job.batch/job", **state)
        assert 'jobs.batch "job" not found in namespace default' in missing.stderr
        submitted = Kubectl(up.kubeconfig, tmp_path / "cache")
        submitted("create", "-f", str(job(tmp_path, seconds=600, gpus=9)))
        deadline = time.monotonic() + 20
        while "waits" not in (shown := echelon("tree", "job.batch/job", COLUMNS="60", **state).stdout):
            assert time.monotonic() < deadline, shown
        assert max(map(len, shown.splitlines())) <= 60
        assert "a pod requests 9 nvidia.com/gpu, the largest node has 8" in " ".join(shown.split())
        data = json.loads(echelon("tree", "job", "job", "-o", "json", **state).stdout)
        assert data["children"][0]["reason"].endswith(
            "; first lower the request for nvidia.com/gpu to 8, or add nodes with 9 nvidia.com/gpu"
        )
        typed = {"_ECHELON_COMPLETE": "bash_complete", "COMP_WORDS": "echelon tree job j", "COMP_CWORD": "3"}
        asked = subprocess.run(
            [sys.executable, "-c", "from echelon.cli import main; main(prog_name='echelon')"],
            env={**os.environ, **state, **typed}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert asked.stdout == "plain,job\n", asked.stderr
    finally:
        assert up.stop() == 0
    stopped = echelon("tree", "job/job", **state)
    assert "start one with echelon up" in stopped.stderr


@pytest.mark.skipif(kubectl_module.PATH is None, reason="no kubectl on PATH")
def test_a_run_on_a_copy_of_the_nodes_that_kubectl_prints(tmp_path: Path) -> None:
    up = UpProcess(tmp_path / "data", "--cluster", str(EXAMPLES / "clusters" / "irregular.yaml"))
    up.start()
    try:
        printed = Kubectl(up.kubeconfig, tmp_path / "cache")("get", "nodes", "-o", "yaml")
    finally:
        assert up.stop() == 0
    (tmp_path / "nodes.yaml").write_text(printed)
    done = echelon("run", job(tmp_path), "--cluster", tmp_path / "nodes.yaml", "--speed", "20")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "29 simulated nodes in 6 domains" in done.stdout
