"""Roles and bindings that would grant more than their writer may do: refused alike by our server and by a real one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import kubectl as kubectl_module
from tests.e2e.kubectl import Kubectl
from tests.https_server import in_thread

pytestmark = pytest.mark.skipif(kubectl_module.PATH is None, reason="needs kubectl")

RBAC = "rbac.authorization.k8s.io"
WRITES = {"apiGroups": [RBAC], "resources": ["*"], "verbs": ["create", "get", "list", "update", "patch"]}
READS_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
JOBS = {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get"]}
HELD = 'user "ann" (groups=["devs" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:'


@pytest.fixture(scope="module", params=["embedded", pytest.param("real", marks=pytest.mark.cluster)])
def admin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """kubectl of an administrator; ann may write roles and bindings, and read pods."""
    folder: Path = tmp_path_factory.mktemp("escalation")
    if request.param == "real":
        kubectl = Kubectl(request.getfixturevalue("real_plane").kubeconfig, folder)
        _grant(kubectl)
        yield kubectl
        kubectl("delete", "clusterroles,clusterrolebindings,roles,rolebindings", "-l", "of=escalation", "-n", "default")
        return
    with in_thread(folder / "server", authorization="rbac") as server:
        server.write_kubeconfig(folder / "kubeconfig")
        kubectl = Kubectl(folder / "kubeconfig", folder)
        _grant(kubectl)
        yield kubectl


def _grant(kubectl: Kubectl) -> None:
    subjects = [{"kind": "User", "name": "ann", "apiGroup": RBAC}]
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    made = [
        role("writer", WRITES, READS_PODS),
        binding("writer", "writer", subjects),
        role("powerful", {"apiGroups": [""], "resources": ["secrets", "pods"], "verbs": ["get", "delete"]}),
        role("almighty", everything),
        inside(role("local", {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]})),
    ]
    kubectl("apply", manifest=made)


def role(name: str, *rules: Any, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"escalation-{name}", "labels": {"of": "escalation"}},
        "rules": list(rules),
        **more,
    }


def binding(name: str, to: str, subjects: list[Any] | None = None, kind: str = "ClusterRole") -> dict[str, Any]:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"escalation-{name}", "labels": {"of": "escalation"}},
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": f"escalation-{to}"},
        "subjects": subjects or [],
    }


def inside(made: dict[str, Any]) -> dict[str, Any]:
    """The same as a Role or RoleBinding in a namespace."""
    return {**made, "kind": made["kind"].removeprefix("Cluster"), "metadata": {**made["metadata"]}}


def as_ann(admin: Kubectl, command: str, manifest: Any) -> str:
    """What kubectl says when ann tries."""
    ann = ("--as=ann", "--as-group=devs", "--as-group=system:authenticated")
    outcome = admin.run(*command.split(), *ann, "-n", "default", manifest=manifest)
    return outcome.out if outcome.code == 0 else outcome.err


@pytest.mark.parametrize(
    ("manifest", "missing"),
    [
        (role("fine", READS_PODS), ""),
        (inside(role("fine", {**READS_PODS, "resourceNames": ["x"]})), ""),
        (
            role("more", {"apiGroups": [""], "resources": ["pods", "secrets"], "verbs": ["get", "delete"]}),
            '{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}\n'
            '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "delete"]}',
        ),
        (
            inside(role("named", {**JOBS, "resourceNames": ["j"]})),
            '{APIGroups:["batch"], Resources:["jobs"], ResourceNames:["j"], Verbs:["get"]}',
        ),
        (
            role("urls", {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}),
            '{NonResourceURLs:["/metrics"], Verbs:["get"]}',
        ),
        (
            role("stars", {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}),
            '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}',
        ),
        (
            binding("powerful", "powerful"),
            '{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}\n'
            '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "delete"]}',
        ),
        (inside(binding("local", "local", kind="Role")), '{APIGroups:[""], Resources:["nodes"], Verbs:["get"]}'),
        (binding("own", "writer"), ""),
    ],
)
def test_nobody_grants_what_they_do_not_hold(admin: Kubectl, manifest: dict[str, Any], missing: str) -> None:
    kind, name = manifest["kind"].lower(), manifest["metadata"]["name"]
    said = as_ann(admin, "create", manifest)
    if missing:
        subject = f'{kind}s.{RBAC} "{name}" is forbidden: {HELD}\n{missing}'
        assert subject in said
        assert admin.run("get", kind, name, "-n", "default").code == 1
    else:
        assert said == f"{kind}.{RBAC}/{name} created\n"


def test_a_role_that_is_changed_is_checked_too(admin: Kubectl) -> None:
    assert "created" in as_ann(admin, "create", role("changed", READS_PODS))
    more = role("changed", READS_PODS, {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]})
    assert f'{HELD}\n{{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}}' in as_ann(admin, "replace", more)
    assert HELD in as_ann(admin, "apply", more)
    assert HELD in as_ann(admin, "apply --server-side --force-conflicts", more)
    assert admin.object("clusterrole", "escalation-changed")["rules"] == [READS_PODS]


def test_aggregation_needs_everything(admin: Kubectl) -> None:
    selectors = {"clusterRoleSelectors": [{"matchLabels": {"of": "escalation"}}]}
    said = as_ann(admin, "create", role("gathers", aggregationRule=selectors))
    assert "is forbidden: must have cluster-admin privileges to use the aggregationRule" in said


def test_a_binding_to_a_role_that_does_not_exist_is_not_found(admin: Kubectl) -> None:
    for manifest in (binding("dangling", "nowhere"), inside(binding("dangling", "nowhere", kind="Role"))):
        kind = manifest["kind"].lower()
        assert f'{kind}s.{RBAC} "escalation-nowhere" not found' in as_ann(admin, "create", manifest)


def test_who_may_bind_or_escalate_is_not_asked_what_they_hold(admin: Kubectl) -> None:
    bind = {"apiGroups": [RBAC], "resources": ["clusterroles"], "verbs": ["bind"]}
    verbs = [
        {**bind, "resourceNames": ["escalation-almighty"]},
        {"apiGroups": [RBAC], "resources": ["roles"], "verbs": ["escalate"]},
    ]
    subjects = [{"kind": "Group", "name": "devs", "apiGroup": RBAC}]
    admin("apply", manifest=[role("verbs", *verbs), binding("verbs", "verbs", subjects)])
    try:
        assert "created" in as_ann(admin, "create", inside(role("escalated", {**READS_PODS, "verbs": ["delete"]})))
        assert "created" in as_ann(admin, "create", binding("almighty", "almighty"))
        assert HELD in as_ann(admin, "create", binding("powerful", "powerful"))
        assert HELD in as_ann(admin, "create", role("escalated", {**READS_PODS, "verbs": ["delete"]}))
    finally:
        admin("delete", "clusterrole/escalation-verbs", "clusterrolebinding/escalation-verbs")
