"""Terms between pods against brute force: affinity, anti-affinity and spread on small instances."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from echelon.engine import Blocked, Bound, Composite, Demand, Evict, Leaf, Placed, PodClass
from echelon.testing.placement import NOW, ClusterBuilder, fresh_id, shape
from tests.properties.brute_force import feasible, least_loss
from tests.properties.hierarchies import examples
from tests.properties.pod_terms import identities, terms, ties
from tests.properties.reached import Reached, reaches
from tests.properties.small_instances import KEYS, clusters


@st.composite
def leaves(draw: st.DrawFn, cluster: ClusterBuilder, most: int, may_be_bound: bool) -> Leaf:
    classes = []
    for _ in range(draw(st.integers(1, 2))):
        one = shape(cpu=draw(st.sampled_from([1, 1, 2])), **draw(ties()))
        classes.append(PodClass(one, tuple(fresh_id() for _ in range(draw(st.integers(1, most))))))
    bound, leaf_id = [], fresh_id()
    if may_be_bound and draw(st.integers(0, 5)) == 0:
        name, member = draw(st.sampled_from(cluster.view.node_names())), fresh_id()
        first = classes[0].shape
        cluster.run(
            name, cpu=1, priority=100, pod=member, group=leaf_id, identity=first.identity, repels=first.anti_affinity
        )
        bound.append(Bound(member, name))
    minimum = draw(st.integers(1, sum(len(pods.members) for pods in classes) + len(bound)))
    return Leaf(leaf_id, minimum, tuple(classes), tuple(bound), draw(st.sampled_from(KEYS)))


@st.composite
def neighbourhoods(draw: st.DrawFn, contested: bool) -> tuple[ClusterBuilder, Demand]:
    """A few nodes, running pods with terms of their own, and one or two groups; most running pods of a contested
    cluster can be evicted, and none of the groups runs yet."""
    cluster = draw(clusters(max_nodes=4))
    names = cluster.view.node_names()
    for _ in range(draw(st.integers(2, 6) if contested else st.integers(0, 3))):
        repels = tuple(draw(terms()) for _ in range(draw(st.sampled_from([0, 0, 1]))))
        cluster.run(
            draw(st.sampled_from(names)), cpu=draw(st.integers(0, 2)),
            priority=draw(st.sampled_from([10, 10, 10, 100])) if contested else 100,
            identity=draw(identities()), repels=repels, started=NOW - draw(st.sampled_from([0, 100])),
        )  # fmt: skip
    if draw(st.booleans()):
        return cluster, Demand(draw(leaves(cluster, 3, not contested)), priority=50)
    children = (draw(leaves(cluster, 1, not contested)), draw(leaves(cluster, 1, not contested)))
    return cluster, Demand(Composite(fresh_id(), draw(st.integers(1, 2)), children), priority=50)


def places_exactly(reached: Reached, cluster: ClusterBuilder, demand: Demand) -> None:
    verdict = cluster.decide(demand.root, demand.priority, may_preempt=False)
    if not feasible(cluster.view, demand):
        assert isinstance(verdict, Blocked), verdict
        reached("blocked")
    elif isinstance(verdict, Placed):
        reached("placed")
    elif isinstance(verdict, Blocked):
        # Only what must grow in two places at once may be missed, and then nothing is said to be proved.
        assert not verdict.proved
        assert any(leaf.bound for leaf in demand.leaves()), verdict


def evicts_what_it_must(reached: Reached, cluster: ClusterBuilder, demand: Demand) -> None:
    verdict = cluster.decide(demand.root, demand.priority)
    if feasible(cluster.view, demand):
        assert isinstance(verdict, Placed), verdict
        reached("placed")
    elif least_loss(cluster.view, demand, NOW) is None:
        assert isinstance(verdict, Blocked), verdict
        reached("blocked")
    else:
        assert isinstance(verdict, Evict), verdict
        reached("evicted")


@reaches(placed=25, blocked=112)
@examples(300)
@given(neighbourhoods(contested=False))
def test_pods_with_terms_between_them_are_placed_exactly_when_brute_force_places_them(
    reached: Reached,
    instance: tuple[ClusterBuilder, Demand],
) -> None:
    places_exactly(reached, *instance)


@reaches(placed=9, blocked=42, evicted=9)
@examples(150)
@given(neighbourhoods(contested=True))
def test_pods_with_terms_between_them_evict_what_they_must(
    reached: Reached, instance: tuple[ClusterBuilder, Demand]
) -> None:
    evicts_what_it_must(reached, *instance)
