"""The table of served kinds with their groups, versions and names, used by all packages.

A `Resource` is a kind *at a version*.  Objects are stored once, at their storage version.  The JSON of a kind is the
same at every served version, so reading at another version only changes `apiVersion`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from .custom_kind import CustomKind

#: The version reported by the API: the Kubernetes release that it follows.
SERVED_VERSION = "v1.37.1+echelon"

#: A Kubernetes object as a JSON tree.  Objects handed out by caches are shared: never mutate them in place.
Object = dict[str, Any]


@dataclass(frozen=True)
class ScalePaths:
    """Where the fields of `/scale` are in an object."""

    replicas: tuple[str, ...] = ("spec", "replicas")
    status_replicas: tuple[str, ...] = ("status", "replicas")
    #: A label selector as an object, as a map of labels or as text; empty if the kind has none.
    selector: tuple[str, ...] = ("spec", "selector")


@dataclass(frozen=True)
class Resource:
    """One served kind at one version."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    #: Whether `/status` is a subresource of its own.
    has_status: bool = False
    #: Whether `metadata.generation` counts changes of the spec.
    has_generation: bool = False
    #: Built-in kinds support strategic merge patch, custom kinds do not.
    builtin: bool = True
    #: Whether PUT without a resourceVersion is accepted.
    unconditional_update: bool = True
    #: Whether PUT on a missing object creates it.
    create_on_update: bool = False
    storage_version: str = ""
    #: The kind in whose form and place objects are stored, if not its own.
    stored_as: Resource | None = None
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    #: Set if `/scale` is a subresource.
    scale: ScalePaths | None = None
    #: Other names than the lower case of the kind, and the kind with `List`.
    singular_name: str = ""
    list_kind_name: str = ""
    #: What a CustomResourceDefinition says of the kind; None for kinds that are known in advance.
    custom: CustomKind | None = field(default=None, compare=False, repr=False)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        # Almost all kinds differ in their plural; comparing all fields takes longer.
        if not isinstance(other, Resource) or self.plural != other.plural:
            return False
        return all(getattr(self, one.name) == getattr(other, one.name) for one in fields(self) if one.compare)

    def __hash__(self) -> int:
        return hash((self.group, self.version, self.plural))  # kinds are keys of many tables; all fields take longer

    @cached_property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def storage_api_version(self) -> str:
        if self.stored_as is not None:
            return self.stored_as.storage_api_version
        version = self.storage_version or self.version
        return f"{self.group}/{version}" if self.group else version

    @property
    def singular(self) -> str:
        return self.singular_name or self.kind.lower()

    @property
    def list_kind(self) -> str:
        return self.list_kind_name or self.kind + "List"

    @cached_property
    def qualified(self) -> str:
        """`jobs.batch`, as error messages name it; core kinds have no suffix."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @cached_property
    def prefix(self) -> str:
        """The store prefix of this kind, equal for all its versions."""
        stored = self.stored_as or self
        return f"/{stored.group or 'core'}/{stored.plural}/"

    def key(self, name: str, namespace: str = "") -> str:
        """The store key of one object."""
        return f"{self.prefix}{namespace}/{name}" if self.namespaced else f"{self.prefix}{name}"


_SCHEDULING = "scheduling.k8s.io"
_JOBSET = "jobset.x-k8s.io"
_TRAINER = "trainer.kubeflow.org"
_RBAC = "rbac.authorization.k8s.io"
_AUTHORIZATION = "authorization.k8s.io"
_AUTHENTICATION = "authentication.k8s.io"
_NETWORKING = "networking.k8s.io"
_RESOURCE = "resource.k8s.io"
_ALL = ("all",)

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False, has_status=True, short_names=("ns",))
NODES = Resource("", "v1", "nodes", "Node", namespaced=False, has_status=True, short_names=("no",))
PODS = Resource("", "v1", "pods", "Pod", has_status=True, has_generation=True, short_names=("po",), categories=_ALL)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", short_names=("cm",))
SECRETS = Resource("", "v1", "secrets", "Secret")
SERVICES = Resource(
    "", "v1", "services", "Service", has_status=True, create_on_update=True, short_names=("svc",), categories=_ALL
)
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", short_names=("sa",))
VOLUME_CLAIMS = Resource(
    "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", has_status=True, short_names=("pvc",)
)
VOLUMES = Resource(
    "", "v1", "persistentvolumes", "PersistentVolume", namespaced=False, has_status=True, short_names=("pv",)
)
STORAGE_CLASSES = Resource(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False, short_names=("sc",)
)
CSI_DRIVERS = Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False, has_generation=True)
CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False)
CSI_STORAGE_CAPACITIES = Resource("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity")
DEVICE_CLASSES = Resource(_RESOURCE, "v1", "deviceclasses", "DeviceClass", namespaced=False, has_generation=True)
DEVICE_TAINT_RULES = Resource(
    _RESOURCE, "v1", "devicetaintrules", "DeviceTaintRule", namespaced=False, has_status=True, has_generation=True
)
RESOURCE_CLAIMS = Resource(_RESOURCE, "v1", "resourceclaims", "ResourceClaim", has_status=True)
RESOURCE_CLAIM_TEMPLATES = Resource(_RESOURCE, "v1", "resourceclaimtemplates", "ResourceClaimTemplate")
RESOURCE_SLICES = Resource(_RESOURCE, "v1", "resourceslices", "ResourceSlice", namespaced=False, has_generation=True)
ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints", create_on_update=True, short_names=("ep",))
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", has_generation=True)
POD_TEMPLATES = Resource("", "v1", "podtemplates", "PodTemplate", has_generation=True)
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota", has_status=True, short_names=("quota",))
LIMIT_RANGES = Resource("", "v1", "limitranges", "LimitRange", create_on_update=True, short_names=("limits",))
CONTROLLER_REVISIONS = Resource("apps", "v1", "controllerrevisions", "ControllerRevision")
EVENTS = Resource("", "v1", "events", "Event", create_on_update=True, short_names=("ev",))
EVENTS_V1 = Resource(
    "events.k8s.io", "v1", "events", "Event", create_on_update=True, short_names=("ev",), stored_as=EVENTS
)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", unconditional_update=False, create_on_update=True)
PRIORITY_CLASSES = Resource(
    _SCHEDULING, "v1", "priorityclasses", "PriorityClass", namespaced=False, has_generation=True, short_names=("pc",)
)
POD_DISRUPTION_BUDGETS = Resource(
    "policy",
    "v1",
    "poddisruptionbudgets",
    "PodDisruptionBudget",
    has_status=True,
    has_generation=True,
    unconditional_update=False,
    short_names=("pdb",),
)
WORKLOADS = Resource(
    _SCHEDULING, "v1beta1", "workloads", "Workload", unconditional_update=False, storage_version="v1beta1"
)
POD_GROUPS = Resource(
    _SCHEDULING,
    "v1beta1",
    "podgroups",
    "PodGroup",
    has_status=True,
    unconditional_update=False,
    storage_version="v1beta1",
)
WORKLOADS_ALPHA = Resource(
    _SCHEDULING, "v1alpha3", "workloads", "Workload", unconditional_update=False, storage_version="v1beta1"
)
POD_GROUPS_ALPHA = Resource(
    _SCHEDULING,
    "v1alpha3",
    "podgroups",
    "PodGroup",
    has_status=True,
    unconditional_update=False,
    storage_version="v1beta1",
)
COMPOSITE_POD_GROUPS = Resource(
    _SCHEDULING, "v1alpha3", "compositepodgroups", "CompositePodGroup", has_status=True, unconditional_update=False
)
#: The same kinds for servers that have no groups of pods, as CustomResourceDefinitions of Echelon's own.
_OWN_GROUPS = "scheduling.echelon.dev"
OWN_WORKLOADS = Resource(
    _OWN_GROUPS, "v1alpha1", "workloads", "Workload", builtin=False, has_generation=True, unconditional_update=False
)
OWN_POD_GROUPS = Resource(
    _OWN_GROUPS,
    "v1alpha1",
    "podgroups",
    "PodGroup",
    has_status=True,
    builtin=False,
    has_generation=True,
    unconditional_update=False,
)
OWN_COMPOSITE_POD_GROUPS = Resource(
    _OWN_GROUPS,
    "v1alpha1",
    "compositepodgroups",
    "CompositePodGroup",
    has_status=True,
    builtin=False,
    has_generation=True,
    unconditional_update=False,
)
#: Native kind → its own counterpart.
OWN_GROUP_KINDS = {
    WORKLOADS: OWN_WORKLOADS,
    POD_GROUPS: OWN_POD_GROUPS,
    COMPOSITE_POD_GROUPS: OWN_COMPOSITE_POD_GROUPS,
}
REPLICATION_CONTROLLERS = Resource(
    "",
    "v1",
    "replicationcontrollers",
    "ReplicationController",
    has_status=True,
    has_generation=True,
    short_names=("rc",),
    categories=_ALL,
    scale=ScalePaths(),
)
DEPLOYMENTS = Resource(
    "apps",
    "v1",
    "deployments",
    "Deployment",
    has_status=True,
    has_generation=True,
    short_names=("deploy",),
    categories=_ALL,
    scale=ScalePaths(),
)
REPLICA_SETS = Resource(
    "apps",
    "v1",
    "replicasets",
    "ReplicaSet",
    has_status=True,
    has_generation=True,
    short_names=("rs",),
    categories=_ALL,
    scale=ScalePaths(),
)
DAEMON_SETS = Resource(
    "apps",
    "v1",
    "daemonsets",
    "DaemonSet",
    has_status=True,
    has_generation=True,
    short_names=("ds",),
    categories=_ALL,
)
STATEFUL_SETS = Resource(
    "apps",
    "v1",
    "statefulsets",
    "StatefulSet",
    has_status=True,
    has_generation=True,
    short_names=("sts",),
    categories=_ALL,
    scale=ScalePaths(),
)
JOBS = Resource("batch", "v1", "jobs", "Job", has_status=True, has_generation=True, categories=_ALL)
CRON_JOBS = Resource(
    "batch",
    "v1",
    "cronjobs",
    "CronJob",
    has_status=True,
    has_generation=True,
    short_names=("cj",),
    categories=_ALL,
)
INGRESSES = Resource(
    _NETWORKING, "v1", "ingresses", "Ingress", has_status=True, has_generation=True, short_names=("ing",)
)
INGRESS_CLASSES = Resource(_NETWORKING, "v1", "ingressclasses", "IngressClass", namespaced=False, has_generation=True)
NETWORK_POLICIES = Resource(
    _NETWORKING, "v1", "networkpolicies", "NetworkPolicy", has_generation=True, short_names=("netpol",)
)
RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
JOB_SETS = Resource(
    _JOBSET,
    "v1alpha2",
    "jobsets",
    "JobSet",
    has_status=True,
    has_generation=True,
    builtin=False,
    unconditional_update=False,
    categories=_ALL,
)
TRAIN_JOBS = Resource(
    _TRAINER,
    "v1alpha1",
    "trainjobs",
    "TrainJob",
    has_status=True,
    has_generation=True,
    builtin=False,
    unconditional_update=False,
    categories=_ALL,
)
TRAINING_RUNTIMES = Resource(
    _TRAINER,
    "v1alpha1",
    "trainingruntimes",
    "TrainingRuntime",
    has_generation=True,
    builtin=False,
    unconditional_update=False,
)
CLUSTER_TRAINING_RUNTIMES = Resource(
    _TRAINER,
    "v1alpha1",
    "clustertrainingruntimes",
    "ClusterTrainingRuntime",
    namespaced=False,
    has_generation=True,
    builtin=False,
    unconditional_update=False,
)
CUSTOM_RESOURCE_DEFINITIONS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
    has_status=True,
    has_generation=True,
    unconditional_update=False,
    short_names=("crd", "crds"),
    categories=("api-extensions",),
)
ROLES = Resource(_RBAC, "v1", "roles", "Role", create_on_update=True)
ROLE_BINDINGS = Resource(_RBAC, "v1", "rolebindings", "RoleBinding", create_on_update=True)
CLUSTER_ROLES = Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False, create_on_update=True)
CLUSTER_ROLE_BINDINGS = Resource(
    _RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False, create_on_update=True
)

SELF_SUBJECT_ACCESS_REVIEWS = Resource(
    _AUTHORIZATION, "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
SELF_SUBJECT_RULES_REVIEWS = Resource(
    _AUTHORIZATION, "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", namespaced=False
)
SUBJECT_ACCESS_REVIEWS = Resource(_AUTHORIZATION, "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False)
LOCAL_SUBJECT_ACCESS_REVIEWS = Resource(_AUTHORIZATION, "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview")
SELF_SUBJECT_REVIEWS = Resource(_AUTHENTICATION, "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)
TOKEN_REVIEWS = Resource(_AUTHENTICATION, "v1", "tokenreviews", "TokenReview", namespaced=False)
#: The body of `serviceaccounts/{name}/token`.
TOKEN_REQUESTS = Resource(_AUTHENTICATION, "v1", "tokenrequests", "TokenRequest")

#: The kind of `/scale`; it is never stored.
SCALES = Resource("autoscaling", "v1", "scales", "Scale")

#: Kinds that are created and answered but never stored, in discovery order.
REVIEWS: tuple[Resource, ...] = (
    SELF_SUBJECT_REVIEWS,
    TOKEN_REVIEWS,
    LOCAL_SUBJECT_ACCESS_REVIEWS,
    SELF_SUBJECT_ACCESS_REVIEWS,
    SELF_SUBJECT_RULES_REVIEWS,
    SUBJECT_ACCESS_REVIEWS,
)

NODE_METRICS = Resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", namespaced=False)
POD_METRICS = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")
#: Kinds that are measured when they are read, by servers with nodes that can be measured.
METRICS: tuple[Resource, ...] = (NODE_METRICS, POD_METRICS)

#: Every stored resource at every served version, in discovery order.
RESOURCES: tuple[Resource, ...] = (
    NAMESPACES,
    NODES,
    PODS,
    CONFIG_MAPS,
    SECRETS,
    SERVICES,
    SERVICE_ACCOUNTS,
    VOLUME_CLAIMS,
    VOLUMES,
    ENDPOINTS,
    POD_TEMPLATES,
    RESOURCE_QUOTAS,
    LIMIT_RANGES,
    EVENTS,
    CONTROLLER_REVISIONS,
    REPLICATION_CONTROLLERS,
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    DAEMON_SETS,
    JOBS,
    CRON_JOBS,
    INGRESSES,
    INGRESS_CLASSES,
    NETWORK_POLICIES,
    RUNTIME_CLASSES,
    LEASES,
    ENDPOINT_SLICES,
    EVENTS_V1,
    POD_DISRUPTION_BUDGETS,
    ROLES,
    ROLE_BINDINGS,
    CLUSTER_ROLES,
    CLUSTER_ROLE_BINDINGS,
    PRIORITY_CLASSES,
    WORKLOADS,
    POD_GROUPS,
    WORKLOADS_ALPHA,
    POD_GROUPS_ALPHA,
    COMPOSITE_POD_GROUPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    STORAGE_CLASSES,
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    RESOURCE_CLAIMS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_SLICES,
    JOB_SETS,
    TRAIN_JOBS,
    TRAINING_RUNTIMES,
    CLUSTER_TRAINING_RUNTIMES,
)

_BY_PATH = {(r.group, r.version, r.plural): r for r in (*RESOURCES, *REVIEWS)}
_BY_KIND = {(r.api_version, r.kind): r for r in (*RESOURCES, *REVIEWS)}


def by_path(group: str, version: str, plural: str) -> Resource | None:
    """The resource behind `/apis/{group}/{version}/{plural}` (group "" for core)."""
    return _BY_PATH.get((group, version, plural))


def by_kind(api_version: str, kind: str) -> Resource | None:
    """The resource an object of that apiVersion and kind belongs to."""
    return _BY_KIND.get((api_version, kind))
