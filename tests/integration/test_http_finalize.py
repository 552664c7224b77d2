"""What only a namespace controller or a scheduler sends over HTTPS: finalize, and bindings with annotations."""

from __future__ import annotations

import pytest

from tests.https_server import Https


@pytest.mark.conformance("API-78")
def test_a_namespace_is_gone_when_its_finalizers_are(https: Https) -> None:
    assert https("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}}).status == 201
    marked = https("DELETE", "/api/v1/namespaces/team").json()
    assert (marked["kind"], marked["status"]["phase"]) == ("Namespace", "Terminating")
    assert https("PUT", "/api/v1/namespaces/team/finalize", {**marked, "spec": {"finalizers": []}}).status == 200
    assert https("GET", "/api/v1/namespaces/team").status == 404


@pytest.mark.conformance("API-52")
def test_annotations_of_a_binding_go_onto_the_pod(https: Https) -> None:
    pods = "/api/v1/namespaces/default/pods"
    spec = {"containers": [{"name": "c", "image": "i"}]}
    assert https("POST", pods, {"metadata": {"name": "p"}, "spec": spec}).status == 201
    binding = {
        "metadata": {"name": "p", "annotations": {"example.com/by": "me"}},
        "target": {"kind": "Node", "name": "n1"},
    }
    assert https("POST", f"{pods}/p/binding", binding).status == 201
    assert https("GET", f"{pods}/p").json()["metadata"]["annotations"] == {"example.com/by": "me"}


def test_a_finalize_whose_spec_is_no_object_is_refused(https: Https) -> None:
    assert https("POST", "/api/v1/namespaces", {"metadata": {"name": "odd"}}).status == 201
    body = {"metadata": {"name": "odd"}, "spec": [None]}
    assert https("PUT", "/api/v1/namespaces/odd/finalize", body).status == 400
