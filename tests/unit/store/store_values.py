"""Values for store tests: small JSON trees that carry their own revision, uid and owners."""

from __future__ import annotations

import json
from collections.abc import Callable

from echelon.store.interface import Encode, Header
from echelon.store.log import Log


def header_of(key: str, value: bytes) -> Header:
    tree = json.loads(value)
    return Header(uid=tree.get("uid", ""), owners=tuple(tree.get("owners", ())))


def value(text: str = "", **more: object) -> Encode:
    """A value that carries its own revision."""
    return lambda revision: json.dumps({"text": text, "rv": revision, **more}).encode()


Open = Callable[..., Log]
