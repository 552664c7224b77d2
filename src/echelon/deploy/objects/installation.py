"""All objects of an installation, in the order in which they are made; they are removed from the end."""

from __future__ import annotations

from ...api.group_definitions import group_definitions
from ...api.schema.crd_manifests import custom_resource_definitions
from ...api.scheme import NAMESPACES, RESOURCES, Object, Resource
from ..admission.admission_policies import policy_objects
from ..admission.kinds import POLICY_KINDS
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
    (resource.api_version, resource.kind): resource
    for resource in (*RESOURCES, *POLICY_KINDS, SERVICE_MONITORS, PROMETHEUS_RULES)
}


def resource_of(obj: Object) -> Resource:
    return _KINDS[obj["apiVersion"], obj["kind"]]


def objects(options: InstallOptions) -> list[Object]:
    """Pure: equal options give equal objects."""
    first = [_namespace(options)] if options.own_namespace else []
    return [*first, *definitions(options), *after_definitions(options)]


def after_definitions(options: InstallOptions) -> list[Object]:
    """All that comes after the namespace and the kinds."""
    found = [*policy_objects(options)]
    for part in options.parts:
        found += access_objects(part, options)
    if SCHEDULER in options.parts and options.dashboard:
        found.append(dashboard(options))
    for part in options.parts:
        found += [metrics_service(part, options), *program_objects(part, options)]
    if options.monitoring:
        found += [*(service_monitor(part, options) for part in options.parts), prometheus_rule(options)]
    return found


def definitions(options: InstallOptions) -> list[Object]:
    """The kinds of groups that the server lacks, and those that controllers need and nobody else has installed."""
    needed = group_definitions() if options.own_groups else []
    if CONTROLLERS in options.parts:
        found = custom_resource_definitions()
        needed += [one for one in found if one["metadata"]["name"] not in options.foreign_definitions]
    return [{**one, "metadata": {**one["metadata"], "labels": labels(options)}} for one in needed]


def _namespace(options: InstallOptions) -> Object:
    found = made(NAMESPACES, options.namespace, options)
    found["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = "restricted"
    return found
