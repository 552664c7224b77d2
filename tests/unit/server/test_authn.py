"""Who gets in."""

from __future__ import annotations

import pytest

from echelon.api import scheme
from echelon.api.errors import ApiError
from echelon.server.http.requests.authn import Gate
from echelon.server.http.requests.routes import Target

from .asgi import request

GATE = Gate("secret", ["localhost", "127.0.0.1", "::1"])
BEARER = {"Authorization": "Bearer secret"}


@pytest.mark.conformance("API-117")
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:6443", "[::1]:6443", "LOCALHOST:1"])
def test_own_names_are_known(host: str) -> None:
    GATE.check_origin(request(headers={"Host": host}))


@pytest.mark.conformance("API-117")
@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil.example"}, {"Host": "evil.example:6443"}, {}, {"Host": "localhost", "Origin": "https://localhost"}],
)
def test_requests_from_elsewhere_are_forbidden(headers: dict[str, str]) -> None:
    with pytest.raises(ApiError) as refused:
        GATE.check_origin(request(headers=headers))
    assert refused.value.code == 403


@pytest.mark.conformance("API-115")
def test_the_token_opens_everything() -> None:
    GATE.check_caller(request(headers=BEARER), Target(scheme.PODS))


@pytest.mark.conformance("API-115")
@pytest.mark.parametrize("authorization", ["Bearer wrong", "Bearer", "Basic secret", "secret"])
def test_a_wrong_token_is_unauthorized_even_for_health(authorization: str) -> None:
    with pytest.raises(ApiError) as refused:
        GATE.check_caller(request(target="/readyz", headers={"Authorization": authorization}), None)
    assert (refused.value.code, refused.value.message) == (401, "Unauthorized")


@pytest.mark.conformance("API-115")
@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz/ping", "/version"])
def test_health_and_version_are_for_everybody(path: str) -> None:
    GATE.check_caller(request(target=path), None)


@pytest.mark.conformance("API-115")
@pytest.mark.parametrize(
    ("method", "path", "target", "words"),
    [
        ("GET", "/metrics", None, 'User "system:anonymous" cannot get path "/metrics"'),
        (
            "GET",
            "/api/v1/pods",
            Target(scheme.PODS),
            'pods is forbidden: User "system:anonymous" cannot list resource "pods" '
            'in API group "" at the cluster scope',
        ),
        (
            "DELETE",
            "/",
            Target(scheme.JOBS, "a", "j"),
            'jobs.batch "j" is forbidden: User "system:anonymous" cannot delete resource "jobs" '
            'in API group "batch" in the namespace "a"',
        ),
    ],
)
def test_anonymous_is_told_what_they_may_not_do(method: str, path: str, target: Target | None, words: str) -> None:
    with pytest.raises(ApiError) as refused:
        GATE.check_caller(request(method, path), target)
    assert refused.value.code == 403
    assert words in refused.value.message


def test_impersonation_is_refused_not_ignored() -> None:
    with pytest.raises(ApiError) as refused:
        GATE.check_caller(request(headers={**BEARER, "Impersonate-User": "x"}), None)
    assert refused.value.code == 403
