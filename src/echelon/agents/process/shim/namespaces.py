"""The namespaces of a pod, as its tier says:

net     user, mount, host name, IPC and process namespaces, and a network namespace with a cable to the holder's bridge
names   the same without the network
plain   none
"""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Any

from . import kernel, mounts
from .netlink import Netlink

BRIDGE = "pods0"
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the place where programs look for it
#: The namespaces that every pod has to itself, besides the network.
OWN = kernel.NEWNS | kernel.NEWUTS | kernel.NEWIPC | kernel.NEWPID


def leave_host(sandbox: dict[str, Any]) -> None:
    """Before the fork: the next child is the first process of the pod."""
    tier = sandbox["tier"]
    if tier == "plain":
        return
    user, group = os.getuid(), os.getgid()
    if tier == "net":
        _plug_in(sandbox)
    elif sandbox["user_namespace"]:
        kernel.unshare(kernel.NEWUSER)
        kernel.map_to_root(user, group)
    kernel.unshare(OWN)


def _plug_in(sandbox: dict[str, Any]) -> None:
    """A network namespace with eth0, whose other end is on the bridge of the holder."""
    holder = sandbox["holder"]
    if sandbox["user_namespace"]:
        _join(holder, "user", kernel.NEWUSER)
    _join(holder, "net", kernel.NEWNET)
    outer, bridge = Netlink(), bridge_index()
    kernel.unshare(kernel.NEWNET)
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    address = sandbox["address"]
    outer.add_veth(_cable_name(address), bridge, "eth0", own)
    inner = Netlink()
    inner.set_up("lo")
    inner.add_address("eth0", address, sandbox["prefix"])
    inner.set_up("eth0")
    inner.add_default_route(sandbox["gateway"])
    inner.close()
    outer.close()
    os.close(own)


def bridge_index() -> int:
    return socket.if_nametoindex(BRIDGE)


def _cable_name(address: str) -> str:
    return "v" + "".join(f"{int(part):02x}" for part in address.split("."))


def _join(pid: int, name: str, kind: int) -> None:
    file = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY)
    try:
        kernel.enter(file, kind)
    finally:
        os.close(file)


def settle(sandbox: dict[str, Any]) -> None:
    """In the first process of the pod: its own processes, shared memory, host name, hosts and resolver's file."""
    if sandbox["tier"] == "plain":
        kernel.reap_orphans()
        return
    mounts.separate()
    mounts.own_processes()
    with contextlib.suppress(OSError):
        kernel.mount("tmpfs", _SHARED_MEMORY, "tmpfs", kernel.NOSUID | kernel.NODEV, "mode=1777")
    for path, most in sandbox.get("memory_volumes", ()):
        size = f",size={most}" if most else ""
        kernel.mount("tmpfs", path, "tmpfs", kernel.NOSUID | kernel.NODEV, f"mode=777{size}")
    mounts.cover_file(sandbox["hosts"], "/etc/hosts")
    mounts.cover_file(sandbox["hostname_file"], "/etc/hostname")
    if sandbox.get("resolver"):
        mounts.cover_file(sandbox["resolver"], "/etc/resolv.conf")
    socket.sethostname(sandbox["hostname"])
