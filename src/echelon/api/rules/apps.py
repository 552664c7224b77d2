"""Rules of the kinds that keep a number of equal pods: ReplicationController, ReplicaSet, Deployment.

Messages are those of kube-apiserver, which says "for deployment" and "in ReplicaSet" of other kinds too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...base.decimals import read_count
from ..errors import FieldError, forbidden_field, immutable, invalid, not_supported, required
from ..objects import meta, name_formats
from ..objects.selectors import LabelSelector
from ..scheme import Object
from . import fields, metadata, pod_placement, podspec
from .kind import KindRules

Part = Mapping[str, Any]

#: The most pods of one object; more would hold up the plane.
MOST_REPLICAS = 100_000
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


# -- parts ---------------------------------------------------------------------------------------------------


def replicas(spec: Part) -> list[FieldError]:
    count = spec.get("replicas", 1)
    return fields.at_least("spec.replicas", count, 0) + fields.at_most("spec.replicas", count, MOST_REPLICAS)


def selector(spec: Part, kind: str = "deployment") -> list[FieldError]:
    """A selector in object form, which must not be empty."""
    found = spec.get("selector")
    if found is None:
        return [required("spec.selector")]
    problems = pod_placement.label_selector("spec.selector", found)
    if not found.get("matchLabels") and not found.get("matchExpressions"):
        problems.append(invalid("spec.selector", found, f"empty selector is invalid for {kind}"))
    return problems


def _readable(spec: Part) -> bool:
    return not pod_placement.label_selector("spec.selector", spec.get("selector"))


def template(spec: Part, selects: LabelSelector | None, kind: str = "ReplicaSet") -> list[FieldError]:
    """A template of pods that run for ever, with labels that the selector matches."""
    made = spec.get("template") or {}
    about, pods = made.get("metadata") or {}, made.get("spec") or {}
    problems: list[FieldError] = []
    if selects is not None and selects.requirements and not selects.matches(about.get("labels") or {}):
        detail = "`selector` does not match template `labels`"
        problems.append(invalid("spec.template.metadata.labels", about.get("labels"), detail))
    problems += metadata.check_labels("spec.template.labels", about.get("labels"))
    problems += metadata.check_annotations("spec.template.annotations", about.get("annotations"))
    problems += podspec.check("spec.template.spec", pods)
    if pods.get("restartPolicy", "Always") != "Always":
        problems.append(not_supported("spec.template.spec.restartPolicy", pods["restartPolicy"], ("Always",)))
    if "activeDeadlineSeconds" in pods:
        detail = f"activeDeadlineSeconds in {kind} is not Supported"
        problems.append(forbidden_field("spec.template.spec.activeDeadlineSeconds", detail))
    return problems


def counters(status: Part, *names: str) -> list[FieldError]:
    """None is negative, and none of pods is greater than their number."""
    problems: list[FieldError] = []
    for name in ("replicas", "observedGeneration", "terminatingReplicas", "collisionCount", *names):
        problems += fields.not_negative(f"status.{name}", status.get(name))
    total, ready = status.get("replicas") or 0, status.get("readyReplicas") or 0
    for name in (name for name in names if name != "unavailableReplicas"):
        count = status.get(name) or 0
        if count > total:
            problems.append(invalid(f"status.{name}", count, "cannot be greater than status.replicas"))
    available = status.get("availableReplicas") or 0
    if available > ready:
        problems.append(invalid("status.availableReplicas", available, "cannot be greater than readyReplicas"))
    return problems


def name_warnings(obj: Object) -> list[str]:
    complaints = name_formats.dns1123_label(meta.name(obj))
    if not complaints:
        return []
    return [
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; "
        f"a DNS label is recommended: [{' '.join(complaints)}]"
    ]


def _same_selector(new: Object, old: Object) -> list[FieldError]:
    now, was = new["spec"].get("selector"), old["spec"].get("selector")
    return [] if now == was else [immutable("spec.selector", now)]


# -- ReplicaSet and ReplicationController --------------------------------------------------------------------


def _replica_set(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    problems = replicas(spec) + fields.not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    problems += selector(spec)
    selects = LabelSelector.from_object(spec.get("selector")) if _readable(spec) else None
    return problems + template(spec, selects)


def _replica_status(new: Object, old: Object) -> list[FieldError]:
    return counters(new.get("status") or {}, "fullyLabeledReplicas", "readyReplicas", "availableReplicas")


def _start(obj: Object, _now: float) -> None:
    obj["status"] = {"replicas": 0}


def _replication_controller(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    problems = fields.not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    labels = spec.get("selector") or {}
    if not labels:
        problems.append(required("spec.selector"))
    problems += replicas(spec)
    if spec.get("template") is None:
        return [*problems, required("spec.template")]
    return problems + template(spec, LabelSelector.from_object({"matchLabels": labels}))


# -- Deployment ----------------------------------------------------------------------------------------------


def _deployment(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    problems = replicas(spec) + selector(spec)
    selects = LabelSelector.from_object(spec.get("selector")) if _readable(spec) else None
    problems += template(spec, selects) + _strategy(spec.get("strategy") or {})
    least = spec.get("minReadySeconds") or 0
    problems += fields.not_negative("spec.minReadySeconds", least)
    problems += fields.not_negative("spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None:
        problems += fields.at_least("spec.progressDeadlineSeconds", deadline, 0)
        if deadline <= least:
            problems.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    return problems


def _strategy(strategy: Part) -> list[FieldError]:
    path, rolling = "spec.strategy.rollingUpdate", strategy.get("rollingUpdate")
    if strategy.get("type") == "Recreate":
        detail = "may not be specified when strategy `type` is 'Recreate'"
        return [] if rolling is None else [forbidden_field(path, detail)]
    if strategy.get("type") != "RollingUpdate":
        return [not_supported("spec.strategy", dict(strategy), ("Recreate", "RollingUpdate"))]
    if rolling is None:
        return [required(path, "this should be defaulted and never be nil")]
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    problems = fields.int_or_percent(f"{path}.maxUnavailable", unavailable)
    problems += fields.int_or_percent(f"{path}.maxSurge", surge)
    if fields.number_of(unavailable) == 0 and fields.number_of(surge) == 0:
        problems.append(invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))
    return problems + fields.at_most_all(f"{path}.maxUnavailable", unavailable)


def _deployment_status(new: Object, old: Object) -> list[FieldError]:
    status, was = new.get("status") or {}, old.get("status") or {}
    names = ("updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")
    problems = counters(status, *names)
    collisions = status.get("collisionCount") or 0
    if collisions < (was.get("collisionCount") or 0):
        problems.append(invalid("status.collisionCount", collisions, "cannot be decremented"))
    return problems


def _count_annotations(new: Object, old: Object, _now: float) -> None:
    """A change of annotations counts as one of the spec: they are copied to the ReplicaSets."""
    if meta.annotations(new) != meta.annotations(old):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


# -- StatefulSet ---------------------------------------------------------------------------------------------


def _stateful_set(obj: Object) -> list[FieldError]:
    spec, path = obj.get("spec") or {}, "spec.podManagementPolicy"
    problems = fields.short_name("metadata.name", meta.name(obj))
    if spec.get("podManagementPolicy") not in ("OrderedReady", "Parallel"):
        problems.append(invalid(path, spec.get("podManagementPolicy"), "must be 'OrderedReady' or 'Parallel'"))
    problems += _update_strategy(spec.get("updateStrategy") or {}) + _retention(spec)
    problems += _claim_templates(spec) + replicas(spec)
    problems += fields.not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    problems += fields.not_negative("spec.ordinals.start", (spec.get("ordinals") or {}).get("start"))
    problems += fields.optional("spec.serviceName", spec.get("serviceName"), fields.short_name)
    problems += selector(spec, "statefulset")
    selects = LabelSelector.from_object(spec.get("selector")) if _readable(spec) else None
    return problems + template(_with_claims(spec), selects, "StatefulSet")


def _update_strategy(strategy: Part) -> list[FieldError]:
    path, type_, rolling = "spec.updateStrategy", strategy.get("type"), strategy.get("rollingUpdate")
    if type_ == "OnDelete":
        detail = "only allowed for updateStrategy 'RollingUpdate'"
        return [] if rolling is None else [invalid(f"{path}.rollingUpdate", rolling, detail)]
    if type_ != "RollingUpdate":
        return [invalid(path, dict(strategy), "must be 'RollingUpdate' or 'OnDelete'")]
    problems = fields.not_negative(f"{path}.rollingUpdate.partition", (rolling or {}).get("partition"))
    most = (rolling or {}).get("maxUnavailable")
    if most is not None:
        where = f"{path}.rollingUpdate.maxUnavailable"
        problems += fields.int_or_percent(where, most)
        if fields.number_of(most) == 0:
            problems.append(invalid(where, most, "cannot be 0"))
        problems += fields.at_most_all(where, most)
    return problems


def _retention(spec: Part) -> list[FieldError]:
    policy, path = spec.get("persistentVolumeClaimRetentionPolicy") or {}, "spec.persistentVolumeClaimRetentionPolicy"
    allowed = ("Retain", "Delete")
    return [
        problem
        for field in ("whenDeleted", "whenScaled")
        for problem in fields.one_of(f"{path}.{field}", policy.get(field, "Retain"), allowed)
    ]


def _claim_templates(spec: Part) -> list[FieldError]:
    return [
        problem
        for index, claim in enumerate(spec.get("volumeClaimTemplates") or ())
        for problem in fields.needed(
            f"spec.volumeClaimTemplates[{index}].metadata.name", meta.name({"metadata": {}, **claim}), fields.short_name
        )
    ]


def _with_claims(spec: Part) -> Part:
    """The spec with the volumes that its pods get from the claim templates."""
    claims = [meta.name({"metadata": {}, **claim}) for claim in spec.get("volumeClaimTemplates") or ()]
    made = spec.get("template") or {}
    if not claims or not isinstance(made.get("spec"), dict):
        return spec
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims if name]
    volumes += [one for one in made["spec"].get("volumes") or () if one.get("name") not in claims]
    return {**spec, "template": {**made, "spec": {**made["spec"], "volumes": volumes}}}


def _stateful_set_update(new: Object, old: Object) -> list[FieldError]:
    problems = _stateful_set(new) + _same_selector(new, old)
    for field in ("volumeClaimTemplates", "serviceName", "podManagementPolicy"):
        if new["spec"].get(field) != old["spec"].get(field):
            problems.append(immutable(f"spec.{field}", new["spec"].get(field)))
    return problems


def _stateful_set_status(new: Object, old: Object) -> list[FieldError]:
    names = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    return counters(new.get("status") or {}, *names)


def _start_stateful(obj: Object, _now: float) -> None:
    obj["status"] = {"replicas": 0, "availableReplicas": 0}


# -- DaemonSet -----------------------------------------------------------------------------------------------


def _daemon_set(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    problems = pod_placement.label_selector("spec.selector", spec.get("selector"))
    found = spec.get("selector")
    selects = LabelSelector.from_object(found) if not problems else None
    if found is None:
        # As upstream: none selects nothing, so no labels match it.
        problems.append(_no_match(spec))
    elif not found.get("matchLabels") and not found.get("matchExpressions"):
        problems.append(invalid("spec.selector", found, "empty selector is invalid for daemonset"))
    problems += template(spec, selects, "DaemonSet")
    problems += fields.not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    problems += _daemon_strategy(spec.get("updateStrategy") or {})
    return problems + fields.not_negative("spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))


def _no_match(spec: Part) -> FieldError:
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    return invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")


def _daemon_strategy(strategy: Part) -> list[FieldError]:
    path, rolling = "spec.updateStrategy", strategy.get("rollingUpdate")
    if strategy.get("type") == "OnDelete":
        return []
    if strategy.get("type") != "RollingUpdate":
        return [not_supported(path, dict(strategy), ("RollingUpdate", "OnDelete"))]
    if rolling is None:
        return [required(f"{path}.rollingUpdate")]
    problems: list[FieldError] = []
    amounts = {name: rolling.get(name, 0) for name in ("maxUnavailable", "maxSurge")}
    for check in (fields.int_or_percent, fields.at_most_all):
        for name, amount in amounts.items():
            problems += check(f"{path}.rollingUpdate.{name}", amount)
    unavailable, surge = (fields.number_of(amount) != 0 for amount in amounts.values())
    if unavailable and surge:
        detail = "may not be set when maxUnavailable is non-zero"
        problems.append(invalid(f"{path}.rollingUpdate.maxSurge", amounts["maxSurge"], detail))
    elif not unavailable and not surge:
        problems.append(required(f"{path}.rollingUpdate.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return problems


def _daemon_status(new: Object, old: Object) -> list[FieldError]:
    status = new.get("status") or {}
    names = (
        "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady", "observedGeneration",
        "updatedNumberScheduled", "numberAvailable", "numberUnavailable", "collisionCount",
    )  # fmt: skip
    return [problem for name in names for problem in fields.not_negative(f"status.{name}", status.get(name))]


def _start_daemons(obj: Object, _now: float) -> None:
    names = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
    obj["status"] = dict.fromkeys(names, 0)
    obj["metadata"]["annotations"] = {**meta.annotations(obj), _TEMPLATE_GENERATION: "1"}


def _count_templates(new: Object, old: Object, _now: float) -> None:
    """The number of templates so far is an annotation that the server owns."""
    count = read_count(meta.annotations(old).get(_TEMPLATE_GENERATION, "")) or 0
    changed = new["spec"].get("template") != old["spec"].get("template")
    new["metadata"]["annotations"] = {**meta.annotations(new), _TEMPLATE_GENERATION: str(count + changed)}


DAEMON_SET = KindRules(
    start=_start_daemons,
    keep=_count_templates,
    validate_create=_daemon_set,
    validate_update=lambda new, old: _daemon_set(new) + _same_selector(new, old),
    validate_status=_daemon_status,
)
STATEFUL_SET = KindRules(
    start=_start_stateful,
    validate_create=_stateful_set,
    validate_update=_stateful_set_update,
    validate_status=_stateful_set_status,
)
REPLICATION_CONTROLLER = KindRules(
    start=_start,
    validate_create=_replication_controller,
    validate_update=lambda new, old: _replication_controller(new),
    validate_status=_replica_status,
    warnings=name_warnings,
)
REPLICA_SET = KindRules(
    start=_start,
    validate_create=_replica_set,
    validate_update=lambda new, old: _replica_set(new) + _same_selector(new, old),
    validate_status=_replica_status,
    warnings=name_warnings,
)
DEPLOYMENT = KindRules(
    keep=_count_annotations,
    validate_create=_deployment,
    validate_update=lambda new, old: _deployment(new) + _same_selector(new, old),
    validate_status=_deployment_status,
    warnings=name_warnings,
    status_metadata=("annotations", "finalizers", "ownerReferences"),
)
