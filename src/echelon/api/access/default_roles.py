"""The ClusterRoles and ClusterRoleBindings that exist from the start, as in a real cluster."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from ..scheme import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, Object

_GROUP = CLUSTER_ROLES.group
_BOOTSTRAP = {"kubernetes.io/bootstrapping": "rbac-defaults"}


@cache
def _data() -> dict[str, Any]:
    found: dict[str, Any] = msgspec.yaml.decode(
        resources.files("echelon.api").joinpath("data", "roles.yaml").read_bytes()
    )
    return found


def default_roles() -> Iterator[Object]:
    """ClusterRoles, then bindings."""
    for name, role in _data()["roles"].items():
        made: Object = {
            "apiVersion": CLUSTER_ROLES.api_version,
            "kind": CLUSTER_ROLES.kind,
            "metadata": _metadata(name, role.get("labels", ())),
            "rules": [_rule(rule) for rule in role["rules"]],
        }
        if "aggregates" in role:
            selector = {"matchLabels": {f"{_GROUP}/{role['aggregates']}": "true"}}
            made["aggregationRule"] = {"clusterRoleSelectors": [selector]}
        yield made
    for name, groups in _data()["bindings"].items():
        yield {
            "apiVersion": CLUSTER_ROLE_BINDINGS.api_version,
            "kind": CLUSTER_ROLE_BINDINGS.kind,
            "metadata": _metadata(name, ()),
            "roleRef": {"apiGroup": _GROUP, "kind": CLUSTER_ROLES.kind, "name": name},
            "subjects": [{"kind": "Group", "apiGroup": _GROUP, "name": group} for group in groups],
        }


def _metadata(name: str, labels: tuple[str, ...]) -> Object:
    return {"name": name, "labels": {**_BOOTSTRAP, **{f"{_GROUP}/{label}": "true" for label in labels}}}


def _rule(rule: dict[str, Any]) -> Object:
    verbs = [verb for word in rule["verbs"] for verb in _data()["verbs"].get(word, [word])]
    if "paths" in rule:
        return {"verbs": verbs, "nonResourceURLs": rule["paths"]}
    return {"verbs": verbs, "apiGroups": rule["groups"], "resources": rule["resources"]}
