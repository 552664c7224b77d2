"""The caller of a request, what it wants to do, and the error of a request that is not allowed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..errors import ApiError
from ..scheme import Object

#: A PolicyRule, or a part of one.
Rule = Mapping[str, Any]
MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"
SERVICE_ACCOUNTS_GROUP = "system:serviceaccounts"


@dataclass(frozen=True)
class User:
    """An authenticated caller; `system:anonymous` if it sent no credentials."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def info(self) -> Object:
        """`UserInfo` of authentication.k8s.io."""
        shown: Object = {"username": self.name}
        if self.uid:
            shown["uid"] = self.uid
        if self.groups:
            shown["groups"] = list(self.groups)
        if self.extra:
            shown["extra"] = {key: list(values) for key, values in self.extra.items()}
        return shown


ANONYMOUS = User("system:anonymous", (UNAUTHENTICATED,))
#: The user of the token that the server creates at its first start.
ADMIN = User("admin", (MASTERS, AUTHENTICATED))


@dataclass(frozen=True)
class Attributes:
    """What a caller wants to do: a verb on a resource, or on a path if `path` is not empty."""

    user: User
    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


@dataclass(frozen=True)
class AccessDecision:
    allowed: bool
    reason: str = ""


class Authorizer(Protocol):
    def decide(self, attributes: Attributes) -> AccessDecision: ...

    def rules(self, user: User, namespace: str) -> list[Object]:
        """All PolicyRules that apply to a user in a namespace."""
        ...

    def role_rules(self, reference: Rule, namespace: str) -> Sequence[Rule] | None:
        """The PolicyRules of the role that a binding in a namespace refers to; None if it does not exist."""
        ...


def forbidden(attributes: Attributes, reason: str = "") -> ApiError:
    """403 with the sentence of kube-apiserver."""
    sentence = _sentence(attributes) + (f": {reason}" if reason else "")
    if attributes.path:
        return ApiError(403, "Forbidden", f"forbidden: {sentence}")
    qualified = f"{attributes.resource}.{attributes.group}" if attributes.group else attributes.resource
    subject = f'{qualified} "{attributes.name}"' if attributes.name else qualified
    details: dict[str, Any] = {"name": attributes.name} if attributes.name else {}
    if attributes.group:
        details["group"] = attributes.group
    details["kind"] = attributes.resource
    return ApiError(403, "Forbidden", f"{subject} is forbidden: {sentence}", details)


def _sentence(attributes: Attributes) -> str:
    start = f'User "{attributes.user.name}" cannot {attributes.verb}'
    if attributes.path:
        return f'{start} path "{attributes.path}"'
    resource = attributes.resource + (f"/{attributes.subresource}" if attributes.subresource else "")
    place = f'in the namespace "{attributes.namespace}"' if attributes.namespace else "at the cluster scope"
    return f'{start} resource "{resource}" in API group "{attributes.group}" {place}'
