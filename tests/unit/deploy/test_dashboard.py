"""The Grafana dashboard: what Grafana's schema asks for, and panels that ask for what there is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from echelon.deploy.objects.installation import objects
from echelon.deploy.options import InstallOptions

METRICS_PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "metrics.md").read_text()
#: Grafana 9 and newer; it migrates older ones by itself.
_OLDEST_SCHEMA = 36
_WIDTH = 24


def dashboards() -> dict[str, Any]:
    maps = [obj for obj in objects(InstallOptions()) if obj["metadata"]["labels"].get("grafana_dashboard") == "1"]
    return {name: json.loads(text) for one in maps for name, text in one["data"].items()}


def test_there_is_one_and_its_file_is_named_after_it() -> None:
    assert list(dashboards()) == [f"{one['uid']}.json" for one in dashboards().values()] == ["echelon.json"]


@pytest.mark.parametrize("board", dashboards().values(), ids=list(dashboards()))
def test_grafana_finds_what_its_schema_asks_for(board: Any) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,40}", board["uid"])
    assert board["title"]
    assert board["schemaVersion"] >= _OLDEST_SCHEMA
    assert "id" not in board, "the number of a dashboard is Grafana's to give"
    assert set(board["time"]) == {"from", "to"}
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids)) >= 8
    for panel in board["panels"]:
        assert panel["title"]
        assert panel["type"] in ("timeseries", "stat", "table", "heatmap", "gauge", "bargauge", "row")
        assert panel["targets"] or panel["type"] == "row"
        references = [target["refId"] for target in panel["targets"]]
        assert len(references) == len(set(references))
        for target in panel["targets"]:
            assert target["expr"]


@pytest.mark.parametrize("board", dashboards().values(), ids=list(dashboards()))
def test_panels_lie_beside_each_other_and_never_over(board: Any) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= _WIDTH
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert cells
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.parametrize("board", dashboards().values(), ids=list(dashboards()))
def test_every_data_source_is_the_one_that_is_chosen_in_grafana(board: Any) -> None:
    variables = {one["name"]: one for one in board["templating"]["list"]}
    sources = [one["datasource"] for panel in board["panels"] for one in (panel, *panel["targets"])]
    for source in sources:
        assert source["type"] == "prometheus"
        assert variables[source["uid"].strip("${}")]["type"] == "datasource"
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(board["panels"])))
    assert used - {"__rate_interval", "__interval", "__range"} <= set(variables)


@pytest.mark.parametrize("board", dashboards().values(), ids=list(dashboards()))
def test_every_panel_asks_for_metrics_that_the_reference_knows(board: Any) -> None:
    for panel in board["panels"]:
        for target in panel["targets"]:
            names = re.findall(r"\b(?:echelon|scheduler|process|python|leader_election)_\w+", target["expr"])
            assert names, panel["title"]
            for name in names:
                known = re.sub(r"_(bucket|sum|count)$", "", name)
                assert f"`{known}`" in METRICS_PAGE or known.startswith(("process_", "python_")), name
