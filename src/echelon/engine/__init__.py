"""Placement as pure arithmetic: a view of the cluster and a demand in, one verdict with its reasons out.

This is all that other packages use of the engine: what is asked (`Demand` and its records), what is known of the
cluster (`ClusterView` and its records), `decide` and `soonest`, what is answered (`Placed`, `Blocked`, `Evict`), the
words for it, `Certificates` of what blocked demands wait for, and the judge that checks any verdict.  The rooms behind
it import one another in one direction only:

    records → cluster → space → packing → models → search → placement → preemption → explain → decision, reserve
    blocked_certificates imports records, cluster and space
    check imports records and cluster.view only
"""

from .blocked_certificates import Certificates
from .check.judge import judge, problems
from .cluster.node_filters import matches_node
from .cluster.pod_index import PodIndex, PodQuery, means
from .cluster.view import Budget, ClusterView, Node, Running, Unit
from .decision import decide
from .explain.first_steps import first_step
from .explain.fix_words import Origin
from .explain.shortage_tree import Branch, drawn, tree
from .explain.wording import fixes_in_words, for_group, sentence
from .records.demand import (
    EVERYWHERE,
    LARGEST,
    PORT,
    PORT_SHARES,
    Bound,
    Composite,
    Demand,
    Exclusive,
    Group,
    Identity,
    Leaf,
    Limits,
    NodeTerm,
    Operator,
    Peers,
    PodClass,
    PodTerm,
    Preference,
    Requirement,
    Shape,
    Spread,
    Taint,
    Toleration,
    given,
)
from .records.domain_owners import ownership_labels, ownership_term
from .records.reasons import Contradiction, Reason, ReasonKind
from .records.validate import BadInput
from .records.verdict import (
    Blocked,
    Cost,
    Domain,
    DomainCount,
    Evict,
    Fix,
    Loss,
    LossBound,
    Objective,
    Placed,
    Shortage,
    UnitName,
    Verdict,
)
from .reserve import soonest
from .space.budget import Steps

__all__ = [
    "EVERYWHERE",
    "LARGEST",
    "PORT",
    "PORT_SHARES",
    "BadInput",
    "Blocked",
    "Bound",
    "Branch",
    "Budget",
    "Certificates",
    "ClusterView",
    "Composite",
    "Contradiction",
    "Cost",
    "Demand",
    "Domain",
    "DomainCount",
    "Evict",
    "Exclusive",
    "Fix",
    "Group",
    "Identity",
    "Leaf",
    "Limits",
    "Loss",
    "LossBound",
    "Node",
    "NodeTerm",
    "Objective",
    "Operator",
    "Origin",
    "Peers",
    "Placed",
    "PodClass",
    "PodIndex",
    "PodQuery",
    "PodTerm",
    "Preference",
    "Reason",
    "ReasonKind",
    "Requirement",
    "Running",
    "Shape",
    "Shortage",
    "Spread",
    "Steps",
    "Taint",
    "Toleration",
    "Unit",
    "UnitName",
    "Verdict",
    "decide",
    "drawn",
    "first_step",
    "fixes_in_words",
    "for_group",
    "given",
    "judge",
    "matches_node",
    "means",
    "ownership_labels",
    "ownership_term",
    "problems",
    "sentence",
    "soonest",
    "tree",
]
