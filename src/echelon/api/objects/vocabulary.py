"""Well-known labels, annotations, finalizers and condition types: those of Echelon (`echelon.dev/`) and of others.

No manifest needs an `echelon.dev/` annotation to run on a stock cluster.
"""

from __future__ import annotations

PREFIX = "echelon.dev/"

#: Pod annotation: seconds a simulated pod runs before it ends.
RUN_SECONDS = PREFIX + "run-seconds"
#: Pod annotation: the exit code with which a simulated pod ends.
EXIT_CODE = PREFIX + "exit-code"
#: Node annotation: how a simulated node fails: `lost` or `not-ready`.
NODE_FAILURE = PREFIX + "node-failure"
#: Label of the leases that simulated nodes renew.
SIMULATED = PREFIX + "simulated"
#: Node label: `processes` if its pods run as processes of this machine.
RUNS = PREFIX + "runs"
#: Pod label: the PodGroup of the pod, for servers without spec.schedulingGroup; it counts before that field.
POD_GROUP = PREFIX + "pod-group"
#: Job annotation: spec.scheduling as JSON, where the server has no such field.
JOB_SCHEDULING = PREFIX + "scheduling"
#: PodGroup annotation: topology key of which this group takes whole domains, one group per domain and priority.
EXCLUSIVE_TOPOLOGY = PREFIX + "exclusive-topology"
#: Annotation of a Job template in a JobSet: pods of its Job 3 are in the PodGroup of this name and `-3`.
GROUP_PER_JOB = PREFIX + "group-per-job"
#: Annotation of a TrainJob, or of a Job template in its runtime: the topology key whose domain must hold the gang.
REQUIRED_TOPOLOGY = PREFIX + "required-topology"
#: Annotation of a TrainJob or its runtime: `true` gives the trainer's pods what they need to report progress.
PROGRESS_REPORTS = PREFIX + "progress-reports"
#: PodGroup and CompositePodGroup annotation: ordered, comma-separated topology keys to prefer, narrowest first.
PREFERRED_TOPOLOGY = PREFIX + "preferred-topology"
#: Label of everything that `echelon install` makes: the namespace of the installation.
INSTALLATION = PREFIX + "installation"
#: Pod annotation: the name of the scheduler that evicts it; a scheduler that starts goes on with its own evictions.
EVICTED_BY = PREFIX + "evicted-by"
#: Pod annotation beside it: when the last of the pods that are evicted with it got its node, as the API server says.
#: Pods of the unit that were bound later belong to a new run.
EVICTED_BOUND_UNTIL = PREFIX + "evicted-bound-until"

#: Job, PodGroup and CompositePodGroup annotation, written by controllers: when the object was created that a user made
#: and for which this one is made.  Among equal priorities it decides who is scheduled first.
QUEUED_SINCE = PREFIX + "queued-since"
#: JobSet annotation: what waits for room in the quotas of the namespace: each `stage`, or the `whole` JobSet.
QUOTA_ADMISSION = PREFIX + "quota-admission"
#: JobSet annotation: seconds that a stage may wait for quota before the JobSet fails.
QUOTA_TIMEOUT = PREFIX + "quota-timeout-seconds"
#: JobSet annotation, written by the stage queue: the stages that hold a reservation, by the name of their first
#: replicated job, or `*`.
ADMITTED_STAGES = PREFIX + "admitted-stages"
#: JobSet annotation, written by the stage queue: `Reason: message` of what the next stage waits for.
QUOTA_WAIT = PREFIX + "quota-wait"
#: JobSet annotation: `true` if a restart leaves complete what others depend on to be Complete.
KEEP_COMPLETED_STAGES = PREFIX + "keep-completed-stages"
#: What a TrainJob hands on to its JobSet.
STAGE_OPTIONS = (QUOTA_ADMISSION, QUOTA_TIMEOUT, KEEP_COMPLETED_STAGES)

#: Every name of ours; others with the prefix are misspelt.
OURS = frozenset(value for value in list(globals().values()) if isinstance(value, str) and value.startswith(PREFIX))

#: The scheduler of pods that name none; on a real cluster that is kube-scheduler.
DEFAULT_SCHEDULER = "default-scheduler"
#: Our scheduler beside another.
OWN_SCHEDULER = "echelon"
#: The values of spec.schedulerName that the embedded scheduler serves.
OUR_SCHEDULERS = (DEFAULT_SCHEDULER, OWN_SCHEDULER)

