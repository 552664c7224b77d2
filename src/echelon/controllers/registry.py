"""Which controllers an embedded control plane runs, and which a real cluster lacks."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from ..api.objects.vocabulary import OWN_SCHEDULER
from ..client.informer import Caches
from .apps.daemons import DaemonSetController
from .apps.deployment import DeploymentController
from .apps.replicas import ReplicaSetController, ReplicationControllerController
from .apps.stateful import StatefulSetController
from .cronjob import CronJobController
from .devices.resource_claims import ResourceClaimController
from .disruption_budgets import DisruptionController
from .endpoint_slices import EndpointSliceController
from .garbage import GarbageCollector
from .groups.job_groups import JobGroupsController
from .groups.protection import CompositePodGroupProtection, PodGroupProtection
from .job import JobController
from .jobset import JobSetController
from .nodes.exclusive_placement import ExclusivePlacementController
from .nodes.lifecycle import NodeLifecycleController
from .nodes.lost_pods import LostPodController
from .nodes.taint_eviction import TaintEvictionController
from .runner import Controller
from .stage_quota import StageQuotaController
from .tenancy.namespaces import NamespaceController
from .tenancy.service_accounts import RootCertificateController, ServiceAccountController
from .trainjob import TrainJobController


class ControllerClass(Protocol):
    """What the classes of controllers have in common."""

    name: str

    def __call__(self, caches: Caches) -> Controller: ...


#: The controllers of an embedded control plane; `up --controllers` names them.
_ALL: tuple[ControllerClass, ...] = (
    TrainJobController,
    JobSetController,
    JobController,
    JobGroupsController,
    CronJobController,
    StageQuotaController,
    DeploymentController,
    ReplicaSetController,
    ReplicationControllerController,
    StatefulSetController,
    DaemonSetController,
    ExclusivePlacementController,
    PodGroupProtection,
    CompositePodGroupProtection,
    DisruptionController,
    EndpointSliceController,
    ResourceClaimController,
    LostPodController,
    NodeLifecycleController,
    TaintEvictionController,
    NamespaceController,
    ServiceAccountController,
    RootCertificateController,
    GarbageCollector,
)
ALL_CONTROLLERS = tuple(kind.name for kind in _ALL)
#: Upstream's names of controllers end with this; it may be left out.
_SUFFIX = "-controller"


class UnknownController(ValueError):
    """A name that is not in `ALL_CONTROLLERS`; the message lists those that are."""


def all_controllers(
    caches: Caches,
    names: Collection[str] = ALL_CONTROLLERS,
    *,
    job_workloads: bool = True,
    random_bytes: Callable[[int], bytes] = secrets.token_bytes,
) -> list[Controller]:
    """Those that are named; without `job_workloads` no Workloads are made for Jobs; new keys are `random_bytes`."""

    def make(kind: ControllerClass) -> Controller:
        if kind is JobController:
            return JobController(caches, workloads=job_workloads)
        if kind is TrainJobController:
            return TrainJobController(caches, random_bytes=random_bytes)
        return kind(caches)

    return [make(kind) for kind in _ALL if kind.name in names]


def select(choice: str) -> tuple[str, ...]:
    """The controllers that a list names, read as kube-controller-manager reads `--controllers`.

    `*` stands for all, `name` adds one, `-name` leaves one out; the more specific wins.  A list of nothing but
    `-name` leaves these out of all.
    """
    asked = [_known(word.strip()) for word in choice.split(",") if word.strip()]
    everything = "*" in asked or (bool(asked) and all(word.startswith("-") for word in asked))
    return tuple(name for name in ALL_CONTROLLERS if name in asked or (everything and f"-{name}" not in asked))


def _known(word: str) -> str:
    if word == "*":
        return word
    name = word.removeprefix("-").removesuffix(_SUFFIX)
    if name in ALL_CONTROLLERS:
        return f"-{name}" if word.startswith("-") else name
    raise UnknownController(f"unknown controller {word.removeprefix('-')}; known are {', '.join(ALL_CONTROLLERS)}")


#: On a real cluster kube-controller-manager owns the rest.
CLUSTER_CONTROLLERS = (
    JobSetController.name,
    TrainJobController.name,
    StageQuotaController.name,
    JobGroupsController.name,
)


def cluster_controllers(
    caches: Caches, names: Sequence[str], our_schedulers: Collection[str] = (OWN_SCHEDULER,)
) -> list[Controller]:
    """Those of `CLUSTER_CONTROLLERS` that are named, for a server that knows their kinds by schema alone.

    Pods that name none of `our_schedulers` are placed by someone else, such as kube-scheduler.
    """
    made: list[Controller] = []
    if JobSetController.name in names:
        made.append(JobSetController(caches, admitted=False, our_schedulers=our_schedulers))
    if TrainJobController.name in names:
        made.append(TrainJobController(caches, admitted=False))
    if StageQuotaController.name in names:
        made.append(StageQuotaController(caches, admitted=False))
    if JobGroupsController.name in names:
        made.append(JobGroupsController(caches))
    return made
