"""Rules of Endpoints and EndpointSlice: addresses, ports, hints."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from ..errors import FieldError, duplicate, invalid, required, too_many
from ..objects import name_formats
from ..scheme import Object
from . import fields, metadata, resources
from .kind import KindRules

_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_MOST_ENDPOINTS, _MOST_ADDRESSES, _MOST_PORTS, _MOST_HINTS, _MOST_TOPOLOGY = 1000, 100, 20_000, 8, 16
#: By version of the address.
_LINK_LOCAL_MULTICAST = {4: ip_network("224.0.0.0/24"), 6: ip_network("ff02::/16")}
#: Pods that run as processes and share the network of this machine have addresses here.
LOCAL_PODS = ip_network("127.64.0.0/10")
_NO_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


def _parsed(address: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(address)
    except ValueError:
        return None


def _is_own(obj: Object) -> bool:
    """Whether these are the endpoints of this server, which may listen on a loopback address."""
    metadata = obj["metadata"]
    return (metadata.get("namespace"), metadata.get("name")) == ("default", "kubernetes")


def _reachable(path: str, address: str, *, own: bool) -> list[FieldError]:
    """An IP address that another host can be reached at."""
    ip = _parsed(address)
    if ip is None:
        return [invalid(path, address, _NO_ADDRESS)]
    if ip.is_unspecified:
        return [invalid(path, address, f"may not be unspecified ({address})")]
    if ip.is_loopback and not own and ip not in LOCAL_PODS:
        return [invalid(path, address, "may not be in the loopback range (127.0.0.0/8, ::1/128)")]
    if ip.is_link_local:
        return [invalid(path, address, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")]
    if ip in _LINK_LOCAL_MULTICAST[ip.version]:
        return [invalid(path, address, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")]
    return []


def _node_name(path: str, value: str | None) -> list[FieldError]:
    return [] if value is None else fields.long_name(path, value)


def _app_protocol(path: str, value: str | None) -> list[FieldError]:
    return [] if value is None else fields.label_key(path, value)


# -- Endpoints ---------------------------------------------------------------------------------------------------


def _endpoints(obj: Object) -> list[FieldError]:
    problems: list[FieldError] = []
    for index, subset in enumerate(obj.get("subsets") or ()):
        path = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            problems.append(required(path, "must specify `addresses` or `notReadyAddresses`"))
        for part in ("addresses", "notReadyAddresses"):
            for number, address in enumerate(subset.get(part) or ()):
                problems += _subset_address(f"{path}.{part}[{number}]", address, own=_is_own(obj))
        ports = subset.get("ports") or ()
        for number, port in enumerate(ports):
            problems += _subset_port(f"{path}.ports[{number}]", port, named=len(ports) > 1)
    return problems


def _subset_address(path: str, address: Object, *, own: bool) -> list[FieldError]:
    return [
        *fields.optional(f"{path}.hostname", address.get("hostname"), fields.short_name),
        *_node_name(f"{path}.nodeName", address.get("nodeName")),
        *_reachable(f"{path}.ip", address.get("ip", ""), own=own),
    ]


def _subset_port(path: str, port: Object, *, named: bool) -> list[FieldError]:
    name = port.get("name", "")
    check = fields.needed if named else fields.optional
    return [
        *check(f"{path}.name", name, fields.short_name),
        *resources.port(f"{path}.port", port.get("port", 0)),
        *resources.protocol(f"{path}.protocol", port.get("protocol", "")),
        *_app_protocol(f"{path}.appProtocol", port.get("appProtocol")),
    ]


def _endpoints_update(new: Object, old: Object) -> list[FieldError]:
    return [] if new.get("subsets") == old.get("subsets") else _endpoints(new)


ENDPOINTS = KindRules(validate_create=_endpoints, validate_update=_endpoints_update)


# -- EndpointSlice -----------------------------------------------------------------------------------------------


def _slice(obj: Object) -> list[FieldError]:
    return _slice_frame(obj) + _slice_endpoints(obj)


def _slice_frame(obj: Object) -> list[FieldError]:
    kind = obj.get("addressType", "")
    problems = fields.one_of("addressType", kind, _ADDRESS_TYPES) if kind else [required("addressType")]
    ports: Sequence[Object] = obj.get("ports") or ()
    if len(ports) > _MOST_PORTS:
        return [*problems, too_many("ports", len(ports), _MOST_PORTS)]
    seen: set[str] = set()
    for index, port in enumerate(ports):
        path, name = f"ports[{index}]", port.get("name", "")
        problems += fields.optional(f"{path}.name", name, fields.short_name)
        if name in seen:
            problems.append(duplicate(f"{path}.name", name))
        seen.add(name)
        problems += resources.protocol(f"{path}.protocol", port.get("protocol", ""))
        problems += _app_protocol(f"{path}.appProtocol", port.get("appProtocol"))
    return problems


def _slice_endpoints(obj: Object) -> list[FieldError]:
    endpoints: Sequence[Object] = obj.get("endpoints") or ()
    kind, own = obj.get("addressType", ""), _is_own(obj)
    if len(endpoints) > _MOST_ENDPOINTS:
        return [too_many("endpoints", len(endpoints), _MOST_ENDPOINTS)]
    problems: list[FieldError] = []
    for index, endpoint in enumerate(endpoints):
        path = f"endpoints[{index}]"
        problems += _addresses(f"{path}.addresses", endpoint.get("addresses") or (), kind, own=own)
        problems += _node_name(f"{path}.nodeName", endpoint.get("nodeName"))
        topology = endpoint.get("deprecatedTopology") or {}
        problems += fields.no_more_than(f"{path}.deprecatedTopology", list(topology), _MOST_TOPOLOGY)
        problems += metadata.check_labels(f"{path}.deprecatedTopology", topology)
        if endpoint.get("hostname") is not None:
            problems += fields.short_name(f"{path}.hostname", endpoint["hostname"])
        problems += _hints(f"{path}.hints", endpoint.get("hints") or {})
    return problems


def _addresses(path: str, addresses: Sequence[str], kind: str, *, own: bool) -> list[FieldError]:
    if not addresses:
        return [required(path, "must contain at least 1 address")]
    problems = fields.no_more_than(path, addresses, _MOST_ADDRESSES)
    for index, address in enumerate(addresses):
        where = f"{path}[{index}]"
        if kind == "FQDN":
            problems += _domain_name(where, address)
        elif kind in _ADDRESS_TYPES:
            ip = _parsed(address)
            if ip is not None and f"IPv{ip.version}" != kind:
                problems.append(invalid(path, address, f"must be an {kind} address"))
            problems += _reachable(where, address, own=own)
    return problems


def _domain_name(path: str, name: str) -> list[FieldError]:
    if not name:
        return [required(path)]
    bare = name.removesuffix(".")
    if sentences := name_formats.dns1123_subdomain(bare):
        return [invalid(path, bare, ",".join(sentences))]
    if "." not in bare:
        return [invalid(path, bare, "should be a domain with at least two segments separated by dots")]
    for label in bare.split("."):
        if sentences := name_formats.dns1123_label(label):
            return [invalid(path, label, ",".join(sentences))]
    return []


def _hints(path: str, hints: Object) -> list[FieldError]:
    problems: list[FieldError] = []
    for part, check in (("forZones", fields.label_value), ("forNodes", fields.long_name)):
        named: Sequence[Object] = hints.get(part) or ()
        if len(named) > _MOST_HINTS:
            return [*problems, too_many(f"{path}.{part}", len(named), _MOST_HINTS)]
        seen: set[str] = set()
        for index, one in enumerate(named):
            where, name = f"{path}.{part}[{index}].name", one.get("name", "")
            if name in seen:
                problems.append(duplicate(where, name))
            seen.add(name)
            problems += check(where, name)
    return problems


def _slice_update(new: Object, old: Object) -> list[FieldError]:
    problems = _slice_frame(new)
    if new.get("endpoints") != old.get("endpoints"):
        problems += _slice_endpoints(new)
    if new.get("addressType") != old.get("addressType"):
        problems.append(invalid("addressType", new.get("addressType"), "field is immutable"))
    return problems


ENDPOINT_SLICE = KindRules(validate_create=_slice, validate_update=_slice_update)
