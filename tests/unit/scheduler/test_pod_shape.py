"""What a pod asks of a node."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.scheme import Object
from echelon.api.views.object_view import read
from echelon.api.views.placement_views import PlacementSpec
from echelon.api.views.pod_views import PodView
from echelon.engine import (
    PORT,
    PORT_SHARES,
    NodeTerm,
    Peers,
    PodTerm,
    Preference,
    Requirement,
    Shape,
    Spread,
    Toleration,
)
from echelon.scheduler.intake.pod_shape import Shapes, of_pod, requests
from echelon.testing.builders import GPU, make_pod


def shape_of(pod: Object) -> Shape:
    return of_pod(PodView(pod))


def _container(cpu: str, **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}


@pytest.mark.parametrize(
    ("spec", "millicores"),
    [
        pytest.param({"containers": [_container("1"), _container("500m")]}, 1500, id="containers add up"),
        pytest.param({"containers": [_container("1")], "initContainers": [_container("3")]}, 3000, id="init peak"),
        pytest.param(
            {"containers": [_container("1")], "initContainers": [_container("2", restartPolicy="Always")]},
            3000,
            id="a sidecar stays",
        ),
        pytest.param(
            {
                "containers": [_container("1")],
                "initContainers": [_container("1", restartPolicy="Always"), _container("4")],
            },
            5000,
            id="an init container runs beside the sidecars before it",
        ),
        pytest.param(
            {
                "containers": [_container("1")],
                "initContainers": [_container("4"), _container("1", restartPolicy="Always")],
            },
            4000,
            id="but not beside those after it",
        ),
        pytest.param({"containers": [_container("1")], "overhead": {"cpu": "250m"}}, 1250, id="overhead"),
        pytest.param(
            {"containers": [_container("1")], "resources": {"requests": {"cpu": "6"}}}, 6000, id="pod-level resources"
        ),
        pytest.param(
            {"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}, 2000, id="a limit is a request"
        ),
    ],
)
def test_requests_follow_kube_scheduler(spec: dict[str, Any], millicores: int) -> None:
    assert requests(read(PlacementSpec, spec)) == (("cpu", millicores), ("pods", 1))


def test_amounts_are_exact_and_sorted_by_name() -> None:
    shape = shape_of(make_pod("p", cpu="1500m", memory="1.5Gi", gpu=8))
    assert shape.requests == (("cpu", 1500), ("memory", 3 * 2**29), (GPU, 8), ("pods", 1))


def test_equal_pods_have_equal_shapes_whatever_the_order_of_tolerations() -> None:
    one, other = {"key": "a", "operator": "Exists"}, {"key": "b", "value": "x", "effect": "NoSchedule"}
    first = shape_of(make_pod("p", tolerations=[one, other]))
    assert first == shape_of(make_pod("q", tolerations=[other, one]))
    assert first.tolerations == (Toleration("a", "Exists"), Toleration("b", "Equal", "x", "NoSchedule"))


def test_node_selector_and_required_affinity_are_kept() -> None:
    term = {
        "matchExpressions": [{"key": "gen", "operator": "In", "values": ["h100", "b200"]}],
        "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
    }
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    shape = shape_of(make_pod("p", nodeSelector={"b": "2", "a": "1"}, affinity=affinity))
    assert shape.node_selector == (("a", "1"), ("b", "2"))
    assert shape.node_terms == (
        NodeTerm(
            (Requirement("gen", "In", ("h100", "b200")),),
            (Requirement("metadata.name", "In", ("n1",)),),
        ),
    )
    assert not shape.unsupported


_TERM = [{"topologyKey": "kubernetes.io/hostname"}]
_HARD = "requiredDuringSchedulingIgnoredDuringExecution"
_SOFT = "preferredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"volumes": [{"name": "v", "csi": {"driver": "d"}}]}, "spec.volumes[0].csi"),
        ({"tolerations": [{"key": "a", "operator": "Gt"}]}, "spec.tolerations[0].operator"),
    ],
)
def test_what_placement_cannot_honour_is_named(spec: dict[str, Any], path: str) -> None:
    assert shape_of(make_pod("p", **spec)).unsupported == (path,)


@pytest.mark.parametrize(
    "spec",
    [
        {"affinity": {"podAffinity": {_SOFT: [{"weight": 1, "podAffinityTerm": {"topologyKey": "zone"}}]}}},
        {"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway", "topologyKey": "zone", "maxSkew": 1}]},
        {"volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "projected": {}}, {"name": "x", "configMap": {}}]},
    ],
)
def test_preferences_and_volumes_of_any_node_are_supported(spec: dict[str, Any]) -> None:
    assert not shape_of(make_pod("p", **spec)).unsupported


def _ports(*ports: dict[str, Any], **more: Any) -> dict[str, int]:
    spec = {"containers": [_container("1", ports=list(ports))], **more}
    return {name: amount for name, amount in requests(read(PlacementSpec, spec)) if name.startswith(PORT)}


def test_preferences_become_weights() -> None:
    selector = {"labelSelector": {"matchLabels": {"app": "web"}}}
    web = Peers((Requirement("app", "In", ("web",)),), ("default",))
    near = {_SOFT: [{"weight": 7, "podAffinityTerm": {"topologyKey": "zone", **selector}}]}
    far = {_SOFT: [{"weight": 9, "podAffinityTerm": {"topologyKey": "host", **selector}}]}
    disk = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    spread = {"topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "ScheduleAnyway", **selector}
    pod = make_pod("p", namespace="default")
    pod["spec"]["affinity"] = {
        "nodeAffinity": {_SOFT: [{"weight": 3, "preference": disk}]}, "podAffinity": near, "podAntiAffinity": far,
    }  # fmt: skip
    pod["spec"]["topologySpreadConstraints"] = [spread]
    assert shape_of(pod).preferences == (
        Preference(3, NodeTerm((Requirement("disk", "In", ("ssd",)),))),
        Preference(7, PodTerm("zone", web)),
        Preference(-9, PodTerm("host", web)),
        Preference(1, Spread("zone", 2, web)),
    )
    assert not shape_of(pod).unsupported


def test_a_host_port_takes_the_port_of_all_addresses_and_an_address_takes_a_share() -> None:
    assert _ports({"hostPort": 80}) == {"host port 80/TCP": PORT_SHARES}
    assert _ports({"hostPort": 80, "protocol": "UDP", "hostIP": "10.0.0.1"}) == {
        "host port 80/UDP": 1,
        "host port 80/UDP of 10.0.0.1": PORT_SHARES,
    }


def test_on_the_host_network_container_ports_are_host_ports() -> None:
    assert _ports({"containerPort": 80}) == {}
    assert _ports({"containerPort": 80}, hostNetwork=True) == {"host port 80/TCP": PORT_SHARES}


def _apart(name: str, labels: dict[str, str] | None = None, **spec: Any) -> PodView:
    pod = make_pod(name, group=f"group-of-{name}", hostname=name, nodeName=f"node-of-{name}", **spec)
    pod["metadata"]["labels"] = labels or {"own": name}
    return PodView(pod)


def test_pods_that_differ_in_name_group_and_place_share_one_shape() -> None:
    shapes = Shapes()
    assert shapes.of(_apart("a")) is shapes.of(_apart("b"))


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"disk": "fast"}},
        {"tolerations": [{"operator": "Exists"}]},
        {"containers": [_container("7")]},
        {"overhead": {"cpu": "1"}},
    ],
    ids=lambda spec: next(iter(spec)),
)
def test_a_spec_met_before_does_not_stand_for_another(spec: dict[str, Any]) -> None:
    shapes = Shapes()
    plain, other = shapes.of(_apart("a")), shapes.of(_apart("b", **spec))
    assert plain != other
    assert other == of_pod(_apart("b", **spec))


def test_a_term_that_looks_at_the_own_labels_makes_other_shapes_of_other_labels() -> None:
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
        "matchLabelKeys": ["version"],
    }
    shapes = Shapes()
    one, other, same = (
        shapes.of(_apart(name, {"app": "x", "version": version}, topologySpreadConstraints=[spread]))
        for name, version in (("a", "1"), ("b", "2"), ("c", "1"))
    )
    assert one != other
    assert one is same


def test_shapes_that_no_pod_has_any_more_are_not_kept_for_ever() -> None:
    shapes = Shapes()
    for number in range(10_000):
        shapes.of(_apart("a", nodeSelector={"job": str(number)}))
    assert len(shapes._known) < 5_000
    assert shapes.of(_apart("a")) is shapes.of(_apart("b"))


def test_a_field_that_cannot_be_read_keeps_the_pod_pending_and_is_named() -> None:
    odd = {"tolerations": [{"key": "a", "operator": "Exists"}, {"key": 7}], "nodeSelector": {"zone": 1, "disk": "ssd"}}
    shape = shape_of(make_pod("p", **odd))
    assert shape.unsupported == ("spec.nodeSelector.zone", "spec.tolerations[1].key")
    assert shape.node_selector == (("disk", "ssd"),)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tolerations", [{"key": f"t{index}", "operator": "Exists"} for index in range(5_000)]),
        ("nodeSelector", {f"label{index}": "value" for index in range(5_000)}),
    ],
)
def test_a_field_too_long_to_be_worked_on_is_named_as_unsupported(field: str, value: Any) -> None:
    pod = make_pod("large")
    pod["spec"][field] = value
    shape = Shapes().of(PodView(pod))
    assert shape.unsupported == (f"spec.{field} of this length",)
    assert (shape.tolerations, shape.node_selector) == ((), ())


def test_a_pod_with_thousands_of_resources_holds_those_that_every_node_has() -> None:
    pod = make_pod("large")
    amounts = {"cpu": "2", **{f"example.com/resource-{index}": "1" for index in range(5_000)}}
    pod["spec"]["containers"] = [{"name": "c", "image": "i", "resources": {"requests": amounts}}]
    shape = Shapes().of(PodView(pod))
    assert shape.unsupported == ("spec.containers[0].resources of this length",)
    assert dict(shape.requests) == {"cpu": 2000, "pods": 1}


def test_a_long_spec_of_short_fields_is_supported() -> None:
    pod = make_pod("large")
    pod["spec"]["containers"] = [{"name": "c", "image": "i", "args": ["a" * 100_000]}]
    assert Shapes().of(PodView(pod)).unsupported == ()
