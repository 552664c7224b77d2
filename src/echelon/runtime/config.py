"""Settings of an embedded control plane, read once and frozen."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ..api.cluster.pools import Cluster, default_cluster

NodeMode = Literal["none", "simulated"]

#: The values of spec.schedulerName that the embedded scheduler serves; there is no other scheduler.
EMBEDDED_SCHEDULER_NAMES = ("default-scheduler", "echelon")


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
    #: Seconds of cluster time per real second.
    speed: float = 1.0
    scheduler_names: tuple[str, ...] = EMBEDDED_SCHEDULER_NAMES

    @property
    def kubeconfig_path(self) -> Path:
        return self.kubeconfig or self.data / "kubeconfig"
