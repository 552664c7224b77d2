"""Attempts of containers: what the shim remembers of each, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ....api.scheme import Object


@dataclass(frozen=True)
class Attempt:
    """One run of a container; `code` is None while it runs.  Times are of the cluster's clock."""

    container: str
    number: int
    started: float
    finished: float = 0.0
    code: int | None = None
    signal: int = 0
    #: Why it could not be started; "" for one that was.
    error: str = ""
    out_of_memory: bool = False
    #: Of the main process, as the machine counts; with `start` it is unmistakable.
    pid: int = 0
    start: int = 0
    #: What the container left in its termination log.
    message: str = ""
    #: Whether it ran in a sandbox that is gone: whatever it left behind in it is gone too.
    past: bool = False

    @property
    def running(self) -> bool:
        return self.code is None

    @property
    def reason(self) -> str:
        """Why it ended, in the words of a kubelet."""
        if self.error:
            return "StartError"
        if self.out_of_memory:
            return "OOMKilled"
        return "Completed" if self.code == 0 else "Error"


@dataclass(frozen=True)
class Attempts:
    """The last attempts of every container of a pod, oldest first."""

    of_container: Mapping[str, tuple[Attempt, ...]] = field(default_factory=dict)

    def latest(self, container: str) -> Attempt | None:
        known = self.of_container.get(container)
        return known[-1] if known else None

    def before_latest(self, container: str) -> Attempt | None:
        known = self.of_container.get(container) or ()
        return known[-2] if len(known) > 1 else None

    def any_running(self) -> bool:
        return any(one.running for known in self.of_container.values() for one in known)


def attempts_from(records: Iterable[Mapping[str, Any]], offset: float) -> Attempts:
    """From the state of a shim; `offset` is what the cluster's clock is ahead of the machine's."""
    found: dict[str, list[Attempt]] = {}
    for record in records:
        found.setdefault(record["container"], []).append(
            Attempt(
                record["container"],
                record["attempt"],
                record["started"] + offset,
                record["finished"] + offset if record["finished"] else 0.0,
                record["code"],
                record["signal"],
                record["error"],
                record["out_of_memory"],
                record["pid"],
                record["start"],
                record.get("message", ""),
                record.get("past", False),
            )
        )
    return Attempts({name: tuple(sorted(known, key=lambda one: one.number)) for name, known in found.items()})


def is_sidecar(container: Object) -> bool:
    """An init container that is restarted whenever it ends, and runs beside the others."""
    return container.get("restartPolicy") == "Always"


def init_containers(pod: Object) -> list[Object]:
    return pod["spec"].get("initContainers") or []


def all_containers(pod: Object) -> list[Object]:
    """In the order in which they start."""
    return [*init_containers(pod), *pod["spec"]["containers"]]
