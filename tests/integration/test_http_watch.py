"""Watches through HTTPS: streams of events, their forms and their ends."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from echelon.store.watch_history import Window
from tests.https_server import Https, in_thread

MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


def config_map(name: str, label: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"test": label}}, "data": {"a": "1"}}


def create(https: Https, name: str, label: str) -> str:
    answer = https("POST", MAPS, config_map(name, label))
    assert answer.status == 201, answer.body
    return str(answer.json()["metadata"]["resourceVersion"])


@contextmanager
def watching(https: Https, query: str, **headers: str) -> Iterator[http.client.HTTPResponse]:
    connection = https.connect()
    connection.request("GET", f"{MAPS}?watch=1&{query}", headers=https.headers(**headers))
    try:
        response = connection.getresponse()
        assert response.status == 200, response.read()
        yield response
    finally:
        connection.close()


def event(stream: http.client.HTTPResponse) -> Any:
    line = stream.readline()
    assert line, "the stream ended"
    return json.loads(line)


@pytest.mark.conformance("API-25", "API-26")
def test_events_come_in_order_from_the_version_asked_for(https: Https) -> None:
    start = https("GET", MAPS).json()["metadata"]["resourceVersion"]
    with watching(https, f"labelSelector=test%3Dorder&resourceVersion={start}") as stream:
        create(https, "order", "order")
        https("PATCH", f"{MAPS}/order", {"data": {"b": "2"}}, content_type="application/merge-patch+json")
        https("DELETE", f"{MAPS}/order")
        seen = [event(stream) for _ in range(3)]
    assert [one["type"] for one in seen] == ["ADDED", "MODIFIED", "DELETED"]
    versions = [int(one["object"]["metadata"]["resourceVersion"]) for one in seen]
    assert int(start) < versions[0] < versions[1] < versions[2]
    assert seen[0]["object"]["kind"] == "ConfigMap"


@pytest.mark.conformance("API-29", "API-37")
def test_watch_without_a_version_begins_with_what_there_is_and_ends_in_time(https: Https) -> None:
    create(https, "there", "there")
    begun = time.monotonic()
    with watching(https, "labelSelector=test%3Dthere&timeoutSeconds=2") as stream:
        assert event(stream)["type"] == "ADDED"
        assert stream.readline() == b""
    assert 1.5 < time.monotonic() - begun < 30


@pytest.mark.conformance("API-33", "API-35")
def test_initial_events_end_with_a_bookmark(https: Https) -> None:
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&labelSelector=test%3D"
    with watching(https, query + "nothing") as stream:
        bookmark = event(stream)
        assert bookmark["type"] == "BOOKMARK"
        assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    create(https, "initial", "initial")
    with watching(https, query + "initial") as stream:
        assert [event(stream)["type"] for _ in range(2)] == ["ADDED", "BOOKMARK"]
        create(https, "initial-2", "initial")
        assert event(stream)["object"]["metadata"]["name"] == "initial-2"


@pytest.mark.conformance("API-39")
def test_tables_have_their_head_once(https: Https) -> None:
    create(https, "table-1", "table")
    with watching(https, "labelSelector=test%3Dtable", accept=TABLE) as stream:
        first = event(stream)["object"]
        create(https, "table-2", "table")
        second = event(stream)["object"]
    assert [column["name"] for column in first["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert second["columnDefinitions"] is None
    assert [row["cells"][0] for table in (first, second) for row in table["rows"]] == ["table-1", "table-2"]
    assert second["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert int(second["metadata"]["resourceVersion"]) > 0


@pytest.mark.conformance("API-40")
def test_metadata_only(https: Https) -> None:
    create(https, "bare", "bare")
    with watching(https, "labelSelector=test%3Dbare", accept=METADATA) as stream:
        shown = event(stream)["object"]
    assert (shown["kind"], shown["metadata"]["name"], "data" in shown) == ("PartialObjectMetadata", "bare", False)


@pytest.mark.conformance("API-30")
def test_one_object_by_name_and_by_the_old_path(https: Https) -> None:
    create(https, "single", "single")
    create(https, "other", "single")
    with watching(https, "resourceVersion=0&fieldSelector=metadata.name%3Dsingle&timeoutSeconds=1") as stream:
        assert event(stream)["object"]["metadata"]["name"] == "single"
        assert stream.readline() == b""
    old = "/api/v1/watch/namespaces/default/configmaps/single?timeoutSeconds=1"
    lines = https("GET", old).body.splitlines()
    assert [json.loads(line)["object"]["metadata"]["name"] for line in lines] == ["single"]


@pytest.mark.conformance("API-38")
def test_watch_on_a_named_object_is_ignored(https: Https) -> None:
    create(https, "named", "named")
    assert https("GET", f"{MAPS}/named?watch=1").json()["kind"] == "ConfigMap"
    assert https("GET", f"{MAPS}?watch=False").json()["kind"] == "ConfigMapList"


@pytest.mark.conformance("API-31")
def test_version_that_is_forgotten_ends_in_an_error_event(tmp_path: Path) -> None:
    with in_thread(tmp_path, Window(events=5)) as server:
        https = Https(server)
        for index in range(20):
            create(https, f"old-{index}", "old")
        with watching(https, "resourceVersion=1") as stream:
            error = event(stream)
            assert stream.readline() == b""
    assert error["type"] == "ERROR"
    assert (error["object"]["code"], error["object"]["reason"]) == (410, "Expired")
    assert error["object"]["message"].startswith("too old resource version: 1")


def test_server_stops_promptly_and_ends_open_watches(tmp_path: Path) -> None:
    with in_thread(tmp_path) as server:
        stream = watching(Https(server), "labelSelector=test%3Dnothing")
        response = stream.__enter__()
        begun = time.monotonic()
    assert time.monotonic() - begun < 20
    assert response.readline() == b""
    stream.__exit__(None, None, None)


def test_open_watches_are_counted(https: Https) -> None:
    gauge = (
        'apiserver_longrunning_requests{component="apiserver",group="",resource="configmaps",scope="namespace",'
        'subresource="",verb="WATCH",version="v1"} '
    )
    with watching(https, "labelSelector=test%3Dnothing"):
        assert f"{gauge}1" in https("GET", "/metrics").body.decode()
    deadline = time.monotonic() + 30
    while f"{gauge}0" not in https("GET", "/metrics").body.decode():
        assert time.monotonic() < deadline, "the watch outlived its client"
        time.sleep(0.05)


@pytest.mark.conformance("API-48")
def test_watcher_that_does_not_read_is_cut_off_alone(tmp_path: Path) -> None:
    with in_thread(tmp_path, Window(unread=4)) as server:
        https = Https(server)
        with watching(https, "labelSelector=test%3Dlarge") as stalled, watching(https, "timeoutSeconds=30") as reading:
            for index in range(30):
                large = {**config_map(f"large-{index}", "large"), "data": {"a": "x" * 900_000}}
                assert https("POST", MAPS, large).status == 201
                assert event(reading)["object"]["metadata"]["name"] == f"large-{index}"
            seen = [json.loads(line) for line in stalled]
    assert seen[-1]["type"] == "ERROR"
    assert seen[-1]["object"]["code"] == 410
    assert 0 < len(seen) - 1 < 30
