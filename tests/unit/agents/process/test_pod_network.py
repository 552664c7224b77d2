"""Addresses of pods."""

from __future__ import annotations

from pathlib import Path

import pytest

from echelon.agents.process.machine import ChosenTier, Tier
from echelon.agents.process.pod_directories import NodeDirectory
from echelon.agents.process.pod_network import PodNetwork


def network(path: Path, tier: Tier) -> PodNetwork:
    return PodNetwork(NodeDirectory(path), ChosenTier(tier, "", user_namespace=False))


@pytest.mark.parametrize("tier", ["names", "plain"])
def test_pods_of_the_same_name_in_two_planes_of_a_machine_have_different_addresses(tmp_path: Path, tier: Tier) -> None:
    ours, theirs = network(tmp_path / "a", tier), network(tmp_path / "b", tier)
    names = [f"default/worker-{number}.set" for number in range(8)]
    assert not {ours.allocate(name, name) for name in names} & {theirs.allocate(name, name) for name in names}


@pytest.mark.parametrize("tier", ["net", "names", "plain"])
def test_the_address_of_a_pod_is_known_before_it_is_there_and_after_a_restart(tmp_path: Path, tier: Tier) -> None:
    before = network(tmp_path, tier).predict("default/p.s")
    again = network(tmp_path, tier)
    assert again.allocate("1", "default/p.s") == before
    assert again.allocate("2", "default/p.s") != before
