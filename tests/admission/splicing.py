"""Objects that no test has written: those of the cases, with parts of others in the same places."""

from __future__ import annotations

import random
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import msgspec

from echelon.api.errors import ApiError
from echelon.api.scheme import Object
from tests.unit.api.rules.builders import stored

from .cases import Write

Path = tuple[str, ...]
_ENTRY = "[]"
#: Larger parts would only make the same object again.
_LONGEST = 2000


class Splicer:
    """What is known of one kind: every place that an object of it has, and the values that were seen there."""

    def __init__(self, cases: Sequence[Write], rng: random.Random) -> None:
        self._rng = rng
        self._seen: dict[Path, dict[bytes, None]] = {}
        self._cases = [case for case in cases if len(msgspec.json.encode(case.new)) < 20 * _LONGEST]
        for case in self._cases:
            for obj in (case.new, case.old):
                if obj is not None:
                    self._look(_content(obj), ())
        self._places = sorted(path for path in self._seen if len(path) > 1)

    def write(self) -> Write | None:
        """A new object, or a change of one; None if it cannot even be read."""
        case = self._rng.choice(self._cases)
        changes = self._rng.random() < 0.4
        old = stored(case.resource, _named(case, case.old or case.new)) if changes else None
        if old is not None and case.resource.plural in ("jobsets", "trainjobs") and self._rng.random() < 0.5:
            old["spec"]["suspend"] = True
        if old is not None and case.old is not None and "status" in case.old:
            old["status"] = case.old["status"]
        try:
            new = stored(case.resource, self._spliced(_named(case, case.new)))
        except (ApiError, AttributeError, TypeError):  # not a list, not a map
            return None
        return Write(case.test, case.kind, new, old, [], case.beside)

    def _look(self, value: Any, path: Path) -> None:
        text = msgspec.json.encode(value, order="deterministic")
        if len(text) < _LONGEST:
            self._seen.setdefault(path, {})[text] = None
        if isinstance(value, dict):
            for name, inner in value.items():
                self._look(inner, (*path, name))
        elif isinstance(value, list):
            for inner in value:
                self._look(inner, (*path, _ENTRY))

    def _spliced(self, obj: Object) -> Object:
        for _ in range(self._rng.choice((1, 1, 2, 3))):
            path = self._rng.choice(self._places)
            spots = _spots(obj, path)
            if spots:
                self._change(*self._rng.choice(spots), list(self._seen[path]))
        return obj

    def _change(self, holder: Any, key: Any, values: list[bytes]) -> None:
        roll = self._rng.random()
        if roll < 0.2 and key in (range(len(holder)) if isinstance(holder, list) else holder):
            del holder[key]
        elif roll < 0.3 and isinstance(holder, list):
            holder.append(deepcopy(holder[key]))
        else:
            value = msgspec.json.decode(self._rng.choice(values))
            if type(value) is int and self._rng.random() < 0.5:
                value += self._rng.choice((-1, 1, 2, 10**6))
            holder[key] = value


def _content(obj: Object) -> Object:
    metadata = {part: obj["metadata"][part] for part in ("labels", "annotations") if obj["metadata"].get(part)}
    return {"metadata": metadata, "spec": obj.get("spec") or {}}


def _named(case: Write, obj: Object) -> Object:
    made = deepcopy(_content(obj))
    made["metadata"]["name"] = obj["metadata"]["name"]
    if case.resource.namespaced:
        made["metadata"]["namespace"] = "ns"
    return made


def _spots(value: Any, path: Path) -> list[tuple[Any, Any]]:
    """Every holder in an object, with the key in it, that a path can mean."""
    name, *rest = path
    if name == _ENTRY:
        found = value if isinstance(value, list) else []
        if not rest:
            return [(found, index) for index in range(len(found))]
        return [spot for inner in found for spot in _spots(inner, tuple(rest))]
    if not isinstance(value, dict):
        return []
    return _spots(value[name], tuple(rest)) if rest and name in value else [] if rest else [(value, name)]
