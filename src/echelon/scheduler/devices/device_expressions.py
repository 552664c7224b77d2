"""CEL expressions about devices, evaluated once for all devices that look the same to them.

    device ─► what the expression reads of it (`expression_reads`) ─► known? ─► evaluated

A cluster has tens of thousands of devices of a handful of models; they differ in serial numbers, which few expressions
read.  An evaluation takes as long as a hundred looks at what is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from typing import Any

from ...api.schema import expressions
from .expression_reads import Path, reads
from .inventory import Device

#: When more different devices than this are known to an expression, all are forgotten.
_MOST_KNOWN = 10_000
_ATTRIBUTES, _CAPACITY = "attributes", "capacity"

#: One thing that an expression sees of a device, to be compared with that of others.
_Look = Callable[[Device], Any]


class DeviceExpression:
    """One expression, with the answers that are known."""

    def __init__(self, text: str) -> None:
        self.text = text
        paths = sorted(reads(text, "device"))
        #: Domains that it names: one that a device does not have reads as one without attributes.
        self._domains = tuple(dict.fromkeys(path[1] for path in paths if len(path) > 1))
        self._looks = tuple(dict.fromkeys(map(_look, paths)))
        self._known: dict[tuple[Any, ...], bool] = {}

    @property
    def compiles(self) -> bool:
        """Whether it is an expression with functions that are known here."""
        try:
            expressions.compiled(self.text)
        except expressions.BadExpression:
            return False
        return True

    def holds(self, device: Device) -> bool:
        """Whether it is true of a device; one that has no value is not."""
        # What a name without a domain means depends on the driver.
        seen = (device.id.driver, *[look(device) for look in self._looks])
        found = self._known.get(seen)
        if found is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            found = self._known[seen] = self.evaluated(device)
        return found

    def evaluated(self, device: Device) -> bool:
        """The same without a look at what is known."""
        try:
            return expressions.evaluate(self.text, device=self._as_cel(device)) is True
        except (expressions.BadExpression, expressions.EvaluationFailed):
            return False

    def _as_cel(self, device: Device) -> dict[str, Any]:
        driver, facts = device.id.driver, device.facts
        empty = {domain: dict[str, Any]() for domain in self._domains}
        attributes = _by_domain(driver, ((name, _value(one)) for name, one in facts.attributes.items()))
        capacity = _by_domain(driver, ((name, _amount(one)) for name, one in facts.capacity.items()))
        return {
            "driver": driver,
            "allowMultipleAllocations": facts.allow_multiple_allocations,
            _ATTRIBUTES: empty | attributes,
            _CAPACITY: empty | capacity,
        }


@lru_cache(maxsize=1024)
def expression(text: str) -> DeviceExpression:
    """The expression with this text."""
    return DeviceExpression(text)


# -- what expressions see -----------------------------------------------------------------------------------------


def _look(path: Path) -> _Look:
    """How to find what a path reads."""
    if path[:1] == ("driver",):
        return _driver
    if path[:1] == ("allowMultipleAllocations",):
        return _shared
    if len(path) > 2 and path[0] in (_ATTRIBUTES, _CAPACITY):
        return partial(_named, path[0] == _CAPACITY, path[1], path[2], f"{path[1]}/{path[2]}")
    return _all


def _driver(device: Device) -> Any:
    return device.id.driver


def _shared(device: Device) -> Any:
    return device.facts.allow_multiple_allocations


def _named(is_capacity: bool, domain: str, name: str, full: str, device: Device) -> Any:
    """One attribute or capacity; the driver's own may be written without its domain."""
    table = device.facts.capacity if is_capacity else device.facts.attributes
    found = table.get(full)
    if domain == device.id.driver and name in table:
        # Written both ways: the later one counts.
        return _comparable(table[name]) if found is None else tuple((key, _comparable(table[key])) for key in table)
    return None if found is None else _comparable(found)


def _all(device: Device) -> Any:
    facts = device.facts
    return facts.allow_multiple_allocations, _comparable(facts.attributes), _comparable(facts.capacity)


def _comparable(value: Any) -> Any:
    """A value of JSON that can be looked up; numbers and booleans stand below fields that tell them apart."""
    if isinstance(value, dict):
        return tuple((key, _comparable(one)) for key, one in value.items())
    return tuple(map(_comparable, value)) if isinstance(value, list) else value


# -- values -------------------------------------------------------------------------------------------------------


def _by_domain(driver: str, named: Iterable[tuple[str, Any]]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name, value in named:
        domain, _, short = name.rpartition("/")
        found.setdefault(domain or driver, {})[short] = value
    return found


def _value(attribute: Mapping[str, Any]) -> Any:
    """An attribute as expressions see it; a version that is none is no value."""
    for field, value in attribute.items():
        if field.removesuffix("s") != "version":
            return value
        try:
            versions = [expressions.version(one) for one in (value if isinstance(value, list) else [value])]
        except ValueError:
            return None
        return versions if isinstance(value, list) else versions[0]
    return None


def _amount(capacity: Mapping[str, Any]) -> Any:
    try:
        return expressions.amount(str(capacity.get("value", "0")))
    except ValueError:
        return None
