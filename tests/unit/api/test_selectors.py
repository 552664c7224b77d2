"""Label and field selectors: text and object forms, absent keys, unknown fields."""

from __future__ import annotations

import pytest

from echelon.api import scheme
from echelon.api.errors import ApiError
from echelon.api.objects.selectors import FieldSelector, LabelSelector, fields_of, own_fields_of

LABELS = {"app": "web", "tier": "front"}


@pytest.mark.conformance("API-47")
@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("app=web", True),
        ("app==web,tier=front", True),
        ("app=web,tier!=front", False),
        ("app in (db, web)", True),
        ("app in (db)", False),
        ("app notin (db,cache)", True),
        ("missing notin (a)", True),
        ("missing!=a", True),
        ("app", True),
        ("missing", False),
        ("!missing", True),
        ("! app", False),
        ("app=", False),
        ("missing in (,a)", False),
    ],
)
def test_label_selector_text(text: str, matches: bool) -> None:
    assert LabelSelector.parse(text).matches(LABELS) is matches


@pytest.mark.parametrize("text", ["app=a=b", "app in a", "app in (a", ",", "a,,b", "not a key", "app=$$", "a>b c"])
def test_unreadable_label_selectors_are_bad_requests(text: str) -> None:
    with pytest.raises(ApiError) as refused:
        LabelSelector.parse(text)
    assert refused.value.code == 400


def test_absent_selector_selects_nothing_and_empty_one_everything() -> None:
    assert not LabelSelector.from_object(None).matches(LABELS)
    assert LabelSelector.from_object({}).matches(LABELS)
    assert LabelSelector.from_object({}).empty
    assert not LabelSelector.from_object(None).empty


def test_label_selector_objects_combine_labels_and_expressions() -> None:
    selector = LabelSelector.from_object(
        {
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "NotIn", "values": ["back"]},
                {"key": "old", "operator": "DoesNotExist"},
            ],
        }
    )
    assert selector.matches(LABELS)
    assert not selector.matches({**LABELS, "old": "1"})
    with pytest.raises(ApiError):
        LabelSelector.from_object({"matchExpressions": [{"key": "a", "operator": "Near"}]})


POD = {
    "metadata": {"name": "p", "namespace": "ns"},
    "spec": {"nodeName": "n1", "hostNetwork": True},
    "status": {"phase": "Running"},
}


@pytest.mark.conformance("API-46")
@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("metadata.name=p,metadata.name=p", True),
        ("metadata.namespace==ns", True),
        ("spec.nodeName=n1,status.phase!=Failed", True),
        ("status.phase!=Running", False),
        ("spec.hostNetwork=true", True),
        ("status.podIP=", True),
    ],
)
def test_field_selectors_on_pods(text: str, matches: bool) -> None:
    selector = FieldSelector.parse(text, scheme.PODS)
    assert selector.matches({**fields_of(scheme.PODS, POD), **own_fields_of(POD)}) is matches


@pytest.mark.conformance("API-46")
@pytest.mark.parametrize(
    ("resource", "text", "message"),
    [
        (scheme.PODS, "spec.image=x", "field label not supported: spec.image"),
        (scheme.JOBS, "spec.x=1", 'field label "spec.x" not supported for Job'),
        (
            scheme.WORKLOADS,
            "spec.x=1",
            '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        (scheme.JOB_SETS, "spec.x=1", "field label not supported: spec.x"),
        (scheme.NODES, "metadata.namespace=x", "field label not supported: metadata.namespace"),
        (scheme.PODS, "nonsense", "invalid selector: 'nonsense'; can't understand 'nonsense'"),
    ],
)
def test_unknown_fields_are_bad_requests(resource: scheme.Resource, text: str, message: str) -> None:
    with pytest.raises(ApiError) as refused:
        FieldSelector.parse(text, resource)
    assert (refused.value.code, refused.value.message) == (400, message)


def test_other_kinds_offer_their_own_fields() -> None:
    event = {
        "metadata": {"name": "e", "namespace": "ns"},
        "involvedObject": {"kind": "Pod", "uid": "u"},
        "reportingComponent": "scheduler",
    }
    assert FieldSelector.parse("involvedObject.uid=u,source=scheduler", scheme.EVENTS).matches(
        fields_of(scheme.EVENTS, event)
    )
    assert fields_of(scheme.NODES, {"metadata": {"name": "n"}})["spec.unschedulable"] == "false"
    assert fields_of(scheme.JOBS, {"metadata": {"name": "j"}, "status": {}})["status.successful"] == "0"


def test_a_pinned_field_can_be_asked_for() -> None:
    selector = FieldSelector.parse(r"metadata.name=a\,b,spec.nodeName!=n", scheme.PODS)
    assert selector.required("metadata.name") == "a,b"
    assert selector.required("spec.nodeName") is None
