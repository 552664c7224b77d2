"""What the API server asks of whoever runs pods: logs, exec, attach, port-forward, measured use.

The server speaks the protocols of clients, the node side knows processes and files; these are the terms between them.
Whatever cannot be done is an `ApiError`, raised before the first byte.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

#: Which of its two outputs a program wrote to.
Output = Literal["stdout", "stderr"]


@dataclass(frozen=True)
class LogOptions:
    """What to read of a container's log, as in the query of `pods/NAME/log`."""

    follow: bool = False
    #: The attempt before the newest one; the newest one itself if its container is `waiting` to be started again.
    previous: bool = False
    waiting: bool = False
    #: Every line begins with the time it was written at.
    timestamps: bool = False
    #: Only the last lines; None: all.
    tail_lines: int | None = None
    #: Only lines written at this time (RFC 3339, UTC) or later; "": all.
    since: str = ""
    #: Stop after this many bytes; None: never.
    limit_bytes: int | None = None
    #: One of the two outputs; None: both.
    only: Output | None = None


@dataclass(frozen=True)
class LogLine:
    """A line that a container wrote."""

    #: RFC 3339, UTC, with nanoseconds: these compare as texts do.
    time: str
    pod_uid: str
    pod: str
    container: str
    #: Which run of the container, counted from 0.
    attempt: int
    output: str
    text: str


class LogTails(Protocol):
    """What all containers of this machine write, for one reader."""

    def new_lines(self, *, last: bool = False) -> list[LogLine]:
        """Lines since the last call, in order of time; with `last` also those that may still be followed by older ones,
        and lines without an end."""
        ...


@dataclass(frozen=True)
class Use:
    """CPU in thousandths of nanoseconds per second is what metrics call nanocores; memory is the working set."""

    nanocores: int
    memory_bytes: int


@dataclass(frozen=True)
class PodUse:
    """What the containers of a pod used over the last seconds."""

    containers: Mapping[str, Use]
    #: When it was measured, and over how many seconds.
    at: float
    seconds: float


class Session(Protocol):
    """A program with its streams, started by exec or attached to."""

    def output(self) -> AsyncIterator[tuple[Output, bytes]]:
        """What it writes, until it has closed its outputs."""
        ...

    async def write(self, data: bytes) -> None:
        """Give it input; nothing happens if it does not read."""
        ...

    async def close_input(self) -> None: ...

    def resize(self, width: int, height: int) -> None:
        """The size of its terminal, if it has one."""
        ...

    async def ended(self) -> int:
        """Wait for its end; its exit code."""
        ...

    async def close(self) -> None:
        """Leave it: a program started by exec is killed, one that was attached to goes on."""
        ...


class Connection(Protocol):
    """A connection to a port of a pod."""

    async def read(self) -> bytes:
        """The next bytes; none when the other side has ended."""
        ...

    async def write(self, data: bytes) -> None: ...

    def end_writing(self) -> None: ...

    def close(self) -> None: ...


class RunningPod(Protocol):
    """A pod on a node that runs processes."""

    def logs(self, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """The log in pieces.  A container that never ran is an `ApiError`, raised by the call itself."""
        ...

    async def execute(self, container: str, argv: Sequence[str], *, terminal: bool, stdin: bool) -> Session: ...

    async def attach(self, container: str, *, stdin: bool) -> Session: ...

    async def connect(self, port: int) -> Connection:
        """OSError if nothing listens there."""
        ...


class RunningPods(Protocol):
    """All pods on nodes that run processes, by uid."""

    def find(self, uid: str) -> RunningPod | None:
        """None if the pod never ran there."""
        ...

    def use(self, uid: str) -> PodUse | None:
        """What a pod uses; None as long as it was measured less than twice."""
        ...

    def node_use(self, node: str) -> PodUse | None:
        """What a node uses, under the name of the node itself."""
        ...
