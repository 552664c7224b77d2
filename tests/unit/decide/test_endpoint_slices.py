"""Which endpoints a Service has."""

from __future__ import annotations

from typing import Any

from echelon.api.scheme import Object
from echelon.decide.endpoint_slices import reconcile
from echelon.decide.plan import ApplyPatch, Create, Delete


def service(**spec: Any) -> Object:
    return {
        "metadata": {"name": "web", "namespace": "default", "uid": "s", "labels": {"app": "web"}},
        "spec": {"clusterIP": "None", "selector": {"app": "web"}, **spec},
    }


def pod(name: str, address: str = "10.0.0.1", *, ready: bool = True, **spec: Any) -> Object:
    status = {
        "phase": "Running",
        "podIP": address,
        "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
    }
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"nodeName": "n", "containers": [], **spec},
        "status": status,
    }


def only(plan: Any) -> Any:
    ((action,),) = plan.stages
    return action


def test_a_pod_is_known_by_its_host_name_if_its_subdomain_is_the_service() -> None:
    made = only(reconcile(service(), [pod("a", hostname="a-0", subdomain="web")], [])).obj
    (endpoint,) = made["endpoints"]
    assert endpoint["hostname"] == "a-0"
    assert endpoint["addresses"] == ["10.0.0.1"]
    assert endpoint["conditions"] == {"ready": True, "serving": True, "terminating": False}
    assert endpoint["targetRef"]["name"] == "a"
    assert made["metadata"]["labels"]["kubernetes.io/service-name"] == "web"
    assert "ports" not in made
    other = only(reconcile(service(), [pod("a", hostname="a-0", subdomain="db")], [])).obj
    assert "hostname" not in other["endpoints"][0]


def test_pods_that_are_not_ready_are_ready_endpoints_only_if_they_are_published() -> None:
    unready = pod("a", ready=False)
    assert only(reconcile(service(), [unready], [])).obj["endpoints"][0]["conditions"]["ready"] is False
    published = only(reconcile(service(publishNotReadyAddresses=True), [unready], [])).obj["endpoints"][0]
    assert published["conditions"] == {"ready": True, "serving": False, "terminating": False}


def test_pods_without_an_address_and_pods_that_have_ended_are_no_endpoints() -> None:
    ended = pod("b")
    ended["status"]["phase"] = "Succeeded"
    assert reconcile(service(), [pod("a", address=""), ended], []).empty


def test_a_named_port_is_the_one_of_the_pod() -> None:
    named = {"containers": [{"name": "c", "ports": [{"name": "http", "containerPort": 8080}]}]}
    ports = [{"name": "web", "port": 80, "targetPort": "http", "protocol": "TCP"}]
    made = only(reconcile(service(ports=ports), [pod("a", **named)], [])).obj
    assert made["ports"] == [{"name": "web", "protocol": "TCP", "port": 8080}]


def test_a_slice_has_at_most_a_hundred_endpoints_and_keeps_those_it_has() -> None:
    pods = [pod(f"p-{number:03}", f"10.0.1.{number}") for number in range(150)]
    (stage,) = reconcile(service(), pods, []).stages
    sizes = [len(action.obj["endpoints"]) for action in stage if isinstance(action, Create)]
    assert sizes == [100, 50]
    slices = []
    for number, action in enumerate(stage):
        assert isinstance(action, Create)
        named = {**action.obj["metadata"], "name": f"web-{number}", "uid": f"slice-{number}", "resourceVersion": "1"}
        slices.append({**action.obj, "metadata": named})
    assert reconcile(service(), pods, slices).empty
    change = only(reconcile(service(), pods[1:], slices))
    assert isinstance(change, ApplyPatch)
    assert change.name == "web-0"
    assert len(change.patch.body["endpoints"]) == 99
    more = only(reconcile(service(), [*pods, pod("p-999", "10.0.2.1")], slices))
    assert (more.name, len(more.patch.body["endpoints"])) == ("web-1", 51)
    gone = only(reconcile(service(), pods[:100], slices))
    assert isinstance(gone, Delete)
    assert gone.name == "web-1"


