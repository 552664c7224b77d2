"""Discovery documents: groups, versions, resources and verbs, in aggregated and legacy form.

Both are derived from the table of served kinds.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable

from ....api.scheme import (
    METRICS,
    NAMESPACES,
    PODS,
    REVIEWS,
    SCALES,
    SERVICE_ACCOUNTS,
    TOKEN_REQUESTS,
    Object,
    Resource,
)
from ....api.served_kinds import ServedKinds
from ..requests.body_records import EVICTIONS
from ..requests.routes import BINDINGS

AGGREGATED_TYPE = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_STATUS_VERBS = ["get", "patch", "update"]


def verbs_of(resource: Resource) -> list[str]:
    if resource is BINDINGS or resource in REVIEWS:
        return ["create"]
    if resource in METRICS:
        return ["get", "list"]
    if resource is NAMESPACES:
        return [verb for verb in _VERBS if verb != "deletecollection"]
    return list(_VERBS)


def subresources_of(resource: Resource) -> list[tuple[str, Resource, list[str]]]:
    """Name, kind and verbs of each subresource."""
    found = []
    if resource is PODS:
        found.append(("binding", BINDINGS, ["create"]))
        found.append(("eviction", EVICTIONS, ["create"]))
    if resource is SERVICE_ACCOUNTS:
        found.append(("token", TOKEN_REQUESTS, ["create"]))
    if resource is NAMESPACES:
        found.append(("finalize", resource, ["update"]))
    if resource.scale is not None:
        found.append(("scale", SCALES, list(_STATUS_VERBS)))
    if resource.has_status:
        found.append(("status", resource, list(_STATUS_VERBS)))
    return found


def groups(kinds: ServedKinds) -> dict[str, dict[str, list[Resource]]]:
    """Group → version → resources by name; groups and versions in order of preference."""
    found: dict[str, dict[str, list[Resource]]] = {"": {"v1": [BINDINGS]}}
    for resource in (*kinds.all, *kinds.measured):
        found.setdefault(resource.group, {}).setdefault(resource.version, []).append(resource)
    return {
        group: {version: sorted(members, key=lambda r: r.plural) for version, members in versions.items()}
        for group, versions in found.items()
    }


def aggregated(kinds: ServedKinds, core: bool) -> Object:
    """`APIGroupDiscoveryList`: the core group below `/api`, all others below `/apis`."""
    items = [
        {
            "metadata": {"name": group} if group else {},
            "versions": [
                {"version": version, "resources": [_described(r) for r in members], "freshness": "Current"}
                for version, members in versions.items()
            ],
        }
        for group, versions in groups(kinds).items()
        if (group == "") == core
    ]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _described(resource: Resource) -> Object:
    entry: Object = {
        "resource": resource.plural,
        "responseKind": {"group": "", "version": "", "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": verbs_of(resource),
    }
    entry |= _other_names(resource)
    subresources = [
        {
            "subresource": name,
            "responseKind": {**_foreign(resource, of), "kind": of.kind},
            "verbs": verbs,
        }
        for name, of, verbs in subresources_of(resource)
    ]
    if subresources:
        entry["subresources"] = subresources
    return entry


def _foreign(resource: Resource, of: Resource) -> Object:
    """Group and version of a subresource's kind, empty where they are the resource's own."""
    if (of.group, of.version) == (resource.group, resource.version):
        return {"group": "", "version": ""}
    return {"group": of.group, "version": of.version}


def api_versions(address: str) -> Object:
    """Legacy `/api`."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def group_list(kinds: ServedKinds) -> Object:
    """Legacy `/apis`."""
    listed = [_group(name, versions) for name, versions in groups(kinds).items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}


def group(kinds: ServedKinds, name: str) -> Object | None:
    """Legacy `/apis/{group}`; None if there is no such group."""
    served = groups(kinds).get(name) if name else None
    return None if served is None else {"kind": "APIGroup", "apiVersion": "v1", **_group(name, served)}


def _group(name: str, served: Iterable[str]) -> Object:
    versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in served]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def resource_list(kinds: ServedKinds, group_name: str, version: str) -> Object | None:
    """Legacy list of one group version; None if it is not served."""
    members = groups(kinds).get(group_name, {}).get(version)
    if members is None:
        return None
    entries: list[Object] = []
    for resource in members:
        entries.append(_listed(resource))
        for name, of, verbs in subresources_of(resource):
            entry: Object = {"name": f"{resource.plural}/{name}", "singularName": "", "namespaced": resource.namespaced}
            entry |= {key: value for key, value in _foreign(resource, of).items() if value}
            entries.append({**entry, "kind": of.kind, "verbs": verbs})
    group_version = f"{group_name}/{version}" if group_name else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": entries}


def _listed(resource: Resource) -> Object:
    entry: Object = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": verbs_of(resource),
    }
    entry |= _other_names(resource)
    if resource is not BINDINGS and resource not in (*REVIEWS, *METRICS):
        entry["storageVersionHash"] = _storage_version_hash(resource.stored_as or resource)
    return entry


def _storage_version_hash(resource: Resource) -> str:
    """Differs when the version that objects are stored at does, computed as a real server does."""
    told = f"{resource.group}/{resource.storage_version or resource.version}/{resource.kind}"
    return base64.b64encode(hashlib.sha256(told.encode()).digest()[:8]).decode()


def _other_names(resource: Resource) -> Object:
    """Short names, and categories such as `all`."""
    names = {"shortNames": list(resource.short_names), "categories": list(resource.categories)}
    return {field: found for field, found in names.items() if found}
