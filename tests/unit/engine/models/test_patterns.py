"""Nodes filled by the solver: pods that are the same to every node are one size, whoever they follow."""

from __future__ import annotations

from echelon.engine import Group, Identity, Peers, PodTerm, Requirement
from echelon.testing.placement import LEVELS, composite, gang, gpu_racks, pods

#: Apps: GPUs and number of the leaders, GPUs and number of the followers, each of which needs a leader in its rack.
APPS = ((3, 2, 2, 8), (3, 2, 2, 10), (5, 2, 1, 8), (4, 2, 1, 8), (3, 3, 3, 22))
#: What fills the rest of each of eight racks but for one pod: numbers of pods with 1, 2 and 4 GPUs.
RACKS = ((1, 2, 9), (3, 3, 6), (6, 2, 4), (4, 3, 7), (4, 1, 6), (0, 0, 15), (2, 4, 9), (3, 1, 11))


def app(number: int, lead: int, leaders: int, follow: int, followers: int) -> list[Group]:
    leader, follower = (Identity("space", (("app", f"{word}-{number}"),)) for word in ("leader", "follower"))
    near = PodTerm(LEVELS["rack"], Peers((Requirement("app", "In", (f"leader-{number}",)),), ("space",)))
    return [
        gang(leaders, pods(leaders, gpu=lead, identity=leader)),
        gang(followers, pods(followers, gpu=follow, identity=follower, affinity=(near,))),
    ]


def rest(*numbers: int) -> Group:
    classes = [pods(number, gpu=gpus) for gpus, number in zip((1, 2, 4), numbers, strict=True) if number]
    return gang(sum(numbers), *classes, key="rack")


def test_followers_of_many_apps_find_their_leaders_in_racks_that_are_nearly_full() -> None:
    """Thirteen shapes of five sizes: as sets of shapes there would be too many ways to fill a node."""
    groups = [group for number, each in enumerate(APPS) for group in app(number, *each)]
    gpu_racks(*[8] * len(RACKS)).place(composite(18, *groups, *(rest(*numbers) for numbers in RACKS)))
