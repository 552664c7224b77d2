"""Parses URL paths into resource, namespace, name and subresource.

    /api/v1[/namespaces/{ns}]/{resource}[/{name}[/{sub}]]
    /apis/{group}/{version}[/namespaces/{ns}]/{resource}[/{name}[/{sub}]]

`/watch` after the version is the legacy form of a watch.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....api.errors import ApiError
from ....api.scheme import Resource
from ....api.served_kinds import ServedKinds

#: Subresources of a namespace; anything else after its name is a collection in the namespace.
_NAMESPACE_SUBRESOURCES = ("status", "finalize")


@dataclass(frozen=True)
class Target:
    """The target of a resource path."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    #: The legacy `/watch/` form was used.
    watch: bool = False


#: `POST …/bindings` binds pods; it is no stored kind.
BINDINGS = Resource("", "v1", "bindings", "Binding")


class PageNotFound(Exception):
    """The path has no served group version: a plain-text 404."""


def unknown_resource() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def split(path: str) -> tuple[str, str, list[str]] | None:
    """Group, version and the rest of a path below `/api/v1` or `/apis/{group}/{version}`; None if it is above."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) >= 2:
        return "", parts[1], parts[2:]
    if parts[0] == "apis" and len(parts) >= 3:
        return parts[1], parts[2], parts[3:]
    return None


def parse(path: str, kinds: ServedKinds) -> Target | None:
    """The target of a resource path, None for paths that name no resource (discovery, health, …).

    Raises `PageNotFound` for an unknown group version and 404 for an unknown resource of a known one.
    """
    found = split(path)
    if found is None:
        return None
    group, version, rest = found
    if not kinds.has_group_version(group, version):
        raise PageNotFound
    if not rest:
        return None
    if "" in rest:
        raise unknown_resource()
    watch = rest[0] == "watch" and len(rest) > 1
    return _target(kinds, group, version, rest[1:] if watch else rest, watch)


def _target(kinds: ServedKinds, group: str, version: str, rest: list[str], watch: bool) -> Target:
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and not (group == "" and rest[2] in _NAMESPACE_SUBRESOURCES):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        raise unknown_resource()
    resource = BINDINGS if (group, rest[0]) == ("", "bindings") else kinds.by_path(group, version, rest[0])
    name = rest[1] if len(rest) > 1 else ""
    # A namespaced object needs a namespace in its path, a cluster-scoped one must have none.
    if resource is None or (bool(namespace) != resource.namespaced and (namespace or name)):
        raise unknown_resource()
    return Target(resource, namespace, name, rest[2] if len(rest) > 2 else "", watch)
