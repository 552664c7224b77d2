"""Events over HTTPS in both forms: one storage, two views."""

from __future__ import annotations

from typing import Any

import pytest

from tests.https_server import Https

CORE = "/api/v1/namespaces/default/events"
NEW = "/apis/events.k8s.io/v1/namespaces/default/events"
WHEN = "2026-01-01T00:00:00.000001Z"


@pytest.fixture(autouse=True)
def no_events(https: Https) -> None:
    assert https("DELETE", CORE).status == 200


def new_event(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"set": "new"}},
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Started",
        "action": "Start",
        "note": "it runs",
        "type": "Normal",
        "eventTime": WHEN,
        "reportingController": "example.com/agent",
        "reportingInstance": "agent-1",
        **fields,
    }


def old_event(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "involvedObject": {"kind": "Pod", "name": "q", "namespace": "default"},
        "reason": "Killed",
        "message": "it ended",
        "type": "Warning",
        "source": {"component": "c", "host": "h"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:05Z",
        "count": 3,
        **fields,
    }


def names(answer: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in answer["items"]]


def without_metadata(event: dict[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in event.items() if field != "metadata"}


def test_an_event_reads_in_both_forms_whichever_wrote_it(https: Https) -> None:
    made = https("POST", NEW, new_event("n"))
    assert made.status == 201
    assert without_metadata(made.json()) == {
        **without_metadata(new_event("n")), "apiVersion": "events.k8s.io/v1", "kind": "Event", "deprecatedSource": {},
    }  # fmt: skip
    assert without_metadata(https("GET", f"{CORE}/n").json()) == {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Started",
        "action": "Start",
        "message": "it runs",
        "type": "Normal",
        "eventTime": WHEN,
        "source": {},
        "reportingComponent": "example.com/agent",
        "reportingInstance": "agent-1",
    }
    assert https("POST", CORE, old_event("o")).status == 201
    assert without_metadata(https("GET", f"{NEW}/o").json()) == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "regarding": {"kind": "Pod", "name": "q", "namespace": "default"},
        "reason": "Killed",
        "note": "it ended",
        "type": "Warning",
        "deprecatedSource": {"component": "c", "host": "h"},
        "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z",
        "deprecatedLastTimestamp": "2026-01-01T00:00:05Z",
        "deprecatedCount": 3,
    }


@pytest.mark.parametrize(
    ("path", "selector", "found"),
    [
        (NEW, "regarding.name=p", ["n"]),
        (NEW, "reportingController=example.com/agent", ["n"]),
        (NEW, "reason!=Started", ["o"]),
        (CORE, "involvedObject.name=p", ["n"]),
        (CORE, "reportingComponent=example.com/agent", ["n"]),
        (CORE, "type=Warning", ["o"]),
    ],
)
def test_each_form_has_field_selectors_of_its_own(https: Https, path: str, selector: str, found: list[str]) -> None:
    https("POST", NEW, new_event("n"))
    https("POST", CORE, old_event("o"))
    assert names(https("GET", f"{path}?fieldSelector={selector}").json()) == found


@pytest.mark.parametrize(("path", "field"), [(NEW, "involvedObject.name"), (CORE, "regarding.name")])
def test_a_field_of_the_other_form_is_no_field(https: Https, path: str, field: str) -> None:
    refused = https("GET", f"{path}?fieldSelector={field}=p")
    assert (refused.status, refused.json()["message"]) == (400, f"field label not supported: {field}")


def test_a_series_is_written_through_the_new_form_and_nothing_else_changes(https: Https) -> None:
    https("POST", NEW, new_event("n"))
    series = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:09.000001Z"}}
    merged = https("PATCH", f"{NEW}/n", series, content_type="application/merge-patch+json")
    assert (merged.status, merged.json()["series"]) == (200, series["series"])
    assert https("GET", f"{CORE}/n").json()["series"] == series["series"]
    refused = https("PATCH", f"{NEW}/n", {"note": "other"}, content_type="application/merge-patch+json")
    assert refused.status == 422
    assert 'message: Invalid value: "other": field is immutable' in refused.json()["message"]
    assert https("PATCH", f"{CORE}/n", {"message": "x"}, content_type="application/merge-patch+json").status == 200


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"eventTime": None}, "eventTime: Required value"),
        ({"type": "Odd"}, 'type: Invalid value: "": has invalid value: Odd'),
        ({"deprecatedCount": 2}, 'count: Invalid value: "": needs to be unset'),
        ({"reportingInstance": ""}, "reportingInstance: Required value"),
        ({"action": "a" * 129}, 'action: Invalid value: "": can have at most 128 characters'),
        ({"note": "a" * 1025}, 'message: Invalid value: "": can have at most 1024 characters'),
        ({"series": {"count": 1, "lastObservedTime": WHEN}}, 'series.count: Invalid value: "": should be at least 2'),
    ],
)
def test_the_new_form_is_strict(https: Https, fields: dict[str, Any], sentence: str) -> None:
    refused = https("POST", NEW, new_event("n", **fields))
    assert refused.status == 422
    assert sentence in refused.json()["message"]


def test_a_collection_of_events_is_deleted_by_label(https: Https) -> None:
    for name in ("a", "b"):
        https("POST", NEW, new_event(name))
    https("POST", CORE, old_event("stays"))
    assert https("DELETE", f"{NEW}?labelSelector=set=new").status == 200
    assert names(https("GET", CORE).json()) == ["stays"]


def test_events_print_the_same_columns_in_both_forms(https: Https) -> None:
    https("POST", CORE, old_event("o"))
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    shown = [https("GET", path, accept=accept).json() for path in (CORE, NEW)]
    assert shown[0]["columnDefinitions"] == shown[1]["columnDefinitions"]
    assert shown[0]["rows"][0]["cells"][1:] == shown[1]["rows"][0]["cells"][1:]
    assert shown[1]["rows"][0]["cells"][1:4] == ["Warning", "Killed", "pod/q"]


def test_an_event_of_the_new_form_is_applied(https: Https) -> None:
    body = {"apiVersion": "events.k8s.io/v1", "kind": "Event", **new_event("n")}
    for _ in range(2):
        applied = https("PATCH", f"{NEW}/n?fieldManager=me", body, content_type="application/apply-patch+yaml")
        assert applied.status in (200, 201)
    managed = applied.json()["metadata"]["managedFields"]
    assert [(one["manager"], one["apiVersion"]) for one in managed] == [("me", "events.k8s.io/v1")]
    assert "f:note" in managed[0]["fieldsV1"]
