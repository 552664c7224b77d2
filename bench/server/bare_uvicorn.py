"""A child process: uvicorn with TLS and an application that reads the body and answers with one pod, always the same.

What is left of the server if it did nothing: HTTP, TLS and the event loop.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvicorn

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Fixed:
    def __init__(self, body: bytes) -> None:
        self._body = body
        self._headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        status = 201 if scope["method"] == "POST" else 200
        await send({"type": "http.response.start", "status": status, "headers": self._headers})
        await send({"type": "http.response.body", "body": self._body})


if __name__ == "__main__":
    pki, port, body = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]).read_bytes()
    uvicorn.run(
        Fixed(body),
        host="127.0.0.1",
        port=port,
        http="httptools",
        loop="uvloop",
        lifespan="off",
        log_level="error",
        access_log=False,
        timeout_keep_alive=180,
        ssl_certfile=pki / "server.crt",
        ssl_keyfile=pki / "server.key",
    )
