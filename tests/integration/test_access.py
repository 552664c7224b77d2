"""Who may do what, through a server that listens and enforces roles."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import websocket

from echelon.server.identity.user_file import UserFile
from tests.https_server import Answer, Https, in_thread

CORE, RBAC = "/api/v1", "/apis/rbac.authorization.k8s.io/v1"
AUTHORIZATION, AUTHENTICATION = "/apis/authorization.k8s.io/v1", "/apis/authentication.k8s.io/v1"
ISSUER = "https://kubernetes.default.svc.cluster.local"


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> UserFile:
    directory = tmp_path_factory.mktemp("plane")
    (directory / "pki").mkdir(mode=0o700)
    return UserFile(directory / "pki" / "users.json")


@pytest.fixture(scope="module")
def https(users: UserFile) -> Iterator[Https]:
    with in_thread(users.path.parents[1], authorization="rbac") as server:
        client = Https(server)
        for namespace in ("a", "b"):
            assert client("POST", f"{CORE}/namespaces", {"metadata": {"name": namespace}}).status == 201
        yield client


def test_pythons_websocket_client_passes_with_the_origin_that_it_sends(https: Https, tmp_path: Path) -> None:
    authority = tmp_path / "ca.crt"
    authority.write_text(https.authority)
    with pytest.raises(websocket.WebSocketBadStatusException) as refused:
        websocket.create_connection(
            f"wss://127.0.0.1:{https.port}{CORE}/namespaces/a/pods/absent/exec?command=ls",
            header=https.headers(),
            sslopt={"ca_certs": str(authority)},
        )
    assert refused.value.status_code == 404, "the pod is looked for; a web page gets 403"


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
def ann(users: UserFile, https: Https) -> dict[str, str]:
    """A user who may get and list pods in namespace a."""
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
    made(https("POST", f"{RBAC}/namespaces/a/roles", {"metadata": {"name": "reader"}, "rules": rules}))
    binding = {
        "metadata": {"name": "ann"},
        "roleRef": {"kind": "Role", "name": "reader"},
        "subjects": [{"kind": "User", "name": "ann"}],
    }
    made(https("POST", f"{RBAC}/namespaces/a/rolebindings", binding))
    return bearer(users.add("ann", ("developers",), None))


def made(answer: Answer) -> Any:
    assert answer.status == 201, answer.body
    return answer.json()


def may(https: Https, caller: dict[str, str], **attributes: str) -> Any:
    review = {"spec": {"resourceAttributes": attributes}}
    return made(https("POST", f"{AUTHORIZATION}/selfsubjectaccessreviews", review, **caller))["status"]


@pytest.mark.conformance("API-116")
def test_a_role_in_one_namespace_allows_nothing_elsewhere(https: Https, ann: dict[str, str]) -> None:
    assert https("GET", f"{CORE}/namespaces/a/pods", **ann).status == 200
    elsewhere = https("GET", f"{CORE}/namespaces/b/pods", **ann)
    assert elsewhere.status == 403
    assert elsewhere.json()["message"] == (
        'pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the namespace "b"'
    )
    assert https("GET", f"{CORE}/pods", **ann).json()["message"].endswith("at the cluster scope")
    assert https("POST", f"{CORE}/namespaces/a/pods", {}, **ann).status == 403
    assert https("GET", f"{CORE}/namespaces/a/pods?watch=1", **ann).status == 403
    assert https("GET", f"{CORE}/namespaces/a/pods/x/log", **ann).status == 403
    job = https("DELETE", "/apis/batch/v1/namespaces/a/jobs/j", **ann)
    assert job.json()["details"] == {"name": "j", "group": "batch", "kind": "jobs"}


@pytest.mark.conformance("API-116")
def test_a_review_agrees_with_what_happens(https: Https, ann: dict[str, str]) -> None:
    assert may(https, ann, verb="list", resource="pods", namespace="a") == {
        "allowed": True,
        "reason": 'RBAC: allowed by RoleBinding "ann/a" of Role "reader" to User "ann"',
    }
    assert may(https, ann, verb="list", resource="pods", namespace="b") == {"allowed": False}
    assert may(https, ann, verb="create", resource="pods", namespace="a") == {"allowed": False}


def test_an_authenticated_user_may_discover_and_ask_about_itself(https: Https, ann: dict[str, str]) -> None:
    for path in ("/api", "/apis", "/apis/batch/v1", "/openapi/v3", "/version"):
        assert https("GET", path, **ann).status == 200
    assert https("GET", "/metrics", **ann).status == 403
    who = made(https("POST", f"{AUTHENTICATION}/selfsubjectreviews", {}, **ann))
    assert who["status"]["userInfo"] == {"username": "ann", "groups": ["developers", "system:authenticated"]}
    rules = made(https("POST", f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {"namespace": "a"}}, **ann))[
        "status"
    ]
    assert {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]} in rules["resourceRules"]


def test_subject_access_reviews_are_for_those_who_may_create_them(https: Https, ann: dict[str, str]) -> None:
    spec = {"user": "ann", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "a"}}
    assert https("POST", f"{AUTHORIZATION}/subjectaccessreviews", {"spec": spec}, **ann).status == 403
    assert made(https("POST", f"{AUTHORIZATION}/subjectaccessreviews", {"spec": spec}))["status"]["allowed"]
    local = f"{AUTHORIZATION}/namespaces/b/localsubjectaccessreviews"
    assert https("POST", local, {"spec": spec}).status == 422
    assert https("POST", f"{AUTHORIZATION}/subjectaccessreviews", {"spec": {"user": "x"}}).status == 422
    assert https("GET", f"{AUTHORIZATION}/subjectaccessreviews").status == 405


def test_a_user_that_is_removed_or_expired_is_unauthorized_at_once(https: Https, users: UserFile) -> None:
    bob = bearer(users.add("bob", (), None))
    assert https("GET", "/api", **bob).status == 200
    users.remove("bob")
    assert https("GET", "/api", **bob).status == 401
    late = bearer(users.add("late", (), time.time() - 1))
    assert https("GET", "/api", **late).status == 401


def test_a_member_of_masters_may_do_everything(https: Https, users: UserFile) -> None:
    chief = bearer(users.add("chief", ("system:masters",), None))
    assert https("GET", f"{CORE}/secrets", **chief).status == 200


def test_default_roles_aggregate(https: Https, users: UserFile) -> None:
    binding = {
        "metadata": {"name": "ed"},
        "roleRef": {"kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "Group", "name": "editors"}],
    }
    made(https("POST", f"{RBAC}/namespaces/a/rolebindings", binding))
    ed = bearer(users.add("ed", ("editors",), None))
    assert may(https, ed, verb="list", resource="configmaps", namespace="a")["allowed"], "what view allows"
    assert may(https, ed, verb="create", group="jobset.x-k8s.io", resource="jobsets", namespace="a")["allowed"]
    assert not may(https, ed, verb="create", group=RBAC.split("/")[2], resource="roles", namespace="a")["allowed"]
    extra = {
        "metadata": {"name": "more", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [{"apiGroups": ["example.com"], "resources": ["toys"], "verbs": ["get"]}],
    }
    made(https("POST", f"{RBAC}/clusterroles", extra))
    assert may(https, ed, verb="get", group="example.com", resource="toys", namespace="a")["allowed"]


def test_a_put_or_an_apply_that_would_create_needs_the_right_to_create(https: Https, users: UserFile) -> None:
    rules = [{"apiGroups": [""], "resources": ["services", "configmaps"], "verbs": ["update", "patch"]}]
    made(https("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "changer"}, "rules": rules}))
    binding = {
        "metadata": {"name": "changer"},
        "roleRef": {"kind": "ClusterRole", "name": "changer"},
        "subjects": [{"kind": "User", "name": "eve"}],
    }
    made(https("POST", f"{RBAC}/clusterrolebindings", binding))
    eve = bearer(users.add("eve", (), None))
    service = {"metadata": {"name": "s"}, "spec": {"clusterIP": "None", "selector": {"a": "b"}}}
    refused = https("PUT", f"{CORE}/namespaces/a/services/s", service, **eve)
    assert (refused.status, "cannot create resource" in refused.json()["message"]) == (403, True)
    maps = f"{CORE}/namespaces/a/configmaps"
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "b"}}
    path, apply = f"{maps}/m?fieldManager=eve", {"content_type": "application/apply-patch+yaml"}
    refused = https("PATCH", path, applied, **apply, **eve)
    assert (refused.status, "cannot create resource" in refused.json()["message"]) == (403, True)
    made(https("POST", maps, {"metadata": {"name": "m"}}))
    assert https("PATCH", path, applied, **apply, **eve).status == 200


def token(https: Https, name: str, **spec: Any) -> Answer:
    return https("POST", f"{CORE}/namespaces/a/serviceaccounts/{name}/token", {"spec": spec})


def test_a_service_account_token_is_a_credential_until_the_account_is_deleted(https: Https) -> None:
    made(https("POST", f"{CORE}/namespaces/a/serviceaccounts", {"metadata": {"name": "robot"}}))
    issued = made(token(https, "robot"))
    assert issued["spec"] == {"audiences": [ISSUER], "expirationSeconds": 3600}
    robot = bearer(issued["status"]["token"])
    who = made(https("POST", f"{AUTHENTICATION}/selfsubjectreviews", {}, **robot))["status"]["userInfo"]
    assert who["username"] == "system:serviceaccount:a:robot"
    assert who["groups"] == ["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"]
    assert https("GET", f"{CORE}/namespaces/a/pods", **robot).status == 403
    binding = {
        "metadata": {"name": "robot"},
        "roleRef": {"kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "a"}],
    }
    made(https("POST", f"{RBAC}/namespaces/a/rolebindings", binding))
    assert https("GET", f"{CORE}/namespaces/a/pods", **robot).status == 200
    assert https("DELETE", f"{CORE}/namespaces/a/serviceaccounts/robot").status == 200
    made(https("POST", f"{CORE}/namespaces/a/serviceaccounts", {"metadata": {"name": "robot"}}))
    assert https("GET", f"{CORE}/namespaces/a/pods", **robot).status == 401, "a new account by that name is another one"


def test_a_token_for_another_audience_is_no_credential_here(https: Https) -> None:
    made(https("POST", f"{CORE}/namespaces/a/serviceaccounts", {"metadata": {"name": "other"}}))
    text = made(token(https, "other", audiences=["vault"]))["status"]["token"]
    assert https("GET", "/api", **bearer(text)).status == 401
    review = {"spec": {"token": text, "audiences": ["vault", "x"]}}
    status = made(https("POST", f"{AUTHENTICATION}/tokenreviews", review))["status"]
    assert (status["authenticated"], status["audiences"]) == (True, ["vault"])
    plain = made(https("POST", f"{AUTHENTICATION}/tokenreviews", {"spec": {"token": text}}))["status"]
    assert not plain.get("authenticated")
    assert https("POST", f"{AUTHENTICATION}/tokenreviews", {"spec": {}}).status == 400


def test_a_token_that_was_changed_is_refused(https: Https) -> None:
    made(https("POST", f"{CORE}/namespaces/a/serviceaccounts", {"metadata": {"name": "forged"}}))
    head, claims, signature = made(token(https, "forged"))["status"]["token"].split(".")
    flipped = claims[:-2] + ("A" if claims[-2] != "A" else "B") + claims[-1]
    none = "eyJhbGciOiJub25lIn0"
    for text in (
        f"{head}.{flipped}.{signature}",
        f"{head}.{claims}.",
        f"{none}.{claims}.",
        f"{head}.{claims}",
        "a.b.c",
    ):
        assert https("GET", "/api", **bearer(text)).status == 401


def test_a_token_bound_to_a_secret_ends_with_it(https: Https) -> None:
    made(https("POST", f"{CORE}/namespaces/a/serviceaccounts", {"metadata": {"name": "bound"}}))
    made(https("POST", f"{CORE}/namespaces/a/secrets", {"metadata": {"name": "anchor"}}))
    reference = {"apiVersion": "v1", "kind": "Secret", "name": "anchor"}
    text = made(token(https, "bound", boundObjectRef=reference))["status"]["token"]
    assert https("GET", "/api", **bearer(text)).status == 200
    https("DELETE", f"{CORE}/namespaces/a/secrets/anchor")
    assert https("GET", "/api", **bearer(text)).status == 401


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"expirationSeconds": 60}, 422),
        ({"expirationSeconds": 1 << 33}, 422),
        ({"boundObjectRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}}, 400),
        ({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "absent"}}, 404),
    ],
)
def test_odd_token_requests_are_refused(https: Https, spec: dict[str, Any], code: int) -> None:
    https("POST", f"{CORE}/namespaces/a/serviceaccounts", {"metadata": {"name": "odd"}})
    assert token(https, "odd", **spec).status == code


def test_the_administrator_may_act_as_another_user(https: Https, ann: dict[str, str]) -> None:
    pods = f"{CORE}/namespaces/b/pods"
    refused = https("GET", pods, impersonate_user="ann", impersonate_group="developers")
    assert refused.status == 403
    assert 'User "ann"' in refused.json()["message"]
    account = "system:serviceaccount:a:robot"
    who = made(https("POST", f"{AUTHENTICATION}/selfsubjectreviews", {}, impersonate_user=account))
    assert who["status"]["userInfo"]["groups"][1] == "system:serviceaccounts:a"
    assert https("GET", pods, impersonate_group="x").status == 400


@pytest.mark.parametrize(
    ("headers", "what"),
    [
        ({"impersonate_user": "admin"}, 'users "admin" is forbidden'),
        ({"impersonate_user": "system:serviceaccount:b:x"}, 'serviceaccounts "x" is forbidden'),
        ({"impersonate_user": "ann", "impersonate_group": "system:masters"}, "is forbidden"),
    ],
)
def test_others_may_not_act_as_another_user(
    https: Https, ann: dict[str, str], headers: dict[str, str], what: str
) -> None:
    refused = https("GET", f"{CORE}/namespaces/a/pods", **ann, **headers)
    assert refused.status == 403
    assert what in refused.json()["message"]
    assert "cannot impersonate resource" in refused.json()["message"]


@pytest.mark.conformance("API-115")
def test_without_credentials_only_health_and_version_are_open(https: Https) -> None:
    assert https("GET", "/readyz", authorization="").status == 200
    assert https("GET", "/version", authorization="").status == 200
    for path in ("/api", "/metrics", f"{CORE}/namespaces/a/pods"):
        assert https("GET", path, authorization="").status == 403
