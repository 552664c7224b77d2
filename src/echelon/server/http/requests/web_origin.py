"""Protection against requests that a web page makes a browser send.

A page in a browser on this machine can reach loopback addresses.  It comes in two ways:

    DNS rebinding   the page's own name resolves to 127.0.0.1: the Host header has that foreign name
    cross-site      the page asks for https://127.0.0.1:PORT: the browser adds Origin or Sec-Fetch-Site

A bearer token that is sent without cookies proves that no page is behind the request: browsers add no Authorization
header by themselves, and a page may add one only after a preflight, which is refused here.
"""

from __future__ import annotations

import re

from ....api.errors import ApiError
from .request import Request

#: `name`, `1.2.3.4` or `[::1]`, each with an optional port; nothing else.
_HOST = re.compile(r"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::[0-9]{1,5})?", re.ASCII)
_OWN_PAGES = ("same-origin", "none")


def check_origin(request: Request, names: frozenset[str]) -> None:
    """403 for a Host that is not one of `names`, and for requests of foreign web pages."""
    host = request.headers.get("host", "").strip().lower()
    if _bare_host(host) not in names:
        raise ApiError(403, "Forbidden", f'this server is not called "{host}"')
    if _from_foreign_page(request, host) and not _only_bearer_token(request):
        raise ApiError(403, "Forbidden", "requests from web pages are not accepted")


def _bare_host(header: str) -> str | None:
    """The host without port, IPv6 addresses without brackets; None if the header is not a host."""
    found = _HOST.fullmatch(header)
    return (found["v6"] or found["name"]) if found else None


def _from_foreign_page(request: Request, host: str) -> bool:
    origin = request.headers.get("origin")
    if origin is not None and origin.strip().lower() != f"https://{host}":
        return True
    return request.headers.get("sec-fetch-site", "none") not in _OWN_PAGES


def _only_bearer_token(request: Request) -> bool:
    authorization = request.headers.get("authorization", "").lower()
    return authorization.startswith("bearer ") and "cookie" not in request.headers
