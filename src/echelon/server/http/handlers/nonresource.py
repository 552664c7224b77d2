"""Paths that name no object: discovery, OpenAPI, health, version and metrics."""

from __future__ import annotations

import platform
import time

from ....api.errors import method_not_allowed
from ....api.scheme import Object
from ..replies.encode import json_response
from ..requests.content_negotiation import wants_aggregated_discovery
from ..requests.request import Request, Response
from . import discovery
from .documents import Documents
from .health import PATHS, Health
from .request_metrics import RequestMetrics

#: The Kubernetes version of the API, with a suffix for this implementation.
VERSION: Object = {
    "major": "1",
    "minor": "37",
    "gitVersion": "v1.37.1+echelon",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": f"python{platform.python_version()}",
    "compiler": platform.python_implementation(),
    "platform": f"{platform.system().lower()}/{platform.machine()}",
}


def answer(
    request: Request, address: str, metrics: RequestMetrics, health: Health, documents: Documents
) -> Response | None:
    """The reply to a non-resource path; None if it is not served."""
    reply = _answer(request, address, metrics, health, documents)
    if reply is not None and request.method != "GET":
        raise method_not_allowed()
    return reply


def _answer(
    request: Request, address: str, metrics: RequestMetrics, health: Health, documents: Documents
) -> Response | None:
    path = request.path
    if path.startswith(PATHS):
        return health.answer(request)
    if path == "/version":
        return json_response(VERSION)
    if path == "/metrics":
        return Response(metrics.text(), content_type="text/plain; version=0.0.4; charset=utf-8")
    if path == "/openapi/v2":
        return documents.openapi.swagger(request)
    if path == "/openapi/v3":
        return documents.openapi.index()
    if path.startswith("/openapi/v3/"):
        # Real time, because HTTP caches use their own clock.
        return documents.openapi.document(request, path.removeprefix("/openapi/v3/"), time.time())
    if path in ("/api", "/apis"):
        return _roots(request, address, documents)
    if path == "/":
        return json_response({"paths": _paths(documents)})
    return _legacy(path, documents)


def _roots(request: Request, address: str, documents: Documents) -> Response:
    core = request.path == "/api"
    if not wants_aggregated_discovery(request.headers.get("accept", "")):
        return json_response(discovery.api_versions(address) if core else documents.group_list())
    body, etag = documents.aggregated(core)
    headers = (("etag", etag), ("vary", "Accept"), ("cache-control", "public"))
    if request.headers.get("if-none-match") == etag:
        return Response(b"", 304, discovery.AGGREGATED_TYPE, headers)
    return Response(body, 200, discovery.AGGREGATED_TYPE, headers)


def _legacy(path: str, documents: Documents) -> Response | None:
    parts = path.strip("/").split("/")
    found = None
    if parts[0] == "api" and len(parts) == 2:
        found = documents.resource_list("", parts[1])
    elif parts[0] == "apis" and len(parts) == 2:
        found = documents.group(parts[1])
    elif parts[0] == "apis" and len(parts) == 3:
        found = documents.resource_list(parts[1], parts[2])
    return json_response(found) if found is not None else None


def _paths(documents: Documents) -> list[str]:
    paths = ["/api", "/api/v1", "/apis", *PATHS, "/metrics", "/openapi/v2", "/openapi/v3", "/version"]
    return sorted([*paths, *documents.group_paths()])
