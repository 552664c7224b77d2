"""What a platform team chooses about an installation; everything else follows from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..api.group_kinds import NATIVE, OWN
from ..api.objects.vocabulary import OWN_SCHEDULER
from ..api.scheme import Object
from ..base.program_options import API_VERSION, PROGRAMS
from ..base.version import __version__

SCHEDULER = "scheduler"
CONTROLLERS = "controllers"
#: The programs of an installation, each a Deployment.
PARTS = (SCHEDULER, CONTROLLERS)
#: The controllers that a stock cluster lacks.
OWN_CONTROLLERS = ("jobset", "trainjob", "stage-quota", "job-groups")
#: Where programs elect their leader, whether they run in pods or elsewhere.
LEASE_NAMESPACE = "kube-system"


def default_configuration(part: str) -> str:
    """The config file of a program whose log is read by machines.

    Debug pages are for callers inside of the pod: who may use `kubectl port-forward` there.
    """
    return f"apiVersion: {API_VERSION}\nkind: {PROGRAMS[part].kind}\nlogFormat: json\ndebugEndpoints: true\n"


def _requests(cpu: str, memory: str) -> Object:
    """Memory is not limited: a scheduler that is killed for a large cluster helps nobody."""
    return {"requests": {"cpu": cpu, "memory": memory}}


@dataclass(frozen=True)
class PodOptions:
    """What a cluster asks of the pods that run on it."""

    image_pull_secrets: tuple[str, ...] = ()
    #: Empty: that of the cluster.
    priority_class: str = "system-cluster-critical"
    node_selector: Mapping[str, str] = field(default_factory=lambda: {"kubernetes.io/os": "linux"})
    tolerations: tuple[Object, ...] = ()
    #: Requests and limits of each part.
    resources: Mapping[str, Object] = field(
        default_factory=lambda: {SCHEDULER: _requests("500m", "512Mi"), CONTROLLERS: _requests("100m", "256Mi")}
    )


@dataclass(frozen=True)
class InstallOptions:
    namespace: str = "echelon-system"
    image: str = f"echelon:{__version__}"
    replicas: int = 2
    parts: tuple[str, ...] = PARTS
    controllers: tuple[str, ...] = OWN_CONTROLLERS
    scheduler_names: tuple[str, ...] = (OWN_SCHEDULER,)
    pods: PodOptions = field(default_factory=PodOptions)
    #: Whether to make objects of the Prometheus operator, which a cluster may not serve.
    monitoring: bool = False
    #: Whether to make a dashboard, as a ConfigMap that Grafana's sidecar finds.
    dashboard: bool = True
    #: Whether the namespace is ours to make, and to remove again.
    own_namespace: bool = True
    #: Whether the server has policies that refuse, and policies that set defaults.
    validating_policies: bool = True
    mutating_policies: bool = True
    #: CustomResourceDefinitions that somebody else has installed: used, never touched.
    foreign_definitions: frozenset[str] = frozenset()
    #: The text of each program's config file, where it is not the default.
    configurations: Mapping[str, str] = field(default_factory=dict)

    #: One of `group_kinds.CHOICES`; "" is for any cluster: both kinds of groups may be used, programs find out which.
    groups: str = ""

    def configuration(self, part: str) -> str:
        return self.configurations.get(part) or default_configuration(part)

    @property
    def native_groups(self) -> bool:
        return not self.groups or NATIVE in self.groups.split(",")

    @property
    def makes_own_groups(self) -> bool:
        """Whether new groups may have to be of our own kinds."""
        return not self.groups or self.groups.startswith(OWN)

    @property
    def own_groups(self) -> bool:
        return not self.groups or OWN in self.groups.split(",")


def scheduler_lease(names: Iterable[str]) -> str:
    """Of schedulers that are started by hand those of the same names elect one leader."""
    return "-".join(("echelon-scheduler", *sorted({*names} - {OWN_SCHEDULER})))


def controllers_lease(names: Iterable[str]) -> str:
    """Likewise; all of them have that of an installation."""
    return "-".join(("echelon-controllers", *(sorted(names) if {*names} != {*OWN_CONTROLLERS} else ())))
