"""Why something is not possible, as data: the node filters and the diagnosis return these records.

No text is made here, and no decision is made by text: `explain.wording` writes the sentence for a record.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from .demand import Peers, PodTerm, Requirement


class ReasonKind(Enum):
    """Why nodes take no pod of a shape, the most basic first."""

    #: The pod uses fields that placement cannot honour; `detail` lists them.
    UNSUPPORTED_FIELD = auto()
    #: A request above what can be counted; `detail` is the resource.
    REQUEST_TOO_LARGE = auto()
    #: The pod waits for something that has nothing to do with nodes; `detail` says what, in the caller's words.
    WAITING_FOR = auto()
    CORDONED = auto()
    #: A taint that the pod does not tolerate; `detail` is its key and its value.
    TAINT = auto()
    #: `spec.nodeSelector` asks for another value; `detail` is the label's key and the value asked for.
    NODE_SELECTOR = auto()
    NODE_AFFINITY = auto()
    #: A volume of the pod cannot be reached.
    VOLUME_NODE_AFFINITY = auto()
    DEVICES_ELSEWHERE = auto()
    #: A volume that one pod at a time may use is used by another; `peers` are its users.
    VOLUME_IN_USE = auto()
    #: Pods run there that the pod keeps away from (`peers`).
    POD_ANTI_AFFINITY = auto()
    #: Pods run there that keep away from such pods (`peers`).
    RUNNING_ANTI_AFFINITY = auto()
    #: In a domain that another group has alone: `detail` is the topology key and the names of the owners.
    OWNED_DOMAIN = auto()
    #: In a domain with pods of other Jobs, where the pod's group needs one alone; `detail` as before.
    SHARED_DOMAIN = auto()
    #: The node lacks the label of a topology spread constraint; `detail` is the label's key.
    SPREAD_KEY = auto()
    #: No pod runs there that the pod must be near to (`peers`).
    POD_AFFINITY = auto()
    #: A host port that the pod asks for is taken; `detail` is the port.
    HOST_PORT = auto()
    #: Too little of a resource is free for one pod; `detail` is the resource.
    SHORT_OF = auto()


class Reason(NamedTuple):
    """Why nodes take no pod of a shape."""

    kind: ReasonKind
    detail: tuple[str, ...] = ()
    peers: Peers | None = None


# ---- what could hold in no cluster


@dataclass(frozen=True, slots=True)
class TooLarge:
    """A pod requests more of a resource than any node has."""

    resource: str
    amount: int
    #: What the largest node has.
    most: int


@dataclass(frozen=True, slots=True)
class BoundOutside:
    """A bound pod runs on a node without the label of the group's topology key."""

    key: str
    node: str


@dataclass(frozen=True, slots=True)
class BoundApart:
    """Bound pods run in several domains of the group's topology key."""

    key: str
    #: Each domain with one of the nodes on which they run.
    places: tuple[tuple[tuple[str, ...], str], ...]


@dataclass(frozen=True, slots=True)
class TermsExclude:
    """Whatever is near enough for the affinity term is too near for the anti-affinity term."""

    near: PodTerm
    apart: PodTerm


@dataclass(frozen=True, slots=True)
class KeptApart:
    """An anti-affinity term keeps the pods of a group apart that must share a domain of `key`."""

    apart: PodTerm
    key: str


@dataclass(frozen=True, slots=True)
class EmptyNodeTerm:
    """A node affinity term without requirements matches no node; `number` is its index."""

    number: int


@dataclass(frozen=True, slots=True)
class ImpossibleNodeTerm:
    """No label meets the requirements of a node affinity term, or not together with `spec.nodeSelector`."""

    number: int
    requirements: tuple[Requirement, ...]
    #: The node selector on the same label, if it takes part.
    selected: tuple[Requirement, ...] = ()


Contradiction = TooLarge | BoundOutside | BoundApart | TermsExclude | KeptApart | EmptyNodeTerm | ImpossibleNodeTerm
