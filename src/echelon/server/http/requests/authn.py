"""Authentication.

The bearer token gives full access; requests without it are `system:anonymous`, which may only read health and version.
Requests with a foreign Host and requests of web pages are rejected first, see `web_origin`.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

from ....api.errors import ApiError
from . import web_origin
from .request import Request
from .routes import Target

_ANONYMOUS = "system:anonymous"
_OPEN_PATHS = ("/healthz", "/livez", "/readyz", "/version")
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Gate:
    """Checks origin and token of a request."""

    def __init__(self, token: str, names: Iterable[str]) -> None:
        self._digest = hashlib.sha256(token.encode()).digest()
        self._names = frozenset(name.lower() for name in names)

    def check_origin(self, request: Request) -> None:
        """403 for a foreign Host and for requests of web pages."""
        web_origin.check_origin(request, self._names)

    def check_caller(self, request: Request, target: Target | None) -> None:
        """401 for a wrong token, 403 for a missing one."""
        authorization = request.headers.get("authorization", "")
        if not authorization:
            if not request.path.startswith(_OPEN_PATHS):
                raise _anonymous_refused(request, target)
            return
        scheme, _, token = authorization.partition(" ")
        digest = hashlib.sha256(token.strip().encode()).digest()
        if scheme.lower() != "bearer" or not hmac.compare_digest(digest, self._digest):
            raise ApiError(401, "Unauthorized", "Unauthorized")
        if any(name.startswith("impersonate-") for name in request.headers):
            raise ApiError(
                403, "Forbidden", "impersonation is not served; send the request without Impersonate headers"
            )


def _anonymous_refused(request: Request, target: Target | None) -> ApiError:
    if target is None:
        path = request.path
        verb = _VERBS.get(request.method, "get")
        return ApiError(403, "Forbidden", f'forbidden: User "{_ANONYMOUS}" cannot {verb} path "{path}"')
    resource = target.resource
    verb = _VERBS.get(request.method, "get" if target.name else "list")
    scope = f'in the namespace "{target.namespace}"' if target.namespace else "at the cluster scope"
    subject = f'{resource.qualified} "{target.name}"' if target.name else resource.qualified
    plural = f"{resource.plural}/{target.subresource}" if target.subresource else resource.plural
    details = {"kind": resource.plural}
    if target.name:
        details["name"] = target.name
    if resource.group:
        details["group"] = resource.group
    return ApiError(
        403,
        "Forbidden",
        f'{subject} is forbidden: User "{_ANONYMOUS}" cannot {verb} resource "{plural}" '
        f'in API group "{resource.group}" {scope}',
        details,
    )
