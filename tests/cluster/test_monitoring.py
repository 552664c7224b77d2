"""Prometheus' own tool reads the rules and the queries of the dashboard."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from echelon.deploy.objects.installation import objects
from echelon.deploy.options import InstallOptions

from .debian_programs import debian_program

pytestmark = pytest.mark.cluster


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [debian_program("promtool", "prometheus"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def spec_of(kind: str) -> Any:
    [found] = [obj for obj in objects(InstallOptions(monitoring=True)) if obj["kind"] == kind]
    return found["spec"]


def queries() -> list[str]:
    maps = [obj for obj in objects(InstallOptions()) if obj["metadata"]["labels"].get("grafana_dashboard")]
    texts = [text for one in maps for text in one["data"].values()]
    return [target["expr"] for text in texts for panel in json.loads(text)["panels"] for target in panel["targets"]]


def written(at: Path, content: object) -> Path:
    at.write_text(yaml.safe_dump(content, sort_keys=False))
    return at


def test_the_alerts_are_rules_that_prometheus_takes(tmp_path: Path) -> None:
    spec = spec_of("PrometheusRule")
    done = promtool("check", "rules", written(tmp_path / "rules.yaml", spec))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"SUCCESS: {sum(len(group['rules']) for group in spec['groups'])} rules found" in done.stdout


def test_the_queries_of_the_dashboard_are_such_that_prometheus_takes(tmp_path: Path) -> None:
    asked = [query.replace("$__rate_interval", "5m") for query in queries()]
    assert len(asked) >= 8
    rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(asked)]
    done = promtool(
        "check", "rules", written(tmp_path / "rules.yaml", {"groups": [{"name": "panels", "rules": rules}]})
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"SUCCESS: {len(asked)} rules found" in done.stdout


def series(name: str, values: str, **labels: str) -> dict[str, str]:
    return {
        "series": name + "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}",
        "values": values,
    }


#: Labels that an alert has from what it is about.
_OF_SERIES = {"EchelonObjectsSetAside": {"component": "pods", "kind": "Pod"}}


@pytest.mark.parametrize(
    ("alert", "given", "fires"),
    [
        ("EchelonSchedulerDown", [series("up", "0x60", job="echelon-scheduler")], True),
        ("EchelonSchedulerDown", [series("up", "1x60", job="echelon-scheduler")], False),
        (
            "EchelonBindingsRefused",
            [
                series("echelon_scheduler_bindings_total", "0+20x60", result="refused"),
                series("echelon_scheduler_bindings_total", "0+80x60", result="bound"),
            ],
            True,
        ),
        (
            "EchelonBindingsRefused",
            [
                series("echelon_scheduler_bindings_total", "0+5x60", result="refused"),
                series("echelon_scheduler_bindings_total", "0+95x60", result="bound"),
            ],
            False,
        ),
        (
            "EchelonObjectsSetAside",
            [series("echelon_objects_set_aside_total", "_x35 1x25", component="pods", kind="Pod")],
            True,
        ),
        (
            "EchelonObjectsSetAside",
            [series("echelon_objects_set_aside_total", "_x5 1x55", component="pods", kind="Pod")],
            False,
        ),
        (
            "EchelonObjectsSetAside",
            [series("echelon_objects_set_aside_total", "1x35 2x25", component="pods", kind="Pod")],
            True,
        ),
    ],
    ids=[
        "down",
        "up",
        "a fifth is refused",
        "a twentieth is refused",
        "the first object is set aside",
        "an object was set aside long ago",
        "another object is set aside",
    ],
)
def test_an_alert_fires_when_what_it_says_is_so(
    tmp_path: Path, alert: str, given: list[dict[str, str]], fires: bool
) -> None:
    spec = spec_of("PrometheusRule")
    written(tmp_path / "rules.yaml", spec)
    [rule] = [rule for group in spec["groups"] for rule in group["rules"] if rule["alert"] == alert]
    labels = {**rule["labels"], **_OF_SERIES.get(alert, {})}
    expected = [{"exp_labels": labels, "exp_annotations": rule["annotations"]}] if fires else []
    test = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": given,
                "alert_rule_test": [{"eval_time": "45m", "alertname": alert, "exp_alerts": expected}],
            }
        ],
    }
    done = promtool("test", "rules", written(tmp_path / "test.yaml", test))
    assert done.returncode == 0, done.stdout + done.stderr
