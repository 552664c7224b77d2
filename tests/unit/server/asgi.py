"""Requests made by hand, for handlers that read them."""

from __future__ import annotations

from typing import Any

from echelon.server.http.requests.request import Request


def request(
    method: str = "GET", target: str = "/", headers: dict[str, str] | None = None, body: bytes | list[bytes] = b""
) -> Request:
    """A request as the HTTP server hands it over; a list of bodies arrives in as many chunks."""
    path, _, query = target.partition("?")
    chunks = body if isinstance(body, list) else [body]
    messages = [{"type": "http.request", "body": c, "more_body": i + 1 < len(chunks)} for i, c in enumerate(chunks)]

    async def receive() -> dict[str, Any]:
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    scope = {
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()],
    }
    return Request.from_scope(scope, receive)
