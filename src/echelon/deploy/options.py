"""What a platform team chooses about an installation; everything else follows from it."""

from __future__ import annotations

from dataclasses import dataclass

from ..api.objects.vocabulary import OWN_SCHEDULER
from ..base.version import __version__

SCHEDULER = "scheduler"
CONTROLLERS = "controllers"
#: The programs of an installation, each a Deployment.
PARTS = (SCHEDULER, CONTROLLERS)
#: The controllers that a stock cluster lacks.
OWN_CONTROLLERS = ("jobset", "trainjob", "stage-quota")
#: Where programs elect their leader, whether they run in pods or elsewhere.
LEASE_NAMESPACE = "kube-system"


@dataclass(frozen=True)
class InstallOptions:
    namespace: str = "echelon-system"
    image: str = f"echelon:{__version__}"
    replicas: int = 2
    parts: tuple[str, ...] = PARTS
    controllers: tuple[str, ...] = OWN_CONTROLLERS
    scheduler_names: tuple[str, ...] = (OWN_SCHEDULER,)
    #: Whether to make objects of the Prometheus operator, which a cluster may not serve.
    monitoring: bool = False
    #: Whether the namespace is ours to make, and to remove again.
    own_namespace: bool = True
    #: CustomResourceDefinitions that somebody else has installed: used, never touched.
    foreign_definitions: frozenset[str] = frozenset()


def scheduler_lease(names: tuple[str, ...]) -> str:
    """Schedulers of the same names elect one leader."""
    return "-".join(("echelon-scheduler", *(name for name in names if name != OWN_SCHEDULER)))


def controllers_lease(names: tuple[str, ...]) -> str:
    return "-".join(("echelon-controllers", *sorted(names)))
