"""Rules of ConfigMap and Secret: keys, size, immutability."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ..errors import FieldError, forbidden_field, invalid, required, too_long
from ..scheme import Object
from .kind import KindRules

LARGEST = 1024 * 1024
_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_KEY_SENTENCE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
    "or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
#: Required keys of the well-known Secret types.
_NEEDED_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
}


def _keys(obj: Object, parts: Sequence[str]) -> list[FieldError]:
    problems: list[FieldError] = []
    size = 0
    for part in parts:
        for key, value in (obj.get(part) or {}).items():
            size += len(value)
            if len(key) > 253:
                problems.append(invalid(f"{part}[{key}]", key, "must be no more than 253 characters"))
            if not _KEY.fullmatch(key) or key in (".", "..") or key.startswith(".."):
                problems.append(invalid(f"{part}[{key}]", key, _KEY_SENTENCE))
    if size > LARGEST:
        problems.append(too_long(parts[0] if len(parts) == 1 else "", LARGEST))
    return problems


def _config_map(obj: Object) -> list[FieldError]:
    problems = _keys(obj, ("data", "binaryData"))
    texts = obj.get("data") or {}
    problems += [
        invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
        for key in obj.get("binaryData") or ()
        if key in texts
    ]
    return problems


def _secret(obj: Object) -> list[FieldError]:
    data = obj.get("data") or {}
    needed = _NEEDED_KEYS.get(obj.get("type", ""), ())
    return _keys(obj, ("data",)) + [required(f"data[{key}]") for key in needed if key not in data]


def _sealed(obj: Object, old: Object, parts: Sequence[str]) -> list[FieldError]:
    """`immutable: true` protects itself and the data."""
    if not old.get("immutable"):
        return []
    detail = "field is immutable when `immutable` is set"
    problems = [] if obj.get("immutable") else [forbidden_field("immutable", detail)]
    return problems + [
        forbidden_field(part, detail) for part in parts if (obj.get(part) or {}) != (old.get(part) or {})
    ]


def _update(
    validate: Callable[[Object], list[FieldError]], parts: Sequence[str]
) -> Callable[[Object, Object], list[FieldError]]:
    def check(new: Object, old: Object) -> list[FieldError]:
        problems = (
            [] if new.get("type") == old.get("type") else [invalid("type", new.get("type"), "field is immutable")]
        )
        return problems + _sealed(new, old, parts) + validate(new)

    return check


CONFIG_MAP = KindRules(validate_create=_config_map, validate_update=_update(_config_map, ("data", "binaryData")))
SECRET = KindRules(validate_create=_secret, validate_update=_update(_secret, ("data",)))
