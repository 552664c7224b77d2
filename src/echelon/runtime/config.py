"""Settings of an embedded control plane, read once and frozen."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ..api.cluster.pools import Cluster, default_cluster

NodeMode = Literal["none", "simulated"]

#: The names the embedded scheduler answers to: it is the only one there.
EMBEDDED_SCHEDULER_NAMES = ("default-scheduler", "echelon")


@dataclass(frozen=True)
class PlaneSettings:
    #: The directory that holds everything durable: database, certificates, tokens.
    data: Path
    #: 0 takes any free port.
    port: int = 0
    #: Where to write the kubeconfig; inside `data` unless said otherwise.
    kubeconfig: Path | None = None
    nodes: NodeMode = "simulated"
    cluster: Cluster = field(default_factory=default_cluster)
    #: How many seconds of the plane's clock pass in one real second.
    speed: float = 1.0
    scheduler_names: tuple[str, ...] = EMBEDDED_SCHEDULER_NAMES

    @property
    def kubeconfig_path(self) -> Path:
        return self.kubeconfig or self.data / "kubeconfig"
