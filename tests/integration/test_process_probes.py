"""What probes do over time: how often their failures are told, when they stop, what a restart of Echelon changes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from echelon.agents.process.pods import probing
from echelon.agents.process.pods.pod_worker import PodWorker
from echelon.agents.process.pods.probing import HandlerFailed
from echelon.api.objects import meta
from echelon.api.scheme import EVENTS, Object

from .local_plane import LocalPlane, local_plane, the_container
from .test_process_containers import manifest
from .test_process_restarts import restarted


async def count_of(plane: LocalPlane, reason: str, words: str) -> int:
    """How often it was told, of all pods."""
    listed = await plane.verbs.list(EVENTS, "default")
    return sum(one["count"] for one in listed.items if one["reason"] == reason and words in one["message"])


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands of exec probes that were run; those named "bad" fail, and none takes time."""
    commands: list[str] = []

    async def run(pod: object, container: Object, handler: Object, seconds: float | None) -> None:
        (command,) = handler["exec"]["command"]
        commands.append(command)
        if command == "bad":
            raise HandlerFailed("bad luck")

    monkeypatch.setattr(probing, "run_handler", run)
    return commands


async def test_every_failure_of_a_probe_is_counted(tmp_path: Path, asked: list[str]) -> None:
    async with local_plane(tmp_path / "data", "names") as plane:
        probe = "readinessProbe: {exec: {command: [bad]}, periodSeconds: 1}"
        await plane.apply(manifest("p", f"{{name: c, image: x, command: [sleep, '1000'], {probe}}}"))

        async def counted() -> bool:
            return await count_of(plane, "Unhealthy", "Readiness probe failed: bad luck") >= 3

        await plane.until(counted)


async def test_every_restart_for_a_probe_is_told_and_a_probe_that_has_decided_asks_no_more(
    tmp_path: Path, asked: list[str]
) -> None:
    async with local_plane(tmp_path / "data", "names") as plane:
        probe = "livenessProbe: {exec: {command: [bad]}, periodSeconds: 1, failureThreshold: 1}"
        # The signal is not obeyed at once: meanwhile there is nothing to ask any more.
        script = 'trap "sleep 2.5; exit 1" TERM; while true; do sleep 0.05; done'
        container = f"{{name: c, image: x, command: [sh, -c, '{script}'], {probe}}}"
        await plane.apply(manifest("p", container, "restartPolicy: Always"))
        await restarted(plane, "p", 1)

        async def told_twice() -> bool:
            return await count_of(plane, "Killing", "Container c failed liveness probe") >= 2

        await plane.until(told_twice)
        assert len(asked) == 2


async def test_a_container_that_never_starts_is_asked_nothing_else(tmp_path: Path, asked: list[str]) -> None:
    async with local_plane(tmp_path / "data", "names") as plane:
        probes = "startupProbe: {exec: {command: [bad]}, periodSeconds: 1, failureThreshold: 2}, "
        probes += "readinessProbe: {exec: {command: [good]}, periodSeconds: 1}"
        container = f"{{name: c, image: x, command: [sleep, '1000'], {probes}}}"
        await plane.apply(manifest("p", container, "restartPolicy: Never").replace("Seconds: 30", "Seconds: 1"))
        await plane.phase("p", "Failed")
        assert asked == ["bad", "bad"]


async def test_a_ready_container_stays_ready_while_another_worker_takes_over(
    tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a restart of Echelon: nobody knows of a failure, so nothing leaves its Services."""
    async with local_plane(tmp_path / "data", "names") as plane:
        probe = "readinessProbe: {exec: {command: [good]}, periodSeconds: 1000}"
        (pod,) = await plane.apply(manifest("p", f"{{name: c, image: x, command: [sleep, '1000'], {probe}}}"))

        async def ready() -> bool:
            return meta.condition_is(await plane.pod("p"), "Ready", "True")

        await plane.until(ready)
        before = await plane.pod("p")
        holding = asyncio.Event()

        async def never(*_: object) -> None:
            await holding.wait()

        monkeypatch.setattr(probing, "run_handler", never)
        nodes = plane.plane.process_nodes
        assert nodes is not None
        worker, task = nodes._workers[meta.uid(pod)]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        again = PodWorker(worker._services, before, worker._sandbox._node)
        nodes._workers[meta.uid(pod)] = again, again.start()
        await plane.until(lambda: _synced(again))
        assert the_container(await plane.pod("p"))["ready"]


async def _synced(worker: PodWorker) -> bool:
    return worker._synced.is_set() and bool(worker._probers)


async def test_a_probe_may_give_less_grace_than_the_pod(tmp_path: Path, asked: list[str]) -> None:
    async with local_plane(tmp_path / "data", "names") as plane:
        probe = "livenessProbe: {exec: {command: [bad]}, periodSeconds: 1, failureThreshold: 1, "
        probe += "terminationGracePeriodSeconds: 1}"
        script = 'trap "" TERM; while true; do sleep 0.05; done'
        container = f"{{name: c, image: x, command: [sh, -c, '{script}'], {probe}}}"
        await plane.apply(manifest("p", container, "restartPolicy: Never").replace("Seconds: 30", "Seconds: 60"))
        ended = await plane.phase("p", "Failed", seconds=30)
        assert the_container(ended)["state"]["terminated"]["exitCode"] == 137
