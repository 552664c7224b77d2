from __future__ import annotations

import struct
import zlib

import pytest

from echelon.server.http.streams.spdy_frames import (
    DICTIONARY,
    BadFrame,
    DataReceived,
    Frames,
    GoingAway,
    PingReceived,
    StreamOpened,
    StreamReset,
)


def control(kind: int, body: bytes, flags: int = 0, version: int = 3) -> bytes:
    return struct.pack(">II", 1 << 31 | version << 16 | kind, flags << 24 | len(body)) + body


class Peer:
    """What a client sends."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def open(self, stream: int, headers: dict[str, str], *, fin: bool = False) -> bytes:
        plain = struct.pack(">I", len(headers))
        for word in (word for pair in headers.items() for word in pair):
            plain += struct.pack(">I", len(word)) + word.encode()
        packed = self._deflate.compress(plain) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return control(1, struct.pack(">IIH", stream, 0, 0) + packed, flags=1 if fin else 0)


def test_the_dictionary_is_the_one_of_the_protocol() -> None:
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)


def test_headers_are_unpacked_over_the_whole_connection() -> None:
    peer, frames = Peer(), Frames()
    first = {"streamtype": "error", "port": "80", "requestid": "0"}
    second = {"streamtype": "data", "port": "80", "requestid": "0"}
    sent = peer.open(1, first, fin=True) + peer.open(3, second)
    assert list(frames.feed(sent)) == [StreamOpened(1, first, True), StreamOpened(3, second, False)]


def test_frames_may_arrive_in_any_pieces() -> None:
    sent = Frames.data(3, b"hello") + Frames.ping(7) + Frames.data(3, b"", is_last=True) + control(7, b"\0" * 8)
    frames = Frames()
    found = [frame for byte in sent for frame in frames.feed(bytes((byte,)))]
    assert found == [DataReceived(3, b"hello", False), PingReceived(7), DataReceived(3, b"", True), GoingAway()]


def test_a_reset_names_its_stream() -> None:
    assert list(Frames().feed(Frames.reset(5))) == [StreamReset(5)]


def test_replies_are_packed_over_the_whole_connection() -> None:
    frames, inflate = Frames(), zlib.decompressobj(zdict=DICTIONARY)
    for stream in (1, 3):
        reply = frames.reply(stream)
        assert struct.unpack_from(">III", reply) == (1 << 31 | 3 << 16 | 2, len(reply) - 8, stream)
        assert inflate.decompress(reply[12:]) == b"\0\0\0\0"


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (control(6, b"\0" * 4, version=2), "SPDY version 2"),
        (struct.pack(">II", 1, 0xFFFFFF), "a frame of 16777215 bytes"),
        (control(1, struct.pack(">IIH", 1, 0, 0) + b"not packed"), "headers that cannot be read"),
        (control(1, b"\0"), "a control frame of type 1 with 1 bytes"),
        (control(6, b""), "a control frame of type 6 with 0 bytes"),
    ],
)
def test_what_is_no_spdy_is_refused(sent: bytes, told: str) -> None:
    with pytest.raises(BadFrame, match=told):
        list(Frames().feed(sent))
