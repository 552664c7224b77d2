"""OpenAPI v3: an index of documents, one per group version, with the hash of the content in the URL.

kubectl caches a document by its URL without limit: a changed schema has a new URL.
"""

from __future__ import annotations

import hashlib
from email.utils import formatdate
from functools import cache

import msgspec

from ....api.schema import kind_schema
from ..replies.encode import json_response
from ..requests.request import Request, Response

_YEAR = 365 * 24 * 3600


def _name(group: str, version: str) -> str:
    """`api/v1` or `apis/batch/v1`, as the index calls a group version."""
    return f"apis/{group}/{version}" if group else f"api/{version}"


@cache
def _documents() -> dict[str, tuple[bytes, str]]:
    """Name → encoded document and its hash.  Computed once, because schemas are package data."""
    found = {}
    for group, version in kind_schema.group_versions():
        body = msgspec.json.encode(kind_schema.openapi_v3(group, version), order="deterministic")
        found[_name(group, version)] = (body, hashlib.sha512(body).hexdigest().upper())
    return found


def index() -> Response:
    paths = {
        name: {"serverRelativeURL": f"/openapi/v3/{name}?hash={digest}"}
        for name, (_, digest) in sorted(_documents().items())
    }
    return json_response({"paths": paths})


def document(request: Request, name: str, wall_time: float) -> Response | None:
    """One document; None if there is no such group version."""
    found = _documents().get(name)
    if found is None:
        return None
    body, digest = found
    etag = f'"{digest}"'
    headers = [("etag", etag), ("vary", "Accept")]
    if request.parameter("hash") == digest:
        headers += [
            ("cache-control", "public, immutable"),
            ("expires", formatdate(wall_time + _YEAR, usegmt=True)),
        ]
    else:
        headers.append(("cache-control", "no-cache, private"))
    if request.headers.get("if-none-match") == etag:
        return Response(b"", 304, headers=tuple(headers))
    return Response(body, headers=tuple(headers))
