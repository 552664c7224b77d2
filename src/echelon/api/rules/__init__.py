"""Rules of built-in and custom kinds that a schema cannot express: defaults, allowed changes, validation.

The server calls these between decoding and storing (api/admission resolves what needs other objects):

    create   default → admit → prepare_create → validate_create
    update   default → prepare_update → admit → validate_update

Metadata and the separation of spec and status are the same for every kind and handled here; the rest is in one file per
group of kinds, registered in `_KINDS`.
"""

from __future__ import annotations

from .. import scheme
from ..errors import FieldError
from ..objects import meta
from ..objects.vocabulary import OURS, PREFIX
from ..scheme import Object, Resource
from . import (
    apps,
    config_maps,
    core,
    cron_job,
    custom_resource_definitions,
    devices,
    endpoints,
    event,
    job,
    jobset,
    metadata,
    networking,
    pod,
    policy,
    quotas,
    rbac,
    scheduling,
    storage,
    templates,
    trainer,
    workload,
)
from .kind import NOTHING, KindRules

_KINDS: dict[tuple[str, str], KindRules] = {
    (resource.group, resource.plural): rules
    for resource, rules in (
        (scheme.NAMESPACES, core.NAMESPACE),
        (scheme.NODES, core.NODE),
        (scheme.PODS, pod.POD),
        (scheme.CONFIG_MAPS, config_maps.CONFIG_MAP),
        (scheme.SECRETS, config_maps.SECRET),
        (scheme.SERVICES, core.SERVICE),
        (scheme.ENDPOINTS, endpoints.ENDPOINTS),
        (scheme.ENDPOINT_SLICES, endpoints.ENDPOINT_SLICE),
        (scheme.POD_TEMPLATES, templates.POD_TEMPLATE),
        (scheme.CONTROLLER_REVISIONS, templates.CONTROLLER_REVISION),
        (scheme.RESOURCE_QUOTAS, quotas.RESOURCE_QUOTA),
        (scheme.LIMIT_RANGES, quotas.LIMIT_RANGE),
        (scheme.REPLICATION_CONTROLLERS, apps.REPLICATION_CONTROLLER),
        (scheme.REPLICA_SETS, apps.REPLICA_SET),
        (scheme.DEPLOYMENTS, apps.DEPLOYMENT),
        (scheme.STATEFUL_SETS, apps.STATEFUL_SET),
        (scheme.DAEMON_SETS, apps.DAEMON_SET),
        (scheme.EVENTS, event.EVENT),
        (scheme.EVENTS_V1, event.EVENT_V1),
        (scheme.JOBS, job.JOB),
        (scheme.CRON_JOBS, cron_job.CRON_JOB),
        (scheme.INGRESSES, networking.INGRESS),
        (scheme.INGRESS_CLASSES, networking.INGRESS_CLASS),
        (scheme.NETWORK_POLICIES, networking.NETWORK_POLICY),
        (scheme.RUNTIME_CLASSES, networking.RUNTIME_CLASS),
        (scheme.LEASES, core.LEASE),
        (scheme.POD_DISRUPTION_BUDGETS, policy.POD_DISRUPTION_BUDGET),
        (scheme.ROLES, rbac.ROLE),
        (scheme.CLUSTER_ROLES, rbac.CLUSTER_ROLE),
        (scheme.ROLE_BINDINGS, rbac.ROLE_BINDING),
        (scheme.CLUSTER_ROLE_BINDINGS, rbac.CLUSTER_ROLE_BINDING),
        (scheme.WORKLOADS, workload.WORKLOAD),
        (scheme.POD_GROUPS, scheduling.POD_GROUP),
        (scheme.COMPOSITE_POD_GROUPS, scheduling.COMPOSITE_POD_GROUP),
        (scheme.JOB_SETS, jobset.JOB_SET),
        (scheme.TRAIN_JOBS, trainer.TRAIN_JOB),
        (scheme.TRAINING_RUNTIMES, trainer.TRAINING_RUNTIME),
        (scheme.CLUSTER_TRAINING_RUNTIMES, trainer.TRAINING_RUNTIME),
        (scheme.PRIORITY_CLASSES, scheduling.PRIORITY_CLASS),
        (scheme.VOLUME_CLAIMS, storage.CLAIM),
        (scheme.VOLUMES, storage.VOLUME),
        (scheme.STORAGE_CLASSES, storage.STORAGE_CLASS),
        (scheme.CSI_DRIVERS, storage.CSI_DRIVER),
        (scheme.CSI_NODES, storage.CSI_NODE),
        (scheme.CSI_STORAGE_CAPACITIES, storage.CSI_STORAGE_CAPACITY),
        (scheme.DEVICE_CLASSES, devices.DEVICE_CLASS),
        (scheme.DEVICE_TAINT_RULES, devices.DEVICE_TAINT_RULE),
        (scheme.RESOURCE_CLAIMS, devices.RESOURCE_CLAIM),
        (scheme.RESOURCE_CLAIM_TEMPLATES, devices.RESOURCE_CLAIM_TEMPLATE),
        (scheme.RESOURCE_SLICES, devices.RESOURCE_SLICE),
        (scheme.CUSTOM_RESOURCE_DEFINITIONS, custom_resource_definitions.CUSTOM_RESOURCE_DEFINITION),
    )
}
_PLAIN = KindRules()
_PLAIN_CUSTOM = KindRules(status_metadata=NOTHING)
STATUS = "status"


