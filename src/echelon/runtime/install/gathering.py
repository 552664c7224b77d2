"""Reads what there is on a cluster, for `deploy.preflight` and `deploy.checks` to judge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...api.errors import ApiError
from ...api.objects import meta
from ...api.objects.subtree import items, mapping
from ...api.objects.vocabulary import INSTALLATION
from ...api.scheme import CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS, NAMESPACES, Object
from ...api.verbs import ListOptions
from ...client.group_discovery import group_support
from ...client.http import HttpVerbs
from ...deploy.cluster_facts import ASKED_VERSIONS, CUSTOM_KINDS, ClusterFacts, Definition
from ...deploy.objects.labelled import VERSION_LABEL
from ...deploy.objects.monitoring import SERVICE_MONITORS
from ...deploy.preflight import ordered


async def gather(verbs: HttpVerbs) -> ClusterFacts:
    version, _ = await verbs.get_raw("/version")
    served = await _served(verbs)
    definitions = [_definition(one) for one in (await verbs.list(CUSTOM_RESOURCE_DEFINITIONS)).items]
    definitions += _without_definition(served, definitions)
    spaces = {meta.name(one): _installation(one) for one in (await verbs.list(NAMESPACES)).items}
    labelled = (await verbs.list(DEPLOYMENTS, options=ListOptions(label_selector=INSTALLATION))).items
    # The newest part of an installation comes last and tells of all of it.
    labelled.sort(key=lambda one: ordered(_version(one)))
    return ClusterFacts(
        str(version.get("gitVersion") or ""),
        frozenset(served),
        {one.name: one for one in definitions},
        _installations(labelled, spaces),
        {_installation(one): _image(one) for one in labelled},
        spaces,
        await group_support(verbs, trial=True),
    )


async def _served(verbs: HttpVerbs) -> set[tuple[str, str]]:
    """Groups that are not served have no list."""
    found: set[tuple[str, str]] = set()
    for version in (*ASKED_VERSIONS, SERVICE_MONITORS.api_version):
        try:
            listed, _ = await verbs.get_raw(f"/apis/{version}")
        except ApiError as error:
            if error.code != 404:
                raise
            continue
        found |= {(version, one["name"]) for one in items(listed, "resources")}
    return found


def _installations(deployments: Iterable[Object], spaces: Mapping[str, str]) -> dict[str, str]:
    """Its namespace or its Deployments tell of an installation, the latter of the version; kinds may outlive it."""
    found = {name: "" for name in spaces.values() if name}
    for one in deployments:
        found[_installation(one)] = _version(one)
    return found


def _version(deployment: Object) -> str:
    return meta.labels(deployment).get(VERSION_LABEL, "")


def _image(deployment: Object) -> str:
    return next((str(one.get("image", "")) for one in items(deployment, "spec", "template", "spec", "containers")), "")


def _definition(obj: Object) -> Definition:
    versions = frozenset(one["name"] for one in items(obj, "spec", "versions") if one.get("served"))
    return Definition(meta.name(obj), _installation(obj), versions, _manager(obj))


def _without_definition(served: set[tuple[str, str]], defined: list[Definition]) -> list[Definition]:
    """Kinds that the server brings itself, as an embedded plane does."""
    known = {one.name for one in defined}
    return [
        Definition(name, "", frozenset((resource.version,)), "the API server")
        for name, resource in CUSTOM_KINDS.items()
        if name not in known and (resource.api_version, resource.plural) in served
    ]


def _manager(obj: Object) -> str:
    """Charts and operators name themselves in labels, others at least as a field manager."""
    labels = meta.labels(obj)
    named = labels.get("app.kubernetes.io/name") or labels.get("app.kubernetes.io/managed-by")
    managers = [one.get("manager", "") for one in items(obj, "metadata", "managedFields") if not one.get("subresource")]
    return named or next(iter(managers), "")


def _installation(obj: Object) -> str:
    return str(mapping(obj, "metadata", "labels").get(INSTALLATION) or "")
