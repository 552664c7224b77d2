"""What the requests that start the containers of a pod are made from: its sandbox, its node, and objects it names."""

from __future__ import annotations

import sys

from ....api.errors import ApiError
from ....api.objects import meta
from ....api.scheme import CONFIG_MAPS, SECRETS, Object
from ....api.verbs import Verbs
from ..rules.attempts import all_containers
from .container_requests import ContainerSetting
from .node_services import NodeServices
from .pod_sandbox import PodSandbox


async def container_setting(services: NodeServices, sandbox: PodSandbox, pod: Object) -> ContainerSetting:
    objects = await _referenced(services.verbs, pod)
    namespace = meta.namespace(pod)
    return ContainerSetting(
        sandbox.directory,
        services.chosen.tier,
        sandbox.downward(),
        lambda kind, name: objects.get((kind, name)),
        await sandbox.volumes(),
        services.images,
        services.default_directory,
        lambda name: services.names.resolve_from(namespace, name),
        services.directory.hidden_from_pods((services.default_directory, sys.prefix, sys.base_prefix)),
        services.node_env,
        services.limits,
        services.gpus.take(pod),
    )


async def _referenced(verbs: Verbs, pod: Object) -> dict[tuple[str, str], Object]:
    """The ConfigMaps and Secrets that environments name, as far as they exist."""
    found: dict[tuple[str, str], Object] = {}
    for kind, name in _named(pod):
        try:
            got = await verbs.get(CONFIG_MAPS if kind == CONFIG_MAPS.kind else SECRETS, name, meta.namespace(pod))
            found[kind, name] = {**got, "kind": kind}
        except ApiError as error:
            if error.code != 404:
                raise
    return found


def _named(pod: Object) -> dict[tuple[str, str], None]:
    """Kind and name of what environments name, in order."""
    wanted: dict[tuple[str, str], None] = {}
    for container in all_containers(pod):
        for source in container.get("envFrom") or ():
            for key, kind in (("configMapRef", CONFIG_MAPS.kind), ("secretRef", SECRETS.kind)):
                wanted |= {(kind, source[key]["name"]): None} if key in source else {}
        for variable in container.get("env") or ():
            origin = variable.get("valueFrom") or {}
            for key, kind in (("configMapKeyRef", CONFIG_MAPS.kind), ("secretKeyRef", SECRETS.kind)):
                wanted |= {(kind, origin[key].get("name", "")): None} if key in origin else {}
    return wanted
