"""What is known about a cluster before anything is changed there: read by `runtime.install`, judged in this package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..api.group_kinds import GroupSupport
from ..api.scheme import RESOURCE_CLAIMS, RESOURCES, Resource
from .admission.kinds import POLICY_KINDS

#: The oldest release that Echelon is tested on (tests/cluster/test_older_servers.py).
OLDEST_SERVER = (1, 32)
#: The oldest release that may be given policies.  All before it keep the variables of all policies in one map, and end
#: when one policy is evaluated while another one is taken in: https://github.com/kubernetes/kubernetes/issues/135757.
OLDEST_WITH_POLICIES = (1, 36)
#: The kinds of JobSet and Trainer, by the names of their definitions.
CUSTOM_KINDS = {resource.qualified: resource for resource in RESOURCES if not resource.builtin}
#: Versions of groups of which a server tells what it serves.
ASKED_VERSIONS = tuple(
    dict.fromkeys(one.api_version for one in (*CUSTOM_KINDS.values(), *POLICY_KINDS, RESOURCE_CLAIMS))
)


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
    #: The image of each, as far as there is a Deployment.
    images: Mapping[str, str] = field(default_factory=dict)
    #: Namespaces that exist, with the installation each belongs to.
    namespaces: Mapping[str, str] = field(default_factory=dict)
    groups: GroupSupport = field(default_factory=GroupSupport)

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

    def takes(self, policies: Resource) -> bool:
        """Whether the server has this kind of policies, and does not end of them."""
        return self.serves(policies) and self.release >= OLDEST_WITH_POLICIES

    def why_not(self, policies: Resource) -> str:
        """Why the server does not take them."""
        if not self.serves(policies):
            return f"the server does not serve {policies.kind}"
        oldest = ".".join(map(str, OLDEST_WITH_POLICIES))
        return f"no {policies.kind}, which can end a server before {oldest} (kubernetes/kubernetes#135757)"
