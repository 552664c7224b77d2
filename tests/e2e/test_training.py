"""The training examples, run as their opening comments say: processes that really train, through the real kubectl."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from . import kubectl as kubectl_module
from .api_reading import read
from .kubectl import Kubectl
from .process import UpProcess
from .test_process_nodes import client, started, until

EXAMPLES = Path(__file__).parents[2] / "examples" / "training"
pytestmark = pytest.mark.skipif(kubectl_module.PATH is None, reason="no kubectl on PATH")
_STEP = re.compile(r"step (\d+) loss (\S+)")
_ENDS = {"jobset": "Completed", "trainjob": "Complete"}


def apply(kubectl: Kubectl, example: str, *names: str) -> None:
    for name in names:
        kubectl("apply", "-f", str(EXAMPLES / example / f"{name}.yaml"))


def condition(kubectl: Kubectl, kind: str, name: str, wanted: str) -> bool:
    status = read(kubectl.kubeconfig, f"{kind}s", name).get("status") or {}
    true = {one["type"]: one for one in status.get("conditions") or () if one["status"] == "True"}
    assert "Failed" not in true, true["Failed"]
    return wanted in true


def until_trained(kubectl: Kubectl, kind: str, name: str) -> None:
    until(lambda: condition(kubectl, kind, name, _ENDS[kind]), 200)


def trainers(kubectl: Kubectl, group: str) -> list[Any]:
    """The pods of a group, by index."""
    listed = read(kubectl.kubeconfig, "pods", labelSelector=f"jobset.sigs.k8s.io/replicatedjob-name={group}")["items"]
    return sorted(listed, key=lambda pod: int(pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]))


def losses(kubectl: Kubectl, pod: Any) -> dict[int, float]:
    """Step → loss, as the log of a pod tells it."""
    text = kubectl.run("logs", pod["metadata"]["name"]).out
    return {int(step): float(loss) for step, loss in _STEP.findall(text)}


def kill_process(up: UpProcess, pod: Any) -> None:
    attempts = json.loads((up.data / "pods" / pod["metadata"]["uid"] / "state.json").read_text())["attempts"]
    os.kill(attempts[-1]["pid"], signal.SIGKILL)


@pytest.mark.parametrize(
    ("tier", "kind", "group"),
    [
        ("net", "trainjob", "node"),
        # Where these are the best tiers, test_process_namespaces_refused trains.
        pytest.param("names", "jobset", "trainer", marks=pytest.mark.long),
        pytest.param("plain", "trainjob", "node", marks=pytest.mark.long),
    ],
)
def test_numpy_trains_on_every_tier(tmp_path: Path, tier: str, kind: str, group: str) -> None:
    with started(tmp_path / "data", "--tier", tier) as up:
        kubectl = client(up, tmp_path)
        apply(kubectl, "numpy", "code", kind)
        until_trained(kubectl, kind, "numpy")
        first, second = (losses(kubectl, pod) for pod in trainers(kubectl, group))
        assert first == second
        assert first[10] > 10 * first[300]


@pytest.mark.parametrize(("kind", "group"), [("jobset", "trainer"), ("trainjob", "node")])
def test_training_goes_on_from_its_checkpoint_when_a_worker_is_killed(tmp_path: Path, kind: str, group: str) -> None:
    with started(tmp_path / "data") as up:
        kubectl = client(up, tmp_path)
        apply(kubectl, "numpy", "code", kind)
        until(lambda: (found := trainers(kubectl, group)) and max(losses(kubectl, found[0]), default=0) >= 60)
        worker = trainers(kubectl, group)[1]
        kill_process(up, worker)
        until_trained(kubectl, kind, "numpy")
        assert kubectl.object("jobset", "numpy")["status"]["restarts"] == 1
        again = trainers(kubectl, group)[0]
        assert again["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] == "1"
        log = kubectl("logs", again["metadata"]["name"])
        resumed = re.search(r"resumed from the checkpoint of step (\d+)", log)
        assert resumed
        assert 300 > min(losses(kubectl, again)) > int(resumed[1]) >= 40
        assert "done after step 300" in log
