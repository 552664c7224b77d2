"""TrainJobs and the runtimes that they refer to."""

from __future__ import annotations

from typing import Any

import msgspec

from ..scheme import TRAIN_JOBS
from .object_view import Conditioned, ObjectView, ViewPart


def report_audience(namespace: str, name: str) -> str:
    """For whom the tokens are made with which a TrainJob's pods report progress; after `/apis/` the path they use."""
    return f"{TRAIN_JOBS.api_version}/namespaces/{namespace}/{TRAIN_JOBS.plural}/{name}/status"


class RuntimeReference(ViewPart, frozen=True):
    name: str = ""
    kind: str = "ClusterTrainingRuntime"
    api_group: str = "trainer.kubeflow.org"


class Trainer(ViewPart, frozen=True):
    num_nodes: int | None = None
    num_proc_per_node: int | str | None = None
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[dict[str, Any], ...] = ()
    resources_per_node: dict[str, Any] = msgspec.field(default_factory=dict)


class Initializer(ViewPart, frozen=True):
    """How a dataset or a model is fetched."""

    storage_uri: str = ""
    env: tuple[dict[str, Any], ...] = ()
    secret_ref: dict[str, Any] | None = None


class Initializers(ViewPart, frozen=True):
    dataset: Initializer | None = None
    model: Initializer | None = None


class TrainJobSpec(ViewPart, frozen=True):
    runtime_ref: RuntimeReference = RuntimeReference()
    trainer: Trainer = Trainer()
    initializer: Initializers = Initializers()
    runtime_patches: tuple[dict[str, Any], ...] = ()
    suspend: bool = False
    managed_by: str = ""
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None


class TrainJobView(ObjectView[TrainJobSpec, Conditioned], resource=TRAIN_JOBS, spec=TrainJobSpec):
    __slots__ = ()

    @property
    def finished(self) -> bool:
        return self.is_true("Complete") or self.is_true("Failed")
