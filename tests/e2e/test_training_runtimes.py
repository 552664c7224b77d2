"""A TrainJob on every kind of runtime, as its user writes it and as kubectl shows it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e import kubectl as real
from tests.e2e.kubectl import Kubectl
from tests.e2e.process import UpProcess

pytestmark = pytest.mark.skipif(real.PATH is None, reason="needs kubectl")


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    directory = tmp_path_factory.mktemp("plane")
    process = UpProcess(directory / "data", "--speed", "10")
    process.start()
    yield Kubectl(process.kubeconfig, directory / "cache")
    process.stop()


def trainjob(name: str, runtime: str, command: str) -> str:
    return f"""
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {{name: {name}}}
spec:
  runtimeRef: {{name: {runtime}}}
  trainer: {{numNodes: 3, command: [{command}], resourcesPerNode: {{limits: {{cpu: 1}}}}}}
"""


def completes(kubectl: Kubectl, name: str) -> None:
    kubectl("wait", "--for=condition=Complete", f"trainjob/{name}", "--timeout=50s")
    state, *_ = kubectl("get", "trainjob", name, "--no-headers").split()[1:]
    assert state == "Complete"


def variables(kubectl: Kubectl, jobset: str, step: str = "node") -> dict[str, str]:
    jobs = kubectl.object("jobset", jobset)["spec"]["replicatedJobs"]
    (job,) = [one for one in jobs if one["name"] == step]
    container = job["template"]["spec"]["template"]["spec"]["containers"][0]
    return {one["name"]: one.get("value", "(rank)") for one in container.get("env") or ()}


@pytest.mark.parametrize(
    ("runtime", "expected"),
    [
        (
            "torch-distributed",
            {
                "PET_NNODES": "3",
                "PET_NPROC_PER_NODE": "1",
                "PET_NODE_RANK": "(rank)",
                "PET_MASTER_ADDR": "{name}-node-0-0.{name}",
                "PET_MASTER_PORT": "29500",
            },
        ),
        (
            "jax-distributed",
            {
                "JAX_NUM_PROCESSES": "3",
                "JAX_PROCESS_ID": "(rank)",
                "JAX_COORDINATOR_ADDRESS": "{name}-node-0-0.{name}:29500",
            },
        ),
        (
            "xgboost-distributed",
            {
                "DMLC_TRACKER_URI": "{name}-node-0-0.{name}",
                "DMLC_TRACKER_PORT": "29500",
                "DMLC_TASK_ID": "(rank)",
                "DMLC_NUM_WORKER": "3",
            },
        ),
        ("plain-cpu-gang", {}),
    ],
)
def test_nodes_find_each_other(kubectl: Kubectl, runtime: str, expected: dict[str, str]) -> None:
    name = runtime.split("-")[0]
    assert kubectl("apply", manifest=yaml.safe_load(trainjob(name, runtime, "sleep, '30'"))).endswith("created\n")
    kubectl("wait", "--for=create", f"jobset/{name}", "--timeout=30s")
    assert variables(kubectl, name) == {key: value.format(name=name) for key, value in expected.items()}
    completes(kubectl, name)
    pods = kubectl("get", "pods", "-l", f"jobset.sigs.k8s.io/jobset-name={name}", "--no-headers").splitlines()
    assert [line.split()[2] for line in pods] == ["Completed"] * 3


@pytest.mark.conformance("TJ-70", "TJ-46")
@pytest.mark.parametrize("runtime", ["deepspeed-distributed", "mlx-distributed-gang"])
def test_a_launcher_has_keys_and_a_hostfile(kubectl: Kubectl, runtime: str) -> None:
    name = runtime.split("-")[0]
    kubectl("apply", manifest=yaml.safe_load(trainjob(name, runtime, "mpirun, sleep, '60'")))
    kubectl("wait", "--for=create", f"jobset/{name}", "--timeout=30s")
    hosts = [f"{name}-node-0-0.{name}", f"{name}-node-0-1.{name}", f"{name}-launcher-0-0.{name}"]
    hostfile = kubectl("get", "configmap", f"{name}-mpi-hostfile", "-o", "jsonpath={.data.hostfile}")
    assert hostfile.splitlines() == [f"{host} slots=1" for host in hosts]
    assert kubectl("get", "secret", f"{name}-mpi-ssh-auth", "--no-headers").split()[1:3] == [
        "kubernetes.io/ssh-auth",
        "2",
    ]
    assert variables(kubectl, name, "launcher")["OMPI_MCA_orte_default_hostfile"] == "/etc/mpi/hostfile"
    completes(kubectl, name)
    status = kubectl.object("trainjob", name)["status"]["jobsStatus"]
    assert {one["name"]: (one["succeeded"], one["failed"]) for one in status}["launcher"] == (1, 0)
    kubectl("delete", "trainjob", name)
    kubectl("wait", "--for=delete", f"secret/{name}-mpi-ssh-auth", "--timeout=30s")


@pytest.mark.conformance("TJ-73", "TJ-60")
def test_flux_runs_the_command_through_its_brokers(kubectl: Kubectl) -> None:
    kubectl("apply", manifest=yaml.safe_load(trainjob("flux", "flux-distributed", "flux, getattr, rank")))
    kubectl("wait", "--for=create", "jobset/flux", "--timeout=30s")
    pods = kubectl.object("jobset", "flux")["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    entrypoint = ["/bin/bash", "/etc/flux-config/entrypoint.sh", "flux getattr rank"]
    assert pods["containers"][0]["command"] == entrypoint
    assert [one["name"] for one in pods["initContainers"]] == ["flux-installer"]
    script = kubectl("get", "configmap", "flux-flux-entrypoint", "-o", 'go-template={{index .data "entrypoint.sh"}}')
    assert "flux run -N 3 -n 3 $command" in script
    completes(kubectl, "flux")


BARE_RUNTIME = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata:
  name: mpi-runtime
spec:
  podGroupPolicy:
    workload: {}
"""
BARE_JOB = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: bare}
spec:
  runtimeRef: {name: mpi-runtime}
  trainer: {numNodes: 8}
