"""Kubernetes quantities (`500m`, `1.5Gi`, `2e3`, 2) as exact integers and in their canonical spelling.

A quantity is held as a whole number of nano-units, so nothing is ever lost to floating point.  Anything finer than
a nano-unit rounds away from zero, and nothing is larger than 2^63 - 1, as in Kubernetes.
"""

from __future__ import annotations

import re
from functools import lru_cache

_NANO = 10**9
_LIMIT = (2**63 - 1) * _NANO
#: Longer numbers are rejected: they are no real amounts and expensive to parse.
_DIGITS, _LARGEST_POWER = 1000, 1000
_SHAPE = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*)([+-]?[0-9]*)")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL_NAMES = {power: name for name, power in _DECIMAL.items()}
_BINARY_NAMES = {power: name for name, power in _BINARY.items()}

WRONG_FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
WRONG_NUMBER = "unable to parse numeric part of quantity"
WRONG_SUFFIX = "unable to parse quantity's suffix"


def parse(quantity: str | int | float, resource_name: str | None = None) -> int:
    """The amount as an integer, rounded up: milli-units for `cpu`, whole units for everything else."""
    text = quantity if type(quantity) is str else _text(quantity)
    return _rounded(text, 10**6 if resource_name == "cpu" else _NANO)


@lru_cache(maxsize=65536)
def _rounded(text: str, unit: int) -> int:
    nano, _ = _read(text.strip())
    return -(-nano // unit)


def exact(quantity: str | int | float) -> int:
    """The amount in nano-units."""
    return _read(_text(quantity))[0]


def same(first: object, second: object) -> bool:
    """Whether two values are equal as amounts; what is not a quantity equals itself only."""
    if first == second or not isinstance(first, str | int | float) or not isinstance(second, str | int | float):
        return first == second
    try:
        return exact(first) == exact(second)
    except ValueError:
        return False


def plus(first: str, second: str) -> str:
    """The sum in canonical spelling, in the notation of the first amount unless that is zero."""
    return _added(first, second, 1)


def minus(first: str, second: str) -> str:
    """The difference, spelt as `plus` does."""
    return _added(first, second, -1)


def times(amount: str, count: int) -> str:
    """So many times an amount, in its own notation."""
    nano, notation = _read(_text(amount))
    return _spelling(min(nano * count, _LIMIT), notation)


def _added(first: str, second: str, sign: int) -> str:
    (start, own), (change, other) = _read(_text(first)), _read(_text(second))
    return _spelling(start + sign * change, own if start else other)


@lru_cache(maxsize=65536)
def canonical(quantity: str | int | float) -> str:
    """The one spelling Kubernetes stores: no fraction, and the largest suffix that allows it."""
    return _spelling(*_read(_text(quantity)))


def _spelling(nano: int, notation: str) -> str:
    if nano == 0:
        return "0"
    if notation == "binary" and abs(nano) >= 1024 * _NANO:
        return _in_binary(nano)
    return _in_decimal(nano, exponent_form=notation == "exponent")


def spelt(resource: str, amount: int) -> str:
    """An amount that `parse` gave for a resource, as people write it: 1500m of cpu, 64Gi of memory."""
    if resource == "cpu":
        return canonical(f"{amount}m")
    return canonical(f"{amount // 1024}Ki") if amount and amount % 1024 == 0 else str(amount)


def _text(quantity: str | int | float) -> str:
    """Numbers as JSON writes them; booleans are rejected although Python treats them as integers."""
    if isinstance(quantity, bool):
        raise ValueError(WRONG_FORMAT)
    return quantity.strip() if isinstance(quantity, str) else repr(quantity)


@lru_cache(maxsize=65536)
def _read(text: str) -> tuple[int, str]:
    """Nano-units, and the notation (`decimal`, `binary` or `exponent`) that the text uses."""
    shape = _SHAPE.fullmatch(text)
    if not text or shape is None:
        raise ValueError(WRONG_FORMAT)
    sign, whole, fraction, letters, digits = shape.groups()
    fraction = fraction or ""
    if not 0 < len(whole) + len(fraction) <= _DIGITS:
        raise ValueError(WRONG_NUMBER)
    top, bottom, notation = _factor(letters, digits)
    # Two integers instead of a fraction: rounding away from zero is one ceiling division.
    numerator = int(whole + fraction) * top * _NANO
    nano = min(-(-numerator // (bottom * 10 ** len(fraction))), _LIMIT)
    return (-nano if sign == "-" else nano), notation


def _factor(letters: str, digits: str) -> tuple[int, int, str]:
    """The suffix as a fraction (numerator, denominator) and the notation it belongs to."""
    if letters in ("e", "E") and digits not in ("", "+", "-"):
        power = int(digits[:_DIGITS])
        if abs(power) > _LARGEST_POWER:
            raise ValueError(WRONG_SUFFIX)
        return 10 ** max(power, 0), 10 ** max(-power, 0), "exponent"
    if digits:
        raise ValueError(WRONG_SUFFIX)
    if letters in _BINARY:
        return 1024 ** _BINARY[letters], 1, "binary"
    if letters in _DECIMAL:
        power = _DECIMAL[letters]
        return 10 ** max(power, 0), 10 ** max(-power, 0), "decimal"
    raise ValueError(WRONG_SUFFIX)


def _in_binary(nano: int) -> str:
    sign = "-" if nano < 0 else ""
    amount, power = -(-abs(nano) // _NANO), 0
    while power < 6 and amount % 1024 == 0:
        amount, power = amount // 1024, power + 1
    return f"{sign}{amount}{_BINARY_NAMES[power] if power else ''}"


def _in_decimal(nano: int, *, exponent_form: bool) -> str:
    amount, power = nano, -9
    while power < 18 and amount % 1000 == 0:
        amount, power = amount // 1000, power + 3
    if exponent_form:
        return f"{amount}e{power}" if power else str(amount)
    return f"{amount}{_DECIMAL_NAMES[power]}"
