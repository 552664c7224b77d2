"""Rules of Ingress, IngressClass, NetworkPolicy and RuntimeClass: kinds that are stored for whoever acts on them."""

from __future__ import annotations

from ipaddress import ip_address

from ..errors import FieldError, forbidden_field, immutable, invalid, not_supported, required, too_long
from ..objects import name_formats
from ..objects.subtree import items, mapping
from ..scheme import Object
from . import fields, pod_placement, resources
from .job import domain_prefixed_path
from .kind import KindRules

_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_NOT_IN_PATHS, _NOT_AT_THE_END = ("//", "/./", "/../", "%2f", "%2F"), ("/..", "/.")
_POLICY_TYPES = ("Ingress", "Egress")
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_LONGEST_CONTROLLER = 250


# -- Ingress -----------------------------------------------------------------------------------------------------


def _ingress(obj: Object) -> list[FieldError]:
    spec = mapping(obj, "spec")
    problems: list[FieldError] = []
    if not spec.get("rules") and spec.get("defaultBackend") is None:
        problems.append(invalid("spec", spec.get("rules"), "either `defaultBackend` or `rules` must be specified"))
    if spec.get("defaultBackend") is not None:
        problems += _backend("spec.defaultBackend", spec["defaultBackend"])
    for index, rule in enumerate(items(spec, "rules")):
        problems += _rule(f"spec.rules[{index}]", rule)
    for index, secured in enumerate(items(spec, "tls")):
        path = f"spec.tls[{index}]"
        for number, host in enumerate(secured.get("hosts") or ()):
            problems += _host(f"{path}.hosts[{number}]", host)
        problems += fields.optional(f"{path}.secretName", secured.get("secretName"), fields.long_name)
    if spec.get("ingressClassName") is not None:
        problems += fields.long_name("spec.ingressClassName", spec["ingressClassName"])
    return problems


def _rule(path: str, rule: Object) -> list[FieldError]:
    problems = _host(f"{path}.host", rule["host"]) if rule.get("host") else []
    if rule.get("http") is not None:
        paths = rule["http"].get("paths") or ()
        if not paths:
            problems.append(required(f"{path}.http.paths"))
        for index, one in enumerate(paths):
            problems += _path(f"{path}.http.paths[{index}]", one)
    return problems


def _host(path: str, host: str) -> list[FieldError]:
    try:
        ip_address(host)
    except ValueError:
        pass
    else:
        return [invalid(path, host, "must be a DNS name, not an IP address")]
    if host.startswith("*."):
        return [invalid(path, host, sentence) for sentence in name_formats.dns1123_subdomain(host[2:])]
    return fields.long_name(path, host)


def _path(path: str, one: Object) -> list[FieldError]:
    kind, value = one.get("pathType"), one.get("path", "")
    if kind is None:
        return [required(f"{path}.pathType", "pathType must be specified")]
    problems: list[FieldError] = []
    if kind not in _PATH_TYPES:
        problems.append(not_supported(f"{path}.pathType", kind, _PATH_TYPES))
    elif not value.startswith("/") and (value or kind != "ImplementationSpecific"):
        problems.append(invalid(f"{path}.path", value, "must be an absolute path"))
    if kind in ("Exact", "Prefix"):
        problems += [
            invalid(f"{path}.path", value, f"must not contain '{part}'") for part in _NOT_IN_PATHS if part in value
        ]
        problems += [
            invalid(f"{path}.path", value, f"cannot end with '{part}'")
            for part in _NOT_AT_THE_END
            if value.endswith(part)
        ]
    return problems + _backend(f"{path}.backend", one.get("backend") or {})


def _backend(path: str, backend: Object) -> list[FieldError]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        return [invalid(path, "", "cannot set both resource and service backends")]
    if service is None:
        if resource is None:
            return [invalid(path, "", "resource or service backend is required")]
        return [required(f"{path}.resource.{field}") for field in ("kind", "name") if not resource.get(field)]
    problems = fields.needed(f"{path}.service.name", service.get("name"), fields.service_name)
    port = service.get("port") or {}
    if port.get("name") and port.get("number"):
        problems.append(invalid(path, "", "cannot set both port name & port number"))
    elif port.get("name"):
        problems += resources.port_name(f"{path}.service.port.name", port["name"])
    elif port.get("number"):
        problems += resources.port(f"{path}.service.port.number", port["number"])
    else:
        problems.append(required(path, "port name or number is required"))
    return problems


INGRESS = KindRules(validate_create=_ingress, validate_update=lambda new, old: _ingress(new))


# -- IngressClass ------------------------------------------------------------------------------------------------


def _default_class(obj: Object, old: Object | None) -> None:
    parameters = mapping(obj, "spec", "parameters")
    if parameters:
        parameters.setdefault("scope", "Cluster")


