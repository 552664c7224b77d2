"""A runtime with `podGroupPolicy: {workload: {}}` gives its TrainJobs a Workload and a gang."""

from __future__ import annotations

from pathlib import Path

import pytest

from echelon.api.objects import meta
from echelon.api.scheme import POD_GROUPS, TRAIN_JOBS, WORKLOADS, Object
from tests.e2e.harness import echelon

RUNTIME = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata:
  name: torch-gang
  labels: {trainer.kubeflow.org/framework: torch}
spec:
  mlPolicy: {numNodes: 1, torch: {}}
  podGroupPolicy:
    workload: {}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata:
            labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}
          spec:
            template:
              metadata:
                annotations: {echelon.dev/run-seconds: "20"}
              spec:
                containers:
                - name: node
                  image: registry.example/torch:1
"""
TRAIN_JOB = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: job}
spec:
  runtimeRef: {name: torch-gang}
  trainer: {numNodes: 8}
"""


async def test_the_documents_workload_and_pod_group_in_todays_version(tmp_path: Path) -> None:
    async with echelon(tmp_path) as e:
        await e.apply(RUNTIME)
        (job,) = await e.apply(TRAIN_JOB)

        async def bound() -> list[Object]:
            pods = await e.bound("jobset.sigs.k8s.io/jobset-name=job")
            return pods if len(pods) == 8 else []

        pods: list[Object] = await e.until(bound, "eight trainer pods")
        (workload,) = await e.list(WORKLOADS)
        (group,) = await e.list(POD_GROUPS)
        owner = {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "name": "job",
            "uid": meta.uid(job),
            "controller": True,
            "blockOwnerDeletion": True,
        }
        assert workload["apiVersion"] == "scheduling.k8s.io/v1beta1"
        assert meta.name(workload) == "job"
        assert workload["metadata"]["ownerReferences"] == [owner]
        assert workload["spec"]["controllerRef"] == {
            "apiGroup": "trainer.kubeflow.org",
            "kind": "TrainJob",
            "name": "job",
        }
        (template,) = workload["spec"]["podGroupTemplates"]
        assert template["name"] == "trainer"
        assert template["schedulingPolicy"] == {"gang": {"minCount": 8}}
        assert meta.name(group).startswith("job-trainer-")
        assert group["metadata"]["ownerReferences"] == [
            owner,
            {
                "apiVersion": "scheduling.k8s.io/v1beta1",
                "kind": "Workload",
                "name": "job",
                "uid": meta.uid(workload),
            },
        ]
        assert group["spec"]["workloadRef"] == {"workloadName": "job", "templateName": "trainer"}
        assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 8}}
        assert {pod["spec"]["schedulingGroup"]["podGroupName"] for pod in pods} == {meta.name(group)}
        await e.until_condition(TRAIN_JOBS, "job", "Complete")


#: As the document prints it: a runtime with nothing else.
PRINTED = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata:
  name: mpi-runtime
spec:
  podGroupPolicy:
    workload: {}
"""
#: The same for MPI: a launcher that is one of the nodes, and all start together.
MPI = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata:
  name: mpi-runtime
  annotations: {trainer.kubeflow.org/gang-start: together}
spec:
  mlPolicy: {mpi: {runLauncherAsNode: true}}
  podGroupPolicy:
    workload: {}
"""


@pytest.mark.parametrize(("runtime", "parts"), [(PRINTED, {"node": 8}), (MPI, {"launcher": 1, "node": 7})])
async def test_the_documents_runtime_as_it_is_printed(tmp_path: Path, runtime: str, parts: dict[str, int]) -> None:
    async with echelon(tmp_path) as e:
        await e.apply(runtime)
        await e.apply(TRAIN_JOB.replace("torch-gang", "mpi-runtime"))

        async def bound() -> list[Object]:
            pods = await e.bound("jobset.sigs.k8s.io/jobset-name=job")
            return pods if len(pods) == 8 else []

        pods: list[Object] = await e.until(bound, "eight pods")
        (workload,) = await e.list(WORKLOADS)
        (template,) = workload["spec"]["podGroupTemplates"]
        assert (meta.name(workload), template["name"]) == ("job", "trainer")
        assert template["schedulingPolicy"] == {"gang": {"minCount": 8}}
        (group,) = await e.list(POD_GROUPS)
        assert {pod["spec"]["schedulingGroup"]["podGroupName"] for pod in pods} == {meta.name(group)}
        names = [meta.labels(pod)["jobset.sigs.k8s.io/replicatedjob-name"] for pod in pods]
        assert {name: names.count(name) for name in set(names)} == parts
