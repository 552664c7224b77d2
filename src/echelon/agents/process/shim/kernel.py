"""System calls that the standard library of Python 3.11 does not have: namespaces, mounts, prctl."""

from __future__ import annotations

import ctypes
import errno
import os

NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000

RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT, BIND, REC, PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
_DETACH = 2
_SET_PDEATHSIG, _SET_DUMPABLE, _SET_CHILD_SUBREAPER, _SET_NAME, _DROP_BOUND, _NO_NEW_PRIVILEGES = 1, 4, 36, 15, 24, 38
_MOST_CAPABILITIES = 64
_CAPABILITY_VERSION = 0x20080522
#: The C library has no function for it.
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}
#: Flags of a mount that a user namespace may not take away when it mounts it again.
_KEPT = (
    (os.ST_NOSUID, NOSUID),
    (os.ST_NODEV, NODEV),
    (os.ST_NOEXEC, NOEXEC),
    (os.ST_NOATIME, 1024),
    (os.ST_NODIRATIME, 2048),
    (os.ST_RELATIME, 1 << 21),
)

#: What the error numbers of unshare mean, which their texts do not tell.
_NO_NAMESPACES = {
    errno.ENOSPC: "namespaces are limited on this machine (/proc/sys/user/max_*_namespaces)",
    errno.EPERM: "namespaces are not permitted to this user (a policy of this machine such as AppArmor or seccomp)",
}

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    if _libc.unshare(flags) != 0:
        number = ctypes.get_errno()
        raise OSError(number, _NO_NAMESPACES.get(number) or f"unshare: {os.strerror(number)}")


def enter(file: int, kind: int) -> None:
    """Move into the namespace of an open file below /proc/PID/ns."""
    _checked(_libc.setns(file, kind), "setns")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    encoded = [ctypes.c_char_p(os.fsencode(text)) if text else None for text in (source, target, kind)]
    data = ctypes.c_char_p(options.encode()) if options else None
    _checked(_libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), data), f"mount {target}")


def bind(source: str, target: str, *, read_only: bool = False) -> None:
    """Make `source` appear at `target`, with all that is mounted below it."""
    mount(source, target, flags=BIND | REC)
    if read_only:
        held = os.statvfs(target).f_flag
        kept = sum(ours for theirs, ours in _KEPT if held & theirs)
        mount("", target, flags=REMOUNT | BIND | RDONLY | kept)


def change_root() -> None:
    """The working directory, where something is mounted, becomes the root, and the old root is nowhere any more.

    After `chroot` a process that may do so itself could climb out again.
    """
    here = ctypes.c_char_p(b".")
    _checked(_libc.syscall(_PIVOT_ROOT[os.uname().machine], here, here), "pivot_root")
    unmount(".")  # the old root, which is now above the new one


def unmount(target: str) -> None:
    _checked(_libc.umount2(ctypes.c_char_p(os.fsencode(target)), _DETACH), f"umount {target}")


def reap_orphans() -> None:
    """Processes whose parent ends become children of this one, and not of init."""
    _checked(_libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def end_with_parent(signal: int, parent: int) -> None:
    """This process gets the signal when its parent ends, and ends now if it has done so already."""
    _checked(_libc.prctl(_SET_PDEATHSIG, signal, 0, 0, 0), "prctl")
    if os.getppid() not in (parent, 0):  # 0: a parent outside of the PID namespace of this process
        os._exit(128 + signal)


def hide_process() -> None:
    """Nobody without rights on the whole machine looks into this process, at its environment, files or root."""
    _checked(_libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0), "prctl")


def keep_capabilities(kept: int) -> None:
    """What is started from here on has at most these, of which each is a bit, also if it is root."""
    for number in range(_MOST_CAPABILITIES):
        if not kept >> number & 1:
            _libc.prctl(_DROP_BOUND, number, 0, 0, 0)  # fails for numbers that this kernel does not know
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    # Effective, permitted, inheritable: first of the lower 32, then of the upper ones.
    held = (ctypes.c_uint32 * 6)()
    _checked(_libc.capget(header, held), "capget")
    lowered = (ctypes.c_uint32 * 6)(held[0] & kept, held[1] & kept, 0, held[3] & kept >> 32, held[4] & kept >> 32, 0)
    _checked(_libc.capset(header, lowered), "capset")


def gain_no_rights() -> None:
    """What is started from here on never gets more rights than this process has, whatever bits its file has."""
    _checked(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "prctl")


def set_process_name(name: str) -> None:
    """What `ps -o comm` and `top` show; at most 15 bytes."""
    _checked(_libc.prctl(_SET_NAME, ctypes.c_char_p(name.encode()[:15]), 0, 0, 0), "prctl")


def start_of(pid: int) -> int:
    """When a process started, in ticks since boot: with the pid it tells a process from all others; 0 if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in (b"Z", b"X") else int(fields[19])


def map_to_root(user: int, group: int) -> None:
    """In a new user namespace: this user is root there."""
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
