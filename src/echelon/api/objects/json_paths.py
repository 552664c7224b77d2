"""JSONPath as printer columns use it: names, quoted names, indexes, slices, `*`, `..` and filters.

.spec.replicas    .metadata.labels['app\\.io/name']    .status.conditions[?(@.type=="Ready")].status
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

#: From the values found so far to those of the next step.
Step = Callable[[Any], Iterator[Any]]

_TOKEN = re.compile(
    r"""
      \.\.(?P<deep>[^.\[\]]+)
    | \.\[?\*\]?(?P<all>)
    | \.?\[(?:'(?P<quoted>(?:[^'\\]|\\.)*)'|"(?P<double>(?:[^"\\]|\\.)*)")\]
    | \.?\[\*\](?P<each>)
    | \.?\[(?P<index>-?\d+)\]
    | \.?\[(?P<from>-?\d*):(?P<to>-?\d*)\]
    | \.?\[\?\((?P<filter>.*?)\)\]
    | \.(?P<name>(?:\\.|[^.\[\]\\])+)
    """,
    re.VERBOSE,
)
_FILTER = re.compile(r"\s*@(?P<path>[^=!<>\s]*)\s*(?:(?P<operator>==|!=|<=|>=|<|>)\s*(?P<value>.+?)\s*)?")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda left, right: bool(left == right),
    "!=": lambda left, right: bool(left != right),
    "<": lambda left, right: bool(left < right),
    "<=": lambda left, right: bool(left <= right),
    ">": lambda left, right: bool(left > right),
    ">=": lambda left, right: bool(left >= right),
}


class BadPath(ValueError):
    """The text is no JSONPath."""


def find(path: str, tree: Any) -> list[Any]:
    """Every value that the path leads to; none where a step is missing.  `BadPath` if it cannot be read."""
    values = [tree]
    for step in _steps(path):
        values = [found for value in values for found in step(value)]
    return values


@lru_cache(maxsize=4096)
def _steps(path: str) -> tuple[Step, ...]:
    text = path if path.startswith((".", "[")) else f".{path}"
    steps: list[Step] = []
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None or token.end() == at:
            raise BadPath(f"{path}: cannot be read from {text[at:]!r} on")
        steps.append(_step(token))
        at = token.end()
    return tuple(steps)


def _step(token: re.Match[str]) -> Step:
    kind, value = token.lastgroup, token.group(token.lastgroup or 0)
    if kind in ("name", "quoted", "double"):
        return _named(re.sub(r"\\(.)", r"\1", value))
    if kind == "deep":
        return _deep(value)
    if kind == "index":
        return _indexed(int(value))
    if kind == "filter":
        return _filtered(value)
    if kind == "to":
        start, end = token.group("from"), value
        return _sliced(slice(int(start) if start else None, int(end) if end else None))
    return _children


def _named(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _deep(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]
        for child in _children(value):
            yield from step(child)

    return step


def _indexed(index: int) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return step


def _sliced(part: slice) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from value[part]

    return step


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _filtered(text: str) -> Step:
    found = _FILTER.fullmatch(text)
    if found is None:
        raise BadPath(f"{text}: is no filter that can be read")
    path, operator, literal = found["path"], found["operator"], found["value"]
    _steps(path or ".")

    def fits(item: Any) -> bool:
        values = find(path, item) if path else [item]
        if not operator:
            return bool(values)
        try:
            return any(_COMPARE[operator](value, _literal(literal)) for value in values)
        except TypeError:
            return False

    def step(value: Any) -> Iterator[Any]:
        return (item for item in _children(value) if fits(item))

    return step


def _literal(text: str) -> Any:
    if text[0] in "\"'" and text[-1] == text[0]:
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text
