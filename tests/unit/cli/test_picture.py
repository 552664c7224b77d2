"""The drawing of a run."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from echelon.api.cluster.pools import default_cluster, nodes
from echelon.cli.following.chart import Row, draw, rows
from echelon.cli.following.story import Stay

KEYS = ("topology.kubernetes.io/block", "topology.kubernetes.io/rack")


def drawn(stays: list[Stay], end: float, width: int = 200) -> list[str]:
    out = StringIO()
    Console(file=out, width=width).print(draw(stays, rows(nodes(default_cluster()), KEYS), 0.0, end, width))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_a_row_per_rack_with_its_block_named_once() -> None:
    domains = rows(nodes(default_cluster()), KEYS)
    assert [row.path[-1] for row in domains] == [f"gpu-b{block}-r{rack}" for block in range(2) for rack in range(3)]
    assert {len(row.nodes) for row in domains} == {4}
    lines = drawn([], 60.0)
    assert [line[:11] for line in lines[1:5]] == ["        r1 ", "        r2 ", "gpu-b1  r0 ", "        r1 "]


def test_domains_are_listed_as_people_count() -> None:
    labels = [{KEYS[0]: f"b{block}", KEYS[1]: f"r{rack}"} for block in (10, 2) for rack in (11, 9)]
    made = [{"metadata": {"name": f"n{index}", "labels": one}} for index, one in enumerate(labels)]
    assert [row.path for row in rows(made, KEYS)] == [("b2", "r9"), ("b2", "r11"), ("b10", "r9"), ("b10", "r11")]


def test_time_runs_from_left_to_right_and_units_have_letters_by_arrival() -> None:
    stays = [
        Stay("late", "gpu-b0-r0-n0", 30.0, 60.0),
        Stay("early", "gpu-b0-r0-n0", 0.0, 30.0),
        Stay("open", "gpu-b1-r1-n3", 45.0),
    ]
    lines = drawn(stays, 60.0)
    assert lines[0].split()[2] == "A" * 30 + "B" * 30
    assert lines[4].split()[1] == "·" * 45 + "C" * 15
    legend = "\n".join(lines)
    assert "A  early  gpu-b0-r0 at 0–30s" in legend
    assert "B  late   gpu-b0-r0 at 30–60s" in legend
    assert "C  open   gpu-b1-r1 at 45s…" in legend


def test_a_unit_that_came_back_has_several_runs() -> None:
    stays = [Stay("low", "gpu-b0-r0-n0", 0.0, 10.0), Stay("low", "gpu-b1-r0-n0", 20.0, 30.0)]
    assert "A  low  gpu-b0-r0 at 0–10s; gpu-b1-r0 at 20–30s" in "\n".join(drawn(stays, 30.0))


@pytest.mark.parametrize("width", [200, 100, 80, 60, 40, 30])
def test_a_drawing_keeps_within_its_width_and_its_names(width: int) -> None:
    stays = [
        Stay("tune-dataset-initializer-0", "gpu-b0-r0-n0", 0.0, 10.0),
        Stay("tune-dataset-initializer-0", "gpu-b1-r2-n0", 20.0, 30.0),
        Stay("low-workers-1", "gpu-b1-r2-n0", 10.0, 30.0),
    ]
    lines = drawn(stays, 30.0, width)
    assert max(map(len, lines)) <= width
    assert [line[:10] for line in lines[3:6]] == ["gpu-b1  r0", "        r1", "        r2"]
    assert "gpu-b0-r0 at 0–10s" in " ".join(" ".join(lines).split())
    assert ("4 nodes" in lines[0]) == (width > 30)


def test_of_long_names_the_end_is_kept() -> None:
    domain = Row(("zone-in-the-far-north", "rack-number-seven"), ("n0",))
    out = StringIO()
    Console(file=out, width=40).print(draw([Stay("u", "n0", 0.0, 9.0)], [domain], 0.0, 9.0, 40))
    first = out.getvalue().splitlines()[0]
    assert first == "…-north  rack-number-seven  AAAAAAAAAAAA"
