"""Whose a domain is: an exclusive group keeps pods of other Jobs of its rank out, as anti-affinity between pods.

    exclusive group ─► ownership_term ─► PodTerm      of its running pods (`Running.repels`) and waiting ones (`Shape`)
    pod of a Job    ─► ownership_labels ─► Identity   what such a term matches

Groups with the same exclusivity are kept apart by `Exclusive` itself, so that the pods of all of them have one shape: a
term leaves them out by their key.
"""

from __future__ import annotations

from functools import lru_cache

from .demand import JOB_RANK, OWN_KEY, Exclusive, Peers, PodTerm, Requirement


@lru_cache
def ownership_labels(rank: int, exclusive: Exclusive | None) -> tuple[tuple[str, str], ...]:
    """What others know a pod of a Job by, beside its labels."""
    own = ((OWN_KEY, exclusive.key),) if exclusive is not None else ()
    return (*own, (JOB_RANK, str(rank)))


@lru_cache
def ownership_term(exclusive: Exclusive) -> PodTerm:
    """Pods of Jobs of the same rank, in all namespaces."""
    others = Requirement(OWN_KEY, "NotIn", (exclusive.key,)), Requirement(JOB_RANK, "In", (str(exclusive.rank),))
    return PodTerm(exclusive.key, Peers(others, namespace_labels=()))


def is_ownership(peers: Peers) -> bool:
    """Whether a term about these pods comes from an exclusive group."""
    return any(one.key == JOB_RANK for one in peers.labels or ())
