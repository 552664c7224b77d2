"""Addresses of pods and the way to them, by tier:

net     100.64.x.y behind the bridge of the holder; sockets into it come from the holder
names   127.x.y.z, on the loopback device of this machine
plain   the same
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import socket
import time
from collections.abc import Collection, Mapping
from typing import Any
from zlib import crc32

from ...api.scheme import Object
from .machine import ChosenTier
from .pod_directories import NodeDirectory
from .shim import kernel
from .shim.launch import program
from .shim.main import ALREADY_RUNNING
from .shim_lines import connect_in

GATEWAY, PREFIX = "100.64.0.1", 16
_LOOPBACK = "127.0.0.1"
#: Where the addresses of pods begin, and how many bits of a number are theirs.
_NET, _NET_BITS = 100 << 24 | 64 << 16, 16
_LOCAL, _LOCAL_BITS = 127 << 24 | 64 << 16, 22
#: How long a holder may take to begin or to end.
_HOLDER_SECONDS = 10.0


class PodNetwork:
    """`start` before the first pod."""

    def __init__(self, directory: NodeDirectory, chosen: ChosenTier) -> None:
        self._path = directory.network
        self._place = os.path.realpath(directory.path)
        self._chosen = chosen
        self._used: dict[str, str] = {}
        self._line: socket.socket | None = None
        self._holder = 0
        self._asking = asyncio.Lock()
        self._starting = asyncio.Lock()

    @property
    def host(self) -> str:
        """The address of the nodes."""
        return GATEWAY if self._chosen.tier == "net" else _LOOPBACK

    @property
    def holder(self) -> int:
        """The pid of the holder; 0 where there is none."""
        return self._holder

    # -- addresses ---------------------------------------------------------------------------------------------

    def keep(self, uid: str, address: str) -> None:
        """An address that a pod has from before."""
        self._used[address] = uid

    def allocate(self, uid: str, name: str) -> str:
        """An address computed from the name of the pod in its network, the next free one if it is taken."""
        mine = next((address for address, owner in self._used.items() if owner == uid), None)
        if mine is None:
            mine = self._free_address(name, self._used)
            self._used[mine] = uid
        return mine

    def predict(self, name: str) -> str:
        """The address that a pod of this name gets if it is free."""
        return self._free_address(name, ())

    def _free_address(self, name: str, used: Collection[str]) -> str:
        # The loopback device is shared with other planes of this machine, whose pods may have the same names.
        network = self._chosen.tier == "net"
        return free_pod_address(name if network else f"{self._place}/{name}", used, network=network)

    def release(self, uid: str) -> None:
        for address in [address for address, owner in self._used.items() if owner == uid]:
            del self._used[address]

    def taken_ports(self, container: Object) -> list[int]:
        """Ports that a container says it listens on and that somebody else has; in tier net all are its own."""
        if self._chosen.tier == "net":
            return []
        ports = [port for port in container.get("ports") or () if port.get("protocol", "TCP") == "TCP"]
        return [port["containerPort"] for port in ports if _is_taken(port["containerPort"])]

    # -- the holder --------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Make sure that the holder runs; OSError if it cannot, or if it is gone and was not replaced yet."""
        if self._chosen.tier != "net":
            return
        async with self._starting:
            if self._line is None:
                await self._start_holder()
            elif self.is_lost():
                raise OSError("the network of the pods is gone and is being made anew")

    def is_lost(self) -> bool:
        """Whether the holder was there and is not any more: pods that had a cable to it have no network."""
        return self._line is not None and not self._is_alive()

    async def replace_lost(self) -> None:
        """A new holder in place of a lost one."""
        async with self._starting:
            if self._line is not None:
                self._line.close()
                self._line = None
            await self._start_holder()

    async def _start_holder(self) -> None:
        """Another one may be about to write its identity, or about to end: then one is started after it."""
        self._path.mkdir(parents=True, exist_ok=True, mode=0o700)
        deadline = time.monotonic() + _HOLDER_SECONDS
        while not await self._finds_holder():
            if time.monotonic() > deadline:
                raise OSError("the holder of the network does not answer")
            await asyncio.sleep(0.05)

    async def _finds_holder(self) -> bool:
        process = await asyncio.create_subprocess_exec(
            *program("holder", str(self._path), GATEWAY, str(PREFIX)),
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        _, said = await process.communicate()
        if process.returncode not in (0, ALREADY_RUNNING):
            raise OSError(said.decode(errors="replace").strip() or "the holder of the network did not start")
        with contextlib.suppress(OSError, ValueError):
            self._holder = self._identity()["pid"]
            if self._is_alive():
                self._line = connect_in(str(self._path), "holder.sock")
        return self._line is not None

    def _identity(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = json.loads((self._path / "holder.json").read_text())
        return found

    def _is_alive(self) -> bool:
        try:
            identity = self._identity()
        except (OSError, ValueError):
            return False
        return self._holder == identity["pid"] and kernel.start_of(self._holder) == int(identity["start"])

    def close(self) -> None:
        """The holder ends with the last pod: at once if there is none."""
        if self._line is not None:
            with contextlib.suppress(OSError):
                self._line.sendall(b'{"end": true}')
            self._line.close()
            self._line = None

    async def end(self) -> None:
        """When all pods have ended: returns when the holder has ended too, so that nothing is left behind."""
        if self._line is not None:
            self.close()
            deadline = time.monotonic() + _HOLDER_SECONDS
            while self._is_alive() and time.monotonic() < deadline:  # noqa: ASYNC110 - nothing tells it
                await asyncio.sleep(0.01)

    def resolver_text(self) -> str:
        """/etc/resolv.conf of pods; "" if there is none.

        Name servers are not reachable in tier net: the gateway, where none listens, says so at once.
        """
        if self._chosen.tier == "net":
            return f"nameserver {GATEWAY}\n"
        try:
            with open("/etc/resolv.conf") as file:
                return file.read()
        except OSError:
            return ""

    def sandbox(self) -> dict[str, Any]:
        """What a shim must know about the network."""
        return {
            "prefix": PREFIX,
            "gateway": GATEWAY,
            "holder": self._holder,
            "holder_socket": str(self._path / "holder.sock"),
        }

    # -- the way to a pod --------------------------------------------------------------------------------------

    async def connect(self, address: str, port: int) -> socket.socket:
        """A connected, non-blocking socket to a port of a pod; OSError as `connect` raises it."""
        loop = asyncio.get_running_loop()
        if self._chosen.tier != "net":
            made = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            try:
                await loop.sock_connect(made, (address, port))
            except BaseException:
                made.close()
                raise
            return made
        made = await self._ask({"connect": [address, port]})
        try:
            await _wait_connected(made)
        except BaseException:
            made.close()
            raise
        return made

    async def listen(self, address: str, port: int) -> socket.socket:
        """A listening socket that pods can reach: at the gateway in tier net."""
        if self._chosen.tier == "net":
            return await self._ask({"listen": [address, port]})
        made = socket.create_server((address, port))
        made.setblocking(False)
        return made

    async def _ask(self, request: dict[str, Any]) -> socket.socket:
        asking = asyncio.create_task(self._exchanged(request))
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            asking.add_done_callback(_close_unwanted)
            raise

    async def _exchanged(self, request: dict[str, Any]) -> socket.socket:
        """To its end, also if nobody waits for it any more: the next answer belongs to the next request."""
        async with self._asking:
            await self.start()
            assert self._line is not None
            return await asyncio.to_thread(_exchange, self._line, request)


def _exchange(line: socket.socket, request: dict[str, Any]) -> socket.socket:
    line.sendall(json.dumps(request).encode())
    answer, files, _, _ = socket.recv_fds(line, 4096, 1)
    if not files:
        said = json.loads(answer or b'{"error": "the holder of the network has ended"}')
        raise OSError(said.get("error") or "the holder of the network gave no socket")
    made = socket.socket(fileno=files[0])
    made.setblocking(False)
    return made


def _close_unwanted(asking: asyncio.Task[socket.socket]) -> None:
    if not asking.cancelled() and asking.exception() is None:
        asking.result().close()


def _is_taken(port: int) -> bool:
    """Whether a program that listens on all addresses would be refused."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Then only sockets that listen count, not connections that have just ended.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


async def _wait_connected(made: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def writable() -> None:
        if not done.done():
            done.set_result(None)

    loop.add_writer(made.fileno(), writable)
    try:
        await done
    finally:
        loop.remove_writer(made.fileno())
    number = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if number:
        raise OSError(number, os.strerror(number))


def free_pod_address(name: str, used: Collection[str], *, network: bool) -> str:
    first, bits = (_NET, _NET_BITS) if network else (_LOCAL, _LOCAL_BITS)
    size = 1 << bits
    start = crc32(name.encode())
    for step in range(size):
        number = first + (start + step) % size
        address = ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))
        if number & 255 not in (0, 255) and address not in used and address != GATEWAY:
            return address
    raise OSError("no address is free")
