"""What the workers of all pods of this machine share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ....api.verbs import Verbs
from ....base.clock import Clock
from ....client.events import Recorder
from ....client.informer import Caches
from ..hosts_files import HostsFiles
from ..images import Images
from ..local_pods import LocalPods
from ..machine import ChosenTier
from ..pod_directories import NodeDirectory
from ..pod_network import PodNetwork
from ..resources.gpu_shares import GpuShares
from ..rules.limit_settings import EnforcedLimits
from ..rules.refusals import NodePowers
from ..volume_files import VolumeFiles


@dataclass(frozen=True)
class NodeServices:
    verbs: Verbs
    caches: Caches
    clock: Clock
    recorder: Recorder
    directory: NodeDirectory
    network: PodNetwork
    local_pods: LocalPods
    chosen: ChosenTier
    powers: NodePowers
    images: Images
    volumes: VolumeFiles
    names: HostsFiles
    #: So many shims start at a time.
    starting: asyncio.Semaphore
    default_directory: str
    #: What every container finds in its environment.
    node_env: Mapping[str, str]
    limits: EnforcedLimits
    gpus: GpuShares
    #: Whether pods end soon after an Echelon that was killed.
    temporary: bool
    #: Called with the uid of a pod before its files go.
    before_removal: list[Callable[[str], None]] = field(default_factory=list)

    @property
    def ahead(self) -> float:
        """Seconds that the cluster's clock is ahead of the machine's."""
        return self.clock.now() - time.time()
