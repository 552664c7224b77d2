"""`api.running_pods` for the pods of this machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from functools import partial

from ....api.errors import ApiError, bad_request
from ....api.running_pods import Connection, LogOptions, Output, PodUse, Session
from ..local_pods import ContainerNotRunning, LocalPod, LocalPods, NoSuchContainer
from .log_reading import LogReader
from .sampling import Samples
from .sessions import AttachedSession, PipeSession, TerminalSession, attached_options

_CHUNK = 64 * 1024
#: How often an attached container is looked at.
_LOOK_SECONDS = 0.1
#: The same where somebody types and waits for an echo.
_LOOK_AT_TERMINAL_SECONDS = 0.02


class ServedPods:
    """Pods of this machine, by uid, with what they use."""

    def __init__(self, pods: LocalPods, nodes: Collection[str]) -> None:
        self._pods = pods
        self._nodes = nodes
        self._samples = Samples(pods, time.time)

    def find(self, uid: str) -> ServedPod | None:
        pod = self._pods.of(uid)
        return None if pod is None else ServedPod(pod)

    def use(self, uid: str) -> PodUse | None:
        return self._samples.pod(uid)

    def node_use(self, node: str) -> PodUse | None:
        return self._samples.node(node) if node in self._nodes else None

    async def run(self) -> None:
        """Measure until cancelled."""
        await self._samples.run()


@dataclass(frozen=True)
class ServedPod:
    pod: LocalPod

    def logs(self, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        try:
            attempt = self.pod.attempt(container, previous=options.previous, waiting=options.waiting)
        except NoSuchContainer as error:
            raise bad_request(str(error)) from None

        still_runs = partial(self.pod.is_running, container, attempt.number)
        return LogReader(self.pod.directory.log(container, attempt.number), still_runs, options).read()

    async def execute(self, container: str, argv: Sequence[str], *, terminal: bool, stdin: bool) -> Session:
        try:
            launch = self.pod.exec_command(container, argv)
        except (ContainerNotRunning, NoSuchContainer) as error:
            raise _not_running(error) from None
        if terminal:
            return await TerminalSession.start(launch)
        return await PipeSession.start(launch, stdin=stdin)

    async def attach(self, container: str, *, stdin: bool) -> Session:
        if not self.pod.is_running(container):
            raise _not_running(ContainerNotRunning(f'container "{container}" in pod "{self.pod.name}" is not running'))
        attempt = self.pod.attempt(container)
        number, terminal = attempt.number, self.pod.has_terminal(container)

        still_runs = partial(self.pod.is_running, container, number)

        async def ended() -> int:
            while still_runs():  # noqa: ASYNC110  # the shim is another process
                await asyncio.sleep(_LOOK_SECONDS)
            return 0

        def output(only: Output) -> LogReader:
            look = _LOOK_AT_TERMINAL_SECONDS if terminal else _LOOK_SECONDS
            return LogReader(self.pod.directory.log(container, number), still_runs, attached_options(only), look)

        outputs: dict[Output, LogReader] = {"stdout": output("stdout")}
        if not terminal:
            outputs["stderr"] = output("stderr")
        return AttachedSession(
            outputs,
            ended,
            self.pod.stdin(container) if stdin else None,
            partial(self.pod.tell_shim, attempt),
            reads_once=self.pod.reads_once(container),
        )

    async def connect(self, port: int) -> Connection:
        reader, writer = await asyncio.open_connection(sock=await self.pod.connect(port))
        return SocketConnection(reader, writer)


class SocketConnection:
    """A connection to a port of a pod."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        return await self._reader.read(_CHUNK)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def end_writing(self) -> None:
        if self._writer.can_write_eof() and not self._writer.is_closing():
            self._writer.write_eof()

    def close(self) -> None:
        self._writer.close()


def _not_running(error: Exception) -> ApiError:
    return ApiError(500, "InternalError", f"Internal error occurred: {error}", {"causes": [{"message": str(error)}]})
