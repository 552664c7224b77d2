"""Names of pods and Services, as the DNS of a cluster has them: from EndpointSlices.

    hostname.service.namespace.svc.cluster.local ─► the pod with that host name
    service.namespace.svc.cluster.local          ─► all ready pods of the Service

Inside its own namespace a name may stop after the Service, elsewhere after the namespace.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from ....api.objects import meta
from ....api.scheme import Object

_SERVICE_NAME = "kubernetes.io/service-name"
DOMAIN = "svc.cluster.local"
#: Words that may be names with at least one dot.
_DOTTED = re.compile(r"(?<![\w.-])[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+(?![\w-])")


def host_name(pod: Object) -> str:
    """The first part of the pod's name in DNS."""
    return str(pod["spec"].get("hostname") or meta.name(pod))[:63].rstrip("-.")


def inner_host_name(pod: Object) -> str:
    """What `hostname` says inside the pod."""
    spec = pod["spec"]
    if spec.get("hostnameOverride"):
        return str(spec["hostnameOverride"])
    if spec.get("setHostnameAsFQDN") and spec.get("subdomain"):
        return f"{host_name(pod)}.{spec['subdomain']}.{meta.namespace(pod)}.{DOMAIN}"
    return host_name(pod)


def network_name(pod: Object) -> str:
    """What the address of a pod is computed from: its name in DNS if it has one, so that it can be told in advance."""
    subdomain = pod["spec"].get("subdomain")
    return f"{meta.namespace(pod)}/{host_name(pod)}.{subdomain}" if subdomain else meta.uid(pod)


def forms(name: str, namespace: str, seen_from: str) -> list[str]:
    """All spellings of a name that pods of a namespace may use."""
    long = [f"{name}.{namespace}.{DOMAIN}", f"{name}.{namespace}.svc", f"{name}.{namespace}"]
    return [*long, name] if namespace == seen_from else long


def known_names(slices: Iterable[Object], seen_from: str) -> dict[str, list[str]]:
    """Name → addresses, for pods of a namespace."""
    found: dict[str, list[str]] = {}
    for one in sorted(slices, key=meta.key):
        service = meta.labels(one).get(_SERVICE_NAME, "")
        if not service or one.get("addressType", "IPv4") != "IPv4":
            continue
        for endpoint in one.get("endpoints") or ():
            if (endpoint.get("conditions") or {}).get("ready") is False:
                continue
            for spelling in forms(service, meta.namespace(one), seen_from):
                found.setdefault(spelling, []).extend(endpoint.get("addresses") or ())
            if endpoint.get("hostname"):
                for spelling in forms(f"{endpoint['hostname']}.{service}", meta.namespace(one), seen_from):
                    found.setdefault(spelling, []).extend(endpoint.get("addresses") or ())
    return found


def hosts_file(pod: Object, address: str, names: Mapping[str, list[str]]) -> str:
    """/etc/hosts of a pod: itself, its aliases, and everybody with a name."""
    lines = ["# Written by Echelon.", "127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback"]
    subdomain, own = pod["spec"].get("subdomain"), host_name(pod)
    if subdomain:
        qualified = forms(f"{own}.{subdomain}", meta.namespace(pod), meta.namespace(pod))
        own_names = [*qualified, own, inner_host_name(pod)]
    else:
        own_names = [own, inner_host_name(pod)]
    lines.append(f"{address}\t{' '.join(dict.fromkeys(own_names))}")
    aliases = pod["spec"].get("hostAliases") or ()
    lines += [f"{alias.get('ip', '')}\t{' '.join(alias.get('hostnames') or ())}" for alias in aliases]
    by_address: dict[str, list[str]] = {}
    for name, addresses in names.items():
        for one in dict.fromkeys(addresses):
            by_address.setdefault(one, []).append(name)
    lines += [f"{one}\t{' '.join(sorted(by_address[one]))}" for one in sorted(by_address)]
    return "\n".join(lines) + "\n"


def rewritten(text: str, resolve: Callable[[str], str | None]) -> str:
    """Names of pods and Services replaced by addresses, for processes without a hosts file of their own."""
    return _DOTTED.sub(lambda match: resolve(match.group(0)) or match.group(0), text)
