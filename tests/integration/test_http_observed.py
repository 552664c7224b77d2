"""What the server tells of itself: metrics with the names of kube-apiserver, health checks, ids of requests."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from echelon.server.http.requests import routes
from echelon.store.interface import StoreFailed
from echelon.store.log import Log
from tests.https_server import Https, in_thread, running

MAPS = "/api/v1/namespaces/default/configmaps"
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}")


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Https]:
    """A server that nobody has asked anything yet."""
    with in_thread(tmp_path) as server:
        yield Https(server)


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def scraped(https: Https) -> dict[str, dict[tuple[str, ...], float]]:
    """Samples by name; each by the values of verb, dry_run, resource, subresource, scope, code and le."""
    shown = ("verb", "dry_run", "resource", "subresource", "scope", "code", "le")
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(https("GET", "/metrics").body.decode()):
        for sample in family.samples:
            labels = tuple(sample.labels[label] for label in shown if sample.labels.get(label))
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def test_requests_are_counted_with_the_labels_of_a_real_server(fresh: Https) -> None:
    apply = "application/apply-patch+yaml"
    assert fresh("POST", MAPS, config_map("x")).status == 201
    assert fresh("POST", MAPS, config_map("x")).status == 409
    assert fresh("POST", f"{MAPS}?dryRun=All", config_map("y")).status == 201
    assert fresh("GET", f"{MAPS}/x").status == 200
    assert fresh("GET", MAPS).status == 200
    assert fresh("GET", "/api/v1/configmaps").status == 200
    assert fresh("PATCH", f"{MAPS}/x?fieldManager=m", config_map("x"), content_type=apply).status == 200
    assert fresh("PATCH", f"{MAPS}/x", {}, content_type="application/merge-patch+json").status == 200
    assert fresh("GET", "/api/v1/namespaces/default/status").status == 200
    assert fresh("GET", "/api/v1/namespaces/default/pods/none/log").status == 404
    assert fresh("DELETE", f"{MAPS}/x").status == 200
    assert fresh("DELETE", MAPS).status == 200
    assert fresh("GET", f"{MAPS}?watch=true&timeoutSeconds=1").status == 200
    assert fresh("GET", "/readyz/ping").status == 200
    assert fresh("BREW", "/nosuch").status >= 400
    totals = scraped(fresh)["apiserver_request_total"]
    for labels in (
        ("POST", "configmaps", "resource", "201"),
        ("POST", "configmaps", "resource", "409"),
        ("POST", "All", "configmaps", "resource", "201"),
        ("GET", "configmaps", "resource", "200"),
        ("LIST", "configmaps", "namespace", "200"),
        ("LIST", "configmaps", "cluster", "200"),
        ("APPLY", "configmaps", "resource", "200"),
        ("PATCH", "configmaps", "resource", "200"),
        ("DELETE", "configmaps", "resource", "200"),
        ("DELETECOLLECTION", "configmaps", "namespace", "200"),
        ("WATCH", "configmaps", "namespace", "200"),
        ("GET", "namespaces", "status", "resource", "200"),
        ("CONNECT", "pods", "log", "resource", "404"),
        ("GET", "/readyz", "200"),
    ):
        assert totals.get(labels) == 1, (labels, sorted(totals))


def test_durations_and_sizes_are_histograms(fresh: Https) -> None:
    for _ in range(3):
        body = fresh("GET", "/api/v1/namespaces/default").body
    found = scraped(fresh)
    labels = ("GET", "namespaces", "resource")
    assert found["apiserver_request_duration_seconds_count"][labels] == 3
    assert 0 < found["apiserver_request_duration_seconds_sum"][labels] < 60
    assert found["apiserver_request_duration_seconds_bucket"][(*labels, "60")] == 3
    assert found["apiserver_request_duration_seconds_bucket"][(*labels, "+Inf")] == 3
    assert found["apiserver_response_sizes_sum"][labels] == 3 * len(body)
    assert found["apiserver_response_sizes_bucket"][(*labels, "1000")] == 3
    assert found["apiserver_response_sizes_bucket"][(*labels, "1e+09")] == 3


def test_events_of_watches_and_requests_in_flight_are_told(fresh: Https) -> None:
    fresh("POST", MAPS, config_map("x"))
    seen = fresh("GET", f"{MAPS}?watch=true&timeoutSeconds=1&resourceVersion=0").body.splitlines()
    found = scraped(fresh)
    assert found["apiserver_watch_events_total"] == {("configmaps",): len(seen)}
    assert found["apiserver_longrunning_requests"] == {("WATCH", "configmaps", "namespace"): 0}
    text = fresh("GET", "/metrics").body.decode()
    assert 'apiserver_current_inflight_requests{request_kind="mutating"} 0' in text
    assert 'apiserver_current_inflight_requests{request_kind="readOnly"} 0' in text


@pytest.mark.parametrize("path", ["healthz", "livez", "readyz"])
def test_health_is_told_check_by_check(https: Https, path: str) -> None:
    assert https("GET", f"/{path}").body == b"ok"
    lines = https("GET", f"/{path}?verbose").body.decode().splitlines()
    expected = ["[+]ping ok", "[+]log ok", "[+]etcd ok"] + (["[+]shutdown ok"] if path == "readyz" else [])
    assert lines == [*expected, f"{path} check passed"]
    assert https("GET", f"/{path}/etcd").body == b"ok"
    assert https("GET", f"/{path}/nope").status == 404


def test_checks_can_be_left_out(https: Https) -> None:
    answer = https("GET", "/livez?verbose&exclude=etcd&exclude=nope")
    assert answer.body.decode().splitlines() == [
        "[+]ping ok",
        "[+]log ok",
        "[+]etcd excluded: ok",
        'warn: some health checks cannot be excluded: no matches for "nope"',
        "livez check passed",
    ]
    assert https("GET", "/livez?exclude=etcd").body == b"ok"


def test_a_store_that_accepts_no_writes_is_not_healthy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Log, "failure", property(lambda self: str(StoreFailed("disk is full"))))
    with in_thread(tmp_path) as server:
        https = Https(server)
        answer = https("GET", "/readyz")
        assert answer.status == 500
        assert "[-]etcd failed: reason withheld\n" in answer.body.decode()
        assert answer.body.decode().endswith("readyz check failed\n")
        assert "disk is full" in caplog.text
        assert https("GET", "/livez/etcd").body == b"internal server error: disk is full\n"
        assert https("GET", "/readyz?exclude=etcd").status == 200


async def test_a_server_that_stops_is_alive_but_not_ready(tmp_path: Path) -> None:
    async with running(tmp_path) as (server, _):
        health = server._app._health
        health.close()
        assert health._checks["readyz"]["shutdown"]() == "process is shutting down"
        assert "shutdown" not in health._checks["livez"]


def test_a_request_has_an_id_of_its_own_or_that_of_its_client(https: Https) -> None:
    first, second = (https("GET", MAPS).headers["audit-id"] for _ in range(2))
    assert UUID.fullmatch(first)
    assert first != second
    assert https("GET", MAPS, audit_id="my-id").headers["audit-id"] == "my-id"
    assert https("GET", f"{MAPS}/none", audit_id="my-id").headers["audit-id"] == "my-id"
    assert https("GET", f"{MAPS}?watch=true&timeoutSeconds=1", audit_id="w").headers["audit-id"] == "w"


def test_the_log_names_the_request_that_failed(
    https: Https, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def breaks(*_: object) -> None:
        raise KeyError("oops")

    monkeypatch.setattr(routes, "parse", breaks)
    with caplog.at_level(logging.ERROR):
        assert https("GET", f"{MAPS}/x", audit_id="find-me").status == 500
    assert "request find-me" in caplog.text
