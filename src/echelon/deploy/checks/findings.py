"""Judges the evidence: one finding for each thing that was looked at, with a remedy where something is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ...api.objects.vocabulary import DEFAULT_SCHEDULER
from ...base.version import __version__
from ..cluster_facts import CUSTOM_KINDS, GROUP_GATES, GROUP_KINDS, OLDEST_SERVER
from ..node_levels import find_levels
from ..objects.monitoring import SERVICE_MONITORS
from .evidence import Evidence

#: A difference that matters to people who compare times; leases do not depend on it.
_SKEW_SECONDS = 5.0
#: Other schedulers and queues, by the lease that their leader holds.
_NEIGHBOURS = {
    "kube-scheduler": "kube-scheduler",
    "c1f6bfd2.kueue.x-k8s.io": "Kueue",
    "volcano": "Volcano",
    "cluster-autoscaler": "cluster-autoscaler",
    "karpenter-leader-election": "Karpenter",
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
        *_rights(evidence),
        *_levels(evidence),
        *_clock(evidence),
        *_neighbours(evidence, schedulers),
    ]


def _server(evidence: Evidence) -> Iterator[Finding]:
    facts, oldest = evidence.facts, ".".join(map(str, OLDEST_SERVER))
    if facts.release < OLDEST_SERVER:
        text = f"{facts.git_version or 'unknown'} is older than {oldest}, whose API has groups of pods"
        yield Finding("problem", "server", text, f"upgrade the cluster to {oldest}")
    else:
        yield Finding("ok", "server", f"{facts.git_version} (oldest that works: {oldest})")


def _groups(evidence: Evidence) -> Iterator[Finding]:
    for resource in GROUP_KINDS:
        named = f"{resource.plural} in {resource.api_version}"
        if evidence.facts.serves(resource):
            yield Finding("ok", "groups", f"{named} are served")
        else:
            remedy = f"start kube-apiserver with --runtime-config={resource.api_version}=true and the feature gates "
            yield Finding("problem", "groups", f"{named} are not served", remedy + GROUP_GATES)
    if not evidence.facts.serves(SERVICE_MONITORS):
        text = f"{SERVICE_MONITORS.kind} in {SERVICE_MONITORS.api_version} is not served: metrics are not collected"
        yield Finding("note", "groups", text, "install the Prometheus operator, or scrape the Services")


def _definitions(evidence: Evidence) -> Iterator[Finding]:
    facts = evidence.facts
    for name, resource in CUSTOM_KINDS.items():
        found = facts.definitions.get(name)
        if found is None:
            level: Literal["note", "problem"] = "problem" if facts.installations else "note"
            yield Finding(level, "kinds", f"{name} is not defined", "run `echelon install`")
        elif resource.version not in found.versions:
            text = f"{name} serves {', '.join(sorted(found.versions)) or 'nothing'} and not {resource.version}"
            yield Finding("problem", "kinds", text, "upgrade what installed it, or remove it")
        elif found.installation:
            yield Finding("ok", "kinds", f"{name} is Echelon's, made for namespace {found.installation}")
        else:
            yield Finding("ok", "kinds", f"{name} is {found.manager or 'somebody'}'s: it is used and left alone")


def _installation(evidence: Evidence) -> Iterator[Finding]:
    installed = evidence.facts.installations
    if not installed:
        yield Finding("note", "installation", "Echelon is not installed", "run `echelon install`")
        if evidence.own_missing:
            text = f"you may not {', '.join(evidence.own_missing)}"
            yield Finding("problem", "installation", text, "install as a cluster administrator")
    if len(installed) > 1:
        names = sorted(installed)
        remedy = f"keep one: `echelon uninstall --namespace {names[-1]}`"
        yield Finding("problem", "installation", f"there are several, in {', '.join(names)}", remedy)
    for namespace, version in sorted(installed.items()):
        if version != __version__:
            text = f"{version or 'half an installation'} in {namespace}, and this command is {__version__}"
            remedy = "run `echelon upgrade`" if version else "run `echelon install` or `echelon uninstall`"
            yield Finding("note" if version else "problem", "installation", text, remedy)
        else:
            yield Finding("ok", "installation", f"Echelon {version} in namespace {namespace}")
    for one in evidence.programs:
        state = f"{one.available} of {one.wanted} pods of {one.name} are available"
        if not one.holder:
            text = f"{state}, and nobody holds lease {one.lease}: nobody does its work"
            yield Finding("problem", "installation", text, f"kubectl describe deployment {one.name}; logs of its pods")
        elif one.available < one.wanted:
            yield Finding("problem", "installation", state, f"kubectl describe deployment {one.name}; logs of its pods")
        else:
            yield Finding("ok", "installation", f"{state}; {one.holder} leads")


def _rights(evidence: Evidence) -> Iterator[Finding]:
    by_account: dict[str, list[str]] = {}
    for one in evidence.missing_rights:
        by_account.setdefault(one.account, []).append(f"{one.verb} {one.resource}")
    for account, missing in sorted(by_account.items()):
        text = f"service account {account} may not {', '.join(missing)}"
        yield Finding("problem", "rights", text, "run `echelon install`, which restores the roles")
    if evidence.programs and not by_account:
        yield Finding("ok", "rights", "the service accounts may do all that the programs do")


def _levels(evidence: Evidence) -> Iterator[Finding]:
    found = find_levels(evidence.nodes)
    if not evidence.nodes:
        yield Finding("note", "topology", "there are no nodes")
        return
    yield Finding("ok", "topology", f"levels on {len(evidence.nodes)} nodes: {' > '.join(found.keys)}")
    for one in found.contradictions:
        yield Finding("note", "topology", str(one), "correct the labels of the nodes that are in the wrong place")
    for key, names in found.unlabelled:
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        yield Finding("note", "topology", f"{len(names)} nodes lack {key}: {shown}", "label them, or leave them out")


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
    for lease, name in _NEIGHBOURS.items():
        if lease in evidence.leaders:
            yield Finding("note", "neighbours", f"{name} runs here ({evidence.leaders[lease]} leads)")
    for name, (pods, waiting) in sorted(evidence.scheduler_names.items()):
        text = f"{pods} pods name scheduler {name}, {waiting} of them are not bound"
        known = name in schedulers or name == DEFAULT_SCHEDULER
        if name in schedulers and not evidence.programs and waiting:
            yield Finding("problem", "neighbours", text, "nobody serves this name: run `echelon install`")
        elif not known and waiting:
            yield Finding("note", "neighbours", text, f"is there a scheduler {name}? correct spec.schedulerName if not")
        else:
            yield Finding("ok", "neighbours", text)
