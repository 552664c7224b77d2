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
