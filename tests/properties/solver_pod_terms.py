"""Terms between pods as constraints for CP-SAT, written down from their definitions, domain by domain.

apart   in a domain of the term: at most one kind of those who have it and are meant, only have it, only are meant
near    in a domain of each term: somebody who is meant; or all of a kind that means itself in one domain
even    in a domain in use: no more than the skew above the emptiest
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ortools.sat.python import cp_model

from echelon.engine import ClusterView, PodTerm, Running, Shape, Spread
from tests.properties.pod_terms import domain_in, is_meant

Sum = cp_model.LinearExprT
Domain = tuple[str, ...]
#: Pods of each shape on each node.
Pods = Mapping[Shape, Mapping[str, Sum]]

#: More pods than any instance has.
MANY = 1_000


class Neighbours:
    """Adds the terms of all shapes and of all running pods to a model."""

    def __init__(self, model: cp_model.CpModel, view: ClusterView, running: Iterable[Running], pods: Pods) -> None:
        self.model, self.view, self.pods = model, view, pods
        self.running = [pod for pod in running if pod.identity is not None]
        for term in dict.fromkeys(term for shape in pods for term in shape.anti_affinity):
            self._apart(term)
        for term in dict.fromkeys(term for pod in self.running for term in pod.repels):
            repelled = [pod for pod in self.running if term in pod.repels]
            self._keep_off(term, [shape for shape in pods if _means(term, shape)], repelled)
        for terms in dict.fromkeys(shape.affinity for shape in pods if shape.affinity):
            self._near(terms)
        for shape in pods:
            for spread in shape.spread:
                self._even(shape, spread)

    # ---- anti-affinity

    def _apart(self, term: PodTerm) -> None:
        having = [shape for shape in self.pods if term in shape.anti_affinity]
        meant = [shape for shape in self.pods if _means(term, shape)]
        self._keep_off(term, having, [pod for pod in self.running if is_meant(term.peers, _labels(pod))])
        both = [shape for shape in having if shape in meant]
        only_having = [shape for shape in having if shape not in meant]
        only_meant = [shape for shape in meant if shape not in having]
        for domain in self._domains(term.key):
            selves = self._in(both, term.key, domain)
            self.model.add(selves <= 1)
            others = [self._any(self._in(shapes, term.key, domain)) for shapes in (only_having, only_meant)]
            self.model.add(selves + sum(others) <= 1)

    def _keep_off(self, term: PodTerm, shapes: list[Shape], running: list[Running]) -> None:
        """Shapes use no domain in which such pods run."""
        for domain in {self._value(pod.node, term.key) for pod in running} - {None}:
            self.model.add(self._in(shapes, term.key, domain) == 0)

    # ---- affinity

    def _near(self, terms: tuple[PodTerm, ...]) -> None:
        having = [shape for shape in self.pods if shape.affinity == terms]
        meant = [shape for shape in self.pods if all(_means(term, shape) for term in terms)]
        kind = [shape for shape in having if shape in meant]
        anchors = [shape for shape in meant if shape not in kind]
        running = [pod for pod in self.running if all(is_meant(term.peers, _labels(pod)) for term in terms)]
        anywhere = any(self._value(pod.node, term.key) for pod in running for term in terms)
        together = self.model.new_bool_var("") if not anywhere else 0
        for term in terms:
            uses = []
            for domain in self._domains(term.key):
                here = sum(self._value(pod.node, term.key) == domain for pod in running)
                here = here + self._in(anchors, term.key, domain)
                use = self._any(self._in(kind, term.key, domain))
                self.model.add(use <= here + together)
                follows = self._any(self._in([s for s in having if s not in kind], term.key, domain))
                self.model.add(follows <= here + self._in(kind, term.key, domain))
                uses.append(use)
            self.model.add(sum(uses) <= 1 + MANY * (1 - together))
            self.model.add(self._in(having, term.key, None) == 0)

    # ---- spread

    def _even(self, shape: Shape, spread: Spread) -> None:
        names = [name for name in self.view.node_names() if self._counts(name, shape)]
        held: dict[Domain, Sum] = {}
        for name in names:
            here = sum(1 for p in self.running if p.node == name and p.evictable and is_meant(spread.peers, _labels(p)))
            new = sum(self.pods[each].get(name, 0) for each in self.pods if _matches(spread, each))
            domain = self._value(name, spread.key)
            assert domain is not None
            held[domain] = held.get(domain, 0) + here + new
        floor: Sum = 0
        if len(held) >= spread.min_domains:
            floor = self.model.new_int_var(0, MANY, "")
            for pods in held.values():
                self.model.add(floor <= pods)
        for domain, pods in held.items():
            used = self._any(self._in([shape], spread.key, domain))
            self.model.add(pods - floor <= spread.max_skew + MANY * (1 - used))
        self.model.add(self._in([shape], spread.key, None) == 0)

    def _counts(self, name: str, shape: Shape) -> bool:
        node = self.view.node(name)
        assert node is not None
        keys = all(self._value(name, each.key) is not None for each in shape.spread)
        return keys and all(node.labels.get(key) == wanted for key, wanted in shape.node_selector)

    # ---- domains

    def _value(self, name: str, key: str) -> Domain | None:
        return domain_in(self.view, name, key)

    def _domains(self, key: str) -> list[Domain]:
        found = dict.fromkeys(self._value(name, key) for name in self.view.node_names())
        return [domain for domain in found if domain is not None]

    def _in(self, shapes: list[Shape], key: str, domain: Domain | None) -> Sum:
        """Pods of shapes in a domain."""
        counts = (self.pods[shape].items() for shape in shapes)
        return sum(pods for rows in counts for name, pods in rows if self._value(name, key) == domain)

    def _any(self, pods: Sum) -> cp_model.IntVar:
        """At least 1 if there are any pods."""
        found = self.model.new_bool_var("")
        self.model.add(pods <= MANY * found)
        return found


def _labels(pod: Running) -> dict[str, str]:
    return dict(pod.identity.labels) if pod.identity else {}


def _means(term: PodTerm, shape: Shape) -> bool:
    return shape.identity is not None and is_meant(term.peers, dict(shape.identity.labels))


def _matches(spread: Spread, shape: Shape) -> bool:
    return shape.identity is not None and is_meant(spread.peers, dict(shape.identity.labels))
