"""Who gets in."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from echelon.api import scheme
from echelon.api.access.authorizers import AllowAll
from echelon.api.errors import ApiError
from echelon.base.clock import ManualClock
from echelon.base.rng import Rng
from echelon.server.http.requests.gate import Gate
from echelon.server.http.requests.request import Request
from echelon.server.http.requests.routes import Target
from echelon.server.identity.authenticator import Authenticator
from echelon.server.identity.service_account_tokens import ServiceAccountTokens
from echelon.server.identity.user_file import UserFile
from echelon.server.objects.object_cache import header_of
from echelon.server.pipeline import Pipeline
from echelon.store.memory import open_memory

from .asgi import request

STORE = open_memory(header_of)
AUTHENTICATOR = Authenticator(
    "secret",
    UserFile(Path("/nonexistent/users.json")),
    ServiceAccountTokens(ec.generate_private_key(ec.SECP256R1()), Pipeline(STORE, ManualClock(), Rng(1)).reader),
    lambda: 0.0,
)
GATE = Gate(["localhost", "127.0.0.1", "::1"], AUTHENTICATOR, AllowAll())


def _pass(request: Request, target: Target | None) -> None:
    GATE.authorize(GATE.caller(request).user, request, target)


BEARER = {"Authorization": "Bearer secret"}


@pytest.mark.conformance("API-117")
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:6443", "[::1]:6443", "LOCALHOST:1"])
def test_own_names_are_known(host: str) -> None:
    GATE.check_origin(request(headers={"Host": host}))


FOREIGN_HOSTS = (
    "evil.example", "evil.example:6443", "[::1].evil.example", "[::1].evil.example:6443", "[::1]:6443.evil.example",
    "localhost:6443@evil.example", "localhost, evil.example", "localhost:", "[localhost]", "[::1", "localhost.", "",
)  # fmt: skip


@pytest.mark.conformance("API-117")
@pytest.mark.parametrize("host", FOREIGN_HOSTS)
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer secret"}])
def test_a_foreign_host_is_forbidden_with_and_without_a_token(host: str, headers: dict[str, str]) -> None:
    with pytest.raises(ApiError) as refused:
        GATE.check_origin(request(headers={"Host": host, **headers}))
    assert refused.value.code == 403


PAGES = (
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://localhost:6443"},
    {"Origin": "https://localhost:3000"},
    {"Origin": "https://localhost:6443.evil.example"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Origin": "https://evil.example", "Authorization": "Bearer secret", "Cookie": "a=b"},
    {"Origin": "https://evil.example", "Authorization": "Basic secret"},
)


@pytest.mark.conformance("API-117")
@pytest.mark.parametrize("headers", PAGES)
def test_web_pages_are_forbidden(headers: dict[str, str]) -> None:
    with pytest.raises(ApiError) as refused:
        GATE.check_origin(request(headers={"Host": "localhost:6443", **headers}))
    assert refused.value.code == 403


PROGRAMS = (
    {"Origin": "https://localhost:6443"},
    {"Origin": "https://localhost:6443", "Sec-Fetch-Site": "same-origin"},
    {"Origin": "http://localhost:6443", "Authorization": "Bearer secret"},
    {"Sec-Fetch-Site": "none"},
)


@pytest.mark.conformance("API-117")
@pytest.mark.parametrize("headers", PROGRAMS)
def test_programs_that_send_an_origin_pass(headers: dict[str, str]) -> None:
    GATE.check_origin(request(headers={"Host": "localhost:6443", **headers}))


@pytest.mark.conformance("API-115")
def test_the_token_opens_everything() -> None:
    _pass(request(headers=BEARER), Target(scheme.PODS))


@pytest.mark.conformance("API-115")
@pytest.mark.parametrize("authorization", ["Bearer wrong", "Bearer", "Basic secret", "secret"])
def test_a_wrong_token_is_unauthorized_even_for_health(authorization: str) -> None:
    with pytest.raises(ApiError) as refused:
        _pass(request(target="/readyz", headers={"Authorization": authorization}), None)
    assert (refused.value.code, refused.value.message) == (401, "Unauthorized")


@pytest.mark.conformance("API-115")
@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz/ping", "/version"])
def test_health_and_version_are_for_everybody(path: str) -> None:
    _pass(request(target=path), None)


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
        _pass(request(method, path), target)
    assert refused.value.code == 403
    assert words in refused.value.message
