"""The rights in roles, one by one: what is granted, and a role without one of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from echelon.api.schema.decoding import copy_tree
from echelon.api.scheme import Object


class Right(NamedTuple):
    """One verb on one resource; `resource` has its subresource."""

    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}" + (f" in {self.group}" if self.group else "")


def rights_of(role: Object) -> Iterator[Right]:
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield Right(group, resource, verb)


def without(role: Object, right: Right) -> Object:
    """The role with everything but that right."""
    fewer: Object = copy_tree(role)
    fewer["rules"] = [part for rule in role["rules"] for part in _split(rule, right)]
    return fewer


def _split(rule: Object, right: Right) -> Iterable[Object]:
    if right not in set(rights_of({"rules": [rule]})):
        return [rule]
    assert rule["apiGroups"] == [right.group], "our rules have one group each"
    others = [resource for resource in rule["resources"] if resource != right.resource]
    verbs = [verb for verb in rule["verbs"] if verb != right.verb]
    parts = [{**rule, "resources": others}, {**rule, "resources": [right.resource], "verbs": verbs}]
    return [part for part in parts if part["resources"] and part["verbs"]]
