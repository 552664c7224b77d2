"""Decides what an installation on a known cluster is, or why there cannot be one; nothing is changed before.

options + facts ─► settle ─► options that fit the cluster, and what to tell
                      └────► InstallRefused: one message with what to do
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, replace

from ..api.objects.vocabulary import JOB_SCHEDULING, POD_GROUP
from ..api.scheme import JOB_SETS, TRAIN_JOBS, Resource
from ..base.version import __version__
from .admission.admission_policies import policy_objects
from .admission.kinds import MUTATING_POLICIES, VALIDATING_POLICIES
from .cluster_facts import CUSTOM_KINDS, OLDEST_SERVER, ClusterFacts
from .objects.installation import resource_of
from .objects.monitoring import SERVICE_MONITORS
from .options import CONTROLLERS, OWN_CONTROLLERS, InstallOptions

#: Controllers that act on a kind; whoever has installed the kind runs its own.
_CONTROLLERS_OF = {JOB_SETS.qualified: ("jobset", "stage-quota"), TRAIN_JOBS.qualified: ("trainjob",)}


class InstallRefused(Exception):
    """There cannot be such an installation on this cluster; the message says why and what to do."""


@dataclass(frozen=True)
class Settled:
    options: InstallOptions
    notes: tuple[str, ...]


def settle(
    options: InstallOptions,
    facts: ClusterFacts,
    *,
    chosen: tuple[str, ...] | None,
    monitoring: bool | None,
    image_chosen: bool = True,
) -> Settled:
    """`chosen` controllers and `monitoring` are None where the cluster decides."""
    check_server(facts)
    _check_alone(options, facts)
    notes = [facts.groups.told(facts.groups.choice)]
    if not image_chosen:
        options = _keep_image(options, facts, notes)
    options = replace(options, groups=facts.groups.choice)
    options = replace(options, monitoring=_monitoring(monitoring, facts, notes))
    options = replace(options, own_namespace=_owns_namespace(options, facts, notes))
    if CONTROLLERS in options.parts:
        options = _beside_others(options, facts, chosen, notes)
    options = _with_policies(options, facts, notes)
    return Settled(options, tuple(notes))


def check_server(facts: ClusterFacts) -> None:
    if facts.release < OLDEST_SERVER:
        oldest = ".".join(map(str, OLDEST_SERVER))
        raise InstallRefused(
            f"the server is {facts.git_version or 'of an unknown version'}, and Echelon needs {oldest} or newer, "
            "the oldest that it is tested on; upgrade the cluster"
        )


def check_version(options: InstallOptions, facts: ClusterFacts, *, upgrade: bool) -> None:
    """`install` repeats the version that is there; `upgrade` goes forward only."""
    there = facts.installations.get(options.namespace)
    if there is None:
        if upgrade:
            raise InstallRefused(f"no installation in namespace {options.namespace}: run `echelon install`")
        return
    if there and ordered(there) > ordered(__version__):
        raise InstallRefused(f"Echelon {there} is installed and this is {__version__}: use the newer command")
    if there and there != __version__ and not upgrade:
        raise InstallRefused(f"Echelon {there} is installed and this is {__version__}: run `echelon upgrade`")


def _keep_image(options: InstallOptions, facts: ClusterFacts, notes: list[str]) -> InstallOptions:
    """Where no image was chosen, that of the same version which is there stays; another one cannot be guessed."""
    there = facts.images.get(options.namespace, "")
    if there in ("", options.image):
        return options
    if facts.installations[options.namespace] != __version__:
        raise InstallRefused(f"the installation runs image {there}: give --image with that of {__version__}")
    notes.append(f"image {there} of the installation is kept; --image gives another")
    return replace(options, image=there)


def ordered(version: str) -> tuple[int, ...]:
    """Newer versions are greater."""
    return tuple(int(part) if part.isdigit() else 0 for part in version.split("."))


def _check_alone(options: InstallOptions, facts: ClusterFacts) -> None:
    """Cluster roles and kinds exist once, so there is one installation."""
    others = sorted(set(facts.installations) - {options.namespace})
    if others:
        raise InstallRefused(
            f"Echelon is installed in namespace {others[0]} already: give --namespace {others[0]}, "
            f"or remove it with `echelon uninstall --namespace {others[0]}`"
        )


def _monitoring(asked: bool | None, facts: ClusterFacts, notes: list[str]) -> bool:
    served = facts.serves(SERVICE_MONITORS)
    if asked and not served:
        raise InstallRefused(
            f"the server does not serve {SERVICE_MONITORS.kind} in {SERVICE_MONITORS.api_version}: "
            "install the Prometheus operator, or give --monitoring off"
        )
    if asked is None and not served:
        notes.append("the cluster has no Prometheus operator: no ServiceMonitor, no PrometheusRule")
    return served if asked is None else asked


def _owns_namespace(options: InstallOptions, facts: ClusterFacts, notes: list[str]) -> bool:
    if options.namespace not in facts.namespaces:
        return True
    if facts.namespaces[options.namespace] == options.namespace:
        return True
    notes.append(f"namespace {options.namespace} was there already: it is used, and stays when Echelon goes")
    return False


def _beside_others(
    options: InstallOptions, facts: ClusterFacts, chosen: tuple[str, ...] | None, notes: list[str]
) -> InstallOptions:
    """Kinds of others are used as they are, and their controllers are left to them unless ours are asked for."""
    foreign = [name for name in CUSTOM_KINDS if _is_foreign(name, facts)]
    for name in foreign:
        _check_usable(CUSTOM_KINDS[name], facts)
    left = {one for name in foreign for one in _CONTROLLERS_OF.get(name, ())}
    controllers = chosen if chosen is not None else tuple(one for one in OWN_CONTROLLERS if one not in left)
    for name in foreign:
        manager = facts.definitions[name].manager
        notes.append(f"CustomResourceDefinition {name} is {manager or 'somebody'}'s: it is used and left alone")
    idle = sorted(left - set(controllers))
    if idle:
        notes.append(
            f"not run, because whoever installed the kind runs its own: {', '.join(idle)}; --controllers runs them"
        )
    return replace(options, foreign_definitions=frozenset(foreign), controllers=controllers)


def _with_policies(options: InstallOptions, facts: ClusterFacts, notes: list[str]) -> InstallOptions:
    """Policies that the server takes, of those that are wanted; nothing is told of what nobody would make."""
    wanted = {resource_of(one) for one in policy_objects(options)}
    notes += _lost_policies(options, facts, {one for one in wanted if not facts.takes(one)})
    return replace(
        options,
        validating_policies=options.validating_policies and facts.takes(VALIDATING_POLICIES),
        mutating_policies=options.mutating_policies and facts.takes(MUTATING_POLICIES),
    )


def _lost_policies(options: InstallOptions, facts: ClusterFacts, lost: Container[Resource]) -> Iterator[str]:
    if VALIDATING_POLICIES in lost:
        taken = "groups are checked by their definitions alone"
        if CONTROLLERS in options.parts:
            taken = "invalid JobSets and TrainJobs are taken, not acted on, and told by event InvalidSpec"
        yield f"{facts.why_not(VALIDATING_POLICIES)}: {taken}"
    if MUTATING_POLICIES in lost:
        yield f"{facts.why_not(MUTATING_POLICIES)}: defaults are not stored, controllers fill in"
        if "job-groups" in options.controllers:
            yield (
                f"nobody labels Jobs on this server: one with the annotation {JOB_SCHEDULING} has to label its own "
                f"pod template with {POD_GROUP}"
            )


def _is_foreign(name: str, facts: ClusterFacts) -> bool:
    found = facts.definitions.get(name)
    return found is not None and not found.installation


def _check_usable(resource: Resource, facts: ClusterFacts) -> None:
    versions = facts.definitions[resource.qualified].versions
    if resource.version not in versions:
        raise InstallRefused(
            f"CustomResourceDefinition {resource.qualified} serves {', '.join(sorted(versions)) or 'no version'}, and "
            f"Echelon needs {resource.version}: upgrade what installed it, or remove it"
        )
