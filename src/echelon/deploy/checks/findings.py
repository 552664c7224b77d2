"""Judges the evidence: one finding for each thing that was looked at, with a remedy where something is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ...api.cluster.topology_levels import Reversal, choose_levels, some
from ...api.group_kinds import GATES, NATIVE
from ...api.objects.vocabulary import DEFAULT_SCHEDULER, JOB_SCHEDULING, POD_GROUP
from ...api.scheme import RESOURCE_CLAIMS
from ...base.version import __version__
from ..admission.kinds import MUTATING_POLICIES, VALIDATING_POLICIES
from ..cluster_facts import CUSTOM_KINDS, OLDEST_SERVER, OLDEST_WITH_POLICIES
from ..objects.labelled import full_name
from ..objects.monitoring import SERVICE_MONITORS
from ..options import CONTROLLERS
from ..preflight import ordered
from .evidence import Evidence

#: A difference that matters to people who compare times; leases do not depend on it.
_SKEW_SECONDS = 5.0
#: Others who place, queue or evict pods: by the lease in kube-system that their leader holds, or by a kind they bring.
_NEIGHBOURS = {
    "kube-scheduler": "kube-scheduler",
    "volcano": "Volcano",
    "cluster-autoscaler": "cluster-autoscaler",
    "karpenter-leader-election": "Karpenter",
    "descheduler": "descheduler",
}
_NEIGHBOUR_KINDS = {
    "clusterqueues.kueue.x-k8s.io": "Kueue",
    "topologies.kai.scheduler": "KAI",
    "queues.scheduling.volcano.sh": "Volcano",
    "nodepools.karpenter.sh": "Karpenter",
}
#: What to read beside which neighbour, in docs/guides/neighbours.
_PAGES = {
    "kube-scheduler": "kube-scheduler",
    "Kueue": "kueue",
    "cluster-autoscaler": "autoscalers",
    "Karpenter": "autoscalers",
    "descheduler": "cluster-services",
}


@dataclass(frozen=True)
class Finding:
    level: Literal["ok", "note", "problem"]
    subject: str
    text: str
    remedy: str = ""


def examine(evidence: Evidence, schedulers: tuple[str, ...]) -> list[Finding]:
    """`schedulers`: names of pods' schedulers that are ours."""
    return [
        *_server(evidence),
        *_groups(evidence),
        *_definitions(evidence),
        *_installation(evidence),
        *_policies(evidence),
        *_devices(evidence),
        *_rights(evidence),
        *_levels(evidence),
        *_clock(evidence),
        *_neighbours(evidence, schedulers),
    ]


def _server(evidence: Evidence) -> Iterator[Finding]:
    facts, oldest = evidence.facts, ".".join(map(str, OLDEST_SERVER))
    if facts.release < OLDEST_SERVER:
        text = f"{facts.git_version or 'unknown'} is older than {oldest}, the oldest that Echelon is tested on"
        yield Finding("problem", "server", text, f"upgrade the cluster to {oldest}")
    else:
        yield Finding("ok", "server", f"{facts.git_version} (oldest that works: {oldest})")


def _groups(evidence: Evidence) -> Iterator[Finding]:
    groups = evidence.facts.groups
    told = groups.told(groups.choice).removeprefix("groups: ")
    if groups.choice.startswith(NATIVE):
        yield Finding("ok", "groups", told)
    elif evidence.programs and not groups.own:
        yield Finding("problem", "groups", f"{told}, and these kinds are not there", "run `echelon install`")
    else:
        yield Finding("note", "groups", told, f"nothing; native groups come with the gates {GATES}")
    used = {one.groups for one in evidence.programs if one.groups and one.groups != groups.choice}
    if used:
        text = f"the programs were installed for {', '.join(sorted(used))} groups, and now it would be {groups.choice}"
        yield Finding("note", "groups", text, "run `echelon upgrade`; no pod is restarted")
    if not evidence.facts.serves(SERVICE_MONITORS):
        text = f"{SERVICE_MONITORS.kind} in {SERVICE_MONITORS.api_version} is not served: metrics are not collected"
        yield Finding("note", "groups", text, "install the Prometheus operator, or scrape the Services")


