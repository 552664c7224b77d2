"""CEL, the language of `x-kubernetes-validations` and of device selectors: compiled once; JSON as CEL sees it.

The library is imported when the first rule is compiled.  It stops an evaluation after 10,000 iterations.
"""

from __future__ import annotations

import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

from ...base import instants, quantity

_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_RESERVED = frozenset(
    (
        "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
        "let", "loop", "package", "namespace", "return", "var", "void", "while",
    )
)  # fmt: skip
_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*://[^\s/?#]+([/?#]\S*)?|/\S*)")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")
_DURATION_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
#: Functions of Kubernetes that are not there: a rule that calls one is not evaluated.
_MISSING = re.compile(
    r"\b(url|getScheme|getHost|getHostname|getPort|getEscapedPath|getQuery|ip|family|isCanonical|cidr|containsIP|"
    r"containsCIDR|prefixLength|masked|authorizer|find|findAll|format\.named)\s*\("
)


class BadExpression(ValueError):
    """An expression that cannot be compiled; the text is the compiler's."""


class EvaluationFailed(Exception):
    """An expression that has no value for this data; the text says why."""


class TooExpensive(EvaluationFailed):
    """An expression that takes too many steps."""


def lacks_functions(text: str) -> bool:
    """Whether an expression calls functions that are not available here."""
    return _MISSING.search(text) is not None


def evaluate(text: str, **values: Any) -> Any:
    """The value of an expression."""
    try:
        result = compiled(text).eval(data=values)
    except RuntimeError as failed:
        raise _failure(str(failed)) from None
    if str(result.type()).endswith("ERROR"):
        raise _failure(str(result.value()))
    return result.value()


def _failure(text: str) -> EvaluationFailed:
    if "budget exceeded" in text:
        return TooExpensive("operation cancelled: actual cost limit exceeded")
    missing = re.search(r'Key not found in map : "(.*)"', text)
    return EvaluationFailed(f"no such key: {missing[1]}" if missing else text)


def matches(pattern: str, value: str) -> bool:
    """Whether a regular expression of someone else occurs in a text, in a time that grows with the text alone.

    CEL's engine is Go's; Python's takes exponential time for some expressions.  `BadExpression` if it is none.
    """
    try:
        return evaluate("self.matches(oldSelf)", self=value, oldSelf=pattern) is True
    except EvaluationFailed as failed:
        raise BadExpression(str(failed)) from None


@lru_cache(maxsize=16384)
def compiled(text: str) -> Any:
    """The compiled expression; `BadExpression` if it is none."""
    try:
        return _environment().compile(text)
    except RuntimeError as refused:
        raise BadExpression(
            str(refused).removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
        ) from None


def result_type(text: str) -> str:
    """The name of the type of an expression: `BOOL`, `DYN`, …"""
    return str(compiled(text).return_type())


@cache
def _environment() -> Any:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_bindings, ext_encoders, ext_math, ext_optional, ext_strings

    names = ("self", "oldSelf", "old_", "hasOld_", "device")
    extensions = [
        ext_strings.ExtStrings(),
        ext_optional.ExtOptional(),
        ext_bindings.ExtBindings(),
        ext_math.ExtMath(),
        ext_encoders.ExtEncoders(),
        cel.CelExtension("kubernetes", _functions(cel)),
    ]
    return cel.NewEnv(variables=dict.fromkeys(names, cel.Type.DYN), extensions=extensions)


def _functions(cel: Any) -> list[Any]:
    """Functions of Kubernetes' libraries for lists, quantities and addresses."""
    dyn, flag, text, number = cel.Type.DYN, cel.Type.BOOL, cel.Type.STRING, cel.Type.INT
    many = cel.Type.List(dyn)
    table: list[tuple[str, bool, Any, list[Any], Callable[..., Any]]] = [
        ("isSorted", True, flag, [many], lambda items: all(a <= b for a, b in pairwise(items))),
        ("sum", True, dyn, [many], _sum),
        ("min", True, dyn, [many], min),
        ("max", True, dyn, [many], max),
        ("indexOf", True, number, [many, dyn], lambda items, one: items.index(one) if one in items else -1),
        ("lastIndexOf", True, number, [many, dyn], _last_index),
        ("isURL", False, flag, [text], _is_url),
        ("isIP", False, flag, [text], lambda value: _parses(ipaddress.ip_address, value)),
        ("isCIDR", False, flag, [text], lambda value: _parses(ipaddress.ip_network, value)),
        ("isQuantity", False, flag, [text], lambda value: _parses(quantity.exact, value)),
        ("quantity", False, dyn, [text], amount),
        ("isSemver", False, flag, [text], lambda value: _parses(version, value)),
        ("semver", False, dyn, [text], version),
        ("major", True, number, [dyn], lambda a: int(a[_VERSION].split(".")[0])),
        ("minor", True, number, [dyn], lambda a: int(a[_VERSION].split(".")[1])),
        ("patch", True, number, [dyn], lambda a: int(_core(a[_VERSION])[2])),
        ("isLessThan", True, flag, [dyn, dyn], lambda a, b: _rank(a) < _rank(b)),
        ("isGreaterThan", True, flag, [dyn, dyn], lambda a, b: _rank(a) > _rank(b)),
        ("compareTo", True, number, [dyn, dyn], lambda a, b: (_rank(a) > _rank(b)) - (_rank(a) < _rank(b))),
        ("asApproximateFloat", True, cel.Type.DOUBLE, [dyn], lambda a: float(_amount(a))),
        ("asInteger", True, number, [dyn], lambda a: int(_amount(a))),
        ("isInteger", True, flag, [dyn], lambda a: _amount(a) == int(_amount(a))),
        ("sign", True, number, [dyn], lambda a: (_amount(a) > 0) - (_amount(a) < 0)),
    ]
    return [
        cel.FunctionDecl(
            name,
            [cel.Overload(id=f"k8s_{name}", return_type=made, parameters=given, is_member=member, impl=call)],
        )
        for name, member, made, given, call in table
    ]


