"""Probes and hooks: a program inside the container, an HTTP request or a connection to the pod."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from ....api.scheme import Object
from ....base.clock import Clock
from ..local_pods import LocalPod
from ..rules import probe_state
from ..rules.attempts import Attempt
from ..rules.probe_state import FIELDS, ProbeHealth, ProbeKind, ProbeState
from . import http_probe

_MOST_OUTPUT = 10 * 1024


class HandlerFailed(Exception):
    """A probe or hook did not succeed; the message says how."""


async def run_handler(pod: LocalPod, container: Object, handler: Object, seconds: float | None) -> None:
    """The action of a probe or hook; HandlerFailed if it fails or takes longer than it may."""
    try:
        async with asyncio.timeout(seconds):
            if "exec" in handler:
                await _exec(pod, container, handler["exec"].get("command") or [])
            elif "httpGet" in handler:
                await http_probe.get(pod, handler["httpGet"], port_number(container, handler["httpGet"].get("port")))
            elif "tcpSocket" in handler:
                await _tcp(pod, container, handler["tcpSocket"])
            elif "sleep" in handler:
                await asyncio.sleep(float(handler["sleep"].get("seconds") or 0))
            else:
                raise HandlerFailed(f"{next(iter(handler), 'nothing')} is not supported")
    except TimeoutError:
        raise HandlerFailed("timed out" if seconds is None else f"timed out after {seconds:g} s") from None
    except http_probe.BadAnswer as error:
        raise HandlerFailed(str(error)) from None
    except OSError as error:
        raise HandlerFailed(str(error.strerror or error)) from error


async def _exec(pod: LocalPod, container: Object, command: list[str]) -> None:
    launch = pod.exec_command(container["name"], command)
    process = await asyncio.create_subprocess_exec(
        *launch.argv,
        env=launch.env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        assert process.stdout is not None
        said = b""
        while piece := await process.stdout.read(4096):
            said = (said + piece)[:_MOST_OUTPUT]
        code = await process.wait()
    except asyncio.CancelledError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        raise
    if code:
        text = said.decode(errors="replace").strip()
        raise HandlerFailed(f"command {' '.join(command)!r} exited with {code}{': ' + text if text else ''}")


async def _tcp(pod: LocalPod, container: Object, action: Object) -> None:
    port = port_number(container, action.get("port"))
    if action.get("host"):
        _, writer = await asyncio.open_connection(action["host"], port)
        writer.close()
        return
    (await pod.connect(port)).close()


def port_number(container: Object, port: Any) -> int:
    """A number, or the name of one of the container's ports."""
    if isinstance(port, int):
        return port
    for one in container.get("ports") or ():
        if one.get("name") == port:
            return int(one["containerPort"])
    if str(port).isdigit():
        return int(port)
    raise HandlerFailed(f"container {container['name']} has no port named {port!r}")


class Prober:
    """The probes of one attempt of a container, from its start to its end."""

    def __init__(
        self,
        pod: LocalPod,
        container: Object,
        attempt: Attempt,
        clock: Clock,
        changed: Callable[[], None],
        failed: Callable[[ProbeKind, str, bool], None],
        before: ProbeHealth,
    ) -> None:
        """`failed` hears of every failure, and whether it was the last that the container may have.

        `before` is what was known of this attempt before a restart of Echelon: that holds until probes say otherwise.
        """
        self._pod = pod
        self._container = container
        self._clock = clock
        self._changed = changed
        self._failed = failed
        self._began = attempt.started
        self.attempt = attempt.number
        self._states: dict[ProbeKind, ProbeState] = {
            kind: probe_state.initial(kind) for kind, field in FIELDS.items() if container.get(field)
        }
        for kind, held in (("startup", before.started), ("readiness", before.ready)):
            if held and kind in self._states:
                self._states[kind] = ProbeState(holds=True)
        self._task = asyncio.create_task(self._run(), name="probes") if self._states else None

    @property
    def health(self) -> ProbeHealth:
        started = self._holds("startup")
        return ProbeHealth(started, started and self._holds("readiness"))

    def _holds(self, kind: ProbeKind) -> bool:
        return kind not in self._states or self._states[kind].holds

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        if "startup" in self._states and not self._holds("startup"):
            await self._repeat("startup")
            if not self._holds("startup"):
                return
        async with asyncio.TaskGroup() as group:
            for kind in ("readiness", "liveness"):
                if kind in self._states:
                    group.create_task(self._repeat(kind))

    async def _repeat(self, kind: ProbeKind) -> None:
        """Until the container has ended, has started (the startup probe), or is stopped because it failed."""
        probe = self._container[FIELDS[kind]]
        await self._clock.sleep(probe_state.first_at(probe, self._began) - self._clock.now())
        while True:
            await self._once(kind, probe)
            if self._is_decided(kind, probe):
                return
            await self._clock.sleep(probe_state.period(probe))

    def _is_decided(self, kind: ProbeKind, probe: Object) -> bool:
        if kind == "startup" and self._holds(kind):
            return True
        return kind != "readiness" and self._states[kind].has_failed_for_good(probe)

    async def _once(self, kind: ProbeKind, probe: Object) -> None:
        problem = ""
        try:
            await run_handler(self._pod, self._container, probe, probe_state.timeout(probe))
        except Exception as error:  # whatever the other side sends, the next probe comes
            problem = str(error) or type(error).__name__
        before = self._states[kind]
        after = before.after(not problem, probe)
        self._states[kind] = after
        if problem:
            self._failed(kind, problem, kind != "readiness" and after.has_failed_for_good(probe))
        if after.holds != before.holds:
            self._changed()
