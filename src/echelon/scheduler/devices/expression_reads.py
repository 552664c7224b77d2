"""What an expression reads of a variable: it need not be evaluated again for data that look the same to it.

    text ─► compiled ─► syntax tree (`cel.expr.CheckedExpr`, protobuf) ─► paths of constants, from the variable down

`device.attributes["a.org"].model == "x"` reads `("attributes", "a.org", "model")` and nothing else.  Where a step is
not a constant, or a part is handed on to a function, the path ends there: all below it is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from ...api.schema.expressions import compiled

#: Steps from the variable down; what is below is read as well.
Path = tuple[str, ...]
#: All of the variable.
WHOLE: frozenset[Path] = frozenset(((),))

# Numbers of fields: Any.value, CheckedExpr.expr, and those of Expr and its kinds.
_VALUE, _EXPRESSION = 2, 4
_CONSTANT, _IDENTIFIER, _SELECT, _CALL, _LIST, _STRUCT, _COMPREHENSION = 3, 4, 5, 6, 7, 8, 9
_NAME = 1
_OPERAND, _FIELD = 1, 2
_TARGET, _FUNCTION, _ARGUMENT = 1, 2, 3
_TEXT = 6
_RANGE, _RESULT_NAME, _START, _STEPS, _RESULT = 2, 3, 4, (5, 6), 7
#: What binds names in a comprehension: the variables of the iteration and the result.
_BINDS = (1, _RESULT_NAME, 8)
#: Access with a constant key: `a["b"]`, `a[?"b"]`, `a.?b`.
_ACCESS = (b"_[_]", b"_[?_]", b"_?._")
_IN = b"@in"

_Fields = dict[int, list[bytes]]
#: Names that stand for parts of the variable.
_Names = Mapping[bytes, Path]


@lru_cache(maxsize=4096)
def reads(text: str, variable: str) -> frozenset[Path]:
    """The paths of a variable that an expression reads; `WHOLE` if that cannot be told."""
    try:
        checked = _fields(_fields(compiled(text).serialize())[_VALUE][0])
        return frozenset(_paths(_fields(checked[_EXPRESSION][0]), {variable.encode(): ()}))
    except (LookupError, ValueError):
        return WHOLE


def _paths(expression: _Fields, names: _Names) -> Iterator[Path]:
    path = _path(expression, names)
    if path is not None:
        yield path
    elif _COMPREHENSION in expression:
        yield from _paths_of_loop(_fields(expression[_COMPREHENSION][0]), names)
    else:
        for part in _parts(expression):
            yield from _paths(part, names)


def _paths_of_loop(loop: _Fields, names: _Names) -> Iterator[Path]:
    """What a comprehension reads; `cel.bind(name, value, …)` is one that has nothing to iterate over."""
    over, start = _fields(loop[_RANGE][0]), _fields(loop[_START][0])
    yield from _paths(over, names)
    bound = {name for number in _BINDS for name in loop.get(number, ())}
    inside = {name: path for name, path in names.items() if name not in bound}
    value = _path(start, names)
    if value is not None and _LIST in over and not _fields(over[_LIST][0]):
        used = list(_paths(_fields(loop[_RESULT][0]), {**inside, loop[_RESULT_NAME][0]: value}))
        if not any(path[: len(value)] == value for path in used):
            used.append(value)  # It may be missing.
        yield from used
        return
    yield from _paths(start, names)
    for number in (*_STEPS, _RESULT):
        for part in loop.get(number, ()):
            yield from _paths(_fields(part), inside)


def _path(expression: _Fields, names: _Names) -> Path | None:
    """The path of an expression that is a part of the variable, or asks whether it has such a part."""
    if _IDENTIFIER in expression:
        return names.get(_fields(expression[_IDENTIFIER][0])[_NAME][0])
    if _SELECT in expression:
        select = _fields(expression[_SELECT][0])
        operand, key = _fields(select[_OPERAND][0]), select[_FIELD][0]
    elif _CALL in expression:
        call = _fields(expression[_CALL][0])
        arguments, function = call.get(_ARGUMENT, []), call[_FUNCTION][0]
        if _TARGET in call or len(arguments) != 2 or function not in (*_ACCESS, _IN):
            return None
        whose, which = reversed(arguments) if function == _IN else arguments
        constant = _fields(which).get(_CONSTANT)
        text = _fields(constant[0]).get(_TEXT) if constant else None
        if not text:
            return None
        operand, key = _fields(whose), text[0]
    else:
        return None
    above = _path(operand, names)
    return None if above is None else (*above, key.decode())


def _parts(expression: _Fields) -> Iterator[_Fields]:
    """The expressions that an expression consists of."""
    for kind in (_SELECT, _CALL, _LIST, _STRUCT):
        for body in expression.get(kind, ()):
            inside = _fields(body)
            if kind == _SELECT:
                parts = inside[_OPERAND]
            elif kind == _CALL:
                parts = [*inside.get(_TARGET, ()), *inside.get(_ARGUMENT, ())]
            elif kind == _LIST:
                parts = inside.get(1, [])
            else:
                entries = [_fields(entry) for entry in inside.get(2, ())]
                parts = [part for entry in entries for number in (3, 4) for part in entry.get(number, ())]
            yield from map(_fields, parts)


def _fields(message: bytes) -> _Fields:
    """The fields of a protobuf message that are texts or messages, by their numbers."""
    found: _Fields = {}
    position = 0
    while position < len(message):
        tag, position = _number(message, position)
        kind = tag & 7
        if kind == 0:
            _, position = _number(message, position)
        elif kind in (1, 5):
            position += 8 if kind == 1 else 4
        elif kind == 2:
            length, position = _number(message, position)
            found.setdefault(tag >> 3, []).append(message[position : position + length])
            position += length
        else:
            raise ValueError("not a message")
    return found


def _number(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
