"""The HTTPS transport: `Verbs` against any Kubernetes API server, ours or a real one.

Lists use an aiohttp session, single objects and watches a `ConnectionPool`.  Every error response becomes the same
`ApiError` that the embedded server raises in process, so callers need not distinguish the two.  A server that cannot be
reached or closes the connection is a 503, one that does not answer in time a 504.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
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
from .connection_pool import UNAUTHORIZED, ConnectionPool, Permit
from .login.credentials import FixedCredentials, Login, LoginSource

_CONNECTIONS = 128
_HEADERS = {"User-Agent": "echelon"}
#: Enough for lists of large clusters; watches have their own limit.
_REQUEST_SECONDS = 60.0
#: timeoutSeconds of a watch; a server that is silent for longer than that plus the grace is considered gone.
_WATCH_SECONDS = 300
_WATCH_GRACE_SECONDS = 30.0
_DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
#: Number of bytes of an invalid response to quote.
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

    def __init__(self, server: str, credentials: LoginSource = FixedCredentials()) -> None:
        self._server = server.rstrip("/")
        self._credentials = credentials
        self._permit: Permit | None = None
        self._pool = ConnectionPool(self._server, credentials, _HEADERS, _CONNECTIONS)
        self._session = aiohttp.ClientSession(
            headers={"Accept": "application/json", **_HEADERS},
            connector=aiohttp.TCPConnector(limit=_CONNECTIONS),
            timeout=aiohttp.ClientTimeout(total=_REQUEST_SECONDS),
        )

    async def get_ready(self, requests: int) -> None:
        """Open connections for this many concurrent requests; errors show when the connections are used."""
        await self._pool.open(min(requests, _CONNECTIONS), _REQUEST_SECONDS)

    def fenced(self, permit: Permit) -> HttpVerbs:
        """These verbs over the same connections; `permit` is called before every write and may forbid it."""
        other = copy(self)
        other._permit = permit
        return other

    async def wait_written(self, seconds: float) -> None:
        """Wait until writes of fenced clients that were cancelled are answered, but no longer than this."""
        await self._pool.wait_answered(seconds)

    async def close(self) -> None:
        self._pool.close()
        await self._session.close()

    async def get_raw(self, path: str) -> tuple[Any, Mapping[str, str]]:
        """The decoded body of a path that names no object, such as `/version`, and the headers of the answer."""
        raw, headers = await self._fetch(path, {})
        try:
            return _DECODER.decode(raw), headers
        except msgspec.DecodeError:
            raise _not_an_api_server(raw) from None

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
            async with self._pool.stream(target, _REQUEST_SECONDS, seconds + _WATCH_GRACE_SECONDS) as stream:
                if stream.status >= 400:
                    raise _api_error(stream.status, await stream.rest())
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
        # The body is generated, so the server need not check it for unknown fields.
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
        query = _query(options.dry_run, options.field_manager, options.field_validation, options.force)
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
        """Send a request and return the body; raises `ApiError`, passes warnings to `options.warn`."""
        raw = None if body is None else msgspec.json.encode(body)
        permit = None if method == "GET" else self._permit
        try:
            response = await self._pool.call(method, path, raw, content_type, _REQUEST_SECONDS, permit)
        except OSError as error:  # a TimeoutError is one
            raise self._unreachable(method, path, error) from error
        if response.status >= 400:
            raise _api_error(response.status, response.body)
        for warning in response.warnings:
            options.warn(_unquoted(warning))
        if response.status == 201 and method != "POST":
            options.created()
        return response.body

    async def _read(self, path: str, query: Mapping[str, str]) -> Object:
        """GET a list over the session, which supports compression."""
        raw, _ = await self._fetch(path, {key: value for key, value in query.items() if value})
        return _decoded(raw)

    async def _fetch(self, path: str, query: Mapping[str, str]) -> tuple[bytes, Mapping[str, str]]:
        """Body and headers of a GET over the session; sent once more if there is a newer login than a refused one."""
        with self._reachable("GET", path):
            login = self._credentials.current() or await self._credentials.renewed(None)
            try:
                status, raw, headers = await self._fetch_with(login, path, query)
            except aiohttp.ClientSSLError:
                refused, login = login, await self._credentials.renewed(login)
                if login.tls is refused.tls:
                    raise
                status, raw, headers = await self._fetch_with(login, path, query)
            if status == UNAUTHORIZED and (newer := await self._credentials.renewed(login)) is not login:
                status, raw, headers = await self._fetch_with(newer, path, query)
        if status >= 400:
            raise _api_error(status, raw)
        return raw, headers

    async def _fetch_with(
        self, login: Login, path: str, query: Mapping[str, str]
    ) -> tuple[int, bytes, Mapping[str, str]]:
        sent = self._session.get(self._server + path, params=query, headers=login.headers, ssl=login.tls or True)
        async with sent as response:
            return response.status, await response.read(), dict(response.headers)

    @contextmanager
    def _reachable(self, method: str, path: str) -> Iterator[None]:
        """Turn connection errors into an `ApiError` 503 or 504."""
        try:
            yield
        except (aiohttp.ClientError, OSError) as error:
            raise self._unreachable(method, path, error) from error

    def _unreachable(self, method: str, path: str, error: Exception) -> ApiError:
        if isinstance(error, TimeoutError):
            return ApiError(504, "Timeout", f"{method} {self._server}{path}: no response in time")
        what = f"{method} {self._server}{path}: {_reason(error)}"
        return ApiError(503, "ServiceUnavailable", what)

    @staticmethod
    def _typed(resource: Resource, obj: Object) -> Object:
        """Add kind and apiVersion, which servers leave out of the items of typed lists."""
        if "kind" in obj and "apiVersion" in obj:
            return obj
        return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}


def _reason(error: Exception) -> str:
    """Why a server could not be reached: the message of the operating system if there is one."""
    system = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else None
    number = None if isinstance(system, ssl.SSLError) else getattr(system, "errno", None)
    return os.strerror(number) if number and number > 0 else str(error) or type(error).__name__


@lru_cache
def _query(dry_run: bool, field_manager: str, field_validation: str, force: bool = False) -> str:
    """The query string of a write."""
    parameters = {
        "dryRun": "All" if dry_run else "",
        "fieldManager": field_manager,
        "fieldValidation": field_validation,
        "force": "true" if force else "",
    }
    return "?" + urlencode({key: value for key, value in parameters.items() if value})


def _decoded(raw: bytes) -> Object:
    """The decoded body: an object, a list or a Status."""
    try:
        found: Object = _DECODER.decode(raw)
        found["metadata"]
    except (msgspec.DecodeError, TypeError, KeyError):
        raise _not_an_api_server(raw) from None
    return found


def _events(batch: bytes) -> list[Object]:
    """The decoded events of a watch, one per line."""
    try:
        found: list[Object] = _DECODER.decode_lines(batch)
        for event in found:
            event["type"]
    except (msgspec.DecodeError, TypeError, KeyError):
        raise _not_an_api_server(batch) from None
    return found


def _not_an_api_server(raw: bytes) -> ApiError:
    """502 for a body that no API server sends: from a proxy, or from another program at that address."""
    begin = raw[:_QUOTED_BYTES].decode(errors="replace")
    return ApiError(502, "", f"not a response of an API server: {begin!r}")


def _api_error(status: int, raw: bytes) -> ApiError:
    """The `ApiError` of an error response."""
    try:
        body = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        text = raw.decode(errors="replace").strip()
        return ApiError(status, "", text or f"the server responded with status {status}")
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
