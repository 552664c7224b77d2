"""ResourceClaims are made from templates, and given back when nobody uses them."""

from __future__ import annotations

from typing import Any

from echelon.api.objects.vocabulary import CLAIM_PROTECTION, POD_CLAIM_NAME
from echelon.api.scheme import PODS, Object
from echelon.api.views.device_views import ResourceClaimTemplateView, ResourceClaimView
from echelon.api.views.pod_views import PodView
from echelon.decide.plan import ApplyPatch, Create, Delete
from echelon.decide.resource_claims import made_for, released

TEMPLATE = ResourceClaimTemplateView(
    {
        "metadata": {"name": "t", "namespace": "default"},
        "spec": {"metadata": {"labels": {"a": "b"}}, "spec": {"devices": {"requests": [{"name": "gpu"}]}}},
    }
)


def pod(name: str = "p", statuses: list[Object] | None = None, **more: Any) -> Object:
    spec: Object = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}], **more.pop("spec", {})}
    status: Object = {**({"resourceClaimStatuses": statuses} if statuses else {}), **more.pop("status", {})}
    return {"metadata": {"name": name, "namespace": "default", "uid": "1", **more}, "spec": spec, "status": status}


def claim(**status: Any) -> ResourceClaimView:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1", "controller": True}
    metadata = {
        "name": "p-gpu-x",
        "namespace": "default",
        "uid": "c",
        "resourceVersion": "5",
        "ownerReferences": [owner],
        "annotations": {POD_CLAIM_NAME: "gpu"},
        "finalizers": [CLAIM_PROTECTION],
        **status.pop("metadata", {}),
    }
    return ResourceClaimView({"metadata": metadata, "spec": {}, "status": status})


USER = {"resource": "pods", "name": "p", "uid": "1"}
HELD: Object = {"allocation": {"devices": {"results": []}}, "reservedFor": [USER]}


def test_a_claim_is_made_for_a_pod_and_then_named_in_its_status() -> None:
    plan = made_for(PODS, pod(), [], lambda key: TEMPLATE if key == "default/t" else None)
    (action,) = plan.stages[0]
    assert isinstance(action, Create)
    assert action.obj["metadata"]["generateName"] == "p-gpu-"
    assert action.obj["metadata"]["annotations"] == {POD_CLAIM_NAME: "gpu"}
    assert action.obj["metadata"]["labels"] == {"a": "b"}
    assert action.obj["metadata"]["ownerReferences"][0]["uid"] == "1"
    plan = made_for(PODS, pod(), [claim()], lambda _: TEMPLATE)
    (patch,) = plan.stages[0]
    assert isinstance(patch, ApplyPatch)
    assert patch.subresource == "status"
    told = [{"name": "gpu", "resourceClaimName": "p-gpu-x"}]
    assert patch.patch.body["status"] == {"resourceClaimStatuses": told}  # type: ignore[call-overload,index]
    assert made_for(PODS, pod(statuses=told), [claim()], lambda _: TEMPLATE).empty


def test_a_template_that_is_missing_is_reported_and_nothing_is_made() -> None:
    plan = made_for(PODS, pod(), [], lambda _: None)
    assert not plan.stages
    assert 'template "t" not found' in plan.notes[0].message


def test_names_stay_short_enough_for_a_suffix() -> None:
    plan = made_for(PODS, pod("p" * 200), [], lambda _: TEMPLATE)
    (action,) = plan.stages[0]
    assert isinstance(action, Create)
    assert len(action.obj["metadata"]["generateName"]) <= 58


def test_the_claims_of_a_group_are_those_that_the_group_names() -> None:
    group = {"spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}}
    assert made_for(PODS, pod(), [], lambda _: TEMPLATE, group, {}).empty, "the group's claim is not made yet"
    plan = made_for(PODS, pod(), [], lambda _: TEMPLATE, group, {"gpu": "g-gpu-y"})
    (patch,) = plan.stages[0]
    assert isinstance(patch, ApplyPatch)
    assert "g-gpu-y" in str(patch.patch.body)


def test_the_last_consumer_frees_the_devices_then_the_finalizer_goes_then_the_claim() -> None:
    done = PodView(pod(status={"phase": "Succeeded"}))
    (patch,) = released(claim(**HELD), lambda _: False, done).stages[0]
    assert isinstance(patch, ApplyPatch)
    assert patch.patch.body == {  # type: ignore[comparison-overlap]
        "status": {"reservedFor": None, "allocation": None},
        "metadata": {"resourceVersion": "5"},
    }
    (patch,) = released(claim(), lambda _: False, done).stages[0]
    assert isinstance(patch, ApplyPatch)
    assert "finalizers" in str(patch.patch.body)
    (action,) = released(claim(metadata={"finalizers": []}), lambda _: False, done).stages[0]
    assert isinstance(action, Delete)


def test_a_claim_in_use_is_left_alone_and_one_of_two_consumers_leaves_alone() -> None:
    running = PodView(pod(status={"phase": "Running"}))
    assert released(claim(**HELD), lambda _: True, running).empty
    other = {**USER, "name": "q", "uid": "2"}
    both = claim(allocation=HELD["allocation"], reservedFor=[USER, other])
    (patch,) = released(both, lambda consumer: consumer.uid == "2", running).stages[0]
    assert isinstance(patch, ApplyPatch)
    body: Any = patch.patch.body
    assert body["status"] == {"reservedFor": [other]}


def test_an_allocation_that_was_never_reserved_stays() -> None:
    unused = claim(allocation=HELD["allocation"])
    assert released(unused, lambda _: False, PodView(pod(status={"phase": "Pending"}))).empty
