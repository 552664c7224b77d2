"""Rules of the volumes of a pod spec and of where containers mount them: no path leads out of where it belongs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import FieldError, duplicate, forbidden_field, invalid, required
from . import fields

Part = Mapping[str, Any]
_MOST_MODE = 0o777


def check(path: str, volumes: Sequence[Part]) -> list[FieldError]:
    problems: list[FieldError] = []
    seen: dict[str, int] = {}
    for index, volume in enumerate(volumes):
        where = f"{path}[{index}]"
        name = volume.get("name", "")
        problems += fields.needed(f"{where}.name", name, fields.short_name)
        if seen.setdefault(name, index) != index:
            problems.append(duplicate(f"{where}.name", name))
        sources = [field for field in volume if field != "name"]
        if not sources:
            problems.append(required(where, "must specify a volume type"))
        problems += [
            forbidden_field(f"{where}.{more}", "may not specify more than 1 volume type") for more in sources[1:]
        ]
        problems += _source(where, volume)
    return problems


def _source(path: str, volume: Part) -> Iterator[FieldError]:
    host_path = volume.get("hostPath") or {}
    if ".." in str(host_path.get("path", "")).split("/"):
        yield invalid(f"{path}.hostPath.path", host_path["path"], "must not contain '..'")
    for kind in ("configMap", "secret", "downwardAPI"):
        yield from _files(f"{path}.{kind}", volume.get(kind) or {})
    projected = volume.get("projected") or {}
    yield from _mode(f"{path}.projected.defaultMode", projected.get("defaultMode"))
    for index, source in enumerate(projected.get("sources") or ()):
        for kind, body in source.items():
            where = f"{path}.projected.sources[{index}].{kind}"
            yield from _files(where, body or {})
            if kind == "serviceAccountToken":
                yield from _inner_path(f"{where}.path", (body or {}).get("path") or "")


def _files(path: str, body: Part) -> Iterator[FieldError]:
    yield from _mode(f"{path}.defaultMode", body.get("defaultMode"))
    for index, item in enumerate(body.get("items") or ()):
        yield from _inner_path(f"{path}.items[{index}].path", item.get("path") or "")
        yield from _mode(f"{path}.items[{index}].mode", item.get("mode"))


def _inner_path(path: str, value: str) -> Iterator[FieldError]:
    if not value:
        yield required(path)
    yield from _descending(path, value)
    if value.startswith(".."):
        yield invalid(path, value, "must not start with '..'")


def _descending(path: str, value: str) -> Iterator[FieldError]:
    if value.startswith("/"):
        yield invalid(path, value, "must be a relative path")
    if ".." in value.split("/"):
        yield invalid(path, value, "must not contain '..'")


def _mode(path: str, mode: int | None) -> Iterator[FieldError]:
    if mode is not None and not 0 <= mode <= _MOST_MODE:
        yield invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive")


def check_mounts(path: str, mounts: Sequence[Part], volumes: set[Any]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, mount in enumerate(mounts):
        where = f"{path}[{index}]"
        yield from _mount(where, mount, volumes)
        target = mount.get("mountPath")
        if target in seen:
            yield invalid(f"{where}.mountPath", target, "must be unique")
        seen.add(target or "")


def _mount(path: str, mount: Part, volumes: set[Any]) -> Iterator[FieldError]:
    if not mount.get("name"):
        yield required(f"{path}.name")
    elif mount["name"] not in volumes:
        yield FieldError("FieldValueNotFound", f"{path}.name", f'Not found: "{mount["name"]}"')
    if not mount.get("mountPath"):
        yield required(f"{path}.mountPath")
    for field in ("subPath", "subPathExpr"):
        yield from _descending(f"{path}.{field}", mount.get(field) or "")
    if mount.get("subPath") and mount.get("subPathExpr"):
        yield invalid(f"{path}.subPathExpr", mount["subPathExpr"], "subPathExpr and subPath are mutually exclusive")
