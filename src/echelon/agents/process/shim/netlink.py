"""Network devices of a pod, through a raw netlink socket: no `ip` program is needed.

A socket stays in the network namespace that it was opened in, which is how a veth pair gets one end in each.
"""

from __future__ import annotations

import os
import socket
import struct

_NEWLINK, _NEWADDR, _NEWROUTE = 16, 20, 24
_REQUEST, _ACK, _EXCL, _CREATE = 1, 4, 0x200, 0x400
_IFNAME, _MASTER, _LINKINFO, _NET_NS_FD = 3, 10, 18, 28
_INFO_KIND, _INFO_DATA, _VETH_PEER = 1, 2, 1
_UP = 1
_ERROR = 2


class Netlink:
    """A netlink socket in the current network namespace."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        self._socket.bind((0, 0))

    def close(self) -> None:
        self._socket.close()

    def add_bridge(self, name: str) -> None:
        kind = _nested(_LINKINFO, _attribute(_INFO_KIND, b"bridge"))
        self._ask(_NEWLINK, _CREATE | _EXCL, _link(0, _UP) + _name(name) + kind)

    def add_veth(self, name: str, bridge: int, peer: str, peer_namespace: int) -> None:
        """A pair: `name` here on the bridge of that index and up, `peer` in the other namespace."""
        far = _link(0, 0) + _name(peer) + _attribute(_NET_NS_FD, struct.pack("=I", peer_namespace))
        kind = _attribute(_INFO_KIND, b"veth") + _nested(_INFO_DATA, _attribute(_VETH_PEER, far))
        master = _attribute(_MASTER, struct.pack("=I", bridge))
        self._ask(_NEWLINK, _CREATE | _EXCL, _link(0, _UP) + _name(name) + master + _nested(_LINKINFO, kind))

    def set_up(self, name: str) -> None:
        self._ask(_NEWLINK, 0, _link(_index(name), _UP))

    def add_address(self, name: str, address: str, prefix: int) -> None:
        raw = socket.inet_aton(address)
        body = (
            struct.pack("=BBBBI", socket.AF_INET, prefix, 0, 0, _index(name)) + _attribute(2, raw) + _attribute(1, raw)
        )
        self._ask(_NEWADDR, _CREATE | _EXCL, body)

    def add_default_route(self, gateway: str) -> None:
        header = struct.pack("=BBBBBBBBI", socket.AF_INET, 0, 0, 0, 254, 4, 0, 1, 0)
        self._ask(_NEWROUTE, _CREATE | _EXCL, header + _attribute(5, socket.inet_aton(gateway)))

    def _ask(self, kind: int, flags: int, body: bytes) -> None:
        header = struct.pack("=IHHII", 16 + len(body), kind, flags | _REQUEST | _ACK, 1, 0)
        self._socket.send(header + body)
        answer = self._socket.recv(65536)
        (what,) = struct.unpack_from("=H", answer, 4)
        if what == _ERROR:
            (number,) = struct.unpack_from("=i", answer, 16)
            if number:
                raise OSError(-number, f"netlink: {os.strerror(-number)}")


def _index(name: str) -> int:
    return socket.if_nametoindex(name)


def _link(index: int, flags: int) -> bytes:
    return struct.pack("=BBHiII", 0, 0, 0, index, flags, flags)


def _attribute(kind: int, value: bytes) -> bytes:
    size = 4 + len(value)
    return struct.pack("=HH", size, kind) + value + b"\0" * (-size % 4)


def _nested(kind: int, value: bytes) -> bytes:
    return _attribute(kind | 0x8000, value)


def _name(name: str) -> bytes:
    return _attribute(_IFNAME, name.encode() + b"\0")
