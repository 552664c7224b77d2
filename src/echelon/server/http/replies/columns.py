"""The table columns of each kind, as `kubectl get` prints them, and the functions of their cells.

A cell is a function of the object and the time.  Every function accepts objects that have only metadata, such as watch
bookmarks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ....api.objects import event_forms, meta
from ....api.objects.selectors import selector_text
from ....api.objects.subtree import items, mapping
from ....api.scheme import Object, Resource
from . import endpoint_cells, network_cells, pod_cells, storage_cells
from .durations import since
from .group_cells import composite_status, group_status, policy, workload
from .job_cells import (
    completions,
    job_duration,
    job_status,
    pod_selector,
    ready_of_wanted,
    template_containers,
    template_images,
)

Cell = Callable[[Object, float], Any]


@dataclass(frozen=True)
class Column:
    name: str
    cell: Cell
    description: str
    type: str = "string"
    format: str = ""
    #: Shown with `-o wide` only.
    wide: bool = False
    #: The priority of a custom column: only 0 is shown without `-o wide`.
    priority: int = 0


def _field(*path: str, default: Any = "") -> Cell:
    """A cell that shows the field at `path`, or `default`."""

    def cell(obj: Object, _now: float) -> Any:
        value: Any = obj
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        return default if value is None or value == "" else value

    return cell


def _name(obj: Object, _now: float) -> str:
    return meta.name(obj)


def _age(obj: Object, now: float) -> str:
    return since(obj["metadata"].get("creationTimestamp"), now)


def _taint_age(rule: Object, now: float) -> str:
    added = (rule["spec"].get("taint") or {}).get("timeAdded")
    return since(added, now) if added else ""


def _pairs(pairs: Any) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((pairs or {}).items())) or "<none>"


def _node_status(node: Object, _now: float) -> str:
    found = meta.find_condition(node, "Ready")
    ready = "Ready" if found and found.get("status") == "True" else "NotReady"
    word = ready if found else "Unknown"
    return f"{word},SchedulingDisabled" if (node.get("spec") or {}).get("unschedulable") else word


def _node_roles(node: Object, _now: float) -> str:
    prefix = "node-role.kubernetes.io/"
    roles = {key.removeprefix(prefix) for key in meta.labels(node) if key.startswith(prefix)}
    roles |= {value for key, value in meta.labels(node).items() if key == "kubernetes.io/role" and value}
    return ",".join(sorted(roles - {""})) or "<none>"


def _node_address(type_: str) -> Cell:
    def cell(node: Object, _now: float) -> str:
        for address in (node.get("status") or {}).get("addresses") or ():
            if address.get("type") == type_:
                return str(address["address"])
        return "<none>"

    return cell


def _data_count(obj: Object, _now: float) -> int:
    return len(obj.get("data") or ()) + len(obj.get("binaryData") or ())


def _service_ip(service: Object, _now: float) -> str:
    return (service.get("spec") or {}).get("clusterIP") or "<none>"


def _external_ip(service: Object, _now: float) -> str:
    spec = service.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName") or "<none>")
    ingress = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    shown = [point.get("ip") or point.get("hostname") or "" for point in ingress] + list(spec.get("externalIPs") or ())
    if shown:
        return ",".join(shown)
    return "<pending>" if spec.get("type") == "LoadBalancer" else "<none>"


def _ports(service: Object, _now: float) -> str:
    shown = []
    for port in (service.get("spec") or {}).get("ports") or ():
        number = f"{port['port']}:{port['nodePort']}" if port.get("nodePort") else str(port["port"])
        shown.append(f"{number}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or "<none>"


def _budget(field: str) -> Cell:
    return _field("spec", field, default="N/A")


def _event_object(event: Object, _now: float) -> str:
    about = event.get("involvedObject") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _event_source(event: Object, _now: float) -> str:
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent") or ""
    instance = source.get("host") or event.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else component


def _event_first(event: Object) -> Any:
    return event.get("firstTimestamp") or event.get("eventTime")


def _event_first_seen(event: Object, now: float) -> str:
    return since(_event_first(event), now)


def _event_last_seen(event: Object, now: float) -> str:
    series = (event.get("series") or {}).get("lastObservedTime")
    return since(series or event.get("lastTimestamp") or _event_first(event), now)


def _event_count(event: Object, _now: float) -> int:
    return int((event.get("series") or {}).get("count") or event.get("count") or 1)


def _condition_status(type_: str) -> Cell:
    def cell(obj: Object, _now: float) -> str:
        found = meta.find_condition(obj, type_)
        return str(found["status"]) if found else ""

    return cell


def _condition_message(type_: str) -> Cell:
    def cell(obj: Object, _now: float) -> str:
        found = meta.find_condition(obj, type_)
        return str(found.get("message", "")) if found else ""

    return cell


def _last_condition(obj: Object, _now: float) -> str:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return str(conditions[-1].get("type", "")) if conditions else ""


def _progress(obj: Object, _now: float) -> str:
    percent = ((obj.get("status") or {}).get("trainerStatus") or {}).get("progressPercentage")
    return "" if percent is None else f"{percent}%"


def _suspended(obj: Object, _now: float) -> str:
    suspend = (obj.get("spec") or {}).get("suspend")
    return "" if suspend is None else str(bool(suspend)).lower()


def _node_selector(obj: Object, _now: float) -> str:
    template = (obj.get("spec") or {}).get("template") or {}
    return _pairs((template.get("spec") or {}).get("nodeSelector"))


def _text(cell: Cell) -> Cell:
    """A number shown as text, as columns of custom kinds are declared."""
    return lambda obj, now: str(cell(obj, now))


_NAME = Column("Name", _name, "The object's name, unique within its namespace.", format="name")
_AGE = Column("Age", _age, "How long ago the object was created.")

_PODS = (
    _NAME,
    Column("Ready", pod_cells.ready, "Containers that are ready, of all."),
    Column("Status", pod_cells.reason, "How the pod is, in one word."),
    Column("Restarts", pod_cells.restarts, "How often its containers were restarted, and when last."),
    _AGE,
    Column("IP", pod_cells.ip, "The pod's address.", wide=True),
    Column("Node", _field("spec", "nodeName", default="<none>"), "The node the pod is bound to.", wide=True),
    Column(
        "Nominated Node",
        _field("status", "nominatedNodeName", default="<none>"),
        "The node where room is being made for it.",
        wide=True,
    ),
    Column("Readiness Gates", pod_cells.readiness_gates, "Extra conditions that hold, of those asked for.", wide=True),
)

_NODES = (
    _NAME,
    Column("Status", _node_status, "Whether the node is ready and takes new pods."),
    Column("Roles", _node_roles, "Roles given by labels."),
    _AGE,
    Column("Version", _field("status", "nodeInfo", "kubeletVersion"), "The version its agent reports."),
    Column("Internal-IP", _node_address("InternalIP"), "The address inside the cluster.", wide=True),
    Column("External-IP", _node_address("ExternalIP"), "The address from outside.", wide=True),
    Column(
        "OS-Image", _field("status", "nodeInfo", "osImage", default="<unknown>"), "The operating system.", wide=True
    ),
    Column("Kernel-Version", _field("status", "nodeInfo", "kernelVersion", default="<unknown>"), "Kernel.", wide=True),
    Column(
        "Container-Runtime",
        _field("status", "nodeInfo", "containerRuntimeVersion", default="<unknown>"),
        "What runs its containers.",
        wide=True,
    ),
)

_TEMPLATE = (
    Column("Containers", template_containers, "Names of the containers.", wide=True),
    Column("Images", template_images, "Images of the containers.", wide=True),
    Column("Selector", pod_selector, "Which pods belong to it.", wide=True),
)
_JOBS = (
    _NAME,
    Column("Status", job_status, "How the job is, in one word."),
    Column("Completions", completions, "Pods that succeeded, of those wanted."),
    Column("Duration", job_duration, "From start to end, or until now."),
    _AGE,
    *_TEMPLATE,
)
_REPLICAS = (
    _NAME,
    Column("Desired", _field("spec", "replicas", default=0), "Pods that are wanted.", type="integer"),
    Column("Current", _field("status", "replicas", default=0), "Pods that there are.", type="integer"),
    Column("Ready", _field("status", "readyReplicas", default=0), "Pods that are ready.", type="integer"),
    _AGE,
    *_TEMPLATE,
)
_STATEFUL_SETS = (
    _NAME,
    Column("Ready", ready_of_wanted, "Pods that are ready, of those wanted."),
    _AGE,
    *_TEMPLATE[:2],
)
_DAEMON_SETS = (
    _NAME,
    Column("Desired", _field("status", "desiredNumberScheduled", default=0), "Nodes that need one.", type="integer"),
    Column("Current", _field("status", "currentNumberScheduled", default=0), "Nodes that have one.", type="integer"),
    Column("Ready", _field("status", "numberReady", default=0), "Nodes where it is ready.", type="integer"),
    Column("Up-to-date", _field("status", "updatedNumberScheduled", default=0), "Newest template.", type="integer"),
    Column("Available", _field("status", "numberAvailable", default=0), "Ready for long enough.", type="integer"),
    Column("Node Selector", _node_selector, "Which nodes it is for."),
    _AGE,
    *_TEMPLATE,
)
_DEPLOYMENTS = (
    _NAME,
    Column("Ready", ready_of_wanted, "Pods that are ready, of those wanted."),
    Column("Up-to-date", _field("status", "updatedReplicas", default=0), "Pods of the newest template."),
    Column("Available", _field("status", "availableReplicas", default=0), "Pods that are ready for long enough."),
    _AGE,
    *_TEMPLATE,
)

_EVENTS = (
    Column("Last Seen", _event_last_seen, "When it happened last."),
    Column("Type", _field("type"), "Normal or Warning."),
    Column("Reason", _field("reason"), "What happened, in one word."),
    Column("Object", _event_object, "What it happened to."),
    Column("Subobject", _field("involvedObject", "fieldPath"), "Which part of it.", wide=True),
    Column("Source", _event_source, "Who says so.", wide=True),
    Column("Message", _field("message"), "What happened, in a sentence."),
    Column("First Seen", _event_first_seen, "When it happened first.", wide=True),
    Column("Count", _event_count, "How often it happened.", wide=True),
    Column("Name", _name, "The event's name.", format="name", wide=True),
)

_SERVICES = (
    _NAME,
    Column("Type", _field("spec", "type"), "How the service is reached."),
    Column("Cluster-IP", _service_ip, "Its address, None if headless."),
    Column("External-IP", _external_ip, "Its addresses from outside."),
    Column("Port(s)", _ports, "Ports and protocols."),
    _AGE,
    Column("Selector", lambda obj, _now: _pairs((obj.get("spec") or {}).get("selector")), "Pods behind it.", wide=True),
)

_GROUP = (
    _NAME,
    Column("Policy", policy, "Gang or Basic."),
    Column("Workload", workload, "The Workload it was made from."),
)

_VOLUME_CLASS = (
    Column("StorageClass", _field("spec", "storageClassName"), "The class that it belongs to."),
    Column("VolumeAttributesClass", storage_cells.attributes_class, "The class of attributes that it asks for."),
)
_VOLUME_MODE = Column("VolumeMode", storage_cells.volume_mode, "A file system or a raw device.", wide=True)
_CLAIMS = (
    _NAME,
    Column("Status", storage_cells.phase, "Pending, Bound or Lost."),
    Column("Volume", _field("spec", "volumeName"), "The volume that it is bound to."),
    Column("Capacity", storage_cells.claim_capacity, "What the volume holds."),
    Column("Access Modes", storage_cells.claim_modes, "How many nodes or pods may use it."),
    *_VOLUME_CLASS,
    _AGE,
    _VOLUME_MODE,
)
_VOLUMES = (
    _NAME,
    Column("Capacity", storage_cells.volume_capacity, "What it holds."),
    Column("Access Modes", storage_cells.volume_modes, "How many nodes or pods may use it."),
    Column("Reclaim Policy", _field("spec", "persistentVolumeReclaimPolicy"), "What becomes of it after its claim."),
    Column("Status", storage_cells.phase, "Pending, Available, Bound, Released or Failed."),
    Column("Claim", storage_cells.volume_claim, "The claim that it is bound to."),
    *_VOLUME_CLASS,
    Column("Reason", _field("status", "reason"), "Why it failed."),
    _AGE,
    _VOLUME_MODE,
)
_DRIVERS = (
    _NAME,
    Column("AttachRequired", _field("spec", "attachRequired", default=True), "Whether volumes are attached first."),
    Column("PodInfoOnMount", _field("spec", "podInfoOnMount", default=False), "Whether it is told about pods."),
    Column("StorageCapacity", _field("spec", "storageCapacity", default=False), "Whether it publishes what is left."),
    _AGE,
)
_CLASSES = (
    Column("Name", storage_cells.class_name, _NAME.description, format="name"),
    Column("Provisioner", _field("provisioner"), "Who makes its volumes."),
    Column("ReclaimPolicy", _field("reclaimPolicy", default="Delete"), "What becomes of volumes after their claims."),
    Column("VolumeBindingMode", _field("volumeBindingMode", default="Immediate"), "When claims find their volumes."),
    Column("AllowVolumeExpansion", _field("allowVolumeExpansion", default=False), "Whether claims may grow."),
    _AGE,
)


def _role_ref(binding: Object, _now: float) -> str:
    reference = binding.get("roleRef") or {}
    return f"{reference.get('kind', '')}/{reference.get('name', '')}"


def _subjects(kind: str) -> Cell:
    """The names of the subjects of one kind."""

    def cell(binding: Object, _now: float) -> str:
        found = [one for one in binding.get("subjects") or () if one.get("kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{one.get('namespace', '')}/{one.get('name', '')}" for one in found)
        return ", ".join(one.get("name", "") for one in found)

    return cell


_NAME_AND_TIME = (
    _NAME,
    Column("Created At", _field("metadata", "creationTimestamp"), "When it was created.", type="date"),
)
_ROLE_BINDING = (
    _NAME,
    Column("Role", _role_ref, "The role that it grants."),
    _AGE,
    Column("Users", _subjects("User"), "Users in the binding.", wide=True),
    Column("Groups", _subjects("Group"), "Groups in the binding.", wide=True),
    Column("ServiceAccounts", _subjects("ServiceAccount"), "Service accounts in the binding.", wide=True),
)


def _quota_used(*, limits: bool) -> Cell:
    """`cpu: 1/2, pods: 3/10`: what is used of what is allowed."""

    def cell(quota: Object, _now: float) -> str:
        hard, used = mapping(quota, "status", "hard"), mapping(quota, "status", "used")
        names = [name for name in sorted(hard) if name.startswith("limits.") == limits]
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return cell


def _revision_controller(revision: Object, _now: float) -> str:
    owner = meta.controller_of(revision)
    if owner is None:
        return "<none>"
    group = owner["apiVersion"].rpartition("/")[0]
    return f"{owner['kind'].lower()}{f'.{group}' if group else ''}/{owner['name']}"


def _template_field(field: str) -> Cell:
    def cell(obj: Object, _now: float) -> str:
        return ",".join(one.get(field, "") for one in items(obj, "template", "spec", "containers"))

    return cell


def _selected_pods(policy: Object, _now: float) -> str:
    return selector_text(mapping(policy, "spec", "podSelector")) or "<none>"


def _last_schedule(cron_job: Object, now: float) -> str:
    last = mapping(cron_job, "status").get("lastScheduleTime")
    return since(last, now) if last else "<none>"


def _of_job_template(cell: Cell) -> Cell:
    """The cell of the Job that a CronJob would make."""
    return lambda cron_job, now: cell(mapping(cron_job, "spec", "jobTemplate"), now)


def _of_core_event(column: Column) -> Column:
    """The column for events in the form of events.k8s.io/v1."""
    return replace(column, cell=lambda event, now: column.cell(event_forms.to_core(event), now))


_NAMESPACE_KINDS = {
    ("events.k8s.io", "Event"): tuple(map(_of_core_event, _EVENTS)),
    ("", "Endpoints"): (_NAME, Column("Endpoints", endpoint_cells.endpoints, "Addresses with their ports."), _AGE),
    ("discovery.k8s.io", "EndpointSlice"): (
        _NAME,
        Column("AddressType", _field("addressType"), "IPv4, IPv6 or FQDN."),
        Column("Ports", endpoint_cells.slice_ports, "Ports of each endpoint."),
        Column("Endpoints", endpoint_cells.slice_endpoints, "Addresses of the endpoints."),
        _AGE,
    ),
    ("", "ResourceQuota"): (
        _NAME,
        Column("Request", _quota_used(limits=False), "What is used of counts and requests."),
        Column("Limit", _quota_used(limits=True), "What is used of limits."),
        _AGE,
    ),
    ("", "LimitRange"): (
        _NAME,
        Column("Created At", _field("metadata", "creationTimestamp"), "When it was created.", type="date"),
    ),
    ("", "PodTemplate"): (
        _NAME,
        Column("Containers", _template_field("name"), "Names of the containers."),
        Column("Images", _template_field("image"), "Images of the containers."),
        Column("Pod Labels", lambda obj, _now: _pairs(mapping(obj, "template", "metadata", "labels")), "Its labels."),
    ),
    ("networking.k8s.io", "Ingress"): (
        _NAME,
        Column("Class", _field("spec", "ingressClassName", default="<none>"), "Which controller acts on it."),
        Column("Hosts", network_cells.hosts, "Host names that it is for."),
        Column("Address", network_cells.address, "Where it is reached."),
        Column("Ports", network_cells.ports, "Ports that it is reached at."),
        _AGE,
    ),
    ("networking.k8s.io", "IngressClass"): (
        Column("Name", network_cells.class_name, _NAME.description, format="name"),
        Column("Controller", _field("spec", "controller"), "Who acts on its Ingresses."),
        Column("Parameters", network_cells.parameters, "The object with further parameters."),
        _AGE,
    ),
    ("networking.k8s.io", "NetworkPolicy"): (
        _NAME,
        Column("Pod-Selector", _selected_pods, "Pods that it is about."),
        _AGE,
    ),
    ("node.k8s.io", "RuntimeClass"): (_NAME, Column("Handler", _field("handler"), "What runs its containers."), _AGE),
    ("batch", "CronJob"): (
        _NAME,
        Column("Schedule", _field("spec", "schedule"), "When it runs."),
        Column("Timezone", _field("spec", "timeZone", default="<none>"), "The zone of the schedule."),
        Column("Suspend", network_cells.suspended, "Whether it is held back.", type="boolean"),
        Column("Active", network_cells.active, "Jobs that run now.", type="integer"),
        Column("Last Schedule", _last_schedule, "When it ran last."),
        _AGE,
        *(replace(column, cell=_of_job_template(column.cell)) for column in _TEMPLATE),
    ),
    ("apps", "ControllerRevision"): (
        _NAME,
        Column("Controller", _revision_controller, "The object whose state this is."),
        Column("Revision", _field("revision", default=0), "The number of the state."),
        _AGE,
    ),
}

_COLUMNS: dict[tuple[str, str], tuple[Column, ...]] = {
    **_NAMESPACE_KINDS,
    ("", "Pod"): _PODS,
    ("", "Node"): _NODES,
    ("", "Namespace"): (_NAME, Column("Status", _field("status", "phase"), "Active or Terminating."), _AGE),
    ("", "ConfigMap"): (_NAME, Column("Data", _data_count, "Number of entries.", type="string"), _AGE),
    ("", "Secret"): (
        _NAME,
        Column("Type", _field("type"), "What kind of secret it is."),
        Column("Data", _data_count, "Number of entries.", type="string"),
        _AGE,
    ),
    ("", "Service"): _SERVICES,
    ("", "ServiceAccount"): (
        _NAME,
        Column("Secrets", lambda obj, _now: len(obj.get("secrets") or ()), "Number of secrets it may use."),
        _AGE,
    ),
    ("", "PersistentVolumeClaim"): _CLAIMS,
    ("", "PersistentVolume"): _VOLUMES,
    ("", "Event"): _EVENTS,
    ("", "ReplicationController"): _REPLICAS,
    ("apps", "ReplicaSet"): _REPLICAS,
    ("apps", "Deployment"): _DEPLOYMENTS,
    ("apps", "StatefulSet"): _STATEFUL_SETS,
    ("apps", "DaemonSet"): _DAEMON_SETS,
    ("batch", "Job"): _JOBS,
    ("coordination.k8s.io", "Lease"): (
        _NAME,
        Column("Holder", _field("spec", "holderIdentity"), "Who holds the lease."),
        _AGE,
    ),
    ("policy", "PodDisruptionBudget"): (
        _NAME,
        Column("Min Available", _budget("minAvailable"), "Pods that must stay."),
        Column("Max Unavailable", _budget("maxUnavailable"), "Pods that may be away."),
        Column(
            "Allowed Disruptions",
            _field("status", "disruptionsAllowed", default=0),
            "Pods that may be evicted now.",
            type="integer",
        ),
        _AGE,
    ),
    ("rbac.authorization.k8s.io", "Role"): _NAME_AND_TIME,
    ("rbac.authorization.k8s.io", "ClusterRole"): _NAME_AND_TIME,
    ("rbac.authorization.k8s.io", "RoleBinding"): _ROLE_BINDING,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _ROLE_BINDING,
    ("storage.k8s.io", "StorageClass"): _CLASSES,
    ("storage.k8s.io", "CSIDriver"): _DRIVERS,
    ("storage.k8s.io", "CSINode"): (
        _NAME,
        Column(
            "Drivers",
            lambda obj, _now: len((obj.get("spec") or {}).get("drivers") or ()),
            "Drivers on the node.",
            type="integer",
        ),
        _AGE,
    ),
    ("storage.k8s.io", "CSIStorageCapacity"): (
        _NAME,
        Column("StorageClassName", _field("storageClassName"), "The class of volumes that it is for."),
        Column("Capacity", _field("capacity"), "What can still be provided."),
        _AGE,
    ),
    ("resource.k8s.io", "DeviceTaintRule"): (
        _NAME,
        Column("Key", _field("spec", "taint", "key"), "The key of the taint."),
        Column("Value", _field("spec", "taint", "value"), "The value of the taint."),
        Column("Effect", _field("spec", "taint", "effect"), "What it does to claims that do not tolerate it."),
        Column("TimeAdded", _taint_age, "Since when the taint has had this effect."),
        _AGE,
    ),
    ("resource.k8s.io", "ResourceClaim"): (
        _NAME,
        Column("State", storage_cells.claim_state, "Pending, allocated, reserved, deleted."),
        _AGE,
    ),
    ("resource.k8s.io", "ResourceSlice"): (
        _NAME,
        Column("Node", _field("spec", "nodeName"), "The node that has the devices."),
        Column("Driver", _field("spec", "driver"), "Who provides the devices."),
        Column("Pool", _field("spec", "pool", "name"), "The pool that they belong to."),
        _AGE,
    ),
    ("scheduling.k8s.io", "PriorityClass"): (
        _NAME,
        Column("Value", _field("value", default=0), "The priority pods of this class get.", type="integer"),
        Column("Global-Default", _field("globalDefault", default=False), "Used where none is named.", type="boolean"),
        _AGE,
        Column(
            "PreemptionPolicy",
            _field("preemptionPolicy", default="PreemptLowerPriority"),
            "Whether pods of this class may preempt others.",
        ),
    ),
    ("scheduling.k8s.io", "PodGroup"): (*_GROUP, Column("Status", group_status, "How its placement stands."), _AGE),
    ("scheduling.k8s.io", "CompositePodGroup"): (
        *_GROUP,
        Column("Status", composite_status, "How its placement stands."),
        _AGE,
    ),
    ("jobset.x-k8s.io", "JobSet"): (
        _NAME,
        Column("TerminalState", _field("status", "terminalState"), "Completed or Failed, once it ended."),
        Column("Restarts", _text(_field("status", "restarts", default="")), "How often all its jobs were recreated."),
        Column("Completed", _condition_status("Completed"), "Whether it completed."),
        Column("Suspended", _suspended, "Whether it is held back."),
        Column("Stage", _condition_message("StageRunning"), "Which stage runs or waits, and for what."),
        _AGE,
    ),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _NAME_AND_TIME,
    ("trainer.kubeflow.org", "TrainJob"): (
        _NAME,
        Column("State", _last_condition, "Its latest condition."),
        _AGE,
        Column("Progress", _progress, "Percent done, if the training reports it.", wide=True),
    ),
}
GENERIC = (_NAME, _AGE)


def columns_of(resource: Resource) -> tuple[Column, ...]:
    return _COLUMNS.get((resource.group, resource.kind), GENERIC)
