"""Reads manifests: YAML documents to objects, with errors that name file, line and fix.

load(paths) ─► [Manifest(title, objects)] ─► ordered(...) ─► created one by one by `run`
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import yaml

from ...api.scheme import (
    CLUSTER_TRAINING_RUNTIMES,
    NAMESPACES,
    PRIORITY_CLASSES,
    RESOURCES,
    TRAINING_RUNTIMES,
    Object,
    Resource,
    by_kind,
)

#: Created first, because other objects refer to them.
_FIRST = (NAMESPACES, PRIORITY_CLASSES, CLUSTER_TRAINING_RUNTIMES, TRAINING_RUNTIMES)


_STDIN = Path("-")
_SUFFIXES = (".yaml", ".yml", ".json")


class BadManifest(Exception):
    """A manifest that cannot be used; the message begins with file and line."""


@dataclass(frozen=True)
class ManifestObject:
    """One object of a file and the kind it belongs to."""

    resource: Resource
    obj: Object
    #: File and line, as messages name it.
    place: str


@dataclass(frozen=True)
class Manifest:
    #: The file, as messages name it.
    source: str
    #: The comment at the top of the file.
    title: str
    entries: tuple[ManifestObject, ...]


def load(paths: Iterable[Path]) -> list[Manifest]:
    """Read files, directories and `-`, standard input; `BadManifest` with file and line if one is invalid."""
    return [_parsed(_text(path), "stdin" if path == _STDIN else str(path)) for path in _files(paths)]


def _files(paths: Iterable[Path]) -> Iterable[Path]:
    """The files of directories by name, as `kubectl apply -f DIR` takes them: without those further down."""
    for path in paths:
        if path == _STDIN or not path.is_dir():
            yield path
            continue
        found = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES and file.is_file())
        if not found:
            raise BadManifest(f"{path}: contains no {', '.join(_SUFFIXES)} files")
        yield from found


def _text(path: Path) -> str:
    try:
        return sys.stdin.read() if path == _STDIN else path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise BadManifest(f"{path}: {reason}") from error


def _parsed(text: str, path: str) -> Manifest:
    entries: list[ManifestObject] = []
    try:
        for node in yaml.compose_all(text, Loader=yaml.CSafeLoader):
            line = node.start_mark.line + 1
            document = yaml.CSafeLoader("").construct_document(node)
            if document is not None:
                entries += _entries(document, f"{path}:{line}")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"{path}:{mark.line + 1}" if mark else path
        raise BadManifest(f"{place}: not YAML: {error.problem or error}") from error
    if not entries:
        raise BadManifest(f"{path}: contains no objects")
    return Manifest(path, _title(text), tuple(entries))


def ordered(entries: Iterable[ManifestObject]) -> list[ManifestObject]:
    """Namespaces, priority classes and runtimes first; otherwise as written."""
    rank = {resource: index for index, resource in enumerate(_FIRST)}
    return sorted(entries, key=lambda entry: rank.get(entry.resource, len(_FIRST)))


def _entries(document: object, place: str) -> list[ManifestObject]:
    if not isinstance(document, dict):
        raise BadManifest(f"{place}: expected an object with apiVersion and kind, found {str(document)[:40]!r}")
    if str(document.get("kind", "")).endswith("List") and isinstance(document.get("items"), list):
        return [entry for item in document["items"] for entry in _entries(item, place)]
    api_version, kind = document.get("apiVersion"), document.get("kind")
    for field, value in (("apiVersion", api_version), ("kind", kind)):
        if not isinstance(value, str) or not value:
            raise BadManifest(f"{place}: {field} is missing")
    resource = by_kind(str(api_version), str(kind))
    if resource is None:
        raise BadManifest(f"{place}: {_unknown_kind(str(api_version), str(kind))}")
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
        raise BadManifest(f"{place}: metadata.name is missing")
    return [ManifestObject(resource, document, place)]


def _unknown_kind(api_version: str, kind: str) -> str:
    versions = [resource.api_version for resource in RESOURCES if resource.kind == kind]
    if versions:
        return f"{kind} is not served as {api_version}; use {' or '.join(versions)}"
    return f"unknown kind {kind} in {api_version}"


def _title(text: str) -> str:
    """The first paragraph of the comment at the very top, in one line."""
    words: list[str] = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        word = line.lstrip("# ").rstrip()
        if words and not word:
            break
        words += word.split()
    return " ".join(words)
