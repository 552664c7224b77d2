"""Settings of an embedded control plane, read once and frozen."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ..agents.process.images import BadImages, Images, read_images
from ..agents.process.process_nodes import ProcessNodes, ProcessSettings
from ..api.cluster.pools import Cluster, default_cluster
from ..api.objects.vocabulary import OUR_SCHEDULERS
from ..controllers.registry import ALL_CONTROLLERS, UnknownController, select
from ..server.http.application import DEFAULT_LIMITS, FlightLimits
from ..server.https_server import Authorization, ServerSettings, is_loopback

__all__ = [
    "EMBEDDED_SCHEDULER_NAMES",
    "BadImages",
    "Images",
    "NodeMode",
    "PlaneSettings",
    "ProcessNodes",
    "ProcessSettings",
    "UnknownController",
    "read_images",
    "select",
]

NodeMode = Literal["none", "simulated"]

#: The values of spec.schedulerName that the embedded scheduler serves; there is no other scheduler.
EMBEDDED_SCHEDULER_NAMES = OUR_SCHEDULERS


@dataclass(frozen=True)
class PlaneSettings:
    """Everything that `plane.running` needs to know."""

    #: The data directory: database, certificates, token.
    data: Path
    #: 0 selects a free port.
    port: int = 0
    #: Where to write the kubeconfig; `kubeconfig` in the data directory if None.
    kubeconfig: Path | None = None
    nodes: NodeMode = "simulated"
    cluster: Cluster = field(default_factory=default_cluster)
    #: Topology keys from wide to narrow, the hostname last; None: those of the cluster file, else as they are found.
    levels: tuple[str, ...] | None = None
    #: Seconds of cluster time per real second.
    speed: float = 1.0
    #: The address to listen on.
    bind: str = "127.0.0.1"
    #: None: RBAC unless the address is a loopback one.
    authorization: Authorization | None = None
    #: Where to append the audit log; None: nowhere.
    audit_log: Path | None = None
    #: Requests that are held at a time; 0: no limit.
    max_requests_inflight: int = DEFAULT_LIMITS.requests_in_flight
    max_mutating_requests_inflight: int = DEFAULT_LIMITS.mutating_requests_in_flight
    #: Empty: no scheduler runs.
    scheduler_names: tuple[str, ...] = EMBEDDED_SCHEDULER_NAMES
    #: How pods run on nodes of this machine, if the cluster has any.
    processes: ProcessSettings | None = None
    #: The controllers that run.
    controllers: tuple[str, ...] = ALL_CONTROLLERS
    #: Whether Jobs have Workloads and PodGroups; without them `spec.scheduling` of new Jobs is dropped.
    job_workloads: bool = True
    #: Features that are refused; see `api.admission.feature_gates`.
    disabled_features: frozenset[str] = frozenset()

    @property
    def server(self) -> ServerSettings:
        """May raise ValueError: an address that is not loopback needs RBAC."""
        default: Authorization = "allow-all" if is_loopback(self.bind) else "rbac"
        return ServerSettings(
            self.data,
            self.port,
            self.kubeconfig_path,
            self.bind,
            self.authorization or default,
            self.audit_log,
            FlightLimits(self.max_requests_inflight, self.max_mutating_requests_inflight),
        )

    @property
    def kubeconfig_path(self) -> Path:
        return self.kubeconfig or self.data / "kubeconfig"
