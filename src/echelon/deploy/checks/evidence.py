"""What is looked at on a cluster before and after an installation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...api.cluster.topology_levels import LabelledNode, TopologyObject
from ..cluster_facts import ClusterFacts


@dataclass(frozen=True)
class MissingRight:
    """Something that a program does and its service account may not."""

    account: str
    verb: str
    resource: str


@dataclass(frozen=True)
class ProgramState:
    """A Deployment of the installation."""

    name: str
    wanted: int
    available: int
    #: The lease of its leader, and who holds it.
    lease: str
    holder: str
    #: The forms of groups that it was installed for; "" if it finds out itself.
    groups: str = ""
    version: str = ""


@dataclass(frozen=True)
class Evidence:
    facts: ClusterFacts
    #: The server's clock minus ours.
    skew_seconds: float | None = None
    nodes: tuple[LabelledNode, ...] = ()
    #: What the installed scheduler is told about levels, and what there is to be found.
    configured_levels: tuple[str, ...] | None = None
    topology_objects: tuple[TopologyObject, ...] = ()
    #: What whoever asks may not do, of what an installation needs.
    own_missing: tuple[str, ...] = ()
    missing_rights: tuple[MissingRight, ...] = ()
    programs: tuple[ProgramState, ...] = ()
    #: Deployments that are gone while what was made for them is there.
    missing_programs: tuple[str, ...] = ()
    #: Leases of leaders in kube-system that are held, by name.
    leaders: Mapping[str, str] = field(default_factory=dict)
    #: spec.schedulerName that the installed scheduler serves.
    served_names: tuple[str, ...] = ()
    #: How many pods name which scheduler, and how many of these are not bound.
    scheduler_names: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    #: Policies and bindings that this version would make and that are not there, as Kind/name.
    missing_policies: tuple[str, ...] = ()
    #: Kinds of policies that the installation was made without.
    policies_left_out: tuple[str, ...] = ()
    #: Policies of an installation on a server that may end of them, likewise.
    unsafe_policies: tuple[str, ...] = ()
