"""The drawing of a run."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from echelon.api.cluster.pools import default_cluster, nodes
from echelon.cli.chart import draw, rows
from echelon.cli.story import Stay

KEYS = ("topology.kubernetes.io/block", "topology.kubernetes.io/rack")


def drawn(stays: list[Stay], end: float) -> list[str]:
    out = StringIO()
    Console(file=out, width=200).print(draw(stays, rows(nodes(default_cluster()), KEYS), 0.0, end))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_a_row_per_rack_with_its_block_named_once() -> None:
    domains = rows(nodes(default_cluster()), KEYS)
    assert [row.path[-1] for row in domains] == ["gpu-b0-r0", "gpu-b0-r1", "gpu-b1-r0", "gpu-b1-r1"]
    assert {len(row.nodes) for row in domains} == {4}
    lines = drawn([], 60.0)
    assert [line[:11] for line in lines[:4]] == ["gpu-b0  r0 ", "        r1 ", "gpu-b1  r0 ", "        r1 "]


def test_time_runs_from_left_to_right_and_units_have_letters_by_arrival() -> None:
    stays = [
        Stay("late", "gpu-b0-r0-n0", 30.0, 60.0),
        Stay("early", "gpu-b0-r0-n0", 0.0, 30.0),
        Stay("open", "gpu-b1-r1-n3", 45.0),
    ]
    lines = drawn(stays, 60.0)
    assert lines[0].split()[2] == "A" * 30 + "B" * 30
    assert lines[3].split()[1] == "·" * 45 + "C" * 15
    legend = "\n".join(lines)
    assert "A  early  gpu-b0-r0 at 0–30s" in legend
    assert "B  late   gpu-b0-r0 at 30–60s" in legend
    assert "C  open   gpu-b1-r1 at 45s…" in legend


def test_a_unit_that_came_back_has_several_runs() -> None:
    stays = [Stay("low", "gpu-b0-r0-n0", 0.0, 10.0), Stay("low", "gpu-b1-r0-n0", 20.0, 30.0)]
    assert "A  low  gpu-b0-r0 at 0–10s; gpu-b1-r0 at 20–30s" in "\n".join(drawn(stays, 30.0))
