"""Definitions of kinds that belong to others, as far as a server needs them: objects may have any fields."""

from __future__ import annotations

from echelon.api.scheme import CUSTOM_RESOURCE_DEFINITIONS, Object

#: The server wants to know who approved a kind of a group of the community.
APPROVED = {"api-approved.kubernetes.io": "unapproved, in a test"}


def open_definition(group: str, version: str, plural: str, kind: str, *, namespaced: bool = True) -> Object:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    scope = "Namespaced" if namespaced else "Cluster"
    return {
        "apiVersion": CUSTOM_RESOURCE_DEFINITIONS.api_version,
        "kind": CUSTOM_RESOURCE_DEFINITIONS.kind,
        "metadata": {"name": f"{plural}.{group}", "annotations": APPROVED},
        "spec": {"group": group, "scope": scope, "names": names, "versions": [served]},
    }
