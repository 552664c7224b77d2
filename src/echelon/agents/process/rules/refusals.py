"""What a process node does not do, said where a kubelet would say it: as the reason why a container waits.

Nothing that a manifest asks for is ignored in silence; `docs/reference/process-nodes.md` lists every field.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ....api.scheme import Object
from .empty_dirs import refused_media
from .host_names import inner_host_name
from .kubelet_status import Waiting

_CONFIG = "CreateContainerConfigError"
#: Of the kernel.
_LONGEST_HOST_NAME = 64
_MESSAGE = "process nodes run containers as processes of the user that runs Echelon"


@dataclass(frozen=True)
class NodePowers:
    """What the machine and the settings let a node do."""

    tier: str
    #: The user that containers run as: in a user namespace they are root there.
    user: int
    group: int
    host_paths: bool = False


def refusal(pod: Object, container: Object, powers: NodePowers) -> Waiting | None:
    """Why this container cannot run here; None if it can."""
    for problem in (*_of_pod(pod, powers), *_of_container(pod, container, powers)):
        return Waiting(_CONFIG, problem)
    return None


def _of_pod(pod: Object, powers: NodePowers) -> Iterator[str]:
    spec = pod["spec"]
    for field in ("hostPID", "hostIPC"):
        if spec.get(field):
            yield f"spec.{field} is refused: {_MESSAGE}, and each pod has its own"
    if spec.get("hostNetwork"):
        yield (
            "spec.hostNetwork is refused on process nodes: leave it out; pods reach one another by name, "
            "and with --tier names they share the network of this machine"
        )
    if spec.get("runtimeClassName"):
        yield f'RuntimeClass "{spec["runtimeClassName"]}" is refused: process nodes have no container runtime'
    if (spec.get("os") or {}).get("name", "linux") != "linux":
        yield f"spec.os.name {spec['os']['name']} is refused: this node runs linux"
    if len(name := inner_host_name(pod)) > _LONGEST_HOST_NAME:
        yield (
            f"Failed to construct FQDN from Pod hostname and cluster domain, FQDN {name} is too long "
            f"({_LONGEST_HOST_NAME} characters is the max, {len(name)} characters requested)"
        )
    if spec.get("dnsConfig") and powers.tier == "plain":
        yield "spec.dnsConfig is refused: pods share the files of this machine (tier plain), also /etc/resolv.conf"
    if spec.get("resourceClaims"):
        yield "spec.resourceClaims is refused: process nodes have no dynamic resource drivers"
    yield from refused_media(pod, powers.tier)
    yield from _of_context("spec.securityContext", spec.get("securityContext") or {}, powers)


def _of_container(pod: Object, container: Object, powers: NodePowers) -> Iterator[str]:
    context = container.get("securityContext") or {}
    if context.get("privileged"):
        yield f"securityContext.privileged is refused: {_MESSAGE}"
    if (context.get("capabilities") or {}).get("add"):
        yield f"securityContext.capabilities.add is refused: {_MESSAGE}"
    if context.get("readOnlyRootFilesystem"):
        yield "securityContext.readOnlyRootFilesystem is refused: containers see the files of this machine"
    yield from _of_context("securityContext", context, powers)
    if container.get("volumeDevices"):
        yield "volumeDevices is refused: process nodes have no block devices"
    for field in ("startupProbe", "readinessProbe", "livenessProbe"):
        if "grpc" in (container.get(field) or {}):
            yield f"{field}.grpc is refused on process nodes: use exec, httpGet or tcpSocket"
    for port in container.get("ports") or ():
        if port.get("hostPort") and powers.tier == "net":
            yield f"hostPort {port['hostPort']} is refused: use kubectl port-forward, or --tier names"


def _of_context(path: str, context: Object, powers: NodePowers) -> Iterator[str]:
    for field, own in (("runAsUser", powers.user), ("runAsGroup", powers.group)):
        asked = context.get(field)
        if asked is not None and asked != own:
            yield f"{path}.{field} {asked} is refused: {_MESSAGE} ({field} {own}); leave it out or say {own}"
    if context.get("runAsNonRoot") and powers.user == 0:
        if context.get("runAsUser") is None:
            yield "container has runAsNonRoot and image will run as root"
        yield "container's runAsUser breaks non-root policy"
    if context.get("sysctls"):
        yield f"{path}.sysctls is refused: {_MESSAGE}"
    options = context.get("seLinuxOptions") or context.get("windowsOptions")
    if options:
        yield f"{path}: SELinux and Windows options are refused: {_MESSAGE}"
