"""Tries what a tier needs, in a process of its own that then ends: whether this machine allows it."""

from __future__ import annotations

import os
import sys
import tempfile

from . import kernel, mounts, namespaces
from .holder import may_administer
from .netlink import Netlink


def main(arguments: list[str]) -> None:
    """`trial TIER`: ends with 0, or with the reason on the standard error."""
    tier = arguments[0]
    scratch = tempfile.mkdtemp(prefix="echelon-trial-")
    try:
        pid = os.fork()
        if pid == 0:
            _try(tier, scratch)
        _, status = os.waitpid(pid, 0)
        sys.exit(1 if status else 0)
    finally:
        os.rmdir(scratch)


def _try(tier: str, scratch: str) -> None:
    code = 1
    try:
        user, group = os.getuid(), os.getgid()
        if not may_administer():
            kernel.unshare(kernel.NEWUSER)
            kernel.map_to_root(user, group)
        if tier == "net":
            _try_network()
        kernel.unshare(namespaces.OWN)
        pid = os.fork()
        if pid == 0:
            _try_mounts(scratch)
        code = 1 if os.waitpid(pid, 0)[1] else 0
    except OSError as error:
        print(error.strerror or error, file=sys.stderr, flush=True)
    finally:
        os._exit(code)


def _try_network() -> None:
    kernel.unshare(kernel.NEWNET)
    outer = Netlink()
    outer.set_up("lo")
    outer.add_bridge(namespaces.BRIDGE)
    bridge = namespaces.bridge_index()
    kernel.unshare(kernel.NEWNET)
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    outer.add_veth("v0", bridge, "eth0", own)


def _try_mounts(scratch: str) -> None:
    code = 1
    try:
        mounts.separate()
        mounts.own_processes()
        kernel.mount("tmpfs", scratch, "tmpfs", kernel.NOSUID | kernel.NODEV, "mode=755")
        os.mkdir(f"{scratch}/a")
        kernel.bind(scratch, f"{scratch}/a", read_only=True)
        code = 0
    except OSError as error:
        print(error.strerror or error, file=sys.stderr, flush=True)
    finally:
        os._exit(code)