def _of(resource: Resource) -> KindRules:
    return _KINDS.get((resource.group, resource.plural)) or (_PLAIN if resource.builtin else _PLAIN_CUSTOM)


def default(resource: Resource, obj: Object, old: Object | None) -> None:
    """Set, in place, the defaults that the schema cannot express; `old` is the stored object of an update."""
    _of(resource).default(obj, old)


def prepare_create(resource: Resource, obj: Object, now: float) -> None:
    """Set the initial status of a new object; a status in the request is dropped."""
    rules = _of(resource)
    metadata.without_repeated_owners(obj["metadata"])
    if resource.has_status and not rules.keeps_status_on_create:
        obj.pop("status", None)
        if resource.builtin:
            # Built-in kinds always have a status, custom kinds none until their controller writes it.
            obj["status"] = {}
    rules.start(obj, now)


def prepare_update(resource: Resource, new: Object, old: Object, subresource: str = "", now: float = 0.0) -> None:
    """Restore, in place, everything that this endpoint may not write; the server sets the generation.

    Other subresources than `/status` (binding, finalize, …) are written field by field by their own code.
    """
    rules = _of(resource)
    if subresource == STATUS:
        _keep_all_but_status(rules, new, old)
        rules.keep_status(new, old)
        return
    metadata.keep(new["metadata"], old["metadata"])
    metadata.without_repeated_owners(new["metadata"])
    if not subresource:
        if resource.has_status:
            _copy("status", new, old)
        rules.keep(new, old, now)


def _keep_all_but_status(rules: KindRules, new: Object, old: Object) -> None:
    sent = new["metadata"]
    kept = {**old["metadata"]}
    for field in rules.status_metadata:
        _copy(field, kept, sent)
    for field in ("name", "namespace", "uid", "resourceVersion"):
        if field in sent:
            kept[field] = sent[field]
    new["metadata"] = kept
    for field in [*new, *old]:
        if field not in ("apiVersion", "kind", "metadata", "status"):
            _copy(field, new, old)


def _copy(field: str, target: Object, source: Object) -> None:
    """Copy a field, or remove it if it is absent in `source`."""
    if field in source:
        target[field] = source[field]
    else:
        target.pop(field, None)


def validate_create(resource: Resource, obj: Object) -> list[FieldError]:
    """All errors of a new object, metadata first."""
    return metadata.validate(resource, obj["metadata"]) + _of(resource).validate_create(obj)


def validate_update(resource: Resource, new: Object, old: Object, subresource: str = "") -> list[FieldError]:
    """All errors of a changed object; `/status` has its own rules, other subresources have none here."""
    problems = metadata.validate_update(resource, new["metadata"], old["metadata"])
    rules = _of(resource)
    if subresource == STATUS:
        return problems + rules.validate_status(new, old)
    return problems if subresource else problems + rules.validate_update(new, old)


def warnings(resource: Resource, obj: Object) -> list[str]:
    """Warnings for objects that are accepted but probably not intended."""
    unknown = [name for name in meta.annotations(obj) if name.startswith(PREFIX) and name not in OURS]
    return [f"metadata.annotations[{name}]: unknown, has no effect" for name in unknown] + _of(resource).warnings(obj)
