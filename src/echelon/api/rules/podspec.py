"""Rules of a pod spec, in a Pod and in a Job template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ..errors import FieldError, duplicate, invalid, required
from . import fields, pod_placement, pod_volumes, resources

RESTART_POLICIES = ("Always", "OnFailure", "Never")
DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
PREEMPTION_POLICIES = ("Never", "PreemptLowerPriority")

Part = Mapping[str, Any]

#: Cache of valid specs, encoded without their host names, and its size.
_VALID_SPECS: dict[bytes | None, None] = {}
_REMEMBERED = 4096


def containers(path: str, spec: Part) -> Iterator[tuple[str, Any]]:
    """Every container with its path, init containers after the others."""
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            yield f"{path}.{field}[{index}]", container


def check(path: str, spec: Part) -> list[FieldError]:
    """All errors.  Pods of a gang differ only in their host names, so a valid spec is checked once and cached."""
    key = _cache_key(spec)
    if key in _VALID_SPECS and not fields.optional(f"{path}.hostname", spec.get("hostname"), fields.short_name):
        return []
    problems = _check(path, spec)
    if not problems and key is not None:
        if len(_VALID_SPECS) >= _REMEMBERED:
            _VALID_SPECS.clear()
        _VALID_SPECS[key] = None
    return problems


def _cache_key(spec: Part) -> bytes | None:
    """The spec encoded without its host name: the cache key; None if it cannot be encoded."""
    try:
        return msgspec.json.encode({field: value for field, value in spec.items() if field != "hostname"})
    except (OverflowError, TypeError):
        return None


def _check(path: str, spec: Part) -> list[FieldError]:
    problems = pod_volumes.check(f"{path}.volumes", spec.get("volumes") or ())
    if not spec.get("containers"):
        problems.append(required(f"{path}.containers"))
    problems += _containers(path, spec) + _pod_level(path, spec) + pod_placement.check(path, spec)
    return problems


def _pod_level(path: str, spec: Part) -> list[FieldError]:
    problems: list[FieldError] = []
    for field, allowed in (("restartPolicy", RESTART_POLICIES), ("dnsPolicy", DNS_POLICIES)):
        if not spec.get(field):
            problems.append(required(f"{path}.{field}"))
        else:
            problems += fields.one_of(f"{path}.{field}", spec[field], allowed)
    if spec.get("preemptionPolicy"):
        problems += fields.one_of(f"{path}.preemptionPolicy", spec["preemptionPolicy"], PREEMPTION_POLICIES)
    problems += fields.not_negative(f"{path}.terminationGracePeriodSeconds", spec.get("terminationGracePeriodSeconds"))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= fields.INT32_MAX:
        detail = f"must be between 1 and {fields.INT32_MAX}, inclusive"
        problems.append(invalid(f"{path}.activeDeadlineSeconds", deadline, detail))
    for field, well_formed in _NAMES:
        problems += fields.optional(f"{path}.{field}", spec.get(field), well_formed)
    return problems + resources.check(f"{path}.resources", spec.get("resources"))


_NAMES: tuple[tuple[str, fields.Check], ...] = (
    ("hostname", fields.short_name),
    ("subdomain", fields.short_name),
    ("serviceAccountName", fields.long_name),
    ("nodeName", fields.long_name),
    ("priorityClassName", fields.long_name),
)


def _containers(path: str, spec: Part) -> list[FieldError]:
    problems: list[FieldError] = []
    seen: dict[str, str] = {}
    volumes = {volume.get("name") for volume in spec.get("volumes") or ()}
    for where, container in containers(path, spec):
        name = container.get("name", "")
        problems += fields.needed(f"{where}.name", name, fields.short_name)
        if name and seen.setdefault(name, where) != where:
            problems.append(duplicate(f"{where}.name", name))
        problems += _container(where, container, volumes)
    return problems


def _container(path: str, container: Part, volumes: set[Any]) -> list[FieldError]:
    problems: list[FieldError] = []
    image = container.get("image", "")
    if not image:
        problems.append(required(f"{path}.image"))
    elif image != image.strip():
        problems.append(invalid(f"{path}.image", image, "must not have leading or trailing whitespace"))
    for field, allowed in (("imagePullPolicy", PULL_POLICIES), ("terminationMessagePolicy", MESSAGE_POLICIES)):
        if container.get(field):
            problems += fields.one_of(f"{path}.{field}", container[field], allowed)
    problems += _ports(f"{path}.ports", container.get("ports") or ())
    for index, variable in enumerate(container.get("env") or ()):
        problems += _variable(f"{path}.env[{index}]", variable)
    problems += pod_volumes.check_mounts(f"{path}.volumeMounts", container.get("volumeMounts") or (), volumes)
    return problems + resources.check(f"{path}.resources", container.get("resources"))


def _ports(path: str, ports: Sequence[Part]) -> list[FieldError]:
    problems: list[FieldError] = []
    seen: dict[str, int] = {}
    for index, port in enumerate(ports):
        where = f"{path}[{index}]"
        name = port.get("name", "")
        if name and seen.setdefault(name, index) != index:
            problems.append(duplicate(f"{where}.name", name))
        if not port.get("containerPort"):
            problems.append(required(f"{where}.containerPort"))
        else:
            problems += resources.port(f"{where}.containerPort", port["containerPort"])
        if port.get("hostPort"):
            problems += resources.port(f"{where}.hostPort", port["hostPort"])
        problems += resources.protocol(f"{where}.protocol", port.get("protocol", "TCP"))
    return problems


def _variable(path: str, variable: Part) -> list[FieldError]:
    if not variable.get("name"):
        return [required(f"{path}.name")]
    if "=" in variable["name"]:
        return [invalid(f"{path}.name", variable["name"], "must not contain '='")]
    source = variable.get("valueFrom")
    if source is not None and variable.get("value"):
        return [invalid(f"{path}.valueFrom", "", "may not be specified when `value` is not empty")]
    if source is not None and len(source) != 1:
        detail = (
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        )
        return [invalid(f"{path}.valueFrom", "", detail)]
    return []
