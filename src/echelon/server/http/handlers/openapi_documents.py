"""OpenAPI v3: an index of documents, one per group version, with the hash of the content in the URL; v2: one document.

kubectl caches a v3 document by its URL without limit: a changed schema has a new URL.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from email.utils import formatdate

import msgspec

from ....api.schema import kind_schema
from ....api.served_kinds import ServedKinds
from ..replies.encode import json_response
from ..requests.request import Request, Response

_YEAR = 365 * 24 * 3600
_GNOSTIC = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
#: Older clients write the version after an `@`.
_GNOSTIC_NAMES = (_GNOSTIC, _GNOSTIC.replace("v2.v1.0", "v2@v1.0"))


def _name(group: str, version: str) -> str:
    """`api/v1` or `apis/batch/v1`, as the index calls a group version."""
    return f"apis/{group}/{version}" if group else f"api/{version}"


class OpenApiDocuments:
    """The documents of one server; each is made again when a kind of its group version comes, goes or changes."""

    def __init__(self, kinds: ServedKinds) -> None:
        self._kinds = kinds
        self._generation = -1
        #: Name → encoded document and its hash.
        self._found: dict[str, tuple[bytes, str]] = {}
        #: The v2 document as JSON and as gnostic's protobuf, and the hash of both.
        self._swagger: tuple[bytes, bytes, str] | None = None

    def _documents(self) -> dict[str, tuple[bytes, str]]:
        self._refresh()
        if not self._found:
            for group, version in self._kinds.group_versions:
                body = msgspec.json.encode(kind_schema.openapi_v3(self._kinds, group, version), order="deterministic")
                self._found[_name(group, version)] = (body, hashlib.sha512(body).hexdigest().upper())
        return self._found

    def _refresh(self) -> None:
        if self._generation != self._kinds.generation:
            self._generation, self._found, self._swagger = self._kinds.generation, {}, None

    def index(self) -> Response:
        paths = {
            name: {"serverRelativeURL": f"/openapi/v3/{name}?hash={digest}"}
            for name, (_, digest) in sorted(self._documents().items())
        }
        return json_response({"paths": paths})

    def _swagger_forms(self) -> tuple[bytes, bytes, str]:
        self._refresh()
        if self._swagger is None:
            parts = (kind_schema.openapi_v3(self._kinds, *served) for served in self._kinds.group_versions)
            found = kind_schema.openapi_v2(parts)
            body = msgspec.json.encode(found)
            self._swagger = body, kind_schema.gnostic(found), hashlib.sha512(body).hexdigest().upper()
        return self._swagger

    def swagger(self, request: Request) -> Response:
        """The v2 document in the first form that the client accepts; JSON by default."""
        body, as_protobuf, digest = self._swagger_forms()
        etag = f'"{digest}"'
        headers = (("etag", etag), ("vary", "Accept"), ("cache-control", "no-cache, private"))
        for clause in (request.headers.get("accept") or "*/*").split(","):
            media_type = clause.partition(";")[0].strip().lower()
            if media_type in ("application/json", "application/*", "*/*"):
                reply = Response(body, headers=headers)
            elif media_type in _GNOSTIC_NAMES:
                reply = Response(as_protobuf, content_type=_GNOSTIC, headers=headers)
            else:
                continue
            return replace(reply, body=b"", code=304) if request.headers.get("if-none-match") == etag else reply
        return Response(b"", 406, headers=headers)

    def document(self, request: Request, name: str, wall_time: float) -> Response | None:
        """One document; None if there is no such group version."""
        found = self._documents().get(name)
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
