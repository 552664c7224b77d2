"""Echelon as it is installed beside the real Kubeflow Trainer and JobSet managers, which own TrainJobs and JobSets."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml

from echelon.api.objects import meta
from echelon.api.objects.vocabulary import JOB_SCHEDULING
from echelon.api.scheme import CLUSTER_TRAINING_RUNTIMES, JOB_SETS, JOBS, PODS, TRAIN_JOBS, Object

from .controlplane import ControlPlane, GateSet, control_plane
from .job_objects import train_job
from .logins import client_of
from .neighbour_programs import JOBSET, TRAINER, beside, skip_without
from .waiting import eventually
from .work_places import Place, at_work

pytestmark = pytest.mark.cluster_long
RUNTIME = "torch-distributed"


@pytest.fixture(scope="module", params=[GateSet.ALL, GateSet.NONE], ids=str)
def plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    skip_without(JOBSET, TRAINER)
    with (
        control_plane(tmp_path_factory.mktemp("trainer"), strict=True, gates=request.param) as running,
        beside(running, JOBSET),
        beside(running, TRAINER),
    ):
        yield running


@pytest.fixture
async def place(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Place]:
    async with client_of(plane.kubeconfig) as verbs:
        place = Place(plane, verbs, "team")
        async with at_work(place, tmp_path):
            yield place
            await place.clear(TRAIN_JOBS, JOB_SETS, JOBS, PODS)


def gang_runtime() -> Object:
    """Upstream's own runtime, whose pods we schedule and whose Job is a gang."""
    shipped = TRAINER.home / "manifests" / "base" / "runtimes" / "torch_distributed.yaml"
    runtime: Object = yaml.safe_load(shipped.read_text())
    (job,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    gang = json.dumps({"schedulingPolicy": {"gang": {}}})
    job["template"]["metadata"].setdefault("annotations", {})[JOB_SCHEDULING] = gang
    job["template"]["spec"]["template"]["spec"]["schedulerName"] = "echelon"
    return runtime


async def test_a_trainjob_of_upstream_is_a_gang_by_the_annotation_of_its_runtime(place: Place) -> None:
    for name in ("trainjobs.trainer.kubeflow.org", "jobsets.jobset.x-k8s.io"):
        assert f"CustomResourceDefinition {name} is" in place.installed
    assert "whoever installed the kind runs its own: jobset, stage-quota, trainjob;" in place.installed
    await place.nodes("a", cpu=1)
    await place.verbs.create(CLUSTER_TRAINING_RUNTIMES, gang_runtime())
    trained = train_job("tj", RUNTIME, resourcesPerNode={"requests": {"cpu": "1"}})
    await place.verbs.create(TRAIN_JOBS, trained, place.name)

    async def says_why() -> bool:
        return "2 pods" in await place.told("tj")

    await eventually(says_why)
    assert len(await place.pods("tj-")) == 2
    assert await place.placed("tj-") == 0
    await place.nodes("b", cpu=1)
    await eventually(lambda: place.placed("tj-"), 2)
    await place.finish("tj-")

    async def is_complete() -> bool:
        return meta.condition_is(await place.verbs.get(TRAIN_JOBS, "tj", place.name), "Complete")

    await eventually(is_complete)