"""


@pytest.mark.conformance("TJ-83")
def test_a_runtime_without_templates_of_its_own_runs(kubectl: Kubectl) -> None:
    outcome = kubectl.run("apply", manifest=yaml.safe_load(BARE_RUNTIME))
    assert "created" in outcome.out
    assert (
        "Warning: spec.template.spec.replicatedJobs: is empty: TrainJobs run on the template of plain-cpu"
        in outcome.err
    )
    kubectl("apply", manifest=yaml.safe_load(BARE_JOB))
    kubectl("wait", "--for=create", "jobset/bare", "--timeout=30s")
    workload = kubectl.object("workload", "bare")
    assert workload["spec"]["podGroupTemplates"][0]["schedulingPolicy"] == {"gang": {"minCount": 8}}
    (group,) = kubectl.object("podgroups", "-l", "jobset.sigs.k8s.io/jobset-name=bare")["items"]
    assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 8}}
    completes(kubectl, "bare")
    pods = kubectl("get", "pods", "-l", "jobset.sigs.k8s.io/jobset-name=bare", "--no-headers").splitlines()
    assert len(pods) == 8


def test_what_a_runtime_lacks_is_said_at_once(kubectl: Kubectl) -> None:
    volcano = yaml.safe_load(BARE_RUNTIME)
    volcano["metadata"]["name"] = "queued"
    volcano["spec"]["podGroupPolicy"] = {"volcano": {}}
    told = kubectl.run("apply", manifest=volcano).err
    assert "Warning: spec.podGroupPolicy.volcano: the server does not serve PodGroup in scheduling.volcano.sh" in told
    job = yaml.safe_load(BARE_JOB)
    job["metadata"]["name"], job["spec"]["runtimeRef"]["name"] = "queued", "queued"
    refused = kubectl.run("create", manifest=job)
    assert refused.code == 1
    assert "denied the request: spec.runtimeRef" in refused.err
    assert "podGroupPolicy.volcano: the server does not serve PodGroup" in refused.err


def test_overrides_of_an_older_release_are_taken_over(kubectl: Kubectl, tmp_path: Path) -> None:
    job = yaml.safe_load(trainjob("older", "plain-cpu", "sleep, '5'"))
    override = {"targetJobs": [{"name": "node"}], "metadata": {"labels": {"team": "a"}}}
    job["spec"] |= {"podTemplateOverrides": [override], "ttlSecondsAfterFinished": 600}
    told = kubectl.run("apply", manifest=job)
    assert "Warning: spec.podTemplateOverrides is of an older release" in told.err
    completes(kubectl, "older")
    assert len(kubectl("get", "pods", "-l", "team=a", "--no-headers").splitlines()) == 3
    again = kubectl.run("apply", manifest=job)
    assert again.code == 0, again.err
