"""The holder of the pods' network: keeps a network namespace with a bridge alive, and hands out sockets in it.

    shims ── an open connection each ──►  holder  ◄── agent: "connect to this address" ─► an open socket comes back

It ends when nobody is connected any more, and with it the bridge.  It outlives the agent as long as pods run.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import select
import signal
import socket
import sys
import time
from typing import Any

from . import kernel
from .main import ALREADY_RUNNING
from .namespaces import BRIDGE
from .netlink import Netlink

#: Seconds without any connection after which it ends.
_ALONE_SECONDS = 5.0


def main(arguments: list[str]) -> None:
    """`holder DIRECTORY GATEWAY PREFIX`: returns when the network is there; the holder goes on in the background."""
    directory, gateway, prefix = arguments
    os.chdir(directory)
    os.umask(0o077)
    lock = os.open("lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(ALREADY_RUNNING)
    os.setsid()
    ready, tell = os.pipe()
    if os.fork() == 0:
        os.close(ready)
        _run(tell, gateway, int(prefix))
    os.close(tell)
    problem = b""
    while piece := os.read(ready, 4096):
        problem += piece
    if problem != b"ready":
        sys.exit(problem.decode(errors="replace") or "the holder of the network ended before it was ready")


def _run(tell: int, gateway: str, prefix: int) -> None:
    try:
        listener = _begin(gateway, prefix)
        null = os.open(os.devnull, os.O_RDWR)
        for target in (0, 1, 2):
            os.dup2(null, target)
        os.write(tell, b"ready")
        os.close(tell)
        _serve(listener)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.write(tell, (error.strerror or str(error)).encode())
    finally:
        os._exit(0)


def _begin(gateway: str, prefix: int) -> socket.socket:
    pid = os.getpid()
    kernel.set_process_name("echelon-network")
    user, group = os.getuid(), os.getgid()
    if not may_administer():
        kernel.unshare(kernel.NEWUSER)
        kernel.map_to_root(user, group)
    kernel.unshare(kernel.NEWNET)
    network = Netlink()
    network.set_up("lo")
    network.add_bridge(BRIDGE)
    network.add_address(BRIDGE, gateway, prefix)
    network.close()
    _answer_that_nothing_is_outside()
    with contextlib.suppress(FileNotFoundError):
        os.unlink("holder.sock")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    listener.bind("holder.sock")
    listener.listen(64)
    with open("holder.json.new", "w") as file:
        json.dump({"pid": pid, "start": kernel.start_of(pid)}, file)
    os.rename("holder.json.new", "holder.json")
    return listener


def _answer_that_nothing_is_outside() -> None:
    """Whoever looks for an address outside is told at once that there is no way, instead of waiting for an answer.

    A router without a route says so, each time.  Where it cannot be set, pods wait.
    """
    for name, value in (("ip_forward", "1"), ("icmp_ratelimit", "0")):
        with contextlib.suppress(OSError), open(f"/proc/sys/net/ipv4/{name}", "w") as file:
            file.write(value)


def may_administer() -> bool:
    """Whether this process may make namespaces without becoming root in a user namespace first."""
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith("CapEff:"))
    return bool(int(line.split()[1], 16) >> 21 & 1)


def _serve(listener: socket.socket) -> None:
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    clients: dict[int, socket.socket] = {}
    alone_since = time.monotonic()
    patience = _ALONE_SECONDS
    while clients or time.monotonic() - alone_since < patience:
        for file, _ in poll.poll(None if clients else _ALONE_SECONDS * 1000):
            if file == listener.fileno():
                with contextlib.suppress(BlockingIOError):
                    accepted, _ = listener.accept()
                    clients[accepted.fileno()] = accepted
                    poll.register(accepted, select.POLLIN)
                    patience = _ALONE_SECONDS
                continue
            try:
                connected = _answer(clients[file])
            except _AskedToEnd:
                connected, patience = True, 0.0
            if not connected:
                poll.unregister(file)
                clients.pop(file).close()
                alone_since = time.monotonic()


class _AskedToEnd(Exception):
    """The agent was stopped: end with the last connection, and do not wait for another one."""


def _answer(client: socket.socket) -> bool:
    """Take one request; False at the end of the connection.

    `{"connect": [address, port]}` and `{"listen": [address, port]}` are answered with a socket;
    `{"end": true}` ends the holder as soon as nobody is connected.
    """
    try:
        data = client.recv(4096)
    except OSError:
        return False
    if not data:
        return False
    try:
        request = json.loads(data)
        if "end" in request:
            raise _AskedToEnd
        made = _socket(request)
    except (OSError, ValueError, KeyError) as error:
        problem = error.strerror if isinstance(error, OSError) else str(error)
        client.sendall(json.dumps({"error": problem}).encode() + b"\n")
        return True
    socket.send_fds(client, [b"{}\n"], [made.fileno()])
    made.close()
    return True


def _socket(request: dict[str, Any]) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        if "connect" in request:
            # The caller waits for the connection: whoever is slow to accept must not hold up other pods.
            number = made.connect_ex(tuple(request["connect"]))
            if number not in (0, errno.EINPROGRESS):
                raise OSError(number, os.strerror(number))
        else:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(tuple(request["listen"]))
            made.listen(128)
    except BaseException:
        made.close()
        raise
    return made