def stored(made: Object, name: str = "web-0") -> Object:
    """A slice as the API has it once it was created."""
    return {**made, "metadata": {**made["metadata"], "name": name, "uid": f"uid-{name}", "resourceVersion": "1"}}


def test_only_a_headless_service_has_headless_slices() -> None:
    labels = only(reconcile(service(), [pod("a")], [])).obj["metadata"]["labels"]
    assert labels == {
        "app": "web",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        "service.kubernetes.io/headless": "",
    }
    addressed = only(reconcile(service(clusterIP="10.96.0.1"), [pod("a")], [])).obj["metadata"]["labels"]
    assert "service.kubernetes.io/headless" not in addressed


def test_a_service_with_other_labels_relabels_its_slices() -> None:
    slices = [stored(only(reconcile(service(), [pod("a")], [])).obj)]
    changed = service()
    changed["metadata"]["labels"] = {"app": "web", "tier": "x"}
    change = only(reconcile(changed, [pod("a")], slices))
    assert change.patch.body["metadata"]["labels"]["tier"] == "x"
    assert change.patch.body["metadata"]["resourceVersion"] == "1"
    assert change.gone_is_fine


PORTS: list[Object] = [
    {"port": 80},
    {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 5353},
    {"name": "grpc", "port": 90, "appProtocol": "kubernetes.io/h2c"},
]


def test_a_slice_has_the_ports_that_the_service_leads_to() -> None:
    made = only(reconcile(service(ports=PORTS), [pod("a")], [])).obj
    assert made["ports"] == [
        {"name": "", "protocol": "TCP", "port": 80},
        {"name": "dns", "protocol": "UDP", "port": 5353},
        {"name": "grpc", "protocol": "TCP", "port": 90, "appProtocol": "kubernetes.io/h2c"},
    ]
    assert reconcile(service(ports=PORTS), [pod("a")], [stored(made)]).empty
    # A slice that leaves out what goes without saying is the same slice.
    brief = {**made, "ports": [{"port": 80}, *made["ports"][1:]]}
    assert reconcile(service(ports=PORTS), [pod("a")], [stored(brief)]).empty


def test_a_slice_with_other_ports_is_replaced() -> None:
    made = only(reconcile(service(ports=[{"port": 80}]), [pod("a")], [])).obj
    (stage,) = reconcile(service(ports=[{"port": 81}]), [pod("a")], [stored(made)]).stages
    assert sorted(type(action).__name__ for action in stage) == ["Create", "Delete"]


def test_a_named_port_is_one_of_the_same_protocol_and_left_out_if_the_pod_has_none() -> None:
    ports = [
        {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": "dns"},
        {"name": "other", "port": 54, "targetPort": "none"},
    ]
    both = [
        {"name": "dns", "containerPort": 1053},
        {"name": "x", "containerPort": 1, "protocol": "UDP"},
        {"name": "dns", "containerPort": 2053, "protocol": "UDP"},
    ]
    made = only(reconcile(service(ports=ports), [pod("a", containers=[{"name": "c", "ports": both}])], [])).obj
    assert made["ports"] == [{"name": "dns", "protocol": "UDP", "port": 2053}]


def test_new_pods_fill_the_room_that_there_is_before_a_slice_is_made() -> None:
    pods = [pod(f"p-{number:03}", f"10.0.1.{number}") for number in range(203)]
    first = stored({**only(reconcile(service(), pods[:99], [])).obj}, "web-0")
    second = stored({**only(reconcile(service(), pods[99:198], [])).obj}, "web-1")
    (stage,) = reconcile(service(), pods, [second, first]).stages
    names = {
        action.name: [one["targetRef"]["name"] for one in action.patch.body["endpoints"]][-1]
        for action in stage
        if isinstance(action, ApplyPatch)
    }
    assert names == {"web-0": "p-198", "web-1": "p-199"}
    (made,) = [action.obj for action in stage if isinstance(action, Create)]
    assert [one["targetRef"]["name"] for one in made["endpoints"]] == ["p-200", "p-201", "p-202"]
    assert len(stage) == 3
