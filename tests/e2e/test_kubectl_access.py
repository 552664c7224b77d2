"""Roles, bindings and access reviews with the real kubectl."""

from __future__ import annotations

from typing import Any

import pytest

from .kubectl import Kubectl

RBAC = "rbac.authorization.k8s.io"


def test_can_i_says_yes_to_the_administrator(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "jobs.batch").strip() == "yes"
    assert kubectl("auth", "can-i", "get", "/metrics").strip() == "yes"
    listed = kubectl("auth", "can-i", "--list")
    assert "*.*" in listed
    assert "[*]" in listed


def test_whoami_names_the_administrator(kubectl: Kubectl) -> None:
    shown = kubectl("auth", "whoami")
    assert "admin" in shown
    assert "system:masters" in shown


def test_the_generators_of_roles_and_bindings_work(kubectl: Kubectl) -> None:
    kubectl("create", "role", "reader", "--verb=get,list", "--resource=pods,pods/status")
    kubectl("create", "rolebinding", "ann-reads", "--role=reader", "--user=ann")
    kubectl("create", "clusterrole", "health", "--verb=get", "--non-resource-url=/healthz")
    kubectl("create", "clusterrolebinding", "all-health", "--clusterrole=health", "--group=system:authenticated")
    role = kubectl.object("role", "reader")
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["get", "list"]}]
    wide = kubectl("get", "rolebinding", "ann-reads", "-o", "wide").splitlines()
    assert wide[0].split() == ["NAME", "ROLE", "AGE", "USERS", "GROUPS", "SERVICEACCOUNTS"]
    assert wide[1].split()[1] == "Role/reader"
    assert "CREATED AT" in kubectl("get", "clusterroles")
    assert "pods/status" in kubectl("describe", "role", "reader")


def test_reconcile_brings_a_changed_role_back(kubectl: Kubectl) -> None:
    role: dict[str, Any] = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "reconciled"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    }
    assert "reconciled" in kubectl("auth", "reconcile", manifest=role)
    wider = {**role, "rules": [*role["rules"], {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["list"]}]}
    assert "reconciled" in kubectl("auth", "reconcile", manifest=wider)
    assert len(kubectl.object("clusterrole", "reconciled")["rules"]) == 2


@pytest.mark.parametrize(
    ("kind", "extra", "words"),
    [
        (
            "Role",
            {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": []}]},
            "rules[0].verbs: Required value",
        ),
        ("Role", {"rules": [{"nonResourceURLs": ["/x"], "verbs": ["get"]}]}, "cannot apply to non-resource URLs"),
        ("RoleBinding", {"roleRef": {"kind": "Job", "name": "x"}}, "roleRef.kind: Unsupported value"),
        (
            "RoleBinding",
            {"roleRef": {"kind": "Role", "name": "x"}, "subjects": [{"kind": "Dog", "name": "rex"}]},
            "subjects[0].kind: Unsupported value",
        ),
    ],
)
def test_bad_roles_and_bindings_are_refused(kubectl: Kubectl, kind: str, extra: dict[str, Any], words: str) -> None:
    manifest = {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": {"name": "bad"}, **extra}
    outcome = kubectl.run("create", manifest=manifest)
    assert outcome.code != 0
    assert words in outcome.err


def test_the_role_of_a_binding_cannot_be_changed(kubectl: Kubectl) -> None:
    binding: dict[str, Any] = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "fixed"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"},
    }
    kubectl("create", manifest=binding)
    binding["roleRef"] = {**binding["roleRef"], "name": "edit"}
    assert "roleRef: Invalid value" in kubectl.run("replace", manifest=binding).err


def test_create_token_prints_a_token_that_is_accepted(kubectl: Kubectl) -> None:
    kubectl("create", "serviceaccount", "robot")
    issued = kubectl("create", "token", "robot", "--duration=20m").strip()
    outcome = kubectl.run("auth", "whoami", "--token", issued)
    # The kubeconfig has a token of its own; the flag replaces it.
    assert "system:serviceaccount:default:robot" in outcome.out


def test_as_asks_in_the_name_of_another_user(kubectl: Kubectl) -> None:
    assert "bob" in kubectl("auth", "whoami", "--as", "bob", "--as-group", "friends")
