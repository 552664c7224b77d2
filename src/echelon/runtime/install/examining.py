"""Collects the evidence of `echelon doctor`; changes nothing on the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from email.utils import parsedate_to_datetime

from ...api.cluster.topology_levels import LabelledNode
from ...api.errors import ApiError
from ...api.objects import meta
from ...api.objects.vocabulary import DEFAULT_SCHEDULER, INSTALLATION
from ...api.scheme import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    LEASES,
    NODES,
    PODS,
    ROLES,
    SELF_SUBJECT_ACCESS_REVIEWS,
    SERVICE_ACCOUNTS,
    SUBJECT_ACCESS_REVIEWS,
    Object,
    Resource,
)
from ...api.verbs import ListOptions, Verbs
from ...base.clock import Clock
from ...client.http import HttpVerbs
from ...client.topology_objects import TopologyReader
from ...deploy.admission.admission_policies import policy_objects
from ...deploy.admission.kinds import MUTATING_POLICIES, POLICY_KINDS, VALIDATING_POLICIES
from ...deploy.checks.evidence import Evidence, MissingRight, ProgramState
from ...deploy.cluster_facts import ClusterFacts
from ...deploy.objects.access_rights import Rule, lease_rules, rules_of
from ...deploy.objects.installation import objects, resource_of
from ...deploy.objects.labelled import VERSION_LABEL, full_name
from ...deploy.objects.programs import configured_levels, policies_left_out, told
from ...deploy.options import CONTROLLERS, LEASE_NAMESPACE, PARTS, InstallOptions
from .gathering import gather

_AT_ONCE = 16


async def examine_cluster(verbs: HttpVerbs, clock: Clock) -> Evidence:
    facts = await gather(verbs)
    leases = (await verbs.list(LEASES, LEASE_NAMESPACE)).items
    leaders = {meta.name(one): holder for one in leases if (holder := one["spec"].get("holderIdentity"))}
    deployments = (await verbs.list(DEPLOYMENTS, options=ListOptions(label_selector=INSTALLATION))).items
    roles = (await verbs.list(ROLES, LEASE_NAMESPACE, ListOptions(label_selector=INSTALLATION))).items
    accounts = (await verbs.list(SERVICE_ACCOUNTS, options=ListOptions(label_selector=INSTALLATION))).items
    configs = (await verbs.list(CONFIG_MAPS, options=ListOptions(label_selector=INSTALLATION))).items
    return Evidence(
        facts,
        skew_seconds=await _skew(verbs, clock),
        nodes=tuple(LabelledNode(meta.name(one), meta.labels(one)) for one in (await verbs.list(NODES)).items),
        configured_levels=configured_levels(deployments, configs),
        topology_objects=tuple(await TopologyReader(verbs).read()),
        own_missing=() if facts.installations else await _own_missing(verbs),
        missing_rights=await _missing_rights(verbs, deployments),
        programs=tuple(_state(one, roles, leaders) for one in deployments),
        missing_programs=tuple(sorted({meta.name(one) for one in accounts} - {meta.name(one) for one in deployments})),
        leaders=leaders,
        served_names=tuple(name for one in deployments for name in told(one, "--name")),
        scheduler_names=_scheduler_names((await verbs.list(PODS)).items),
        missing_policies=await _missing_policies(verbs, facts, deployments),
        policies_left_out=tuple(dict.fromkeys(kind for one in deployments for kind in policies_left_out(one))),
        unsafe_policies=await _unsafe_policies(verbs, facts),
    )


async def _missing_policies(verbs: Verbs, facts: ClusterFacts, deployments: Sequence[Object]) -> tuple[str, ...]:
    """Those for the controllers that the installation runs; neither what the server does not take can be missing, nor
    what was left out."""
    running = [one for one in deployments if meta.name(one) == full_name(CONTROLLERS)]
    wanted = policy_objects(_options_of(running[0])) if running else []
    taken = [kind for kind in POLICY_KINDS if facts.takes(kind)]
    there = {(kind, meta.name(one)) for kind in taken for one in (await verbs.list(kind)).items}
    return tuple(
        f"{one['kind']}/{meta.name(one)}"
        for one in wanted
        if resource_of(one) in taken and (resource_of(one), meta.name(one)) not in there
    )


async def _unsafe_policies(verbs: Verbs, facts: ClusterFacts) -> tuple[str, ...]:
    """Those of any installation of ours, also of a chart or a kustomize tree, which ask no server."""
    unsafe = [kind for kind in POLICY_KINDS if facts.serves(kind) and not facts.takes(kind)]
    listed = [(kind, await verbs.list(kind, options=ListOptions(label_selector=INSTALLATION))) for kind in unsafe]
    return tuple(f"{kind.kind}/{meta.name(one)}" for kind, found in listed for one in found.items)


async def _skew(verbs: HttpVerbs, clock: Clock) -> float | None:
    before = clock.now()
    _, headers = await verbs.get_raw("/version")
    said = next((value for name, value in headers.items() if name.lower() == "date"), "")
    if not said:
        return None
    # The header has whole seconds, and the answer took its time.
    return parsedate_to_datetime(said).timestamp() + 0.5 - (before + clock.now()) / 2


def _scheduler_names(pods: Sequence[Object]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for pod in pods:
        name = pod["spec"].get("schedulerName") or DEFAULT_SCHEDULER
        count, waiting = found.get(name, (0, 0))
        found[name] = (count + 1, waiting + (not pod["spec"].get("nodeName")))
    return found


def _state(deployment: Object, roles: Sequence[Object], leaders: dict[str, str]) -> ProgramState:
    name = meta.name(deployment)
    rules = [rule for role in roles if meta.name(role) == name for rule in role.get("rules") or ()]
    lease = next((one for rule in rules for one in rule.get("resourceNames") or ()), "")
    available = (deployment.get("status") or {}).get("availableReplicas", 0)
    groups = "".join(told(deployment, "--groups"))
    wanted, version = deployment["spec"].get("replicas", 1), meta.labels(deployment).get(VERSION_LABEL, "")
    return ProgramState(name, wanted, available, lease, leaders.get(lease, ""), groups, version)


# -- rights --------------------------------------------------------------------------------------------


async def _own_missing(verbs: Verbs) -> tuple[str, ...]:
    """What whoever asks may not do, of what an installation does."""
    wanted = dict.fromkeys(
        (resource_of(obj), verb) for obj in objects(InstallOptions()) for verb in ("create", "patch")
    )
    asked = [(resource, verb) for resource, verb in wanted]

    async def allowed(resource: Resource, verb: str) -> bool:
        attributes = {"verb": verb, "group": resource.group, "resource": resource.plural}
        return await _ask(verbs, SELF_SUBJECT_ACCESS_REVIEWS, {"resourceAttributes": attributes})

    answers = await asyncio.gather(*(allowed(resource, verb) for resource, verb in asked))
    return tuple(f"{verb} {one.qualified}" for (one, verb), answer in zip(asked, answers, strict=True) if not answer)


async def _missing_rights(verbs: Verbs, deployments: Sequence[Object]) -> tuple[MissingRight, ...]:
    """What service accounts may not do, of what the arguments of their programs need."""
    limit = asyncio.Semaphore(_AT_ONCE)

    async def check(
        account: str, namespace: str, verb: str, rule: Rule, resource: str, space: str
    ) -> MissingRight | None:
        plural, _, subresource = resource.partition("/")
        attributes = {"verb": verb, "group": rule.group, "resource": plural, "subresource": subresource}
        attributes |= {"namespace": space, "name": rule.names[0] if rule.names else ""}
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
        spec = {"user": f"system:serviceaccount:{namespace}:{account}", "groups": groups}
        async with limit:
            allowed = await _ask(verbs, SUBJECT_ACCESS_REVIEWS, {**spec, "resourceAttributes": attributes})
        return None if allowed else MissingRight(account, verb, f"{resource}.{rule.group}" if rule.group else resource)

    checks = [
        check(meta.name(deployment), meta.namespace(deployment), verb, rule, resource, space)
        for deployment in deployments
        for rule, space in _needed(deployment)
        for resource in rule.resources
        for verb in rule.verbs
    ]
    return tuple(one for one in await asyncio.gather(*checks) if one is not None)


def _needed(deployment: Object) -> list[tuple[Rule, str]]:
    """The rules of a program, each with the namespace it is for."""
    part = next((part for part in PARTS if full_name(part) == meta.name(deployment)), None)
    if part is None:
        return []
    options = _options_of(deployment)
    everywhere = [(rule, "") for rule in rules_of(part, options)]
    return [*everywhere, *((rule, LEASE_NAMESPACE) for rule in lease_rules(part))]


def _options_of(deployment: Object) -> InstallOptions:
    """What was chosen, as far as the Deployment of a program tells."""
    names = tuple(told(deployment, "--name")) or InstallOptions.scheduler_names
    chosen = tuple(name for listed in told(deployment, "--only") for name in listed.split(","))
    groups = "".join(told(deployment, "--groups"))
    left_out = policies_left_out(deployment)
    return InstallOptions(
        scheduler_names=names,
        controllers=chosen or InstallOptions.controllers,
        groups=groups,
        validating_policies=VALIDATING_POLICIES.kind not in left_out,
        mutating_policies=MUTATING_POLICIES.kind not in left_out,
    )


async def _ask(verbs: Verbs, review: Resource, spec: Object) -> bool:
    try:
        answer = await verbs.create(review, {"spec": spec})
    except ApiError as error:
        if error.code == 403:  # who may not ask is not told
            return True
        raise
    return bool(answer["status"]["allowed"])
