"""TrainJobs on jax, xgboost and flux runtimes."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import pytest

from echelon.api.scheme import CONFIG_MAPS, SECRETS, Object
from echelon.decide.trainjob.frameworks.curve_certificate import _z85
from tests.unit.decide.trainjob.stage import RUNTIMES, Stage, runtime, trainjob

RANK = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
PORTS = [{"containerPort": 29500, "protocol": "TCP"}]
JAX, XGBOOST, FLUX = "jax-distributed", "xgboost-distributed", "flux-distributed"


@pytest.mark.conformance("TJ-54")
def test_jax_processes_find_their_coordinator() -> None:
    stage = Stage(trainjob(JAX, trainer={"numNodes": 2}))
    assert stage.env("node") == {
        "JAX_NUM_PROCESSES": "2",
        "JAX_PROCESS_ID": RANK,
        "JAX_COORDINATOR_ADDRESS": "train-node-0-0.train:29500",
    }
    assert stage.container("node")["ports"] == PORTS


@pytest.mark.conformance("TJ-57")
def test_xgboost_workers_find_their_tracker() -> None:
    stage = Stage(trainjob(XGBOOST, trainer={"numNodes": 2}))
    assert stage.env("node") == {
        "DMLC_TRACKER_URI": "train-node-0-0.train",
        "DMLC_TRACKER_PORT": "29500",
        "DMLC_TASK_ID": RANK,
        "DMLC_NUM_WORKER": "2",
    }
    assert stage.container("node")["ports"] == PORTS


@pytest.mark.conformance("TJ-59")
@pytest.mark.parametrize(
    ("on_runtime", "on_job", "workers"),
    [
        ({"nvidia.com/gpu": "4"}, {}, "8"),
        ({}, {"nvidia.com/gpu": "2"}, "4"),
        ({"nvidia.com/gpu": "4"}, {"cpu": 1}, "8"),
    ],
)
def test_xgboost_has_a_worker_for_every_gpu(on_runtime: Object, on_job: Object, workers: str) -> None:
    with_gpus = runtime(XGBOOST)
    pod = with_gpus["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["containers"][0]["resources"] = {"limits": on_runtime}
    trainer: Any = {"numNodes": 2, "resourcesPerNode": {"limits": on_job}}
    assert Stage(trainjob(XGBOOST, trainer=trainer), with_gpus).env("node")["DMLC_NUM_WORKER"] == workers


@pytest.mark.parametrize(("name", "reserved"), [(JAX, "JAX_NUM_PROCESSES"), (XGBOOST, "DMLC_NUM_WORKER")])
def test_the_trainers_own_variables_win(name: str, reserved: str) -> None:
    trainer = {"env": [{"name": reserved, "value": "9"}, {"name": "A", "value": "b"}]}
    assert list(Stage(trainjob(name, trainer=trainer)).env("node").items())[:2] == [(reserved, "9"), ("A", "b")]


@pytest.mark.conformance("TJ-60")
def test_flux_wraps_the_command_and_brings_its_software() -> None:
    stage = Stage(trainjob(FLUX, trainer={"numNodes": 2, "command": ["trainjob"], "args": ["trainjob"]}))
    node, pod = stage.container("node"), stage.pod("node")
    assert node["command"] == ["/bin/bash", "/etc/flux-config/entrypoint.sh", "trainjob trainjob"]
    assert "args" not in node
    (installer,) = pod["initContainers"]
    assert installer == {
        "name": "flux-installer",
        "image": "ghcr.io/converged-computing/flux-view-ubuntu:tag-jammy",
        "command": ["/bin/bash", "/etc/flux-config/init.sh"],
        "volumeMounts": [
            {"name": "flux-install", "mountPath": "/mnt/flux"},
            {"name": "train-flux-entrypoint", "mountPath": "/etc/flux-config", "readOnly": True},
        ],
    }
    volumes = ["spack-install", "flux-install", "train-flux-entrypoint", "shared-memory", "flux-curve"]
    assert [one["name"] for one in pod["volumes"]] == volumes
    assert [(one["name"], one["mountPath"], one.get("readOnly", False)) for one in node["volumeMounts"]] == [
        ("flux-install", "/mnt/flux", False),
        ("spack-install", "/opt/software", False),
        ("train-flux-entrypoint", "/etc/flux-config", True),
        ("flux-curve", "/curve", True),
        ("shared-memory", "/dev/shm", True),
    ]


@pytest.mark.conformance("TJ-60")
def test_flux_scripts_name_all_hosts_and_processes() -> None:
    trainer = {"numNodes": 2, "numProcPerNode": 4, "resourcesPerNode": {"limits": {"nvidia.com/gpu": 2}}}
    stage = Stage(trainjob(FLUX, trainer=trainer))
    scripts = stage.get(CONFIG_MAPS, "train-flux-entrypoint")["data"]
    assert "flux run -N 2 -n 8 -g 2 $command" in scripts["entrypoint.sh"]
    assert "--cores=0-3 --gpu=0-1" in scripts["entrypoint.sh"]
    assert "= 'train-node-0-0' ]" in scripts["entrypoint.sh"]
    assert "echo 'train-node-0-[0-1]' >" in scripts["init.sh"]
    assert 'default_connect = "tcp://%h.train.default.svc.cluster.local:%p"' in scripts["init.sh"]
    assert not [line for text in scripts.values() for line in text.splitlines() if "@" in line.replace('"$@"', "")]


def test_flux_runs_what_the_runtime_says_where_the_trainjob_says_nothing() -> None:
    own = runtime(FLUX)
    pod = own["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["containers"][0] |= {"command": ["lmp"], "args": ["-in", "melt"]}
    stage = Stage(trainjob(FLUX), own)
    assert stage.container("node")["command"][-1] == "lmp -in melt"
    assert "args" not in stage.container("node")
    scripts = stage.get(CONFIG_MAPS, "train-flux-entrypoint")["data"]
    assert "flux run -N 1 -n 1 $command" in scripts["entrypoint.sh"]
    assert "--cores=0 >" in scripts["entrypoint.sh"]
    assert "echo 'train-node-0-[0]' >" in scripts["init.sh"]


def test_flux_settings_are_variables_of_the_node() -> None:
    variables = {"FLUX_VIEW_IMAGE": "view:1", "FLUX_NETWORK_DEVICE": "ib0", "FLUX_QUEUE_POLICY": "easy"}
    trainer = {"env": [{"name": name, "value": value} for name, value in variables.items()]}
    stage = Stage(trainjob(FLUX, trainer=trainer))
    script = stage.get(CONFIG_MAPS, "train-flux-entrypoint")["data"]["init.sh"]
    assert stage.pod("node")["initContainers"][0]["image"] == "view:1"
    assert '"tcp://ib0:%p"' in script
    assert 'queue-policy = "easy"' in script


@pytest.mark.conformance("TJ-60")
def test_flux_brokers_share_a_certificate_that_is_made_once() -> None:
    stage = Stage(trainjob(FLUX))
    text = b64decode(stage.get(SECRETS, "train-flux-curve")["data"]["curve.cert"]).decode()
    public, secret = (line.split('"')[1] for line in text.splitlines() if "-key" in line)
    assert len(public) == len(secret) == 40
    assert public != secret


def test_the_notation_of_keys_is_that_of_its_specification() -> None:
    assert _z85(bytes.fromhex("864fd26fb559f75b")) == "HelloWorld"


@pytest.mark.parametrize("name", [JAX, XGBOOST, FLUX])
def test_the_runtimes_nodes_count_where_the_trainjob_says_none(name: str) -> None:
    (framework,) = set(RUNTIMES[name]["spec"]["mlPolicy"]) - {"numNodes"}
    stage = Stage(trainjob(name), runtime(name, mlPolicy={"numNodes": 3, framework: {}}))
    assert stage.replicated("node")["template"]["spec"]["parallelism"] == 3
