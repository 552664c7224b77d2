"""Which controllers an embedded control plane runs, and which a real cluster lacks."""

from __future__ import annotations

from collections.abc import Sequence

from ..client.informer import Caches
from .disruption_budgets import DisruptionController
from .garbage import GarbageCollector
from .job import JobController
from .jobset import JobSetController
from .lost_pods import LostPodController
from .namespaces import NamespaceController
from .protection import CompositePodGroupProtection, PodGroupProtection
from .runner import Controller
from .service_accounts import ServiceAccountController
from .trainjob import TrainJobController


def all_controllers(caches: Caches) -> list[Controller]:
    return [
        TrainJobController(caches),
        JobSetController(caches),
        JobController(caches),
        PodGroupProtection(caches),
        CompositePodGroupProtection(caches),
        DisruptionController(caches),
        LostPodController(caches),
        NamespaceController(caches),
        ServiceAccountController(caches),
        GarbageCollector(caches),
    ]


_CLUSTER_KINDS: tuple[type[JobSetController] | type[TrainJobController], ...] = (JobSetController, TrainJobController)
#: On a real cluster kube-controller-manager owns the rest.
CLUSTER_CONTROLLERS = tuple(kind.name for kind in _CLUSTER_KINDS)


def cluster_controllers(caches: Caches, names: Sequence[str]) -> list[Controller]:
    """Those of `CLUSTER_CONTROLLERS` that are named, for a server that knows their kinds by schema alone."""
    return [kind(caches, admitted=False) for kind in _CLUSTER_KINDS if kind.name in names]
