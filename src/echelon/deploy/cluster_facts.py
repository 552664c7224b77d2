"""What is known about a cluster before anything is changed there: read by `runtime.install`, judged in this package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..api.scheme import (
    COMPOSITE_POD_GROUPS,
    POD_GROUPS,
    RESOURCES,
    WORKLOADS,
    Resource,
)

#: The oldest release whose API has the groups of pods that Echelon works with.
OLDEST_SERVER = (1, 37)
#: What a server must serve for pods to be grouped; the last part behind a gate of its own.
GROUP_KINDS = (WORKLOADS, POD_GROUPS, COMPOSITE_POD_GROUPS)
GROUP_GATES = "GenericWorkload,TopologyAwareWorkloadScheduling,CompositePodGroup"
#: The kinds of JobSet and Trainer, by the names of their definitions.
CUSTOM_KINDS = {resource.qualified: resource for resource in RESOURCES if not resource.builtin}
#: Versions of groups of which a server tells what it serves.
ASKED_VERSIONS = tuple(dict.fromkeys(one.api_version for one in (*GROUP_KINDS, *CUSTOM_KINDS.values())))


@dataclass(frozen=True)
class Definition:
    """A CustomResourceDefinition that is on the cluster."""

    name: str
    #: The namespace of the installation that made it; "" if it is somebody else's.
    installation: str
    versions: frozenset[str]
    #: Who says that they manage it, as far as anybody does.
    manager: str = ""


@dataclass(frozen=True)
class ClusterFacts:
    git_version: str
    #: `group/version` and plural of what is served, of the groups that matter here.
    served: frozenset[tuple[str, str]] = frozenset()
    definitions: Mapping[str, Definition] = field(default_factory=dict)
    #: Installations that are there, with the version of each.
    installations: Mapping[str, str] = field(default_factory=dict)
    #: Namespaces that exist, with the installation each belongs to.
    namespaces: Mapping[str, str] = field(default_factory=dict)

    @property
    def release(self) -> tuple[int, int]:
        """Major and minor; (0, 0) if the server does not say."""
        parts = self.git_version.removeprefix("v").split(".")
        try:
            return int(parts[0]), int(parts[1])
        except (ValueError, IndexError):
            return 0, 0

    def serves(self, resource: Resource) -> bool:
        return (resource.api_version, resource.plural) in self.served

    @property
    def missing_kinds(self) -> list[Resource]:
        return [resource for resource in GROUP_KINDS if not self.serves(resource)]
