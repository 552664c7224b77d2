"""The HTTPS transport: `Verbs` against any Kubernetes API server, ours or a real one.

Lists go through an aiohttp session, single objects and watches over a `ConnectionPool`; every refusal becomes the same
`ApiError` that the embedded server raises in process, so callers cannot tell the two apart.  A server that cannot be
reached, breaks off or does not answer in time is one that refuses for now: 503 and 504.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

import aiohttp
import msgspec

from ..api.errors import ApiError
from ..api.scheme import PODS, Object, Resource
from ..api.verbs import (
    DeleteOptions,
    ListOptions,
    ObjectList,
    Patch,
    Subresource,
    Verbs,
    WatchEvent,
    WatchOptions,
    WriteOptions,
)
from .connection_pool import ConnectionPool

_CONNECTIONS = 128
#: Lists of large clusters take a while; watches have their own limit.
_REQUEST_SECONDS = 60.0
#: A watch is asked for anew after this long, and given up when the server is silent for longer: it may be gone.
_WATCH_SECONDS = 300
_WATCH_GRACE_SECONDS = 30.0
_DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
#: So much of an answer that makes no sense is shown.
_QUOTED_BYTES = 60


def path_of(resource: Resource, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """The URL path of a collection, an object or a subresource."""
    parts = ["apis", resource.group, resource.version] if resource.group else ["api", resource.version]
    if resource.namespaced and namespace:
        parts += ["namespaces", namespace]
    parts.append(resource.plural)
    parts += [part for part in (name, subresource) if part]
    return "/" + "/".join(parts)


class HttpVerbs(Verbs):
    """Made by `kubeconfig.connect`; close it when done."""

    def __init__(self, server: str, tls: ssl.SSLContext | None, headers: Mapping[str, str]) -> None:
        self._server = server.rstrip("/")
        known = {"User-Agent": "echelon", **headers}
        self._wire = ConnectionPool(self._server, tls, known, _CONNECTIONS)
        self._session = aiohttp.ClientSession(
            headers={"Accept": "application/json", **known},
            connector=aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=tls or True),
            timeout=aiohttp.ClientTimeout(total=_REQUEST_SECONDS),
        )

    async def get_ready(self, requests: int) -> None:
        """Open the connections that so many requests at a time will want; what is wrong shows when they are used."""
        await self._wire.open(min(requests, _CONNECTIONS), _REQUEST_SECONDS)

    async def close(self) -> None:
        self._wire.close()
        await self._session.close()

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        return self._typed(resource, await self._call("GET", path_of(resource, namespace, name)))

    async def list(self, resource: Resource, namespace: str = "", options: ListOptions = ListOptions()) -> ObjectList:
        query = {
            "labelSelector": options.label_selector,
            "fieldSelector": options.field_selector,
            "limit": str(options.limit) if options.limit else "",
            "continue": options.continue_token,
            "resourceVersion": options.resource_version,
            "resourceVersionMatch": options.resource_version_match,
        }
        body = await self._read(path_of(resource, namespace), query)
        metadata = body["metadata"]
        items = [self._typed(resource, item) for item in body.get("items") or ()]
        return ObjectList(
            items, metadata["resourceVersion"], metadata.get("continue", ""), metadata.get("remainingItemCount")
        )

    async def watch(
        self, resource: Resource, namespace: str = "", options: WatchOptions = WatchOptions()
    ) -> AsyncGenerator[WatchEvent, None]:
        seconds = options.timeout_seconds or _WATCH_SECONDS
        query = {
            "watch": "1",
            "labelSelector": options.label_selector,
            "fieldSelector": options.field_selector,
            "resourceVersion": options.resource_version,
            "resourceVersionMatch": options.resource_version_match,
            "allowWatchBookmarks": "true" if options.allow_bookmarks else "",
            "timeoutSeconds": str(int(seconds)),
        }
        if options.send_initial_events is not None:
            query["sendInitialEvents"] = "true" if options.send_initial_events else "false"
        path = path_of(resource, namespace)
        target = f"{path}?{urlencode({key: value for key, value in query.items() if value})}"
        with self._reachable("GET", path):
            async with self._wire.stream(target, _REQUEST_SECONDS, seconds + _WATCH_GRACE_SECONDS) as stream:
                if stream.status >= 400:
                    raise _refusal(stream.status, await stream.rest())
                async for batch in stream.batches():
                    for event in _events(batch):
                        if event["type"] == "ERROR":
                            raise ApiError.from_status(event["object"], 500)
                        yield WatchEvent(event["type"], event["object"])

    async def create(
        self, resource: Resource, obj: Object, namespace: str = "", options: WriteOptions = WriteOptions()
    ) -> Object:
        return await self._write("POST", path_of(resource, namespace), self._typed(resource, obj), options)

    async def update(
        self,
        resource: Resource,
        obj: Object,
        namespace: str = "",
        subresource: Subresource = "",
        options: WriteOptions = WriteOptions(),
    ) -> Object:
        path = path_of(resource, namespace, obj["metadata"]["name"], subresource)
        return await self._write("PUT", path, self._typed(resource, obj), options)

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Patch,
        namespace: str = "",
        subresource: Subresource = "",
        options: WriteOptions = WriteOptions(),
    ) -> Object:
        path = path_of(resource, namespace, name, subresource)
        return await self._write("PATCH", path, patch.body, options, str(patch.type))

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", options: DeleteOptions = DeleteOptions()
    ) -> Object:
        return await self._call("DELETE", path_of(resource, namespace, name), body=_delete_body(options))

    async def bind(
        self,
        namespace: str,
        pod: str,
        node: str,
        *,
        uid: str = "",
        annotations: Mapping[str, str] | None = None,
        options: WriteOptions = WriteOptions(),
    ) -> None:
        metadata: Object = {"name": pod, "namespace": namespace}
        if uid:
            metadata["uid"] = uid
        if annotations:
            metadata["annotations"] = dict(annotations)
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        # The body is our own: no server need look for unknown fields in it.
        query = _query(options.dry_run, options.field_manager, "Ignore")
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/binding{query}"
        await self._send("POST", path, binding, "application/json", options)

    async def evict(self, namespace: str, pod: str, options: DeleteOptions = DeleteOptions()) -> None:
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
            "deleteOptions": _delete_body(options),
        }
        await self._call("POST", path_of(PODS, namespace, pod, "eviction"), body=eviction)

    async def _write(
        self, method: str, path: str, body: Any, options: WriteOptions, content_type: str = "application/json"
    ) -> Object:
        query = _query(options.dry_run, options.field_manager, options.field_validation)
        return await self._call(method, path + query, body, content_type, options)

    async def _call(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
        options: WriteOptions = WriteOptions(),
    ) -> Object:
        return _decoded(await self._send(method, path, body, content_type, options))

    async def _send(self, method: str, path: str, body: Any, content_type: str, options: WriteOptions) -> bytes:
        """Ask and be answered, refusals apart; what the server warns of is passed on."""
        raw = None if body is None else msgspec.json.encode(body)
        try:
            answer = await self._wire.call(method, path, raw, content_type, _REQUEST_SECONDS)
        except OSError as error:  # a TimeoutError is one
            raise self._unreachable(method, path, error) from error
        if answer.status >= 400:
            raise _refusal(answer.status, answer.body)
        for warning in answer.warnings:
            options.warn(_unquoted(warning))
        return answer.body

    async def _read(self, path: str, query: Mapping[str, str]) -> Object:
        """A list: long, and worth compressing."""
        asked = {key: value for key, value in query.items() if value}
        with self._reachable("GET", path):
            async with self._session.get(self._server + path, params=asked) as response:
                raw = await response.read()
        if response.status >= 400:
            raise _refusal(response.status, raw)
        return _decoded(raw)

    @contextmanager
    def _reachable(self, method: str, path: str) -> Iterator[None]:
        """Turn what went wrong between us and the server into a refusal that says so."""
        try:
            yield
        except (aiohttp.ClientError, OSError) as error:
            raise self._unreachable(method, path, error) from error

    def _unreachable(self, method: str, path: str, error: Exception) -> ApiError:
        if isinstance(error, TimeoutError):
            return ApiError(504, "Timeout", f"{method} {self._server}{path}: no answer in time")
        what = f"{method} {self._server}{path}: {_reason(error)}"
        return ApiError(503, "ServiceUnavailable", what)

    @staticmethod
    def _typed(resource: Resource, obj: Object) -> Object:
        """Items of typed lists come without kind and apiVersion; everyone here expects them."""
        if "kind" in obj and "apiVersion" in obj:
            return obj
        return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}


def _reason(error: Exception) -> str:
    """Why a server could not be reached, in the words of the system where it has some."""
    system = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else None
    number = None if isinstance(system, ssl.SSLError) else getattr(system, "errno", None)
    return os.strerror(number) if number and number > 0 else str(error) or type(error).__name__


@lru_cache
def _query(dry_run: bool, field_manager: str, field_validation: str) -> str:
    """What a write says about itself behind its path."""
    said = {"dryRun": "All" if dry_run else "", "fieldManager": field_manager, "fieldValidation": field_validation}
    return "?" + urlencode({key: value for key, value in said.items() if value})


def _decoded(raw: bytes) -> Object:
    """An object, a list or a status."""
    try:
        found: Object = _DECODER.decode(raw)
        found["metadata"]
    except (msgspec.DecodeError, TypeError, KeyError):
        raise _nonsense(raw) from None
    return found


def _events(batch: bytes) -> list[Object]:
    """The events of a watch, line by line."""
    try:
        found: list[Object] = _DECODER.decode_lines(batch)
        for event in found:
            event["type"]
    except (msgspec.DecodeError, TypeError, KeyError):
        raise _nonsense(batch) from None
    return found


def _nonsense(raw: bytes) -> ApiError:
    """Somebody answers who is no API server: a proxy on the way, or another program at that address."""
    begin = raw[:_QUOTED_BYTES].decode(errors="replace")
    return ApiError(502, "", f"this is not an answer of an API server: {begin!r}")


def _refusal(status: int, raw: bytes) -> ApiError:
    """What the server said when it said no."""
    try:
        body = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        text = raw.decode(errors="replace").strip()
        return ApiError(status, "", text or f"the server answered {status}")
    return ApiError.from_status(body if isinstance(body, dict) else {}, status)


def _unquoted(warning: str) -> str:
    """The text of a Warning header: `299 - "text"` with quotes and backslashes escaped."""
    return re.sub(r"\\(.)", r"\1", warning.removeprefix("299 - ").removeprefix('"').removesuffix('"'))


def _delete_body(options: DeleteOptions) -> Object:
    body: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if options.propagation:
        body["propagationPolicy"] = options.propagation
    if options.grace_period_seconds is not None:
        body["gracePeriodSeconds"] = options.grace_period_seconds
    preconditions = {"uid": options.uid, "resourceVersion": options.resource_version}
    if any(preconditions.values()):
        body["preconditions"] = {key: value for key, value in preconditions.items() if value}
    if options.dry_run:
        body["dryRun"] = ["All"]
    return body
