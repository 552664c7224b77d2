"""From a CustomResourceDefinition to the kinds that it defines, one for each served version."""

from __future__ import annotations

import re
from typing import Any

from ..custom_kind import CustomKind
from ..objects import meta
from ..scheme import RESOURCES, Object, Resource, ScalePaths

ESTABLISHED = "Established"
NAMES_ACCEPTED = "NamesAccepted"
TERMINATING = "Terminating"
#: Deleting a definition deletes its objects first.
CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"

_KNOWN = frozenset((one.group, one.plural) for one in RESOURCES)
_KUBERNETES_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")


def is_known(definition: Object) -> bool:
    """Whether the kind is one that is served without any definition; then the definition changes nothing."""
    spec = definition["spec"]
    return (spec["group"], spec["names"]["plural"]) in _KNOWN


def stored_version(spec: Object) -> Object:
    """The version in which objects are stored."""
    found: Object = next(version for version in spec["versions"] if version.get("storage"))
    return found


def kinds_of(definition: Object, since: int) -> list[Resource]:
    """The kinds to serve, the preferred version first; none for a kind that is known already."""
    if is_known(definition):
        return []
    spec = definition["spec"]
    names = definition["status"].get("acceptedNames") or spec["names"]
    served = sorted((one for one in spec["versions"] if one.get("served")), key=lambda one: version_rank(one["name"]))
    return [_kind(definition, names, version, since) for version in served]


def _kind(definition: Object, names: Object, version: Object, since: int) -> Resource:
    spec = definition["spec"]
    subresources = version.get("subresources") or {}
    storage = stored_version(spec)
    custom = CustomKind(
        definition=meta.name(definition),
        schema=_schema(version),
        stored_schema=_schema(storage),
        since=since,
        columns=tuple(version.get("additionalPrinterColumns") or ()),
        selectable=tuple(one["jsonPath"].lstrip(".") for one in version.get("selectableFields") or ()),
        keeps_unknown=bool(spec.get("preserveUnknownFields")),
        deprecation=_deprecation(spec, version),
        ending=meta.condition_is(definition, TERMINATING),
    )
    return Resource(
        spec["group"],
        version["name"],
        names["plural"],
        names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        has_status="status" in subresources,
        has_generation=True,
        builtin=False,
        unconditional_update=False,
        storage_version=storage["name"],
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        scale=_scale(subresources.get("scale")),
        singular_name=names.get("singular", ""),
        list_kind_name=names.get("listKind", ""),
        custom=custom,
    )


def _scale(said: Object | None) -> ScalePaths | None:
    if said is None:
        return None
    return ScalePaths(
        *(_path(said.get(f"{field}Path", "")) for field in ("specReplicas", "statusReplicas", "labelSelector"))
    )


def _path(text: str) -> tuple[str, ...]:
    """The names in `.spec.replicas`, or none."""
    return tuple(text.lstrip(".").split(".")) if text else ()


def _schema(version: Object) -> Object:
    found: Object = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return found


def _deprecation(spec: Object, version: Object) -> str:
    if not version.get("deprecated"):
        return ""
    said = version.get("deprecationWarning")
    return str(said or f"{spec['group']}/{version['name']} {spec['names']['kind']} is deprecated")


def version_rank(version: str) -> tuple[Any, ...]:
    """The sort key of versions by preference: v2, v1, v1beta1, v1alpha1, then other names by the alphabet."""
    found = _KUBERNETES_VERSION.fullmatch(version)
    if found is None:
        return (1, version)
    major, stage, minor = found.groups()
    return (0, {None: 0, "beta": 1, "alpha": 2}[stage], -int(major), -int(minor or 0))