def _class(obj: Object) -> list[FieldError]:
    spec = mapping(obj, "spec")
    controller = spec.get("controller", "")
    problems = [too_long("spec.controller", _LONGEST_CONTROLLER)] if len(controller) > _LONGEST_CONTROLLER else []
    problems += domain_prefixed_path("spec.controller", controller)
    parameters = spec.get("parameters")
    if parameters is None:
        return problems
    path = "spec.parameters"
    problems += fields.optional(f"{path}.apiGroup", parameters.get("apiGroup"), fields.long_name)
    problems += fields.needed(f"{path}.kind", parameters.get("kind"), fields.path_segment)
    problems += fields.needed(f"{path}.name", parameters.get("name"), fields.path_segment)
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    if scope not in ("Cluster", "Namespace"):
        return [*problems, not_supported(f"{path}.scope", scope, ("Cluster", "Namespace"))]
    if scope == "Namespace":
        if namespace is None:
            return [*problems, required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'")]
        return problems + fields.short_name(f"{path}.namespace", namespace)
    if namespace is not None:
        problems.append(forbidden_field(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'"))
    return problems


def _class_update(new: Object, old: Object) -> list[FieldError]:
    controller = mapping(new, "spec").get("controller", "")
    changed = controller != mapping(old, "spec").get("controller", "")
    return _class(new) + ([immutable("spec.controller", controller)] if changed else [])


INGRESS_CLASS = KindRules(default=_default_class, validate_create=_class, validate_update=_class_update)


# -- NetworkPolicy -----------------------------------------------------------------------------------------------


def _default_policy(obj: Object, old: Object | None) -> None:
    spec = mapping(obj, "spec")
    if spec and not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]
    for direction in ("ingress", "egress"):
        for rule in items(spec, direction):
            for port in items(rule, "ports"):
                port.setdefault("protocol", "TCP")


def _policy(obj: Object) -> list[FieldError]:
    spec = mapping(obj, "spec")
    problems = pod_placement.label_selector("spec.podSelector", spec.get("podSelector") or {})
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(items(spec, direction)):
            path = f"spec.{direction}[{index}]"
            for number, port in enumerate(items(rule, "ports")):
                problems += _policy_port(f"{path}.ports[{number}]", port)
            for number, peer in enumerate(items(rule, peers)):
                problems += _peer(f"{path}.{peers}[{number}]", peer)
    types = spec.get("policyTypes") or ()
    if len(types) > len(_POLICY_TYPES):
        return [*problems, invalid("spec.policyTypes", types, "may not specify more than two policyTypes")]
    for index, one in enumerate(types):
        problems += fields.one_of(f"spec.policyTypes[{index}]", one, _POLICY_TYPES)
    return problems


def _policy_port(path: str, port: Object) -> list[FieldError]:
    problems = fields.one_of(f"{path}.protocol", port.get("protocol", "TCP"), _PROTOCOLS)
    first, last = port.get("port"), port.get("endPort")
    if isinstance(first, int):
        problems += resources.port(f"{path}.port", first)
        if last is not None and last < first:
            problems.append(invalid(f"{path}.endPort", last, "must be greater than or equal to `port`"))
        return problems + (resources.port(f"{path}.endPort", last) if last is not None else [])
    if last is not None:
        when = "not specified" if first is None else "non-numeric"
        problems.append(invalid(f"{path}.endPort", last, f"may not be specified when `port` is {when}"))
    return problems + (resources.port_name(f"{path}.port", first) if first is not None else [])


def _peer(path: str, peer: Object) -> list[FieldError]:
    problems: list[FieldError] = []
    for selector in ("podSelector", "namespaceSelector"):
        if peer.get(selector) is not None:
            problems += pod_placement.label_selector(f"{path}.{selector}", peer[selector])
    given = [one for one in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(one) is not None]
    if not given:
        problems.append(required(path, "must specify a peer"))
    elif len(given) > 1 and "ipBlock" in given:
        problems.append(forbidden_field(path, "may not specify both ipBlock and another peer"))
    if "ipBlock" in given and not peer["ipBlock"].get("cidr"):
        problems.append(required(f"{path}.ipBlock.cidr"))
    return problems


NETWORK_POLICY = KindRules(
    default=_default_policy, validate_create=_policy, validate_update=lambda new, old: _policy(new)
)


# -- RuntimeClass ------------------------------------------------------------------------------------------------


def _runtime_class(obj: Object) -> list[FieldError]:
    return fields.needed("handler", obj.get("handler"), fields.short_name)


def _runtime_class_update(new: Object, old: Object) -> list[FieldError]:
    return [immutable("handler", new.get("handler"))] if new.get("handler") != old.get("handler") else []


RUNTIME_CLASS = KindRules(validate_create=_runtime_class, validate_update=_runtime_class_update)
