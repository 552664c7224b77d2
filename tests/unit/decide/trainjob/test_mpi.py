"""TrainJobs on mpi runtimes: launcher and nodes, their hostfile and their keys."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from echelon.api.objects import meta
from echelon.api.scheme import CONFIG_MAPS, JOB_SETS, SECRETS, Object
from tests.unit.decide.trainjob.stage import Stage, runtime, trainjob

DEEPSPEED = "deepspeed-distributed"


def separate(**mpi: Any) -> Object:
    """A runtime whose launcher is not one of the nodes; the nodes carry the trainer's label."""
    node = {"name": "node", "template": _template({"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}, "sshd")}
    ready = [{"name": "node", "status": "Ready"}]
    launcher = {"name": "launcher", "dependsOn": ready, "template": _template({}, "mpirun")}
    policy = {"numNodes": 1, "mpi": {"numProcPerNode": 8, "sshAuthMountPath": "/root/.ssh", **mpi}}
    return runtime(DEEPSPEED, mlPolicy=policy, template={"spec": {"replicatedJobs": [node, launcher]}})


def _template(labels: dict[str, str], command: str) -> Object:
    pods = {"spec": {"containers": [{"name": "node", "image": "i", "command": [command]}]}}
    return {"metadata": {"labels": labels}, "spec": {"template": pods}}


def hostfile(stage: Stage) -> list[str]:
    return stage.get(CONFIG_MAPS, "train-mpi-hostfile")["data"]["hostfile"].splitlines()  # type: ignore[no-any-return]


def pods(stage: Stage) -> dict[str, int]:
    return {rj["name"]: rj["template"]["spec"]["parallelism"] for rj in stage.jobset["spec"]["replicatedJobs"]}


@pytest.mark.conformance("TJ-46")
def test_a_launcher_of_its_own_starts_processes_on_all_nodes() -> None:
    trainer = {"numNodes": 2, "image": "mine", "command": ["train"], "env": [{"name": "LR", "value": "1"}]}
    stage = Stage(trainjob(DEEPSPEED, trainer=trainer), separate())
    assert pods(stage) == {"node": 2, "launcher": 1}
    assert hostfile(stage) == ["train-node-0-0.train slots=8", "train-node-0-1.train slots=8"]
    node, launcher = stage.container("node"), stage.container("launcher")
    assert (node["image"], node["command"], stage.env("node")) == ("mine", ["train"], {"LR": "1"})
    assert (launcher["image"], launcher["command"]) == ("i", ["mpirun"])
    assert stage.replicated("launcher")["dependsOn"] == [{"name": "node", "status": "Ready"}]
    assert [(one["name"], one["mountPath"]) for one in launcher["volumeMounts"]] == [
        ("mpi-ssh-auth", "/root/.ssh"),
        ("mpi-hostfile", "/etc/mpi"),
    ]
    assert [one["name"] for one in node["volumeMounts"]] == ["mpi-ssh-auth"]
    keys, hosts = stage.pod("launcher")["volumes"]
    assert (keys["secret"]["secretName"], keys["secret"]["defaultMode"]) == ("train-mpi-ssh-auth", 0o400)
    assert [(one["key"], one["path"], one["mode"]) for one in keys["secret"]["items"]] == [
        ("ssh-privatekey", "id_rsa", 0o640),
        ("ssh-publickey", "id_rsa.pub", 0o644),
        ("ssh-publickey", "authorized_keys", 0o644),
    ]
    assert hosts["configMap"]["items"] == [{"key": "hostfile", "path": "hostfile", "mode": 0o444}]


@pytest.mark.conformance("TJ-46")
def test_the_launcher_tells_open_mpi_4_and_5_alike() -> None:
    assert Stage(trainjob(DEEPSPEED), separate()).env("launcher") == {
        "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_set_default_slots": "8",
        "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
        "PRTE_MCA_prte_default_hostfile": "/etc/mpi/hostfile",
        "PRTE_MCA_prte_keep_fqdn_hostnames": "false",
        "PRTE_MCA_prte_set_default_slots": "8",
        "PRTE_MCA_plm_ssh_args": "-o ConnectionAttempts=10",
    }


@pytest.mark.conformance("TJ-46")
def test_the_key_pair_is_what_ssh_expects() -> None:
    secret = Stage(trainjob(DEEPSPEED), separate()).get(SECRETS, "train-mpi-ssh-auth")
    assert (secret["type"], secret["immutable"]) == ("kubernetes.io/ssh-auth", True)
    assert meta.controlled_by(secret, "t")
    private = b64decode(secret["data"]["ssh-privatekey"])
    assert private.startswith(b"-----BEGIN EC PRIVATE KEY-----")
    key = serialization.load_pem_private_key(private, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert isinstance(key.curve, ec.SECP521R1)
    form = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    assert b64decode(secret["data"]["ssh-publickey"]) == key.public_key().public_bytes(*form) + b"\n"


@pytest.mark.conformance("TJ-49")
@pytest.mark.parametrize(("nodes", "workers"), [(10, 9), (2, 1), (1, 0), (0, 0)])
def test_a_launcher_that_is_a_node_leaves_one_worker_less(nodes: int, workers: int) -> None:
    stage = Stage(trainjob(DEEPSPEED, trainer={"numNodes": nodes}))
    assert pods(stage) == {"node": workers, "launcher": 1}
    names = [line.split(".")[0] for line in hostfile(stage)]
    assert names == [*(f"train-node-0-{index}" for index in range(workers)), "train-launcher-0-0"]


def test_nodes_of_the_runtime_are_no_launchers() -> None:
    policy = {"numNodes": 4, "mpi": {"runLauncherAsNode": True}}
    assert pods(Stage(trainjob(DEEPSPEED), runtime(DEEPSPEED, mlPolicy=policy))) == {"node": 3, "launcher": 1}


@pytest.mark.conformance("TJ-49")
@pytest.mark.parametrize(
    ("trainer", "slots"),
    [
        ({"resourcesPerNode": {"limits": {"nvidia.com/gpu": "4"}}}, "4"),
        ({"resourcesPerNode": {"limits": {"nvidia.com/gpu": "4"}}, "numProcPerNode": 1}, "1"),
        ({"numProcPerNode": 3}, "3"),
        ({}, "1"),
    ],
)
def test_processes_per_node_are_slots(trainer: Object, slots: str) -> None:
    stage = Stage(trainjob(DEEPSPEED, trainer={"numNodes": 2, **trainer}))
    assert {line.split("slots=")[1] for line in hostfile(stage)} == {slots}
    assert stage.env("launcher")["OMPI_MCA_orte_set_default_slots"] == slots


def test_resources_and_variables_of_the_trainer_reach_workers_beside_a_launcher_that_is_a_node() -> None:
    trainer = {
        "numNodes": 2,
        "image": "mine",
        "resourcesPerNode": {"limits": {"cpu": "2"}},
        "env": [{"name": "LR", "value": "1"}],
    }
    stage = Stage(trainjob(DEEPSPEED, trainer=trainer))
    for name in ("node", "launcher"):
        assert stage.container(name)["resources"] == {"limits": {"cpu": "2"}}
        assert stage.env(name)["LR"] == "1"
    assert stage.container("launcher")["image"] == "mine"
    assert stage.container("node")["command"] == ["/usr/sbin/sshd"]


@pytest.mark.conformance("TJ-49")
def test_keys_are_made_once_and_hostfiles_follow_what_is_wanted() -> None:
    stage = Stage(trainjob(DEEPSPEED, trainer={"numNodes": 2}))
    hosts = hostfile(stage)
    stage.objects[CONFIG_MAPS, "train-mpi-hostfile"] |= {"data": {"hostfile": "elsewhere slots=1\n"}}
    stage.objects[SECRETS, "train-mpi-ssh-auth"] |= {"data": {"ssh-privatekey": "mine"}}
    stage.settle()
    assert hostfile(stage) == hosts
    assert stage.get(SECRETS, "train-mpi-ssh-auth")["data"] == {"ssh-privatekey": "mine"}


def test_keys_and_hostfile_are_there_before_the_jobset() -> None:
    made = [kind for kind, _ in Stage(trainjob(DEEPSPEED)).created]
    assert made == ["TrainJob", "ConfigMap", "Secret", "ConfigMap", "JobSet"]


def test_someone_elses_secret_is_reported_and_not_taken() -> None:
    foreign = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "train-mpi-ssh-auth"}, "data": {}}
    stage = Stage(trainjob(DEEPSPEED), beside=[(SECRETS, foreign)])
    assert stage.names(JOB_SETS) == []
    assert stage.events[0][1:] == (
        "TrainJobResourcesCreationFailed",
        "Secret train-mpi-ssh-auth exists and belongs to someone else; delete it, or rename the TrainJob",
    )


def test_an_empty_implementation_is_open_mpi() -> None:
    assert "OMPI_MCA_plm_rsh_args" in Stage(trainjob(DEEPSPEED), separate(mpiImplementation="")).env("launcher")
