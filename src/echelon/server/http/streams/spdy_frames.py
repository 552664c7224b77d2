"""Frames of SPDY/3.1, as far as kubectl's port-forward uses them inside a WebSocket.

    control  1 | version (15) | type (16) | flags (8) | length (24) | …
    data     0 | stream (31)              | flags (8) | length (24) | data

Headers are compressed over the whole life of a connection, with a dictionary that the protocol fixes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_VERSION = 3
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY = 1, 2, 3, 6, 7
_FIN = 0x01
#: Larger frames than kubectl sends are not accepted.
_LARGEST = 1024 * 1024
_LARGEST_HEADERS = 64 * 1024

_WORDS = """options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age
allow authorization cache-control connection content-base content-encoding content-language content-length
content-location content-md5 content-range content-type date etag expect expires from host if-match if-modified-since
if-none-match if-range if-unmodified-since last-modified location max-forwards pragma proxy-authenticate
proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade user-agent vary via warning
www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie keep-alive origin""".split()  # noqa: SIM905
_REST = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = (
    b"".join(struct.pack(">I", len(word)) + word.replace("_", " ").encode() for word in _WORDS) + _REST.encode()
)


class BadFrame(Exception):
    """The peer does not speak the protocol; the message says how."""


@dataclass(frozen=True)
class StreamOpened:
    stream: int
    headers: Mapping[str, str]
    #: Whether the peer sends nothing on it.
    is_last: bool


@dataclass(frozen=True)
class DataReceived:
    stream: int
    data: bytes
    is_last: bool


@dataclass(frozen=True)
class StreamReset:
    stream: int


@dataclass(frozen=True)
class PingReceived:
    number: int


@dataclass(frozen=True)
class GoingAway:
    pass


Frame = StreamOpened | DataReceived | StreamReset | PingReceived | GoingAway


class Frames:
    """Both directions of one connection."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(level=zlib.Z_BEST_COMPRESSION, zdict=DICTIONARY)
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are complete now."""
        self._rest += data
        while len(self._rest) >= 8:
            first, second = struct.unpack_from(">II", self._rest)
            flags, length = second >> 24, second & 0xFFFFFF
            if length > _LARGEST:
                raise BadFrame(f"a frame of {length} bytes; at most {_LARGEST} are accepted")
            if len(self._rest) < 8 + length:
                return
            body, self._rest = self._rest[8 : 8 + length], self._rest[8 + length :]
            if first >> 31:
                if (frame := self._control(first & 0xFFFF, (first >> 16) & 0x7FFF, flags, body)) is not None:
                    yield frame
            else:
                yield DataReceived(first, body, bool(flags & _FIN))

    def _control(self, kind: int, version: int, flags: int, body: bytes) -> Frame | None:
        if version != _VERSION:
            raise BadFrame(f"SPDY version {version}; only {_VERSION} is spoken")
        needed = {_SYN_STREAM: 10, _RST_STREAM: 8, _PING: 4}.get(kind, 0)
        if len(body) < needed:
            raise BadFrame(f"a control frame of type {kind} with {len(body)} bytes")
        match kind:
            case 1:
                stream = struct.unpack_from(">I", body)[0] & 0x7FFFFFFF
                return StreamOpened(stream, self._headers(body[10:]), bool(flags & _FIN))
            case 3:
                return StreamReset(struct.unpack_from(">I", body)[0] & 0x7FFFFFFF)
            case 6:
                return PingReceived(struct.unpack_from(">I", body)[0])
            case 7:
                return GoingAway()
        return None  # settings and window updates: nothing here depends on them

    def _headers(self, packed: bytes) -> dict[str, str]:
        try:
            plain = self._inflate.decompress(packed, _LARGEST_HEADERS)
        except zlib.error as error:
            raise BadFrame(f"headers that cannot be read: {error}") from None
        found: dict[str, str] = {}
        words = _words(plain)
        for name in words:
            found[name.lower()] = next(words, "")
        return found

    def reply(self, stream: int) -> bytes:
        """SYN_REPLY without headers: the stream is accepted."""
        packed = self._deflate.compress(struct.pack(">I", 0)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return _control_frame(_SYN_REPLY, struct.pack(">I", stream) + packed)

    @staticmethod
    def data(stream: int, data: bytes, *, is_last: bool = False) -> bytes:
        return struct.pack(">II", stream, (_FIN if is_last else 0) << 24 | len(data)) + data

    @staticmethod
    def ping(number: int) -> bytes:
        return _control_frame(_PING, struct.pack(">I", number))

    @staticmethod
    def reset(stream: int) -> bytes:
        return _control_frame(_RST_STREAM, struct.pack(">II", stream, 3))  # refused


def _words(plain: bytes) -> Iterator[str]:
    """Names and values of headers in turns, each behind its length."""
    if len(plain) < 4:
        raise BadFrame("headers without a count")
    (count,) = struct.unpack_from(">I", plain)
    at = 4
    for _ in range(min(2 * count, 1024)):
        if at + 4 > len(plain):
            raise BadFrame("headers that end early")
        (length,) = struct.unpack_from(">I", plain, at)
        yield plain[at + 4 : at + 4 + length].decode("latin-1")
        at += 4 + length


def _control_frame(kind: int, body: bytes, flags: int = 0) -> bytes:
    return struct.pack(">II", 1 << 31 | _VERSION << 16 | kind, flags << 24 | len(body)) + body
