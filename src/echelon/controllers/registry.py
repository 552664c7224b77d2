"""Which controllers an embedded control plane runs."""

from __future__ import annotations

from ..client.informer import Caches
from .garbage import GarbageCollector
from .job import JobController
from .jobset import JobSetController
from .lost_pods import LostPodController
from .namespaces import NamespaceController
from .protection import CompositePodGroupProtection, PodGroupProtection
from .runner import Controller
from .trainjob import TrainJobController


def all_controllers(caches: Caches) -> list[Controller]:
    return [
        TrainJobController(caches),
        JobSetController(caches),
        JobController(caches),
        PodGroupProtection(caches),
        CompositePodGroupProtection(caches),
        LostPodController(caches),
        NamespaceController(caches),
        GarbageCollector(caches),
    ]
