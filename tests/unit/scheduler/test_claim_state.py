"""Claims and devices as they come and go: what is counted, what is kept, and what is tried only once."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.objects.vocabulary import POD_GROUP
from echelon.api.scheme import Object
from echelon.api.views.device_views import DeviceClassView, ResourceClaimView, ResourceSliceView, SliceDevice
from echelon.api.views.pod_views import PodView
from echelon.scheduler.devices import room_for_claims
from echelon.scheduler.devices.allotments import Allotment, ClaimUse, allocation_of
from echelon.scheduler.devices.claim_state import Claims
from echelon.scheduler.devices.inventory import Device, DeviceId
from echelon.scheduler.devices.selecting import DeviceKind
from echelon.testing.builders import make_pod, make_pod_group
from echelon.testing.device_builders import (
    DRIVER,
    claiming,
    make_device,
    make_device_class,
    make_resource_claim,
    make_slice,
)

SAME_NUMA = [{"matchAttribute": f"{DRIVER}/numa"}]
PLAIN, PAIRS = "devices of class gpu", "room for claims like gpu"


def slice_of(node: str, numas: str = "0011") -> ResourceSliceView:
    devices = [make_device(f"gpu-{number}", numa=int(numa)) for number, numa in enumerate(numas)]
    return ResourceSliceView(make_slice(node, devices=devices))


def state(*nodes: str, **more: str) -> Claims:
    found = Claims(lambda _: None)
    found.on_class(None, DeviceClassView(make_device_class()))
    for node in nodes:
        found.on_slice(None, slice_of(node))
    for node, numas in more.items():
        found.on_slice(None, slice_of(node, numas))
    return found


def use(claims: Claims, name: str, count: int = 1, **devices: Any) -> PodView:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": count}}
    claims.on_claim(None, ResourceClaimView(make_resource_claim(name, request, **devices)))
    made: Object = make_pod(f"pod-{name}")
    made["metadata"]["uid"] = made["metadata"]["name"]
    made["spec"]["resourceClaims"] = claiming(name)
    pod = PodView(made)
    claims.enter(pod)
    return pod


def room(claims: Claims, node: str) -> int:
    return next(amount for name, amount in claims.amounts(node).items() if name.startswith(PAIRS))


def test_nodes_that_are_alike_are_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []

    def tried(*args: Any) -> int:
        tries.append(args)
        return original(*args)

    original = room_for_claims._tried
    monkeypatch.setattr(room_for_claims, "_tried", tried)
    claims = state(*(f"n{number}" for number in range(50)), other="0001")
    use(claims, "c", 2, constraints=SAME_NUMA)
    assert {room(claims, f"n{number}") for number in range(50)} == {2}
    assert room(claims, "other") == 1
    assert len(tries) == 2


def test_the_first_claim_of_its_like_and_the_last_concern_all_nodes() -> None:
    claims = state("n0", "n1")
    first, second = (use(claims, name, 2, constraints=SAME_NUMA) for name in "ab")
    claims.settle()
    for pod, concerned in ((first, set()), (second, {"n0", "n1"})):
        claims.leave(pod)
        assert {*claims.settle().nodes} == concerned
    assert not claims.amounts("n0")


def test_devices_are_not_selected_anew_for_every_job_and_are_the_right_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    claims = state("n0", "n1")
    claims.leave(use(claims, "first"))
    claims.on_slice(slice_of("n1"), None)
    claims.on_slice(None, slice_of("n2", "00"))
    asked = []
    monkeypatch.setattr(DeviceKind, "selects", lambda *args: asked.append(args))
    use(claims, "second")
    assert not asked
    assert [claims.amounts(node).get(PLAIN, 0) for node in ("n0", "n1", "n2")] == [4, 0, 2]


def test_nodes_that_went_leave_nothing_behind() -> None:
    claims = state()
    for number in range(5):
        claims.on_slice(None, slice_of(f"n{number}"))
        claims.on_slice(slice_of(f"n{number}"), None)
    assert not claims.inventory._on_node


@pytest.mark.parametrize("by_label", [True, False])
@pytest.mark.parametrize("template", ["", "one"])
def test_a_claim_of_a_group_is_used_by_the_group_if_kubelets_know_it(by_label: bool, template: str) -> None:
    """They do not by the label, on servers whose pods have no spec.schedulingGroup: each pod uses the claim itself."""
    entries = claiming(template=template) if template else claiming("shared")
    group = make_pod_group("g", gang=2)
    group["metadata"]["uid"] = "uid-of-g"
    group["spec"]["resourceClaims"] = entries
    claims = Claims({"default/g": group}.get)
    claims.on_class(None, DeviceClassView(make_device_class()))
    claims.on_slice(None, slice_of("n0"))
    claims.on_claim(None, ResourceClaimView(make_resource_claim("shared")))
    made = make_pod("p", labels={POD_GROUP: "g"}) if by_label else make_pod("p", group="g")
    made["metadata"]["uid"] = "p"
    made["spec"]["resourceClaims"] = entries
    made["status"] = {"resourceClaimStatuses": [{"name": entries[0]["name"], "resourceClaimName": "shared"}]}
    pod = PodView(made)
    claims.enter(pod)
    (use,) = claims.plan({"p": "n0"})
    assert isinstance(use, ClaimUse)
    assert use.consumer["resource"] == ("pods" if by_label else "podgroups")
    lost = "PodGroup g spec.resourceClaims[devices].resourceClaimTemplateName"
    assert claims.of(pod).unsupported == ((lost,) if by_label and template else ())


def allocated(name: str, *devices: str, pool: str = "n0") -> ResourceClaimView:
    made = make_resource_claim(name)
    results = [{"request": "gpu", "driver": DRIVER, "pool": pool, "device": device} for device in devices]
    made["status"] = {"allocation": {"devices": {"results": results}}}
    return ResourceClaimView(made)


def test_a_device_that_two_claims_have_is_in_use_until_both_are_gone() -> None:
    """Two schedulers may give it at the same time."""
    claims = state(n0="0")
    pod = use(claims, "waits")
    first, second = allocated("first", "gpu-0"), allocated("second", "gpu-0")
    for one in (first, second):
        claims.on_claim(None, one)
    free = []
    for one in (second, first):
        claims.on_claim(one, None)
        free.append((claims.amounts("n0")[PLAIN], not isinstance(claims.plan({pod.uid: "n0"}), str)))
    assert free == [(0, False), (1, True)]


def test_a_device_that_several_nodes_reach_is_not_taken_from_the_node_of_its_pod() -> None:
    claims = state("n0")
    pool = {"name": "net", "generation": 1, "resourceSliceCount": 1}
    claims.on_slice(None, ResourceSliceView(make_slice("net", 1, nodeName=None, allNodes=True, pool=pool)))
    pods = [use(claims, name) for name in ("far", "near")]
    claims.on_claim(None, allocated("far", "gpu-0", pool="net"))
    claims.on_claim(None, allocated("near", "gpu-0"))
    for pod in pods:
        claims.place(pod.uid, "n0")
    assert [dict(claims.of(pod).requests) for pod in pods] == [{}, {PLAIN: 1}]
    assert claims.amounts("n0")[PLAIN] == 4


def test_an_allocation_has_the_configuration_of_what_was_chosen() -> None:
    def config(*requests: str) -> Object:
        return {"requests": list(requests), "opaque": {"driver": DRIVER, "parameters": {"for": list(requests)}}}

    ways = {"name": "either", "firstAvailable": [{"name": name, "deviceClassName": "gpu"} for name in ("big", "small")]}
    exact = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    configs = [config(), config("either/small"), config("either/big"), config("either"), config("gpu")]
    made = ResourceClaimView(make_resource_claim("c", ways, exact, config=configs))
    of_class = DeviceClassView(make_device_class(config=[{"opaque": {"driver": DRIVER, "parameters": {}}}]))
    device = Device(DeviceId(DRIVER, "n0", "gpu-0"), "n0", None, SliceDevice())
    found = allocation_of(Allotment(made, (("either/big", device), ("gpu", device)), None), lambda _: of_class)
    told = [(one["source"], one.get("requests") or []) for one in found["devices"]["config"]]
    assert told == [
        ("FromClass", ["either/big", "gpu"]),
        *(("FromClaim", one) for one in ([], ["either/big"], ["either"], ["gpu"])),
    ]


def test_a_selector_that_cannot_be_read_is_named_and_no_alternative_is_taken_for_it() -> None:
    """Servers have functions that are not known here; what such a selector wants is not what the next one wants."""
    claims = state("n0")
    unread = {"selectors": [{"cel": {"expression": 'device.driver.find("[0-9]+") == "1"'}}]}
    claims.on_class(None, DeviceClassView({**make_device_class("odd"), "spec": unread}))
    ways = [{"name": "first", "deviceClassName": "gpu", **unread}, {"name": "second", "deviceClassName": "gpu"}]
    pod, other = use(claims, "c"), use(claims, "d")
    claims.on_claim(None, ResourceClaimView(make_resource_claim("c", {"name": "gpu", "firstAvailable": ways})))
    odd = {"name": "gpu", "exactly": {"deviceClassName": "odd"}}
    claims.on_claim(None, ResourceClaimView(make_resource_claim("d", odd)))
    path = "ResourceClaim c spec.devices.requests[0].firstAvailable[0].selectors[0].cel.expression"
    assert claims.of(pod).unsupported == (path,)
    assert claims.of(other).unsupported == ("DeviceClass odd spec.selectors[0].cel.expression",)
