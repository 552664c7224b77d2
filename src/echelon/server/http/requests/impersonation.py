"""Impersonation: a request that is made as another user, and the permissions that it needs.

    Impersonate-User: bob
    Impersonate-Group: developers     (may be repeated)
    Impersonate-Uid: …
    Impersonate-Extra-KEY: value

The headers are never ignored: the sender needs the verb `impersonate` for each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

from ....api.access.attributes import (
    ANONYMOUS,
    AUTHENTICATED,
    SERVICE_ACCOUNT_PREFIX,
    UNAUTHENTICATED,
    Attributes,
    User,
)
from ....api.errors import bad_request
from ...identity.service_account_tokens import groups_of

_PREFIX, _EXTRA = "impersonate-", "impersonate-extra-"
_VERB, _GROUP = "impersonate", "authentication.k8s.io"


def impersonated(sender: User, headers: Mapping[str, str]) -> tuple[User, list[Attributes]]:
    """The user that a request is made as, and what the sender must be allowed to do for that."""
    given = {name: value for name, value in headers.items() if name.startswith(_PREFIX)}
    if not given:
        return sender, []
    name, uid = given.get("impersonate-user", ""), given.get("impersonate-uid", "")
    groups = tuple(part for part in given.get("impersonate-group", "").split(", ") if part)
    extra = {
        unquote(key.removeprefix(_EXTRA)): tuple(value.split(", "))
        for key, value in given.items()
        if key.startswith(_EXTRA)
    }
    if not name:
        raise bad_request("Impersonate headers need Impersonate-User")
    needed = [_subject(sender, name)]
    needed += [Attributes(sender, _VERB, "", "groups", name=group) for group in groups]
    needed += [Attributes(sender, _VERB, _GROUP, "uids", name=uid)] if uid else []
    for key, values in extra.items():
        needed += [Attributes(sender, _VERB, _GROUP, "userextras", key, name=value) for value in values]
    return User(name, _with_implied(name, groups), uid, extra), needed


def _service_account(name: str) -> tuple[str, str] | None:
    """Namespace and name, if it is the user name of a service account."""
    if not name.startswith(SERVICE_ACCOUNT_PREFIX):
        return None
    namespace, _, account = name.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
    return (namespace, account) if namespace and account else None


def _subject(sender: User, name: str) -> Attributes:
    if account := _service_account(name):
        return Attributes(sender, _VERB, "", "serviceaccounts", namespace=account[0], name=account[1])
    return Attributes(sender, _VERB, "", "users", name=name)


def _with_implied(name: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    if not groups and (account := _service_account(name)):
        return groups_of(account[0])
    if name == ANONYMOUS.name:
        return groups if UNAUTHENTICATED in groups else (*groups, UNAUTHENTICATED)
    return groups if AUTHENTICATED in groups else (*groups, AUTHENTICATED)
