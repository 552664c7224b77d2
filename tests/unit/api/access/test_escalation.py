"""What a writer of roles must hold: covering, and rules too large to be taken apart.  Sentences: tests/cluster."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.access import escalation
from echelon.api.access.attributes import ADMIN, AccessDecision, Attributes, Rule, User
from echelon.api.access.escalation import Granting
from echelon.api.errors import ApiError
from echelon.api.scheme import CLUSTER_ROLES, Object


class Holding:
    """An authorizer for a user with these rules, who may neither bind nor escalate."""

    def __init__(self, *rules: Object) -> None:
        self._rules = list(rules)

    def decide(self, attributes: Attributes) -> AccessDecision:
        return AccessDecision(False)

    def rules(self, user: User, namespace: str) -> list[Object]:
        return self._rules

    def role_rules(self, reference: Rule, namespace: str) -> None:
        return None


def on(
    resources: list[str], verbs: list[str], groups: list[str] | None = None, names: list[str] | None = None
) -> Object:
    made: Object = {"apiGroups": groups or [""], "resources": resources, "verbs": verbs}
    return {**made, "resourceNames": names} if names else made


def urls(*paths: str) -> Object:
    return {"nonResourceURLs": list(paths), "verbs": ["get"]}


def role(*rules: Object) -> Object:
    return {"metadata": {"name": "r", "resourceVersion": "1"}, "rules": list(rules)}


def may_grant(holding: Holding, new: Object, old: Object | None = None, user: User = User("ann")) -> bool:
    try:
        escalation.check(Granting(user, holding, CLUSTER_ROLES, "", ""), new, old)
    except ApiError as error:
        return error.code != 403
    return True


@pytest.mark.parametrize(
    ("allowed", "held", "granted"),
    [
        (True, [], []),
        (False, [], [on(["pods"], ["get"])]),
        (True, [on(["pods"], ["get"])], [on(["pods"], ["get"])]),
        (True, [on(["*"], ["*"], ["*"])], [on(["pods/log"], ["get"], ["batch"])]),
        (False, [on(["pods"], ["*"], ["*"])], [on(["*"], ["get"])]),
        (False, [on(["pods"], ["get"])], [on(["pods/log"], ["get"])]),
        (True, [on(["*/log"], ["get"])], [on(["pods/log"], ["get"])]),
        # Several rules together cover one.
        (True, [on(["pods"], ["get"]), on(["pods"], ["list"])], [on(["pods"], ["get", "list"])]),
        (True, [on(["pods"], ["get"])], [on(["pods"], ["get"], names=["x"])]),
        (False, [on(["pods"], ["get"], names=["x"])], [on(["pods"], ["get"])]),
        (True, [on(["pods"], ["get"], names=["x", "y"])], [on(["pods"], ["get"], names=["y"])]),
        (False, [on(["pods"], ["get"], names=["x"])], [on(["pods"], ["get"], names=["x", "y"])]),
        (True, [urls("/a/*")], [urls("/a/b")]),
        (False, [urls("/a/*")], [urls("/a/b", "/b")]),
        (False, [on(["*"], ["*"], ["*"])], [urls("/a")]),
        (False, [urls("*")], [on(["pods"], ["get"])]),
    ],
)
def test_rules_are_granted_if_they_are_covered(allowed: bool, held: list[Any], granted: list[Any]) -> None:
    assert may_grant(Holding(*held), role(*granted)) is allowed


def test_an_administrator_is_not_asked() -> None:
    assert may_grant(Holding(), role(on(["pods"], ["get"])), user=ADMIN)


def test_owners_and_finalizers_may_change_without_the_rights_of_the_role() -> None:
    old = role(on(["pods"], ["get"]))
    collected = {**old, "metadata": {"name": "r", "resourceVersion": "2", "finalizers": ["f"]}}
    renamed = {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}
    assert may_grant(Holding(), collected, old)
    assert not may_grant(Holding(), renamed, old)


def test_a_rule_of_millions_of_combinations_is_not_taken_apart() -> None:
    many = [f"w{number}" for number in range(2_000)]
    huge = on(many, many, many)
    assert may_grant(Holding(on(["*"], ["*"], ["*"])), role(huge))
    assert not may_grant(Holding(on(["*"], ["get"], ["*"])), role(huge))
