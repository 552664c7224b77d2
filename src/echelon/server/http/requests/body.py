"""Reads request bodies: content types, JSON, YAML and protobuf, with the messages of kube-apiserver."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import yaml

from ....api import errors
from ....api.protobuf.from_protobuf import NotProtobuf
from ....api.protobuf.from_protobuf import decode as decode_protobuf
from ....api.schema import kind_schema
from ....api.schema.json_bodies import summary
from ....api.scheme import Object, Resource
from ....api.verbs import Patch, PatchType, WriteOptions
from ...objects import off_loop
from .body_records import DELETE_OPTIONS, DeleteBody, record
from .request import Request

_JSON, _YAML, _PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
#: Most values (entries of lists and objects) in a body: a value costs far more than its bytes.
MOST_VALUES = 120_000
#: Most levels of lists and objects in YAML.
_DEEPEST = 500
_PATCH_TYPES = {type_.value: type_ for type_ in PatchType}
_CUSTOM_PATCH_TYPES = {type_.value: type_ for type_ in PatchType if type_ is not PatchType.STRATEGIC}
#: What reading YAML raises.
_NOT_YAML = (yaml.YAMLError, msgspec.MsgspecError, TypeError, ValueError, RecursionError)


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def read_object(request: Request, resource: Resource, *, strict: bool = False) -> Object:
    """The object of a create or update; kind and apiVersion are set or checked."""
    _refuse_unknown_types(_media_type(request), resource)
    data = await request.body()
    tree = await _parse(data, request, resource)
    if not isinstance(tree, dict):
        raise errors.bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): couldn't get version/kind; "
            "json parse error: the body is not an object"
        )
    _settle_kind(tree, resource)
    repeated = list[str]()
    if strict and data.lstrip()[:1] == b"{":
        repeated = await off_loop.run(len(data) > off_loop.LARGE, kind_schema.duplicate_fields, data)
    if repeated:
        # The parser keeps the last duplicate; strict validation reports all.
        raise kind_schema.unknown_fields(resource, kind_schema.decode(resource, tree).unknown, repeated)
    return tree


async def read_delete_body(request: Request) -> DeleteBody | None:
    """The DeleteOptions of the body; None if it is empty."""
    data = await request.body()
    if not data.strip():
        return None
    _refuse_unknown_types(_media_type(request), DELETE_OPTIONS)
    return record(await _parse(data, request, DELETE_OPTIONS), DeleteBody, DELETE_OPTIONS)


def patch_type(request: Request, resource: Resource) -> PatchType:
    """The patch type of a request; 415 if the kind does not take it."""
    accepted = _PATCH_TYPES if resource.builtin else _CUSTOM_PATCH_TYPES
    found = accepted.get(_media_type(request))
    if found is None:
        raise errors.unsupported_media_type(
            f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
        )
    return found


async def read_patch(request: Request, type_: PatchType, options: WriteOptions) -> Patch:
    data = await request.body()
    if type_ is PatchType.APPLY:
        return Patch(type_, await off_loop.run(options.large, _apply_configuration, data, options))
    return Patch(type_, await off_loop.run(options.large, _parse_patch, data))


def _parse_patch(data: bytes) -> Any:
    try:
        return _bounded(msgspec.json.decode(data), len(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise errors.bad_request(f"error decoding patch: {problem}") from None


def _apply_configuration(data: bytes, options: WriteOptions) -> Any:
    """The configuration of an apply: YAML, which JSON is a part of; duplicate fields are errors or warnings."""
    try:
        tree = _bounded(msgspec.json.decode(data), len(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        repeated: list[str] = []
        try:
            tree = _yaml_tree(data, repeated) or {}
        except _NOT_YAML as problem:
            raise errors.bad_request(f"error decoding patch: error converting YAML to JSON: {problem}") from None
    else:
        repeated = [f'key "{path}" already set in map' for path in kind_schema.duplicate_fields(data)]
    if repeated and options.field_validation == "Strict":
        raise errors.bad_request(f"error strict decoding patch: {', '.join(repeated)}")
    if options.field_validation == "Warn":
        for text in repeated:
            options.warn(text)
    return tree


def _refuse_unknown_types(media_type: str, resource: Resource) -> None:
    """415 for an unsupported content type; none means JSON, and custom kinds have no protobuf form."""
    accepted = (_JSON, _YAML, _PROTOBUF) if resource.builtin else (_JSON, _YAML)
    if media_type and media_type not in accepted:
        raise errors.unsupported_media_type(
            f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
        )


async def _parse(data: bytes, request: Request, resource: Resource) -> Any:
    media_type, large = _media_type(request), len(data) > off_loop.LARGE
    if media_type == _PROTOBUF:
        return await off_loop.run(large, _parse_protobuf, data, resource)
    if media_type == _YAML and data.lstrip()[:1] not in (b"{", b"["):
        return await off_loop.run(large, _parse_yaml, data, resource.kind)
    return await off_loop.run(large, _parse_json, data, resource)


def _parse_json(data: bytes, resource: Resource) -> Any:
    return _bounded(kind_schema.parse(resource, data), len(data))


def _bounded(tree: Any, size: int) -> Any:
    """The tree; 413 if it has more values than are worked on.  A value takes two bytes at least."""
    if size > 2 * MOST_VALUES:
        count, left = 0, [tree]
        while left:
            value = left.pop()
            if isinstance(value, (dict, list)):
                count += len(value)
                if count > MOST_VALUES:
                    raise _too_many_values()
                left.extend(value.values() if isinstance(value, dict) else value)
    return tree


def _too_many_values() -> errors.ApiError:
    return errors.ApiError(
        413, "RequestEntityTooLarge", f"Request entity too large: limit is {MOST_VALUES} values in lists and objects"
    )


def _parse_protobuf(data: bytes, resource: Resource) -> Any:
    try:
        return _bounded(decode_protobuf(data, (resource.api_version, resource.kind)), len(data))
    except NotProtobuf as problem:
        raise errors.bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): {problem} ({summary(data)})"
        ) from None


class _Loader(yaml.composer.Composer, yaml.CSafeLoader):
    """The fast parser with the composer in Python, which lets other threads run between two nodes."""

    def __init__(self, stream: bytes) -> None:
        yaml.CSafeLoader.__init__(self, stream)
        yaml.composer.Composer.__init__(self)
        #: Where a mapping has a key again.
        self.repeated: list[str] = []

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = yaml.composer.Composer.compose_mapping_node(self, anchor)
        seen: set[Any] = set()
        for key, _ in node.value:
            if key.value in seen:
                self.repeated.append(f'line {key.start_mark.line + 1}: key "{key.value}" already set in map')
            elif isinstance(key.value, str):
                seen.add(key.value)
        return node


def _yaml_tree(data: bytes, repeated: list[str] | None = None) -> Any:
    """The tree of a document; keys that a mapping has again are added to `repeated`."""
    depth = count = 0
    for event in yaml.parse(data, yaml.CSafeLoader):
        if isinstance(event, yaml.AliasEvent):
            # A few lines of aliases can expand to gigabytes.
            raise yaml.YAMLError("aliases are not accepted")
        count += isinstance(event, (yaml.ScalarEvent, yaml.CollectionStartEvent))
        if count > MOST_VALUES:
            raise _too_many_values()
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            # The loader calls itself at every level and would end the process.
            raise yaml.YAMLError(f"exceeded max depth of {_DEEPEST}")
    loader = _Loader(data)
    try:
        tree = loader.get_single_data()
    finally:
        loader.dispose()
    if repeated is not None:
        repeated += loader.repeated
    # Converts the timestamps and binary values of YAML to JSON strings.
    return msgspec.json.decode(msgspec.json.encode(tree))


def _parse_yaml(data: bytes, kind: str) -> Any:
    try:
        return _yaml_tree(data)
    except _NOT_YAML as problem:
        detail = f"couldn't get version/kind; error converting YAML to JSON: {problem}"
        raise errors.bad_request(f"the object provided is unrecognized (must be of type {kind}): {detail}") from None


def _settle_kind(tree: Object, resource: Resource) -> None:
    kind, version = tree.get("kind") or resource.kind, tree.get("apiVersion") or resource.api_version
    if version != resource.api_version:
        raise errors.bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({resource.api_version})"
        )
    if kind != resource.kind and resource.custom is not None:
        name = tree["metadata"].get("name", "") if isinstance(tree.get("metadata"), dict) else ""
        problem = errors.invalid("kind", kind, f"must be {resource.kind}")
        raise errors.invalid_object(replace(resource, kind=str(kind)), str(name), [problem])
    if kind != resource.kind:
        raise errors.bad_request(
            f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
            f"this path takes objects of kind {resource.kind}"
        )
    tree["kind"], tree["apiVersion"] = kind, version
