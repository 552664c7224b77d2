"""kubeflow: runtimes, a TrainJob on each framework, its states, its events, its end."""

from __future__ import annotations

import sys
import time

from kubeflow.common.types import KubernetesBackendConfig
from kubeflow.trainer import CustomTrainer, TrainerClient
from kubernetes import client, config

KUBECONFIG, NAMESPACE = sys.argv[1:]
FRAMEWORKS = ("torch", "deepspeed", "mlx", "jax", "xgboost", "flux")


def step(name: str, holds: object) -> None:
    assert holds, name
    print(name, flush=True)


def train() -> None:
    import time

    time.sleep(5)


core = client.CoreV1Api(config.new_client_from_config(KUBECONFIG))
core.create_namespace({"metadata": {"name": NAMESPACE}})
trainer = TrainerClient(KubernetesBackendConfig(namespace=NAMESPACE, config_file=KUBECONFIG))
known = {runtime.name for runtime in trainer.list_runtimes()}
step("runtimes", {f"{name}-distributed" for name in FRAMEWORKS} <= known)

jobs = {}
for framework, nodes in [*((name, 2) for name in FRAMEWORKS), ("deepspeed", 1)]:
    runtime = trainer.get_runtime(f"{framework}-distributed")
    words = CustomTrainer(func=train, num_nodes=nodes, resources_per_node={"cpu": 2})
    name = jobs[framework, nodes] = trainer.train(runtime=runtime, trainer=words)
    job = trainer.wait_for_job_status(name, status={"Running"}, timeout=60, polling_interval=0.5)
    names = {one.name for one in job.steps}
    step(f"{framework} on {nodes}: running", {f"node-{index}" for index in range(nodes)} <= names)
for (framework, nodes), name in jobs.items():
    job = trainer.wait_for_job_status(name, status={"Complete"}, timeout=120, polling_interval=1)
    step(f"{framework} on {nodes}: complete", job.status == "Complete")
    reasons = {event.reason for event in trainer.get_job_events(name)}
    step(f"{framework} on {nodes}: events", {"JobSetCreated", "Completed"} <= reasons)
step("list", {job.name for job in trainer.list_jobs()} == set(jobs.values()))
for name in jobs.values():
    trainer.delete_job(name)
step("deleted", trainer.list_jobs() == [])

core.delete_namespace(NAMESPACE)
while NAMESPACE in {one.metadata.name for one in core.list_namespace().items}:
    time.sleep(0.2)
print("namespace is gone")
