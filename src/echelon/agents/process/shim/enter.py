"""Runs a program inside a running container: in its namespaces, with its files and its environment.

    enter PID:START DIRECTORY NAMESPACES GROUPS FACTS -- program arguments

The environment is the one that the container was started with, as the file FACTS has it, else what the kernel shows of
its first process, which may have written over it.  This process does not take it itself: a container could choose what
is loaded here, outside of it.  The program is looked up in its PATH.  The exit code is the program's, 128 + n after
signal n.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
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
#: Stands for the root directory, which is entered after all of them.
_ROOT = 0


def main(arguments: list[str]) -> None:
    identity, directory, names, groups, facts, _, *argv = arguments
    pid, start = map(int, identity.split(":"))
    try:
        namespaces = _opened(pid, names)
        env = _environment(pid, facts)
        rights = _rights(pid)
    except OSError:
        sys.exit("container not running")
    # Asked last: then all of it is of this very process, and not of one that got its number later.
    if kernel.start_of(pid) != start:
        sys.exit("container not running")
    try:
        kernel.hide_process()
        join([folder for folder in groups.split(":") if folder])
        _enter(namespaces)
    except OSError as error:
        sys.exit(f"cannot enter the container: {error.strerror or error}")
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        _become(directory, argv, env, rights, parent, inside=bool(namespaces))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, lambda got, _: os.kill(child, got))
    _, status = os.waitpid(child, 0)
    os._exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))


def _opened(pid: int, names: str) -> list[tuple[int, int]]:
    """The namespaces of a process in the order in which they are entered, each with its kind; at last its root."""
    if names == "none":
        return []
    files = [(os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY), _KINDS[name]) for name in names.split(",")]
    return [*files, (os.open(f"/proc/{pid}/root", os.O_RDONLY | os.O_DIRECTORY), _ROOT)]


def _environment(pid: int, facts: str) -> dict[str, str]:
    """Of the container; what this process has itself only where the container has nothing: the kind of a terminal."""
    own = {"TERM": os.environ["TERM"]} if "TERM" in os.environ else {}
    with contextlib.suppress(OSError, ValueError, KeyError), open(facts) as file:
        return {**own, **json.load(file)["env"]}
    with open(f"/proc/{pid}/environ", "rb") as shown:
        entries = [os.fsdecode(entry).partition("=") for entry in shown.read().split(b"\0") if b"=" in entry]
    return {**own, **{name: value for name, _, value in entries}}


def _rights(pid: int) -> dict[str, str]:
    """What the kernel says of a process, by name."""
    with open(f"/proc/{pid}/status") as file:
        return {name: value.strip() for name, _, value in (line.partition(":") for line in file)}


def _enter(files: list[tuple[int, int]]) -> None:
    for file, kind in files:
        if kind == _ROOT:
            os.fchdir(file)
            os.chroot(".")
        else:
            kernel.enter(file, kind)


def _become(
    directory: str, argv: list[str], env: dict[str, str], rights: dict[str, str], parent: int, *, inside: bool
) -> None:
    try:
        # Whoever asked for it may be killed; this must not stay behind.
        kernel.end_with_parent(signal.SIGKILL, parent)
        # The program leads its session, as in a container. The session that this process leads has no number in the PID
        # namespace of the pod, so a shell in it could not give the terminal back when it ends.
        os.setsid()
        if os.isatty(0):
            # Keys such as Ctrl-C reach the program.
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        if inside:
            kernel.keep_capabilities(int(rights["CapBnd"], 16))
        if rights["NoNewPrivs"] == "1":
            kernel.gain_no_rights()
        os.chdir(directory)
        become(argv, env)
    except OSError as error:
        print(error.strerror or error, file=sys.stderr, flush=True)
    finally:
        os._exit(126 if "permission denied" in str(sys.exc_info()[1] or "") else 127)
