"""Which path means what."""

from __future__ import annotations

import pytest

from echelon.api import scheme
from echelon.api.errors import ApiError
from echelon.api.served_kinds import ServedKinds
from echelon.server.http.requests.routes import BINDINGS, PageNotFound, Target, parse

KINDS = ServedKinds()


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/api/v1/pods", Target(scheme.PODS)),
        ("/api/v1/namespaces/a/pods", Target(scheme.PODS, "a")),
        ("/api/v1/namespaces/a/pods/p", Target(scheme.PODS, "a", "p")),
        ("/api/v1/namespaces/a/pods/p/binding", Target(scheme.PODS, "a", "p", "binding")),
        ("/api/v1/namespaces/a/pods/status", Target(scheme.PODS, "a", "status")),
        ("/api/v1/namespaces/a/bindings", Target(BINDINGS, "a")),
        ("/api/v1/namespaces", Target(scheme.NAMESPACES)),
        ("/api/v1/namespaces/a", Target(scheme.NAMESPACES, "", "a")),
        ("/api/v1/namespaces/a/status", Target(scheme.NAMESPACES, "", "a", "status")),
        ("/api/v1/nodes/n/status", Target(scheme.NODES, "", "n", "status")),
        ("/apis/batch/v1/namespaces/a/jobs", Target(scheme.JOBS, "a")),
        ("/apis/scheduling.k8s.io/v1alpha3/podgroups", Target(scheme.POD_GROUPS_ALPHA)),
        ("/api/v1/watch/namespaces/a/pods/p", Target(scheme.PODS, "a", "p", watch=True)),
    ],
)
def test_resource_paths(path: str, target: Target) -> None:
    assert parse(path, KINDS) == target


@pytest.mark.parametrize("path", ["/", "/api", "/apis", "/api/v1", "/apis/batch", "/apis/batch/v1", "/version"])
def test_paths_without_a_resource(path: str) -> None:
    assert parse(path, KINDS) is None


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/nosuch",
        "/api/v1/pods/p",
        "/api/v1/namespaces/a/nodes",
        "/api/v1/namespaces/a/pods/p/status/more",
        "/apis/batch/v1/namespaces/a/pods",
        "/api/v1/namespaces//pods",
    ],
)
def test_unknown_resource_of_a_known_version_is_a_status(path: str) -> None:
    with pytest.raises(ApiError) as refused:
        parse(path, KINDS)
    assert (refused.value.code, refused.value.message) == (404, "the server could not find the requested resource")


@pytest.mark.parametrize("path", ["/api/v2/pods", "/apis/nosuch.io/v1/things", "/apis/batch/v1beta1/jobs"])
def test_unknown_version_is_a_page_not_found(path: str) -> None:
    with pytest.raises(PageNotFound):
        parse(path, KINDS)
