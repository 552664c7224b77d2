"""What is looked at on a cluster before and after an installation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..cluster_facts import ClusterFacts
from ..node_levels import LabelledNode


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


@dataclass(frozen=True)
class Evidence:
    facts: ClusterFacts
    #: The server's clock minus ours.
    skew_seconds: float | None = None
    nodes: tuple[LabelledNode, ...] = ()
    #: What whoever asks may not do, of what an installation needs.
    own_missing: tuple[str, ...] = ()
    missing_rights: tuple[MissingRight, ...] = ()
    programs: tuple[ProgramState, ...] = ()
    #: Leases of leaders in kube-system that are held, by name.
    leaders: Mapping[str, str] = field(default_factory=dict)
    #: How many pods name which scheduler, and how many of these are not bound.
    scheduler_names: Mapping[str, tuple[int, int]] = field(default_factory=dict)