HOSTNAME = "kubernetes.io/hostname"
OS = "kubernetes.io/os"
ARCH = "kubernetes.io/arch"
REGION = "topology.kubernetes.io/region"
ZONE = "topology.kubernetes.io/zone"
BLOCK = "topology.kubernetes.io/block"
RACK = "topology.kubernetes.io/rack"
#: Topology keys from wide to narrow, if no cluster file or option sets others.
DEFAULT_LEVELS = (REGION, ZONE, BLOCK, RACK, HOSTNAME)

#: Kind → the condition that is True once the group has been scheduled; it stays True.
INITIALLY_SCHEDULED = {kind: f"{kind}InitiallyScheduled" for kind in ("PodGroup", "CompositePodGroup")}

#: Finalizer of a ResourceClaim that has devices, and the annotation that says which claim of its owner it is.
CLAIM_PROTECTION = "resource.kubernetes.io/delete-protection"
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
POD_GROUP_PROTECTION = "scheduling.k8s.io/podgroup-protection"
COMPOSITE_PROTECTION = "scheduling.k8s.io/compositepodgroup-protection"
GROUP_TEMPLATE_NAME = "scheduling.k8s.io/group-template-name"
#: Beside the one above: the CompositePodGroup under which the PodGroup of a Job or TrainJob is made.
PARENT_COMPOSITE = "scheduling.k8s.io/parent-compositepodgroup"
#: Job condition, True while its pods lack the group that its user asked for.
GROUPING_DEGRADED = "GroupingDegraded"
#: Condition of Jobs and JobSets, True while an object that they need cannot be made.
CREATION_FAILED = "CreationFailed"
#: Condition of Jobs and JobSets, True while a gang of theirs is not placed; its reason and message say why.
GANG_PENDING = "GangPending"
NODE_LEASES = "kube-node-lease"
#: Taints that say how a node is.
NODE_STATE_TAINTS = "node.kubernetes.io/"
NOT_READY = NODE_STATE_TAINTS + "not-ready"
UNREACHABLE = NODE_STATE_TAINTS + "unreachable"
UNSCHEDULABLE = NODE_STATE_TAINTS + "unschedulable"
OUT_OF_SERVICE = NODE_STATE_TAINTS + "out-of-service"
JOB_TRACKING = "batch.kubernetes.io/job-tracking"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
JOB_NAME = "batch.kubernetes.io/job-name"
CONTROLLER_UID = "batch.kubernetes.io/controller-uid"

#: Pod annotation of kubelets: the object stands for a static pod of its node; deleting it ends nothing.
MIRROR_POD = "kubernetes.io/config.mirror"
#: Annotations of Kueue on pods: the topology key whose domain must, or should, hold all pods of the pod set.
KUEUE_REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"
KUEUE_PREFERRED_TOPOLOGY = "kueue.x-k8s.io/podset-preferred-topology"
#: Label of Kueue: the queue in which a Job or pod waits.
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
#: What the names of Kueue's scheduling gates begin with.
KUEUE_GATES = "kueue.x-k8s.io/"

#: Kind → the value of spec.managedBy that stands for the controller of Kubernetes, JobSet or Trainer.
MANAGERS = {
    "Job": "kubernetes.io/job-controller",
    "JobSet": "jobset.sigs.k8s.io/jobset-controller",
    "TrainJob": "trainer.kubeflow.org/trainjob-controller",
}

JOBSET_PREFIX = "jobset.sigs.k8s.io/"
JOBSET_NAME = JOBSET_PREFIX + "jobset-name"
REPLICATED_JOB_NAME = JOBSET_PREFIX + "replicatedjob-name"
RESTART_ATTEMPT = JOBSET_PREFIX + "restart-attempt"
IN_PLACE_ATTEMPT = JOBSET_PREFIX + "in-place-restart-attempt"
DISABLE_IN_PLACE_RESTART = JOBSET_PREFIX + "disable-in-place-restart"
JOBSET_PRIORITY = JOBSET_PREFIX + "priority"
JOBSET_JOB_KEY = JOBSET_PREFIX + "job-key"
JOBSET_NODE_SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"
JOBSET_EXCLUSIVE_TOPOLOGY = "alpha.jobset.sigs.k8s.io/exclusive-topology"
#: Annotation of a runtime: `together` lets all pods of the gang start at once, whatever waits for Ready.
GANG_START = "trainer.kubeflow.org/gang-start"
#: Names in a pod that leave it to the scheduler of the plane.
DEFAULT_SCHEDULERS = ("", *OUR_SCHEDULERS)
TRAINJOB_ANCESTOR_STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
