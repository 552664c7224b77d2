"""Runs a program inside a running container: in its namespaces, with its files and its environment.

    enter PID:START DIRECTORY NAMESPACES GROUPS -- program arguments

The environment is that of this process; the program is looked up in its PATH.  The exit code is the program's, 128 + n
after signal n.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import termios

from . import kernel
from .cgroups import join
from .container_process import become

#: In this order: the user namespace gives the right to enter the others.
_KINDS = {
    "user": kernel.NEWUSER,
    "net": kernel.NEWNET,
    "ipc": kernel.NEWIPC,
    "uts": kernel.NEWUTS,
    "pid": kernel.NEWPID,
    "mnt": kernel.NEWNS,
}


def main(arguments: list[str]) -> None:
    identity, directory, names, groups, _, *argv = arguments
    pid, start = map(int, identity.split(":"))
    if kernel.start_of(pid) != start:
        sys.exit("container not running")
    try:
        join([folder for folder in groups.split(":") if folder])
        _enter(pid, names)
    except OSError as error:
        sys.exit(f"cannot enter the container: {error.strerror or error}")
    if os.isatty(0):
        # As the leader of a session without a terminal; then keys such as Ctrl-C reach the program.
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    child = os.fork()
    if child == 0:
        _become(directory, argv)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, lambda got, _: os.kill(child, got))
    _, status = os.waitpid(child, 0)
    os._exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))


def _enter(pid: int, names: str) -> None:
    if names == "none":
        return
    files = [(os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY), _KINDS[name]) for name in names.split(",")]
    root = os.open(f"/proc/{pid}/root", os.O_RDONLY | os.O_DIRECTORY)
    for file, kind in files:
        kernel.enter(file, kind)
    os.fchdir(root)
    os.chroot(".")


def _become(directory: str, argv: list[str]) -> None:
    try:
        # Whoever asked for it may be killed; this must not stay behind.
        kernel.end_with_parent(signal.SIGKILL)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.chdir(directory)
        become(argv, dict(os.environ))
    except OSError as error:
        print(error.strerror or error, file=sys.stderr, flush=True)
    finally:
        os._exit(126 if "permission denied" in str(sys.exc_info()[1] or "") else 127)
