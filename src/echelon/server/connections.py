"""HTTP/1.1 connections: what uvicorn's protocol lacks.

Requests carry the certificate of the client and a way to abort their connection.  The head of a request (URL and
headers) has a size limit, and neither a connection without requests nor a head that does not end stays open for ever.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.wsproto_impl import WSProtocol
from wsproto import events

from .identity import client_certificates
from .identity.client_certificates import PeerCertificate

#: Bytes of the URL and headers of a request: what Go's server accepts.  The last piece that arrives is not counted.
LARGEST_HEAD = 1024 * 1024
#: How long the head of a request may take to arrive.
_HEAD_SECONDS = 60.0
#: Characters of a URL: what the parser can address.
LONGEST_URL = 65_535
_HEAD_TOO_LARGE = b"431 Request Header Fields Too Large"
_URL_TOO_LONG = b"414 Request-URI Too Long"


class BoundedProtocol(HttpToolsProtocol):
    """A connection with limits."""

    _certificate: PeerCertificate | None = None
    #: Whether the head of a request has begun and not ended.
    _heading = False
    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        self._certificate = client_certificates.parse(tls.getpeercert()) if tls is not None else None
        # The first byte of a request ends it, as between two requests.
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._heading:
            return
        self._head_bytes += len(data)
        if self._head_bytes > LARGEST_HEAD:
            self._refuse(_HEAD_TOO_LARGE)
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(_HEAD_SECONDS, self.transport.abort)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._heading = True
        self._head_bytes = 0
        self.scope["echelon.abort"] = self.transport.abort  # type: ignore[typeddict-unknown-key]
        if self._certificate is not None:
            self.scope["echelon.certificate"] = self._certificate  # type: ignore[typeddict-unknown-key]

    def on_headers_complete(self) -> None:
        self._stop_timer()
        super().on_headers_complete()
        self._heading = False

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def send_400_response(self, msg: str) -> None:
        if self._heading and len(self.url) > LONGEST_URL:
            self._refuse(_URL_TOO_LONG)
        else:
            super().send_400_response(msg)

    def _refuse(self, status: bytes) -> None:
        if not self.transport.is_closing():
            head = b"HTTP/1.1 %b\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n"
            self.transport.write(head % (status, len(status)) + b"connection: close\r\n\r\n" + status)
            self.transport.close()


class CertifiedWebSocket(WSProtocol):
    """A WebSocket whose requests carry the certificate of the client."""

    def handle_connect(self, event: events.Request) -> None:
        super().handle_connect(event)
        tls = self.transport.get_extra_info("ssl_object")
        certificate = client_certificates.parse(tls.getpeercert()) if tls is not None else None
        if certificate is not None:
            self.scope["echelon.certificate"] = certificate  # type: ignore[typeddict-unknown-key]
        self.scope["echelon.abort"] = self.transport.abort  # type: ignore[typeddict-unknown-key]