def _definitions(evidence: Evidence) -> Iterator[Finding]:
    facts = evidence.facts
    for name, resource in CUSTOM_KINDS.items():
        found = facts.definitions.get(name)
        if found is None and facts.installations and evidence.programs and not _has_controllers(evidence):
            remedy = "nothing, while only the scheduler is installed"
            yield Finding("note", "kinds", f"{name} is not defined", remedy)
        elif found is None:
            level: Literal["note", "problem"] = "problem" if facts.installations else "note"
            yield Finding(level, "kinds", f"{name} is not defined", "run `echelon install`")
        elif resource.version not in found.versions:
            text = f"{name} serves {', '.join(sorted(found.versions)) or 'nothing'} and not {resource.version}"
            yield Finding("problem", "kinds", text, "upgrade what installed it, or remove it")
        elif found.installation:
            yield Finding("ok", "kinds", f"{name} is Echelon's, made for namespace {found.installation}")
        else:
            yield Finding("ok", "kinds", f"{name} is {found.manager or 'somebody'}'s: it is used and left alone")


def _has_controllers(evidence: Evidence) -> bool:
    """Whether the installation has them, or should."""
    return full_name(CONTROLLERS) in (*(one.name for one in evidence.programs), *evidence.missing_programs)


def _installation(evidence: Evidence) -> Iterator[Finding]:
    installed = evidence.facts.installations
    if not installed:
        yield Finding("note", "installation", "Echelon is not installed", "run `echelon install`")
        if evidence.own_missing:
            text = f"you may not {_first(evidence.own_missing)}"
            yield Finding("problem", "installation", text, "install as a cluster administrator")
    if len(installed) > 1:
        names = sorted(installed)
        remedy = f"keep one: `echelon uninstall --namespace {names[-1]}`"
        yield Finding("problem", "installation", f"there are several, in {', '.join(names)}", remedy)
    for namespace, version in sorted(installed.items()):
        if version != __version__:
            text = f"{version or 'half an installation'} in {namespace}, and this command is {__version__}"
            remedy = "run `echelon upgrade`" if version else "run `echelon install` or `echelon uninstall`"
            if ordered(version) > ordered(__version__):
                remedy = f"use the command of {version}"
            yield Finding("note" if version else "problem", "installation", text, remedy)
        else:
            yield Finding("ok", "installation", f"Echelon {version} in namespace {namespace}")
    yield from _parts(evidence)


def _parts(evidence: Evidence) -> Iterator[Finding]:
    installed = evidence.facts.installations
    for name in evidence.missing_programs:
        text = f"half an installation: Deployment {name} is not there, and what it needs is"
        remedy = "run `echelon install` with the options of the installation"
        yield Finding("problem", "installation", text, remedy)
    for one in evidence.programs if len(installed) == 1 else ():
        newest = max(installed.values())
        if one.version and one.version != newest:
            text = f"half an upgrade: Deployment {one.name} is of {one.version}, and the installation of {newest}"
            yield Finding("problem", "installation", text, "run `echelon upgrade` with the options of the installation")
    for one in evidence.programs:
        state = f"{one.available} of {one.wanted} pods of {one.name} are available"
        where = f" -n {min(installed)}" if installed else ""
        look = f"kubectl describe deployment {one.name}{where}; kubectl logs deployment/{one.name}{where}"
        if not one.holder:
            text = f"{state}, and nobody holds lease {one.lease}: nobody does its work"
            yield Finding("problem", "installation", text, look)
        elif one.available < one.wanted:
            yield Finding("problem", "installation", state, look)
        else:
            yield Finding("ok", "installation", f"{state}; {one.holder} leads")


def _policies(evidence: Evidence) -> Iterator[Finding]:
    facts, missing = evidence.facts, evidence.missing_policies
    for kind, loss in (
        (VALIDATING_POLICIES, "invalid objects are taken, and told by event InvalidSpec"),
        (
            MUTATING_POLICIES,
            "defaults are not stored, controllers fill them in; "
            f"Jobs with the annotation {JOB_SCHEDULING} have to label their pod template with {POD_GROUP}",
        ),
    ):
        if not facts.takes(kind):
            oldest = ".".join(map(str, OLDEST_WITH_POLICIES))
            text = f"{facts.why_not(kind)}: {loss}"
            yield Finding("note", "admission", text, f"upgrade the cluster to {oldest} or newer")
        elif kind.kind in evidence.policies_left_out:
            text = f"the installation was made without {kind.kind}: {loss}"
            remedy = "nothing, if that is meant; else run `echelon install` without --no-policies"
            yield Finding("note", "admission", text, remedy)
    if evidence.unsafe_policies:
        oldest = ".".join(map(str, OLDEST_WITH_POLICIES))
        text = f"a server before {oldest} can end of policies, and there are {_first(evidence.unsafe_policies)}"
        yield Finding("problem", "admission", text, "run `echelon upgrade`, which removes them")
    if missing:
        text = f"missing: {_first(missing)}; what they refuse is taken, and told by event InvalidSpec"
        yield Finding("problem", "admission", text, "run `echelon install`, which restores them")
    elif _has_controllers(evidence) and facts.takes(VALIDATING_POLICIES) and not evidence.policies_left_out:
        yield Finding("ok", "admission", "the policies of this version are there")


