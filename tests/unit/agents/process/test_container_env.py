"""Environment, command line, names and paths of containers; probes."""

from __future__ import annotations

import base64

import pytest

from echelon.agents.process.rules import plain_paths, probe_state
from echelon.agents.process.rules.container_env import (
    BadConfig,
    DownwardFacts,
    environment,
    expand,
    field_value,
    resource_value,
)
from echelon.agents.process.rules.host_names import hosts_file, known_names, rewritten
from echelon.agents.process.rules.probe_state import ProbeState
from echelon.agents.process.rules.refusals import NodePowers, refusal
from echelon.api.scheme import Object

from .pods import pod

FACTS = DownwardFacts("h", "1.2.3.4", {"cpu": "8", "memory": "16Gi"})


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)", "1"),
        ("x$(A)y$(B)", "x1y2"),
        ("$(NONE)", "$(NONE)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A ${A} $", "$A ${A} $"),
        ("$(A", "$(A"),
    ],
)
def test_references_are_expanded_as_a_kubelet_does(text: str, expanded: str) -> None:
    assert expand(text, {"A": "1", "B": "2"}) == expanded


def test_later_sources_win_and_variables_see_earlier_ones() -> None:
    objects = {
        ("ConfigMap", "one"): {"kind": "ConfigMap", "data": {"A": "1", "B": "1"}},
        ("Secret", "two"): {"kind": "Secret", "data": {"B": base64.b64encode(b"2").decode(), "1bad": ""}},
    }
    container = {
        "envFrom": [{"configMapRef": {"name": "one"}}, {"secretRef": {"name": "two"}}],
        "env": [{"name": "C", "value": "$(A)$(B)$(D)"}, {"name": "D", "value": "4"}, {"name": "A", "value": "own"}],
    }
    made = environment(pod(), container, FACTS, lambda kind, name: objects.get((kind, name)))
    assert made == {"A": "own", "B": "2", "C": "12$(D)", "D": "4"}


def test_what_is_missing_is_named() -> None:
    container: Object = {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "k"}}}]}
    with pytest.raises(BadConfig, match='configmap "cm" not found'):
        environment(pod(), container, FACTS, lambda *_: None)
    empty = {"kind": "ConfigMap", "data": {}}
    with pytest.raises(BadConfig, match="couldn't find key k in ConfigMap default/cm"):
        environment(pod(), container, FACTS, lambda *_: empty)


def test_labels_are_quoted_and_sorted() -> None:
    assert field_value(pod(), "metadata.labels", FACTS) == 'a="x\\"y"\nb="2"'


def test_a_limit_that_is_not_set_is_what_the_node_has() -> None:
    assert resource_value(pod(), {"name": "c"}, {"resource": "limits.cpu"}, FACTS) == "8"
    request = {"resource": "requests.cpu", "divisor": "1m"}
    assert resource_value(pod(), {"name": "c", "resources": {"requests": {"cpu": "1500m"}}}, request, FACTS) == "1500"
    assert (
        resource_value(
            pod(), {"name": "c", "resources": {"requests": {"cpu": "1500m"}}}, request | {"divisor": "1"}, FACTS
        )
        == "2"
    )


def test_names_come_from_endpoint_slices() -> None:
    one = {
        "metadata": {"name": "s-1", "namespace": "default", "labels": {"kubernetes.io/service-name": "svc"}},
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": ["10.0.0.1"], "hostname": "w-0", "conditions": {"ready": True}},
            {"addresses": ["10.0.0.2"], "hostname": "w-1", "conditions": {"ready": False}},
        ],
    }
    here = known_names([one], "default")
    assert here["w-0.svc"] == here["w-0.svc.default.svc.cluster.local"] == here["svc"] == ["10.0.0.1"]
    assert "w-1.svc" not in here
    elsewhere = known_names([one], "other")
    assert "w-0.svc" not in elsewhere
    assert elsewhere["w-0.svc.default"] == ["10.0.0.1"]
    text = hosts_file(
        pod(hostname="me", subdomain="svc", hostAliases=[{"ip": "1.1.1.1", "hostnames": ["x"]}]), "10.0.0.9", here
    )
    assert "10.0.0.9\tme.svc.default.svc.cluster.local me.svc.default.svc me.svc.default me.svc me\n" in text
    assert "1.1.1.1\tx\n" in text
    assert "10.0.0.1\tsvc svc.default" in text


def test_names_are_replaced_as_whole_words_only() -> None:
    known = {"w-0.svc": "127.64.0.1"}
    assert rewritten("tcp://w-0.svc:29400", known.get) == "tcp://127.64.0.1:29400"
    assert rewritten("--hosts=w-0.svc,xw-0.svc,w-0.svc.py", known.get) == "--hosts=127.64.0.1,xw-0.svc,w-0.svc.py"


def test_mount_paths_are_replaced_as_whole_paths_only() -> None:
    paths = {"/data": "/p/data", "/data/in": "/p/in"}
    assert (
        plain_paths.replaced("cat /data/x /data/in/y /database x/data", paths)
        == "cat /p/data/x /p/in/y /database x/data"
    )
    container = {"command": ["ls", "/data"], "env": [{"name": "A", "value": "/other"}]}
    assert plain_paths.unnamed(["/data", "/other", "/secret"], container) == ["/secret"]


def test_probes_need_results_in_a_row() -> None:
    probe = {"failureThreshold": 2, "successThreshold": 2}
    known = ProbeState(holds=False)
    for success, holds in [(True, False), (False, False), (True, False), (True, True), (False, True), (False, False)]:
        known = known.after(success, probe)
        assert known.holds is holds
    assert known.has_failed_for_good(probe)
    assert probe_state.initial("liveness").holds
    assert not probe_state.initial("readiness").holds


@pytest.mark.parametrize(
    ("spec", "context", "said"),
    [
        ({"hostIPC": True}, {}, "hostIPC"),
        ({"securityContext": {"runAsUser": 5}}, {}, "spec.securityContext.runAsUser 5"),
        ({"runtimeClassName": "gvisor"}, {}, "RuntimeClass"),
        ({}, {"capabilities": {"add": ["SYS_ADMIN"]}}, "capabilities.add"),
        ({}, {"runAsNonRoot": True}, "will run as root"),
        ({}, {"readOnlyRootFilesystem": True}, "readOnlyRootFilesystem"),
        ({"resourceClaims": [{"name": "x"}]}, {}, "resourceClaims"),
    ],
)
def test_what_a_process_node_cannot_do_is_refused(spec: Object, context: Object, said: str) -> None:
    found = refusal(pod(**spec), {"name": "c", "securityContext": context}, NodePowers("net", 0, 0))
    assert found is not None
    assert found.reason == "CreateContainerConfigError"
    assert said in found.message


def test_probes_that_cannot_be_made_are_refused() -> None:
    probed = {"name": "c", "livenessProbe": {"grpc": {"port": 1}}}
    found = refusal(pod(), probed, NodePowers("net", 0, 0))
    assert found is not None
    assert "livenessProbe.grpc is refused" in found.message


def test_asking_for_what_is_so_anyway_is_not_refused() -> None:
    own = {"runAsUser": 0, "capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": False}
    assert refusal(pod(), {"name": "c", "securityContext": own}, NodePowers("net", 0, 0)) is None


def test_a_path_that_was_replaced_is_not_replaced_again() -> None:
    assert plain_paths.replaced("/in/x", {"/in": "/data/in", "/data": "/p"}) == "/data/in/x"
