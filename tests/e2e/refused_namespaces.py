"""Runs a program where the kernel refuses namespaces, as a machine with a policy against them does.

    python tests/e2e/refused_namespaces.py net UID PROGRAM ...            kinds that may not be made
    python tests/e2e/refused_namespaces.py user,mnt,net UID PROGRAM ...
    python tests/e2e/refused_namespaces.py seccomp UID PROGRAM ...        unshare and setns are not permitted

With kinds the program is in a user namespace in which all users have their own numbers, and which may have no namespace
of these kinds (`/proc/sys/user/max_*_namespaces`), nor may any below it.  Only root can start it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from pathlib import Path

from echelon.agents.process.shim import kernel

EVERY_KIND = "user,mnt,pid,uts,ipc,net"
#: Numbers of unshare and setns.
_CALLS = {"x86_64": (272, 308), "aarch64": (97, 268)}
_SET_NO_NEW_PRIVS, _SET_SECCOMP, _FILTER = 38, 22, 2
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000


def main(refused: str, uid: str, *argv: str) -> None:
    if refused != "seccomp":
        _enter_user_namespace()
        for kind in refused.split(","):
            Path(f"/proc/sys/user/max_{kind}_namespaces").write_text("0\n")
    os.setgroups([])
    os.setgid(int(uid))
    os.setuid(int(uid))
    if refused == "seccomp":
        _forbid_calls()
    os.execvp(argv[0], argv)


def _enter_user_namespace() -> None:
    inside, mapped = os.pipe(), os.pipe()
    me = os.getpid()
    if os.fork() == 0:
        os.read(inside[0], 1)
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{me}/{name}").write_text("0 0 65536\n")
        os.write(mapped[1], b".")
        os._exit(0)
    kernel.unshare(kernel.NEWUSER)
    os.write(inside[1], b".")
    os.read(mapped[0], 1)
    os.wait()


def _forbid_calls() -> None:
    unshare, setns = _CALLS[platform.machine()]
    steps = [
        (_LOAD, 0, 0, 0),
        (_JUMP_IF_EQUAL, 2, 0, unshare),
        (_JUMP_IF_EQUAL, 1, 0, setns),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ERRNO | errno.EPERM),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (_SET_SECCOMP, _FILTER, program, 0, 0)):
        if libc.prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    main(*sys.argv[1:])