def _devices(evidence: Evidence) -> Iterator[Finding]:
    if not evidence.facts.serves(RESOURCE_CLAIMS):
        text = f"{RESOURCE_CLAIMS.api_version} is not served: pods get no devices by {RESOURCE_CLAIMS.kind}"
        yield Finding("note", "devices", text, "upgrade the cluster to 1.34 or newer, or use device plugins")


def _rights(evidence: Evidence) -> Iterator[Finding]:
    by_account: dict[str, list[str]] = {}
    for one in evidence.missing_rights:
        by_account.setdefault(one.account, []).append(f"{one.verb} {one.resource}")
    for account, missing in sorted(by_account.items()):
        text = f"service account {account} may not {_first(missing)}"
        yield Finding("problem", "rights", text, "run `echelon install`, which restores the roles")
    if evidence.programs and not by_account:
        yield Finding("ok", "rights", "the service accounts may do all that the programs do")


def _first(names: Sequence[str]) -> str:
    """Enough of them to see what is wrong."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _levels(evidence: Evidence) -> Iterator[Finding]:
    if not evidence.nodes:
        yield Finding("note", "topology", "there are no nodes")
        return
    found = choose_levels(evidence.nodes, evidence.configured_levels, evidence.topology_objects)
    text = f"levels of {len(evidence.nodes)} nodes ({found.source}): {' > '.join(found.keys)}"
    yield Finding("ok", "topology", text)
    for one in found.contradictions:
        remedy = "correct the labels of the nodes that are in the wrong place"
        if isinstance(one, Reversal):
            remedy = "list the levels from wide to narrow"
        yield Finding("note", "topology", str(one), remedy)
    for again in found.reused:
        yield Finding("ok", "topology", str(again))
    for key, names in found.unlabelled:
        yield Finding(
            "note", "topology", f"{len(names)} nodes lack {key}: {some(names)}", "label them, or leave them out"
        )


def _clock(evidence: Evidence) -> Iterator[Finding]:
    skew = evidence.skew_seconds
    if skew is None:
        yield Finding("note", "clock", "the server does not say what time it is")
    elif abs(skew) > _SKEW_SECONDS:
        text = f"the server's clock is {abs(skew):.0f} s {'ahead' if skew > 0 else 'behind'}"
        yield Finding("note", "clock", text, "let both machines follow the same time servers")
    else:
        yield Finding("ok", "clock", "the server's clock agrees with this machine's")


def _neighbours(evidence: Evidence, schedulers: tuple[str, ...]) -> Iterator[Finding]:
    found = {
        _NEIGHBOURS[lease]: f"{holder} leads" for lease, holder in evidence.leaders.items() if lease in _NEIGHBOURS
    }
    for kind, name in _NEIGHBOUR_KINDS.items():
        if kind in evidence.facts.definitions:
            found.setdefault(name, f"its kinds are served: {kind}")
    for name, how in sorted(found.items()):
        page = (
            f"what works beside it, and what to set: docs/guides/neighbours/{_PAGES[name]}.md" if name in _PAGES else ""
        )
        yield Finding("note", "neighbours", f"{name} is here ({how})", page)
    for name, (pods, waiting) in sorted(evidence.scheduler_names.items()):
        text = f"{pods} pods name scheduler {name}, {waiting} of them are not bound"
        served = name in evidence.served_names
        known = served or name in schedulers or name == DEFAULT_SCHEDULER
        if name in schedulers and not served and waiting:
            remedy = (
                "run `echelon install` with it as --scheduler-name"
                if evidence.served_names
                else "run `echelon install`"
            )
            yield Finding("problem", "neighbours", text, f"nobody serves this name: {remedy}")
        elif not known and waiting:
            yield Finding("note", "neighbours", text, f"is there a scheduler {name}? correct spec.schedulerName if not")
        else:
            yield Finding("ok", "neighbours", text)
