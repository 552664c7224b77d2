"""kubeflow on process nodes: functions that really run, their logs while they run and after, and how they fail."""

from __future__ import annotations

import sys
import time

from kubeflow.common.types import KubernetesBackendConfig
from kubeflow.trainer import (
    BuiltinTrainer,
    CustomTrainer,
    HuggingFaceDatasetInitializer,
    HuggingFaceModelInitializer,
    Initializer,
    TorchTuneConfig,
    TrainerClient,
)
from kubernetes import client, config

KUBECONFIG, NAMESPACE = sys.argv[1:]


def step(name: str, holds: object) -> None:
    assert holds, name
    print(name, flush=True)


def train(steps: int) -> None:
    """Two nodes agree on a mean, step after step."""
    import os
    import socket
    import time

    rank, port = int(os.environ["RANK"]), int(os.environ["MASTER_PORT"])
    print(f"rank {rank} of {os.environ['WORLD_SIZE']}", flush=True)
    where = socket.gethostbyname(os.environ["MASTER_ADDR"])
    if rank == 0:
        line, _ = socket.create_server(("", port)).accept()
    else:
        while True:
            try:
                line = socket.create_connection((where, port))
                break
            except OSError:
                time.sleep(0.1)
    value = 10.0 * rank
    for number in range(steps):
        line.sendall(b"%16.6f" % value)
        value = (value + float(line.recv(16, socket.MSG_WAITALL))) / 2
        print(f"step {number} value {value:.1f}", flush=True)
        time.sleep(0.3)


def whoami() -> None:
    import os

    wanted = ("JAX_PROCESS_ID", "JAX_NUM_PROCESSES", "DMLC_TASK_ID", "DMLC_NUM_WORKER")
    print("found", *(f"{name}={os.environ[name]}" for name in wanted if name in os.environ), flush=True)


def fail() -> None:
    raise SystemExit("no data")


core = client.CoreV1Api(config.new_client_from_config(KUBECONFIG))
core.create_namespace({"metadata": {"name": NAMESPACE}})
trainer = TrainerClient(KubernetesBackendConfig(namespace=NAMESPACE, config_file=KUBECONFIG))
small = {"cpu": "200m", "memory": "100Mi"}

step("runtimes", "torch-distributed" in {runtime.name for runtime in trainer.list_runtimes()})
words = CustomTrainer(func=train, func_args={"steps": 8}, num_nodes=2, resources_per_node=small)
job = trainer.train(runtime=trainer.get_runtime("torch-distributed"), trainer=words)
trainer.wait_for_job_status(job, status={"Running"}, timeout=60, polling_interval=0.2)
followed = list(trainer.get_job_logs(job, follow=True))
step("followed to the end", [line for line in followed if line.startswith("step")][-1] == "step 7 value 5.0")
step("complete", trainer.wait_for_job_status(job, timeout=60, polling_interval=0.2).status == "Complete")
other = list(trainer.get_job_logs(job, step="node-1"))
step("the other node", "rank 1 of 2" in other and "step 7 value 5.0" in other)
step("the same afterwards", [*trainer.get_job_logs(job)] == followed)
step(
    "nodes", {one.name: one.status for one in trainer.get_job(job).steps} == {f"node-{n}": "Succeeded" for n in (0, 1)}
)
reasons = {(event.involved_object_kind, event.reason) for event in trainer.get_job_events(job)}
step("events", {("Pod", "Scheduled"), ("Pod", "Started"), ("TrainJob", "Completed")} <= reasons)

for framework, variables in (
    ("jax", "JAX_PROCESS_ID=1 JAX_NUM_PROCESSES=2"),
    ("xgboost", "DMLC_TASK_ID=1 DMLC_NUM_WORKER=2"),
):
    words = CustomTrainer(func=whoami, num_nodes=2, resources_per_node=small)
    name = trainer.train(runtime=trainer.get_runtime(f"{framework}-distributed"), trainer=words)
    trainer.wait_for_job_status(name, timeout=60, polling_interval=0.2)
    step(framework, [*trainer.get_job_logs(name, step="node-1")][-1] == f"found {variables}")
    trainer.delete_job(name)

bad = trainer.train(trainer=CustomTrainer(func=fail, resources_per_node=small))
deadline = time.monotonic() + 60
# Once: the container is started again, and its new log is empty at first.
while not (told := "no data" in [*trainer.get_job_logs(bad)]) and time.monotonic() < deadline:
    time.sleep(0.2)
step("why it fails", told)

tuned = trainer.train(
    runtime=trainer.get_runtime("torchtune-llama3.2-1b"),
    initializer=Initializer(
        dataset=HuggingFaceDatasetInitializer(storage_uri="hf://tatsu-lab/alpaca"),
        model=HuggingFaceModelInitializer(storage_uri="hf://meta-llama/Llama-3.2-1B-Instruct"),
    ),
    trainer=BuiltinTrainer(config=TorchTuneConfig(epochs=2, batch_size=4)),
)
step("built-in trainer", trainer.get_job(tuned).runtime.name == "torchtune-llama3.2-1b")
step("list", {one.name for one in trainer.list_jobs()} == {job, bad, tuned})
for name in (job, bad, tuned):
    trainer.delete_job(name)
step("deleted", trainer.list_jobs() == [])
