"""Which rules allow which requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from echelon.api.access.attributes import ADMIN, ANONYMOUS, Attributes, User
from echelon.api.access.authorizers import AllowAll, Rbac, allows
from echelon.api.access.default_roles import default_roles
from echelon.api.scheme import Object, Resource, by_kind

ANN = User("ann", ("developers", "system:authenticated"))


class Objects:
    """A reader over a list of objects."""

    def __init__(self, objects: Iterable[Object]) -> None:
        self._objects = list(objects)

    def changes(self, resource: Resource) -> int:
        return 0

    def list(self, resource: Resource, namespace: str = "") -> Iterable[Object]:
        found = [one for one in self._objects if by_kind(one["apiVersion"], one["kind"]) is resource]
        return [one for one in found if not namespace or one["metadata"].get("namespace") == namespace]

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        return next((one for one in self.list(resource, namespace) if one["metadata"]["name"] == name), None)


def rule(**fields: Any) -> Object:
    return {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], **fields}


def wants(verb: str = "get", resource: str = "pods", **more: str) -> Attributes:
    return Attributes(ANN, verb, resource=resource, **more)


@pytest.mark.parametrize(
    ("allowed", "given", "wanted"),
    [
        (True, rule(), wants()),
        (False, rule(), wants("list")),
        (True, rule(verbs=["*"]), wants("list")),
        (False, rule(), wants(group="batch")),
        (True, rule(apiGroups=["*"]), wants(group="batch")),
        (False, rule(), wants(subresource="log")),
        (True, rule(resources=["pods/log"]), wants(subresource="log")),
        (False, rule(resources=["pods/log"]), wants()),
        (True, rule(resources=["*/log"]), wants(subresource="log")),
        (False, rule(resources=["*/log"]), wants()),
        (True, rule(resources=["*"]), wants(subresource="log")),
        (True, rule(resourceNames=["a"]), wants(name="a")),
        (False, rule(resourceNames=["a"]), wants(name="b")),
        (False, rule(resourceNames=["a"]), wants()),
        (False, rule(), Attributes(ANN, "get", path="/pods")),
        (True, {"verbs": ["get"], "nonResourceURLs": ["/a/*"]}, Attributes(ANN, "get", path="/a/b/c")),
        (False, {"verbs": ["get"], "nonResourceURLs": ["/a/*"]}, Attributes(ANN, "get", path="/a")),
        (True, {"verbs": ["get"], "nonResourceURLs": ["*"]}, Attributes(ANN, "get", path="/a")),
        (False, {"verbs": ["get"], "nonResourceURLs": ["*"]}, wants()),
    ],
)
def test_a_rule_allows_what_it_names(allowed: bool, given: Object, wanted: Attributes) -> None:
    assert allows(given, wanted) is allowed


def binding(kind: str, role: str, subject: Object, namespace: str = "") -> Object:
    place = {"namespace": namespace} if namespace else {}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "b", **place},
        "roleRef": {"kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }


@pytest.mark.parametrize(
    ("subject", "user", "allowed"),
    [
        ({"kind": "User", "name": "ann"}, ANN, True),
        ({"kind": "User", "name": "developers"}, ANN, False),
        ({"kind": "Group", "name": "developers"}, ANN, True),
        ({"kind": "Group", "name": "ann"}, ANN, False),
        ({"kind": "ServiceAccount", "name": "r"}, User("system:serviceaccount:a:r"), True),
        ({"kind": "ServiceAccount", "name": "r"}, User("system:serviceaccount:b:r"), False),
        ({"kind": "ServiceAccount", "name": "r", "namespace": "b"}, User("system:serviceaccount:b:r"), True),
    ],
)
def test_a_role_binding_is_for_its_subjects_in_its_namespace(subject: Object, user: User, allowed: bool) -> None:
    rbac = Rbac(Objects([*default_roles(), binding("RoleBinding", "view", subject, "a")]))
    assert rbac.decide(Attributes(user, "list", resource="pods", namespace="a")).allowed is allowed
    assert not rbac.decide(Attributes(user, "list", resource="pods", namespace="b")).allowed
    assert not rbac.decide(Attributes(user, "list", resource="pods")).allowed


def test_a_binding_to_a_role_that_does_not_exist_grants_nothing() -> None:
    rbac = Rbac(Objects([binding("ClusterRoleBinding", "absent", {"kind": "User", "name": "ann"})]))
    assert not rbac.decide(wants()).allowed


def test_roles_that_aggregate_one_another_end() -> None:
    label, selector = {"x": "y"}, {"clusterRoleSelectors": [{"matchLabels": {"x": "y"}}]}
    roles: list[Object] = [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name, "labels": label},
            "aggregationRule": selector,
            "rules": [rule(resources=[name])],
        }
        for name in ("one", "two")
    ]
    rbac = Rbac(Objects([*roles, binding("ClusterRoleBinding", "one", {"kind": "User", "name": "ann"})]))
    assert rbac.decide(wants(resource="two")).allowed
    assert not rbac.decide(wants(resource="three")).allowed


@pytest.mark.parametrize("authorizer", [AllowAll(), Rbac(Objects(default_roles()))])
def test_both_authorizers_know_the_administrator_and_the_anonymous(authorizer: AllowAll | Rbac) -> None:
    assert authorizer.decide(Attributes(ADMIN, "delete", resource="nodes", name="n")).allowed
    assert authorizer.decide(Attributes(ANONYMOUS, "get", path="/readyz")).allowed
    assert not authorizer.decide(Attributes(ANONYMOUS, "get", path="/metrics")).allowed
    assert not authorizer.decide(Attributes(ANONYMOUS, "get", resource="pods", name="p")).allowed


def test_nothing_is_allowed_by_no_bindings() -> None:
    assert not Rbac(Objects([])).decide(wants()).allowed
    assert Rbac(Objects([])).rules(ANN, "a") == []


class Changing(Objects):
    """Objects that change, and how often they are listed."""

    def __init__(self, objects: Iterable[Object]) -> None:
        super().__init__(objects)
        self.version = 0
        self.lists = 0

    def put(self, *objects: Object) -> None:
        self._objects += objects
        self.version += 1

    def changes(self, resource: Resource) -> int:
        return self.version

    def list(self, resource: Resource, namespace: str = "") -> Iterable[Object]:
        self.lists += 1
        return super().list(resource, namespace)


def test_grants_are_kept_until_a_role_or_a_binding_changes() -> None:
    objects = Changing(default_roles())
    rbac = Rbac(objects)
    assert not rbac.decide(wants(namespace="a")).allowed
    before = objects.lists
    for _ in range(100):
        assert not rbac.decide(wants(namespace="a")).allowed
    assert objects.lists == before
    subject = {"kind": "User", "name": "ann"}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "b", "namespace": "a"},
        "roleRef": {"kind": "ClusterRole", "name": "view"},
        "subjects": [subject],
    }
    objects.put(binding)
    assert rbac.decide(wants(namespace="a")).allowed
    assert not rbac.decide(wants(namespace="b")).allowed
    other = Attributes(User("bob", ANN.groups), "get", resource="pods", namespace="a")
    assert not rbac.decide(other).allowed
