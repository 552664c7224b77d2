"""The training examples of frameworks that Echelon does not need: JAX, PyTorch, Open MPI, where they can be had."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e import kubectl as kubectl_module
from tests.e2e.test_process_nodes import client, documents, started, until
from tests.e2e.test_training import EXAMPLES, apply, kill_process, losses, trainers, until_trained

from .environments import interpreter

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(kubectl_module.PATH is None, reason="no kubectl on PATH"),
]
_GROUPS = {"jobset": "trainer", "trainjob": "node"}


def resized(example: str, kind: str, processes: int) -> list[Any]:
    """The manifests of an example, for so many processes instead of two."""
    text = (EXAMPLES / example / f"{kind}.yaml").read_text()
    for word in ("parallelism", "completions", "numNodes"):
        text = text.replace(f"{word}: 2", f"{word}: {processes}")
    return documents(text.replace('value: "2"', f'value: "{processes}"'))


def jax_images(folder: Path) -> Path:
    """A file for --images by which JAX images run in an environment with JAX."""
    environment = interpreter("jax").parents[1]
    images = folder / "images.yaml"
    images.write_text(yaml.safe_dump({"images": [{"image": "nvcr.io/nvidia/jax*", "virtualenv": str(environment)}]}))
    return images


@pytest.mark.parametrize(
    ("tier", "kind", "processes"),
    [("net", "trainjob", 2), ("net", "jobset", 4), ("names", "jobset", 2), ("plain", "trainjob", 2)],
)
def test_jax_trains(tmp_path: Path, tier: str, kind: str, processes: int) -> None:
    images = jax_images(tmp_path)
    with started(tmp_path / "data", "--tier", tier, "--images", str(images)) as up:
        kubectl = client(up, tmp_path)
        apply(kubectl, "jax", "code")
        kubectl("apply", manifest=resized("jax", kind, processes))
        until_trained(kubectl, kind, "jax")
        found = [losses(kubectl, pod) for pod in trainers(kubectl, _GROUPS[kind])]
        assert len(found) == processes
        assert all(one == found[0] for one in found)
        assert found[0][1] > 10 * found[0][200]
        log = kubectl("logs", trainers(kubectl, _GROUPS[kind])[0]["metadata"]["name"])
        assert f"process 0 of {processes} on {processes} devices" in log


@pytest.mark.parametrize("kind", ["jobset", "trainjob"])
def test_jax_goes_on_from_its_checkpoint_when_a_worker_is_killed(tmp_path: Path, kind: str) -> None:
    images = jax_images(tmp_path)
    with started(tmp_path / "data", "--images", str(images)) as up:
        kubectl = client(up, tmp_path)
        apply(kubectl, "jax", "code", kind)
        group = _GROUPS[kind]
        until(lambda: (found := trainers(kubectl, group)) and max(losses(kubectl, found[0]), default=0) >= 60, 120)
        kill_process(up, trainers(kubectl, group)[1])
        until_trained(kubectl, kind, "jax")
        assert kubectl.object("jobset", "jax")["status"]["restarts"] == 1
        again = trainers(kubectl, group)[0]
        log = kubectl("logs", again["metadata"]["name"])
        resumed = re.search(r"resumed from the checkpoint of step (\d+)", log)
        assert resumed
        assert 200 > min(losses(kubectl, again)) > int(resumed[1]) >= 40
        assert "done after step 200" in log


@pytest.mark.parametrize("kind", ["jobset", "trainjob"])
def test_torchrun_trains(tmp_path: Path, kind: str) -> None:
    torchrun = shutil.which("torchrun")
    if torchrun is None:
        pytest.skip("NO TORCHRUN ON PATH: PyTorch was not tested")
    images = tmp_path / "images.yaml"
    # torchrun 1.13 on Python 3.11, as Debian has it, starts nothing without these two.
    env = {"PET_REDIRECTS": "1", "PET_TEE": "1"}
    entry = {"image": "pytorch/*", "path": [os.path.dirname(torchrun)], "env": env}
    images.write_text(yaml.safe_dump({"images": [entry]}))
    with started(tmp_path / "data", "--images", str(images)) as up:
        kubectl = client(up, tmp_path)
        apply(kubectl, "torch", "code", kind)
        until_trained(kubectl, kind, "torch")
        first, second = (losses(kubectl, pod) for pod in trainers(kubectl, _GROUPS[kind]))
        assert first == second
        assert first[1] > 5 * first[200]


@pytest.mark.parametrize("kind", ["jobset", "trainjob"])
def test_mpirun_trains(tmp_path: Path, kind: str) -> None:
    if shutil.which("mpirun") is None or not os.path.exists("/usr/sbin/sshd") or os.geteuid() != 0:
        pytest.skip("NO MPIRUN, NO SSHD OR NOT ROOT: Open MPI was not tested")
    with started(tmp_path / "data", "--tier", "net") as up:
        kubectl = client(up, tmp_path)
        apply(kubectl, "numpy", "code")
        apply(kubectl, "mpi", "code", kind)
        until_trained(kubectl, kind, "mpi")
        (launcher,) = trainers(kubectl, "launcher")
        log = kubectl("logs", launcher["metadata"]["name"])
        assert "trainer 0 of 2 begins" in log
        assert "trainer 1 of 2 begins" in log
        assert log.count("done after step 200") == 2
