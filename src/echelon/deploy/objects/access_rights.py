"""Service accounts and roles: what each program may do, and no more.

The rules say what the code calls.  Caches list and watch; a unit test compares them with the caches that the programs
really fill, the tests on a real cluster run under these roles.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...api.group_kinds import NATIVE_GROUP, OWN_GROUP
from ...api.objects.foreign_gangs import FOREIGN_GANGS
from ...api.scheme import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    LEASES,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    Object,
)
from ..options import CONTROLLERS, LEASE_NAMESPACE, SCHEDULER, InstallOptions
from .labelled import full_name, made

_READ = ("list", "watch")
_SCHEDULING = NATIVE_GROUP
_OWN_SCHEDULING = OWN_GROUP
_RESOURCE = "resource.k8s.io"
_JOBSET = "jobset.x-k8s.io"
_TRAINER = "trainer.kubeflow.org"
_RBAC = "rbac.authorization.k8s.io"
_GROUPS = ("workloads", "podgroups", "compositepodgroups")


@dataclass(frozen=True)
class Rule:
    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    #: Only objects of these names; empty: all.
    names: tuple[str, ...] = ()

    def to_object(self) -> Object:
        rule: Object = {"apiGroups": [self.group], "resources": list(self.resources), "verbs": list(self.verbs)}
        return {**rule, "resourceNames": list(self.names)} if self.names else rule


_EVENTS = Rule("", ("events",), ("create", "patch"))

_SCHEDULER = (
    Rule("", ("namespaces", "nodes"), _READ),
    # Bound on first use: a volume names its claim, or a claim the node for which a volume is made.
    Rule("", ("persistentvolumeclaims", "persistentvolumes"), ("get", *_READ, "patch")),
    # Read once more after a binding that failed; deleted when preempted.
    Rule("", ("pods",), ("get", *_READ, "delete")),
    Rule("", ("pods/binding",), ("create",)),
    Rule("", ("pods/status",), ("patch",)),
    Rule("batch", ("jobs",), _READ),
    Rule("policy", ("poddisruptionbudgets",), _READ),
    Rule("storage.k8s.io", ("storageclasses", "csidrivers", "csinodes", "csistoragecapacities"), _READ),
    Rule(_RESOURCE, ("deviceclasses", "devicetaintrules", "resourceslices"), _READ),
    # Devices are chosen: a finalizer, then allocation and consumers; since 1.36 servers ask for `binding` too.
    Rule(_RESOURCE, ("resourceclaims",), ("get", *_READ, "patch")),
    Rule(_RESOURCE, ("resourceclaims/status", "resourceclaims/binding"), ("patch",)),
    # Levels of topology that neighbours list; not watched.
    Rule("kueue.x-k8s.io", ("topologies",), ("list",)),
    Rule("kai.scheduler", ("topologies",), ("list",)),
    _EVENTS,
)
_GROUP_STATUS = ("podgroups/status", "compositepodgroups/status")
#: Groups of the server.
_SCHEDULER_NATIVE = (Rule(_SCHEDULING, _GROUPS, _READ), Rule(_SCHEDULING, _GROUP_STATUS, ("patch",)))
#: Groups of our own: priorities come from classes, and conditions are merged into what is read.
_SCHEDULER_OWN = (
    Rule(_OWN_SCHEDULING, ("workloads",), _READ),
    Rule(_OWN_SCHEDULING, ("podgroups", "compositepodgroups"), ("get", *_READ)),
    Rule(_OWN_SCHEDULING, _GROUP_STATUS, ("patch",)),
    Rule(_SCHEDULING, ("priorityclasses",), ("list",)),
)

#: Finalizers are not written: the right lets children block the deletion of their owner where admission asks for it.
_CONTROLLERS: dict[str, tuple[Rule, ...]] = {
    "jobset": (
        Rule(_JOBSET, ("jobsets",), (*_READ, "delete")),
        Rule(_JOBSET, ("jobsets/status", "jobsets/finalizers"), ("update",)),
        Rule("batch", ("jobs",), (*_READ, "create", "delete", "patch")),
        # A Job that stopped and is to go on elsewhere: its start time is taken back.
        Rule("batch", ("jobs/status",), ("patch",)),
        Rule("", ("services", "persistentvolumeclaims"), (*_READ, "create")),
        Rule("", ("pods",), _READ),
        Rule(_SCHEDULING, ("priorityclasses",), _READ),
    ),
    "trainjob": (
        Rule(_TRAINER, ("trainjobs",), (*_READ, "delete")),
        Rule(_TRAINER, ("trainjobs/status", "trainjobs/finalizers"), ("update",)),
        Rule(_TRAINER, ("trainingruntimes", "clustertrainingruntimes"), _READ),
        Rule(_JOBSET, ("jobsets",), (*_READ, "create", "delete", "patch")),
        Rule("", ("configmaps",), (*_READ, "create", "patch")),
        Rule("", ("secrets",), (*_READ, "create")),
        # Groups of other schedulers, which come with their definitions.
        Rule("apiextensions.k8s.io", ("customresourcedefinitions",), _READ),
        *(Rule(gang.group, ("podgroups",), (*_READ, "create", "patch")) for gang in FOREIGN_GANGS),
    ),
    "job-groups": (
        Rule("batch", ("jobs",), _READ),
        Rule("batch", ("jobs/finalizers",), ("update",)),
    ),
    "stage-quota": (
        Rule(_JOBSET, ("jobsets",), (*_READ, "patch")),
        Rule("batch", ("jobs",), _READ),
        Rule("", ("pods", "resourcequotas", "limitranges"), _READ),
        Rule(_SCHEDULING, ("priorityclasses",), _READ),
    ),
}


#: Which controllers make groups, what they do to which, and what is changed in them: elastic Jobs resize gangs, gangs
#: of gangs never change.
_MAKE_GROUPS = {
    "jobset": (_GROUPS, (*_READ, "create", "delete")),
    "trainjob": (_GROUPS, (*_READ, "create", "delete")),
    "job-groups": (("podgroups",), (*_READ, "create")),
}
_RESIZED = {"jobset": ("workloads", "podgroups"), "job-groups": ("podgroups",)}


def rules_of(part: str, options: InstallOptions) -> tuple[Rule, ...]:
    """What a program does in all namespaces; a resource stands in one rule, with all that is done to it."""
    if part == SCHEDULER:
        groups = (
            *(_SCHEDULER_NATIVE if options.native_groups else ()),
            *(_SCHEDULER_OWN if options.own_groups else ()),
        )
        return _merged([*_SCHEDULER, *groups])
    rules = [rule for name in options.controllers for rule in _CONTROLLERS[name]]
    return _merged([*rules, *_controllers_groups(options), _EVENTS])


def _controllers_groups(options: InstallOptions) -> Iterable[Rule]:
    served = [
        *([_SCHEDULING] if options.native_groups else ()),
        *([_OWN_SCHEDULING] if options.own_groups else ()),
    ]
    for name in options.controllers:
        for group in served if name in _MAKE_GROUPS else ():
            yield Rule(group, *_MAKE_GROUPS[name])
            yield Rule(group, _RESIZED.get(name, ()), ("patch",))
        if name in _MAKE_GROUPS and options.own_groups:
            yield Rule(_SCHEDULING, ("priorityclasses",), ("list",))


def lease_rules(part: str) -> tuple[Rule, ...]:
    """What a program does to elect its leader; creation cannot be limited to names.

    The lease has the name of the part whatever an installation chooses: with another name an upgrade would let old and
    new replicas lead side by side, and old ones end for want of rights before new ones run.
    """
    return (
        Rule(LEASES.group, (LEASES.plural,), ("create",)),
        Rule(LEASES.group, (LEASES.plural,), ("get", "update"), (full_name(part),)),
    )


def access_objects(part: str, options: InstallOptions) -> list[Object]:
    """The service account of a part, its roles, and the bindings between them."""
    assert part in (SCHEDULER, CONTROLLERS)
    name = full_name(part)
    account = {"kind": SERVICE_ACCOUNTS.kind, "name": name, "namespace": options.namespace}

    def role(kind: str) -> Object:
        return {"apiGroup": _RBAC, "kind": kind, "name": name}

    everywhere = [rule.to_object() for rule in rules_of(part, options)]
    leases = [rule.to_object() for rule in lease_rules(part)]
    return [
        made(SERVICE_ACCOUNTS, name, options, part=part, automountServiceAccountToken=False),
        made(CLUSTER_ROLES, name, options, part=part, rules=everywhere),
        made(CLUSTER_ROLE_BINDINGS, name, options, part=part, roleRef=role(CLUSTER_ROLES.kind), subjects=[account]),
        made(ROLES, name, options, namespace=LEASE_NAMESPACE, part=part, rules=leases),
        made(
            ROLE_BINDINGS,
            name,
            options,
            namespace=LEASE_NAMESPACE,
            part=part,
            roleRef=role(ROLES.kind),
            subjects=[account],
        ),
    ]


def _merged(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    verbs: dict[tuple[str, str], dict[str, None]] = {}
    for rule in rules:
        for resource in rule.resources:
            verbs.setdefault((rule.group, resource), {}).update(dict.fromkeys(rule.verbs))
    together: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (group, resource), done in verbs.items():
        together.setdefault((group, tuple(done)), []).append(resource)
    return tuple(Rule(group, tuple(resources), done) for (group, done), resources in together.items())