_AMOUNT, _NANO = "nano", 10**9
_VERSION = "semver"
_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?"
)


def amount(text: str) -> Any:
    """A quantity as expressions see it."""
    return {_AMOUNT: str(quantity.exact(text))}


def version(text: str) -> Any:
    """A semantic version as expressions see it; `ValueError` if it is none."""
    if _SEMVER.fullmatch(text) is None:
        raise ValueError(f"not a semantic version: {text}")
    return {_VERSION: text}


def _core(text: str) -> Sequence[str]:
    found = _SEMVER.fullmatch(text)
    return found.groups() if found else ("0", "0", "0", "")


def _rank(value: Any) -> tuple[Any, ...]:
    """What decides the order of two quantities or of two versions."""
    if _VERSION not in value:
        return (_amount(value),)
    major, minor, patch, before = _core(value[_VERSION])
    parts = tuple((not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in (before or "").split("."))
    return int(major), int(minor), int(patch), not before, parts


def _amount(value: Any) -> Fraction:
    return Fraction(int(value[_AMOUNT]), _NANO)


def _sum(items: Sequence[Any]) -> Any:
    return sum(items[1:], start=items[0]) if items else 0


def _last_index(items: Sequence[Any], one: Any) -> int:
    return next((index for index in range(len(items) - 1, -1, -1) if items[index] == one), -1)


def _is_url(value: str) -> bool:
    return _URL.fullmatch(value) is not None


def _parses(parse: Callable[[str], object], value: str) -> bool:
    try:
        parse(value)
    except ValueError:
        return False
    return True


# -- values ------------------------------------------------------------------------------------------------------


def escaped(name: str) -> str:
    """The name of a property in expressions: `a-b` is `a__dash__b`."""
    if name in _RESERVED:
        return f"__{name}__"
    for special, word in _ESCAPES.items():
        name = name.replace(special, word)
    return name


def to_cel(schema: Mapping[str, Any], value: Any) -> Any:
    """A value of JSON as an expression sees it: named properties only, times and durations typed."""
    if isinstance(value, dict):
        return _object(schema, value)
    if isinstance(value, list):
        items = schema.get("items") or {}
        return [to_cel(items, item) for item in value]
    if isinstance(value, str):
        return _text(schema.get("format", ""), value)
    if schema.get("type") == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


def _object(schema: Mapping[str, Any], value: Mapping[str, Any]) -> dict[str, Any]:
    entries = schema.get("additionalProperties")
    if isinstance(entries, dict):
        return {name: to_cel(entries, item) for name, item in value.items()}
    properties = schema.get("properties") or {}
    made = {escaped(name): to_cel(inner, value[name]) for name, inner in properties.items() if name in value}
    if schema.get("x-kubernetes-embedded-resource"):
        made |= object_fields(value)
    return made


def object_fields(obj: Mapping[str, Any]) -> dict[str, Any]:
    """What rules see of every object besides its own fields."""
    metadata = obj.get("metadata") or {}
    shown = {field: metadata[field] for field in ("name", "generateName") if field in metadata}
    return {**{field: obj[field] for field in ("apiVersion", "kind") if field in obj}, "metadata": shown}


def _text(form: str, value: str) -> Any:
    try:
        if form == "date-time":
            return _instant(instants.parse(value))
        if form == "duration":
            return duration(value)
        if form == "byte":
            return binascii.a2b_base64(value)
    except ValueError:
        return value
    return value


def _instant(seconds: float) -> Any:
    from google.protobuf.timestamp_pb2 import Timestamp

    whole = int(seconds // 1)
    return Timestamp(seconds=whole, nanos=int((seconds - whole) * 1e9))


def duration(text: str) -> Any:
    """A duration as Go writes it, such as `1h30m`; `ValueError` if it is none."""
    from google.protobuf.duration_pb2 import Duration

    parts = _DURATION_PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text.lstrip("+-"):
        raise ValueError(text)
    nanos = round(sum(float(number) * _DURATION_UNITS[unit] for number, unit in parts) * 1e9)
    sign = -1 if text.startswith("-") else 1
    return Duration(seconds=sign * (nanos // 10**9), nanos=sign * (nanos % 10**9))
