"""Limits as the kernel takes them, where groups may be made, and what a node says about it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from echelon.agents.process.resources.limit_choice import own_places
from echelon.agents.process.rules.limit_settings import EnforcedLimits, limit_settings, limit_words
from echelon.agents.process.shim.cgroups import CgroupFolders

BOTH = ("cpu", "memory")


def settings(version: int, controllers: tuple[str, ...] = BOTH, **resources: Any) -> dict[str, str]:
    enforced = EnforcedLimits(version, controllers=controllers)
    return {name: value for _, name, value in limit_settings({"name": "c", "resources": resources}, enforced)}


@pytest.mark.parametrize(
    ("resources", "second", "first"),
    [
        ({}, {"cpu.weight": "1"}, {"cpu.shares": "2"}),
        (
            {"limits": {"cpu": "200m"}},
            {"cpu.weight": "8", "cpu.max": "20000 100000"},
            {"cpu.shares": "204", "cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "20000"},
        ),
        (
            {"limits": {"cpu": 2}, "requests": {"cpu": "1"}},
            {"cpu.weight": "39", "cpu.max": "200000 100000"},
            {"cpu.shares": "1024", "cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "200000"},
        ),
        (
            {"limits": {"cpu": "1m"}},
            {"cpu.weight": "1", "cpu.max": "1000 100000"},
            {"cpu.shares": "2", "cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "1000"},
        ),
        (
            {"limits": {"memory": "1Mi"}},
            {"cpu.weight": "1", "memory.max": "1048576", "memory.swap.max": "0", "memory.oom.group": "1"},
            {"cpu.shares": "2", "memory.limit_in_bytes": "1048576"},
        ),
    ],
)
def test_requests_and_limits_are_written_as_a_kubelet_writes_them(
    resources: dict[str, Any], second: dict[str, str], first: dict[str, str]
) -> None:
    assert settings(2, **resources) == second
    assert settings(1, **resources) == first


def test_what_has_no_controller_is_not_written() -> None:
    assert settings(1, ("memory",), limits={"cpu": "1", "memory": "1Ki"}) == {"memory.limit_in_bytes": "1024"}
    assert settings(0, (), limits={"cpu": "1", "memory": "1Ki"}) == {}


def mounts(*trees: tuple[str, str, str]) -> str:
    return "\n".join(f"30 20 0:2{n} / {path} rw - {kind} x {options}" for n, (kind, path, options) in enumerate(trees))


def tree(path: Path, controllers: str = "") -> str:
    path.mkdir(parents=True, exist_ok=True)
    (path / "cgroup.controllers").write_text(controllers)
    return str(path)


def test_version_2_is_taken_where_it_has_controllers(tmp_path: Path) -> None:
    second, first = tree(tmp_path / "two", "cpuset cpu memory"), tree(tmp_path / "one")
    both = mounts(("cgroup2", second, "rw"), ("cgroup", first, "rw,cpu,cpuacct"))
    assert own_places(both, "1:cpu,cpuacct:/\n0::/") == (2, {"cpu": second, "memory": second}, [])


def test_version_1_is_taken_where_version_2_has_no_controllers(tmp_path: Path) -> None:
    second, first = tree(tmp_path / "two", "hugetlb"), tree(tmp_path / "one")
    both = mounts(("cgroup2", second, "rw"), ("cgroup", first, "rw,cpu,cpuacct"))
    assert own_places(both, "1:cpu,cpuacct:/\n0::/") == (1, {"cpu": first, "cpuacct": first}, [])


def test_no_groups_are_made_in_a_group_that_somebody_else_manages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(tree(tmp_path, "cpu memory"))
    tree(root / "theirs", "cpu memory")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    found = own_places(mounts(("cgroup2", str(root), "rw")), "0::/theirs")
    assert found == (0, {}, ["cpu and memory: the control group /theirs of Echelon is managed by somebody else"])


def test_groups_are_made_in_a_group_that_was_delegated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, "cpu memory")
    given = tree(tmp_path / "given", "cpu memory")
    monkeypatch.setattr(os, "getxattr", lambda path, name: b"1" if path == given else b"")
    assert own_places(mounts(("cgroup2", str(tmp_path), "rw")), "0::/given")[:2] == (2, {"cpu": given, "memory": given})


def test_groups_are_made_in_a_group_that_our_user_owns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, "cpu memory")
    own = tree(tmp_path / "own", "cpu memory")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    found = mounts(("cgroup2", str(tmp_path), "rw"))
    os.chown(own, 1000, -1) if os.getuid() == 0 else pytest.skip("only root can give a file away")
    assert own_places(found, "0::/own")[0] == 2
    os.chown(own, 1001, -1)
    assert own_places(found, "0::/own")[0] == 0


@pytest.mark.parametrize(
    ("version", "name", "text"),
    [(2, "memory.events", "low 0\noom 3\noom_kill {}\n"), (1, "memory.oom_control", "under_oom 0\noom_kill {}\n")],
)
def test_a_kill_for_memory_is_read_from_the_group(tmp_path: Path, version: int, name: str, text: str) -> None:
    groups = CgroupFolders(version, {"memory": str(tmp_path)})
    assert not groups.out_of_memory()
    for count, expected in ((0, False), (1, True)):
        (tmp_path / name).write_text(text.format(count))
        assert groups.out_of_memory() is expected


def test_use_is_read_from_the_group(tmp_path: Path) -> None:
    (tmp_path / "cpu.stat").write_text("usage_usec 1500\nuser_usec 1\n")
    (tmp_path / "memory.current").write_text("5000\n")
    (tmp_path / "memory.stat").write_text("anon 1\ninactive_file 2000\n")
    assert CgroupFolders(2, {"cpu": str(tmp_path), "memory": str(tmp_path)}).use() == (1_500_000, 3000)
    assert CgroupFolders(1, {"cpu": str(tmp_path)}).use() == (None, None)


def test_a_group_goes_with_all_below_it(tmp_path: Path) -> None:
    groups = CgroupFolders(2, {"cpu": str(tmp_path / "pod"), "memory": str(tmp_path / "pod")})
    (tmp_path / "pod" / "c.0" / "inner").mkdir(parents=True)
    groups.remove()
    assert not (tmp_path / "pod").exists()


@pytest.mark.parametrize(
    ("enforced", "status", "reason"),
    [
        (EnforcedLimits(2, controllers=BOTH), "True", "ControlGroups"),
        (EnforcedLimits(1, controllers=("cpu", "cpuacct")), "True", "PartlyWatched"),
        (EnforcedLimits(2, controllers=("memory",)), "False", "NoCpuLimits"),
        (EnforcedLimits(problem="none here"), "False", "Watched"),
    ],
)
def test_a_node_says_which_limits_it_enforces(enforced: EnforcedLimits, status: str, reason: str) -> None:
    said = limit_words(enforced)
    assert said[:2] == (status, reason)
    assert enforced.problem in said[2]
