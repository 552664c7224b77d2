"""Terms between pods by definition, for brute force; and small random terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import strategies as st

from echelon.engine import ClusterView, Identity, Peers, PodTerm, Requirement, Running, Shape, Spread
from echelon.testing.placement import LEVELS

KEYS = (LEVELS["host"], LEVELS["zone"], LEVELS["rack"], "pool")


@dataclass(eq=False)
class _Pod:
    node: str
    labels: dict[str, str]
    anti: tuple[PodTerm, ...]
    shape: Shape | None = None
    counts: bool = True


def right(view: ClusterView, running: list[Running], new: list[tuple[Shape, str]]) -> bool:
    """Whether new pods on nodes respect all terms, theirs and those of running pods."""
    old, fresh = _pods(running, new)
    return all(_apart(view, pod, old, fresh) and _near(view, pod, old, fresh) for pod in fresh) and all(
        _even(view, pod, spread, old, fresh) for pod in fresh if pod.shape for spread in pod.shape.spread
    )


def apart(view: ClusterView, running: list[Running], new: list[tuple[Shape, str]]) -> bool:
    """The same for anti-affinity alone, which more pods can only hurt."""
    old, fresh = _pods(running, new)
    return all(_apart(view, pod, old, fresh) for pod in fresh)


def _pods(running: list[Running], new: list[tuple[Shape, str]]) -> tuple[list[_Pod], list[_Pod]]:
    old = [_Pod(p.node, dict(p.identity.labels), p.repels, None, p.evictable) for p in running if p.identity]
    return old, [_Pod(node, dict(s.identity.labels) if s.identity else {}, s.anti_affinity, s) for s, node in new]


def domain_in(view: ClusterView, node: str, key: str) -> tuple[str, ...] | None:
    known = view.node(node)
    if known is None or key not in known.labels:
        return None
    levels = view.levels
    return tuple(known.labels.get(k, "") for k in (levels[: levels.index(key) + 1] if key in levels else (key,)))


def _same(view: ClusterView, one: str, other: str, key: str) -> bool:
    return domain_in(view, one, key) is not None and domain_in(view, one, key) == domain_in(view, other, key)


def is_meant(peers: Peers, labels: Mapping[str, str]) -> bool:
    assert peers.labels is not None
    return all(labels.get(r.key) in r.values for r in peers.labels)


def _is(peers: Peers, pod: _Pod) -> bool:
    return is_meant(peers, pod.labels)


def _apart(view: ClusterView, pod: _Pod, old: list[_Pod], fresh: list[_Pod]) -> bool:
    for other in old + fresh:
        if other is pod:
            continue
        for term in pod.anti:
            if _is(term.peers, other) and _same(view, pod.node, other.node, term.key):
                return False
        for term in other.anti:
            if _is(term.peers, pod) and _same(view, pod.node, other.node, term.key):
                return False
    return True


def _near(view: ClusterView, pod: _Pod, old: list[_Pod], fresh: list[_Pod]) -> bool:
    terms = pod.shape.affinity if pod.shape else ()
    if not terms:
        return True
    if any(domain_in(view, pod.node, term.key) is None for term in terms):
        return False
    alike = [p for p in fresh if p.shape and p.shape.affinity == terms and all(_is(t.peers, p) for t in terms)]
    meant = [p for p in old + fresh if all(_is(t.peers, p) for t in terms)]
    others = [p for p in meant if p not in alike] if pod in alike else meant
    if all(any(_same(view, pod.node, p.node, t.key) for p in others) for t in terms):
        return True
    runs = [p for p in meant if p in old and any(domain_in(view, p.node, t.key) is not None for t in terms)]
    return pod in alike and not runs and all(_same(view, pod.node, p.node, t.key) for p in alike for t in terms)


def _even(view: ClusterView, pod: _Pod, spread: Spread, old: list[_Pod], fresh: list[_Pod]) -> bool:
    assert pod.shape is not None
    names = [n for n in view.node_names() if all(domain_in(view, n, s.key) is not None for s in pod.shape.spread)]
    for key, value in pod.shape.node_selector:
        names = [n for n in names if (node := view.node(n)) is not None and node.labels.get(key) == value]
    held = {domain_in(view, n, spread.key): 0 for n in names}
    for other in old + fresh:
        if other.node in names and other.counts and _is(spread.peers, other):
            held[domain_in(view, other.node, spread.key)] += 1
    here = domain_in(view, pod.node, spread.key)
    floor = min(held.values()) if len(held) >= spread.min_domains and held else 0
    return here is not None and held.get(here, 0) - floor <= spread.max_skew


# ---- random terms


def identities() -> st.SearchStrategy[Identity]:
    return st.sampled_from([Identity("ns", (("app", app),)) for app in "abc"])


def _peers() -> st.SearchStrategy[Peers]:
    sets = [("a",), ("b",), ("a", "b"), ("c",)]
    return st.sampled_from([Peers((Requirement("app", "In", values),), ("ns",)) for values in sets])


def terms() -> st.SearchStrategy[PodTerm]:
    return st.builds(PodTerm, st.sampled_from(KEYS), _peers())


def spreads() -> st.SearchStrategy[Spread]:
    return st.builds(Spread, st.sampled_from(KEYS), st.integers(1, 2), _peers(), st.sampled_from([1, 1, 2, 4]))


@st.composite
def ties(draw: st.DrawFn) -> dict[str, object]:
    """Fields of a shape: an identity and a few terms."""
    few = st.sampled_from([0, 0, 0, 1, 1, 2])
    return {
        "identity": draw(identities()),
        "anti_affinity": tuple(draw(terms()) for _ in range(draw(few))),
        "affinity": tuple(draw(terms()) for _ in range(draw(few))),
        "spread": tuple(draw(spreads()) for _ in range(draw(st.sampled_from([0, 0, 0, 1])))),
    }
