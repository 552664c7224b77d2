"""All objects of an installation, in the order in which they are made; they are removed from the end."""

from __future__ import annotations

from ...api.schema.crd_manifests import custom_resource_definitions
from ...api.scheme import NAMESPACES, RESOURCES, Object, Resource
from ..options import CONTROLLERS, SCHEDULER, InstallOptions
from .access_rights import access_objects
from .labelled import labels, made
from .monitoring import (
    PROMETHEUS_RULES,
    SERVICE_MONITORS,
    dashboard,
    metrics_service,
    prometheus_rule,
    service_monitor,
)
from .programs import program_objects

#: Every kind that an installation may have objects of.
_KINDS = {
    (resource.api_version, resource.kind): resource for resource in (*RESOURCES, SERVICE_MONITORS, PROMETHEUS_RULES)
}


def resource_of(obj: Object) -> Resource:
    return _KINDS[obj["apiVersion"], obj["kind"]]


def objects(options: InstallOptions) -> list[Object]:
    """Pure: equal options give equal objects."""
    found: list[Object] = []
    if options.own_namespace:
        found.append(_namespace(options))
    found += definitions(options)
    for part in options.parts:
        found += access_objects(part, options)
    if SCHEDULER in options.parts:
        found.append(dashboard(options))
    for part in options.parts:
        found += [metrics_service(part, options), *program_objects(part, options)]
    if options.monitoring:
        found += [*(service_monitor(part, options) for part in options.parts), prometheus_rule(options)]
    return found


def definitions(options: InstallOptions) -> list[Object]:
    """The kinds that controllers need and nobody else has installed."""
    if CONTROLLERS not in options.parts:
        return []
    found = []
    for definition in custom_resource_definitions():
        if definition["metadata"]["name"] not in options.foreign_definitions:
            metadata = {**definition["metadata"], "labels": labels(options)}
            found.append({**definition, "metadata": metadata})
    return found


def _namespace(options: InstallOptions) -> Object:
    found = made(NAMESPACES, options.namespace, options)
    found["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = "restricted"
    return found
