"""Rules of DeviceClass, DeviceTaintRule, ResourceClaim, its template and ResourceSlice: devices and who asks for them.

A claim's spec never changes.  Its allocation is written once and taken away as a whole when nobody uses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...base.instants import to_time
from ..errors import FieldError, duplicate, forbidden_field, immutable, invalid, not_supported, required
from ..objects import meta
from ..objects.subtree import items, mapping
from ..schema import expressions
from ..scheme import Object
from . import device_formats, fields, pod_placement
from .kind import NOTHING, KindRules

_MODES = ("ExactCount", "All")
_EFFECTS = ("None", "NoExecute", "NoSchedule")
_MOST_REQUESTS, _MOST_SELECTORS, _MOST_CONSTRAINTS, _MOST_ALTERNATIVES = 32, 32, 32, 8
_MOST_CONSUMERS, _MOST_DEVICES, _MOST_RESULTS = 256, 128, 32
_MOST_CONFIGS, _MOST_FACTS, _MOST_TAINTS = 32, 32, 16
#: Of slices whose devices have taints, counters or lists of values.
_MOST_ADVANCED_DEVICES = 64
_LONGEST_EXPRESSION = 10 * 1024
_PLACES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_OPERATORS = ("Equal", "Exists")


# -- what is asked for -------------------------------------------------------------------------------------------


def _default_claim(obj: Object, old: Object | None) -> None:
    _default_requests(mapping(obj, "spec"))


def _default_template(obj: Object, old: Object | None) -> None:
    _default_requests(mapping(obj, "spec", "spec"))


def _default_requests(spec: Object) -> None:
    """One device unless the request says how many."""
    for request in items(spec, "devices", "requests"):
        for one in (request.get("exactly"), *items(request, "firstAvailable")):
            if isinstance(one, dict) and one.get("allocationMode", _MODES[0]) == _MODES[0] and not one.get("count"):
                one["count"] = 1


def _claim_spec(path: str, spec: Object) -> list[FieldError]:
    devices = mapping(spec, "devices")
    requests = items(devices, "requests")
    problems = fields.no_more_than(f"{path}.devices.requests", requests, _MOST_REQUESTS)
    problems += fields.unique(f"{path}.devices.requests", requests)
    for index, request in enumerate(requests):
        problems += _request(f"{path}.devices.requests[{index}]", request)
    names = set(_request_names(requests))
    constraints = items(devices, "constraints")
    problems += fields.no_more_than(f"{path}.devices.constraints", constraints, _MOST_CONSTRAINTS)
    for index, constraint in enumerate(constraints):
        problems += _constraint(f"{path}.devices.constraints[{index}]", constraint, names)
    problems += fields.no_more_than(f"{path}.devices.config", items(devices, "config"), _MOST_CONFIGS)
    for index, config in enumerate(items(devices, "config")):
        problems += _named_requests(f"{path}.devices.config[{index}].requests", config.get("requests"), names)
        problems += _configuration(f"{path}.devices.config[{index}]", config)
    return problems


def _request_names(requests: Sequence[Object]) -> Iterator[str]:
    for request in requests:
        yield request.get("name") or ""
        for one in items(request, "firstAvailable"):
            yield f"{request.get('name')}/{one.get('name')}"


def _request(path: str, request: Object) -> list[FieldError]:
    problems = fields.needed(f"{path}.name", request.get("name"), fields.short_name)
    exactly, alternatives = request.get("exactly"), items(request, "firstAvailable")
    if (exactly is None) == (not alternatives):
        detail = "exactly one of `exactly` or `firstAvailable` is required"
        problems.append(required(path, detail) if exactly is None else invalid(path, request.get("name"), detail))
    if exactly is not None:
        problems += _wanted(f"{path}.exactly", exactly)
    problems += fields.no_more_than(f"{path}.firstAvailable", alternatives, _MOST_ALTERNATIVES)
    problems += fields.unique(f"{path}.firstAvailable", alternatives)
    for index, one in enumerate(alternatives):
        here = f"{path}.firstAvailable[{index}]"
        problems += fields.needed(f"{here}.name", one.get("name"), fields.short_name) + _wanted(here, one)
    return problems


def _wanted(path: str, wanted: Object) -> list[FieldError]:
    problems = fields.needed(f"{path}.deviceClassName", wanted.get("deviceClassName"), fields.long_name)
    problems += _selectors(f"{path}.selectors", items(wanted, "selectors"))
    mode, count = wanted.get("allocationMode", _MODES[0]), wanted.get("count") or 0
    if mode == "All" and count:
        problems.append(invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'"))
    elif mode == "ExactCount" and count < 1:
        problems.append(invalid(f"{path}.count", count, "must be greater than zero"))
    elif mode not in _MODES:
        problems.append(not_supported(f"{path}.allocationMode", mode, _MODES))
    for index, toleration in enumerate(items(wanted, "tolerations")):
        problems += _toleration(f"{path}.tolerations[{index}]", toleration)
    return problems


def _toleration(path: str, toleration: Object) -> list[FieldError]:
    operator, value = toleration.get("operator") or "Equal", toleration.get("value") or ""
    problems = fields.optional(f"{path}.key", toleration.get("key"), fields.label_key)
    problems += fields.one_of(f"{path}.operator", operator, _OPERATORS)
    if operator == "Exists" and value:
        problems.append(invalid(f"{path}.value", value, "must be empty for operator `Exists`"))
    elif operator == "Equal":
        problems += fields.optional(f"{path}.value", value, fields.label_value)
    return problems + (
        fields.one_of(f"{path}.effect", toleration["effect"], _EFFECTS) if toleration.get("effect") else []
    )


def _selectors(path: str, selectors: Sequence[Object]) -> list[FieldError]:
    problems = fields.no_more_than(path, selectors, _MOST_SELECTORS)
    for index, selector in enumerate(selectors):
        problems += _expression(f"{path}[{index}].cel", selector.get("cel"))
    return problems


def _expression(path: str, cel: Mapping[str, Any] | None) -> list[FieldError]:
    if cel is None:
        return [required(path)]
    text = cel.get("expression") or ""
    if not text:
        return [required(f"{path}.expression")]
    if len(text) > _LONGEST_EXPRESSION:
        return [invalid(f"{path}.expression", "<omitted>", f"must be at most {_LONGEST_EXPRESSION} bytes long")]
    try:
        kind = expressions.result_type(text)
    except expressions.BadExpression as bad:
        return [invalid(f"{path}.expression", text, f"compilation failed: {bad}")]
    if kind not in ("BOOL", "DYN"):
        return [invalid(f"{path}.expression", text, f"must evaluate to bool or the unknown type, not {kind.lower()}")]
    return []


def _constraint(path: str, constraint: Object, names: set[str]) -> list[FieldError]:
    problems = _named_requests(f"{path}.requests", constraint.get("requests"), names)
    chosen = [field for field in ("matchAttribute", "distinctAttribute") if constraint.get(field) is not None]
    if not chosen:
        problems.append(required(f"{path}.matchAttribute"))
    elif len(chosen) > 1:
        problems.append(forbidden_field(f"{path}.distinctAttribute", "may not be set beside matchAttribute"))
    for field in chosen:
        problems += device_formats.full_attribute_name(f"{path}.{field}", constraint[field])
    return problems


def _named_requests(path: str, named: Sequence[str] | None, names: set[str]) -> list[FieldError]:
    problems: list[FieldError] = []
    for index, name in enumerate(named or ()):
        here = f"{path}[{index}]"
        if name not in names:
            detail = (
                "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
            )
            problems.append(invalid(here, name, detail))
        if name in (named or ())[:index]:
            problems.append(duplicate(here, name))
    return problems


def _configuration(path: str, config: Mapping[str, Any]) -> list[FieldError]:
    opaque = config.get("opaque")
    if opaque is None:
        return [required(f"{path}.opaque")]
    problems = fields.needed(f"{path}.opaque.driver", opaque.get("driver"), device_formats.driver_name)
    return problems + ([] if isinstance(opaque.get("parameters"), dict) else [required(f"{path}.opaque.parameters")])


# -- claims ------------------------------------------------------------------------------------------------------


def _claim(obj: Object) -> list[FieldError]:
    return _claim_spec("spec", mapping(obj, "spec"))


def _claim_update(new: Object, old: Object) -> list[FieldError]:
    return fields.frozen("spec", new.get("spec"), old.get("spec"))


def _claim_status(new: Object, old: Object) -> list[FieldError]:
    now, was = mapping(new, "status"), mapping(old, "status")
    consumers = items(now, "reservedFor")
    problems = fields.no_more_than("status.reservedFor", consumers, _MOST_CONSUMERS)
    problems += fields.unique("status.reservedFor", consumers, "uid")
    for index, consumer in enumerate(consumers):
        for field in ("resource", "name", "uid"):
            if not consumer.get(field):
                problems.append(required(f"status.reservedFor[{index}].{field}"))
    if now.get("allocation") is not None:
        problems += _allocation("status.allocation", now["allocation"], mapping(new, "spec"))
    elif consumers:
        problems.append(forbidden_field("status.reservedFor", "may not be specified when `allocated` is not set"))
    if was.get("allocation") is not None and now.get("allocation") not in (None, was["allocation"]):
        problems.append(immutable("status.allocation", now["allocation"]))
    known = {consumer.get("uid") for consumer in items(was, "reservedFor")}
    if meta.deleting(new) and any(consumer.get("uid") not in known for consumer in consumers):
        problems.append(
            forbidden_field("status.reservedFor", "new entries may not be added while `deletionTimestamp` is set")
        )
    return problems


def _allocation(path: str, allocation: Object, spec: Object) -> list[FieldError]:
    names = set(_request_names(items(spec, "devices", "requests")))
    results = items(allocation, "devices", "results")
    problems = fields.no_more_than(f"{path}.devices.results", results, _MOST_RESULTS)
    for index, result in enumerate(results):
        here = f"{path}.devices.results[{index}]"
        if result.get("request") not in names:
            problems.append(invalid(f"{here}.request", result.get("request"), "must be the name of a request"))
        problems += [required(f"{here}.{field}") for field in ("driver", "pool", "device") if not result.get(field)]
    if allocation.get("nodeSelector") is not None:
        problems += pod_placement.node_selector(f"{path}.nodeSelector", allocation["nodeSelector"])
    return problems


def _template(obj: Object) -> list[FieldError]:
    return _claim_spec("spec.spec", mapping(obj, "spec", "spec"))


RESOURCE_CLAIM = KindRules(
    default=_default_claim,
    validate_create=_claim,
    validate_update=_claim_update,
    validate_status=_claim_status,
    status_metadata=NOTHING,
)
RESOURCE_CLAIM_TEMPLATE = KindRules(default=_default_template, validate_create=_template, validate_update=_claim_update)


# -- classes and slices ------------------------------------------------------------------------------------------


def _device_class(obj: Object) -> list[FieldError]:
    problems = _selectors("spec.selectors", items(obj, "spec", "selectors"))
    problems += fields.no_more_than("spec.config", items(obj, "spec", "config"), _MOST_CONFIGS)
    for index, config in enumerate(items(obj, "spec", "config")):
        problems += _configuration(f"spec.config[{index}]", config)
    return problems


def _device_class_update(new: Object, old: Object) -> list[FieldError]:
    return _device_class(new)


def _slice(obj: Object) -> list[FieldError]:
    spec = mapping(obj, "spec")
    problems = fields.needed("spec.driver", spec.get("driver"), device_formats.driver_name)
    problems += _pool("spec.pool", mapping(spec, "pool")) + _place("spec", spec, _PLACES)
    terms = mapping(spec, "nodeSelector").get("nodeSelectorTerms") or ()
    if len(terms) > 1:
        problems.append(
            invalid("spec.nodeSelector.nodeSelectorTerms", terms, "must have exactly one node selector term")
        )
    devices = items(spec, "devices")
    most = _MOST_ADVANCED_DEVICES if any(map(_is_advanced, devices)) else _MOST_DEVICES
    problems += fields.no_more_than("spec.devices", devices, most)
    problems += fields.unique("spec.devices", devices)
    for index, device in enumerate(devices):
        here = f"spec.devices[{index}]"
        problems += _device(here, device)
        if spec.get("perDeviceNodeSelection"):
            problems += _place(here, device, _PLACES[:3])
        elif any(device.get(field) is not None for field in _PLACES[:3]):
            detail = (
                "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true"
            )
            problems.append(invalid(here, None, f"{detail} in the ResourceSlice spec"))
    return problems


def _pool(path: str, pool: Object) -> list[FieldError]:
    problems = fields.needed(f"{path}.name", pool.get("name"), device_formats.pool_name)
    count, generation = pool.get("resourceSliceCount") or 0, pool.get("generation") or 0
    if count < 1:
        problems.append(invalid(f"{path}.resourceSliceCount", count, "must be greater than zero"))
    if generation < 0:
        problems.append(invalid(f"{path}.generation", generation, "must be greater than or equal to zero"))
    return problems


def _place(path: str, holder: Object, choices: Sequence[str]) -> list[FieldError]:
    """Which nodes have a slice or a device: said in one way."""
    problems: list[FieldError] = []
    if sum(bool(holder.get(field)) for field in choices) != 1:
        detail = f"exactly one of {', '.join(f'`{field}`' for field in choices)} is required"
        problems.append(invalid(path, holder.get("nodeName"), detail))
    problems += [
        invalid(f"{path}.{field}", False, "must be either unset or set to true")
        for field in choices[2:]
        if holder.get(field) is False
    ]
    problems += fields.optional(f"{path}.nodeName", holder.get("nodeName"), fields.long_name)
    if holder.get("nodeSelector"):
        problems += pod_placement.node_selector(f"{path}.nodeSelector", holder["nodeSelector"])
    return problems


def _is_advanced(device: Object) -> bool:
    values = mapping(device, "attributes").values()
    return bool(device.get("taints") or device.get("consumesCounters")) or any(
        value.get(field) is not None for value in values for field in device_formats.LISTS
    )


def _device(path: str, device: Object) -> list[FieldError]:
    problems = fields.needed(f"{path}.name", device.get("name"), fields.short_name)
    attributes, capacity = mapping(device, "attributes"), mapping(device, "capacity")
    if len(attributes) + len(capacity) > _MOST_FACTS:
        detail = f"the total number of attributes and capacities must not exceed {_MOST_FACTS}"
        problems.append(invalid(path, len(attributes) + len(capacity), detail))
    for field, named in (("attributes", attributes), ("capacity", capacity)):
        problems += [found for name in named for found in device_formats.attribute_name(f"{path}.{field}", name)]
    for name, attribute in attributes.items():
        problems += device_formats.attribute(f"{path}.attributes[{name}]", attribute)
    problems += fields.no_more_than(f"{path}.taints", items(device, "taints"), _MOST_TAINTS)
    for index, taint in enumerate(items(device, "taints")):
        problems += _taint(f"{path}.taints[{index}]", taint)
    return problems


def _taint(path: str, taint: Object) -> list[FieldError]:
    problems = fields.needed(f"{path}.key", taint.get("key"), fields.label_key)
    if taint.get("value"):
        problems += fields.label_value(f"{path}.value", taint["value"])
    if not taint.get("effect"):
        return [*problems, required(f"{path}.effect")]
    return problems + fields.one_of(f"{path}.effect", taint["effect"], _EFFECTS)


def _slice_update(new: Object, old: Object) -> list[FieldError]:
    now, was = mapping(new, "spec"), mapping(old, "spec")
    return [
        *_slice(new),
        *fields.frozen("spec.driver", now.get("driver"), was.get("driver")),
        *fields.frozen("spec.pool.name", mapping(now, "pool").get("name"), mapping(was, "pool").get("name")),
        *fields.frozen("spec.nodeName", now.get("nodeName"), was.get("nodeName")),
    ]


def _start_taint(obj: Object, now: float) -> None:
    obj["spec"]["taint"].setdefault("timeAdded", to_time(now))


def _keep_taint(new: Object, old: Object, now: float) -> None:
    """The time says since when there has been this effect."""
    taint, was = new["spec"]["taint"], old["spec"]["taint"]
    if taint.get("effect") != was.get("effect") and taint.get("timeAdded") == was.get("timeAdded"):
        taint.pop("timeAdded", None)
    _start_taint(new, now)


def _taint_rule(obj: Object) -> list[FieldError]:
    spec = mapping(obj, "spec")
    selector = mapping(spec, "deviceSelector")
    checks = {"driver": device_formats.driver_name, "pool": device_formats.pool_name, "device": fields.short_name}
    problems = [
        problem
        for field, check in checks.items()
        if selector.get(field) is not None
        for problem in fields.needed(f"spec.deviceSelector.{field}", selector[field], check)
    ]
    return problems + _taint("spec.taint", mapping(spec, "taint"))


def _taint_rule_update(new: Object, old: Object) -> list[FieldError]:
    return _taint_rule(new)


DEVICE_TAINT_RULE = KindRules(
    start=_start_taint,
    keep=_keep_taint,
    validate_create=_taint_rule,
    validate_update=_taint_rule_update,
    status_metadata=NOTHING,
)
DEVICE_CLASS = KindRules(validate_create=_device_class, validate_update=_device_class_update)
RESOURCE_SLICE = KindRules(validate_create=_slice, validate_update=_slice_update)
