"""Pods that restart: what is done again, what is left, and who hears of it."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from echelon.agents.process.pods import pod_worker
from echelon.agents.process.pods.pod_sandbox import PodSandbox
from echelon.agents.process.shim_lines import ShimLine
from echelon.api.objects import meta
from echelon.api.scheme import PODS, Object
from echelon.api.verbs import Patch, PatchType

from .local_plane import LocalPlane, local_plane, processes_of, the_container
from .test_process_containers import manifest


async def restarted(plane: LocalPlane, name: str, count: int) -> Object:
    """The pod once its container runs after so many restarts."""

    async def reached() -> Object | None:
        pod = await plane.pod(name)
        if not (pod.get("status") or {}).get("containerStatuses"):
            return None
        one = the_container(pod)
        return pod if one["restartCount"] >= count and "running" in one["state"] else None

    found: Object = await plane.until(reached)
    return found


async def test_init_containers_run_again_after_a_shim_that_was_stopped(tmp_path: Path) -> None:
    """What they left in memory is gone with it."""
    async with local_plane(tmp_path, "names") as plane:
        mount = "volumeMounts: [{name: m, mountPath: /echelon-m}]"
        init = f"{{name: i, image: x, command: [touch, /echelon-m/ready], {mount}}}"
        main = f"{{name: c, image: x, command: [sh, -c, 'test -e /echelon-m/ready && sleep 1000; exit 9'], {mount}}}"
        more = "restartPolicy: Always\n  volumes: [{name: m, emptyDir: {medium: Memory}}]"
        await plane.apply(manifest("p", main, more, init))
        await plane.phase("p", "Running")
        await restarted(plane, "p", 0)
        os.kill((await plane.local("p")).directory.shim_pid(), signal.SIGTERM)
        pod = await restarted(plane, "p", 1)
        assert the_container(pod)["lastState"]["terminated"]["exitCode"] == 137
        assert [one["restartCount"] for one in pod["status"]["initContainerStatuses"]] == [1]


async def test_only_the_last_two_attempts_of_a_container_leave_files(tmp_path: Path) -> None:
    async with local_plane(tmp_path / "data", "names") as plane:
        script = f"echo a >> {tmp_path}/count; test $(wc -l < {tmp_path}/count) -ge 3 && sleep 1000; exit 1"
        await plane.apply(
            manifest("p", f"{{name: c, image: x, command: [sh, -c, '{script}']}}", "restartPolicy: Always")
        )
        await restarted(plane, "p", 2)
        directory = (await plane.local("p")).directory
        assert sorted(path.name for path in directory.log("c", 0).parent.iterdir()) == ["1.log", "2.log"]
        kept = sorted(path.name for path in directory.container("c").glob("termination-log.*"))
        assert kept == ["termination-log.1", "termination-log.2"]


async def test_a_container_may_react_to_its_signal_though_its_hook_took_all_of_the_grace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_worker, "LEAST_GRACE_SECONDS", 60.0)
    async with local_plane(tmp_path / "data", "names") as plane:
        told = tmp_path / "told"
        script = f'trap "sleep 0.5; echo bye > {told}; exit 0" TERM; echo up; while true; do sleep 0.05; done'
        hook = "lifecycle: {preStop: {exec: {command: [sleep, '1000']}}}"
        await plane.apply(manifest("p", f"{{name: c, image: x, command: [sh, -c, '{script}'], {hook}}}"))
        await plane.phase("p", "Running")
        await plane.until(lambda: plane.log("p"))
        await plane.delete("p", grace=1)
        await plane.gone(PODS, "p")
        assert told.read_text() == "bye\n"


async def test_a_hook_of_an_attempt_that_has_ended_does_not_stop_the_next_one(tmp_path: Path) -> None:
    asked: list[asyncio.StreamWriter] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Those after the first at once."""
        await reader.readline()
        asked.append(writer)
        if len(asked) > 1:
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, local_plane(tmp_path / "data", "names") as plane:
        first = f"touch {tmp_path}/again; until test -e {tmp_path}/end; do sleep 0.05; done; exit 1"
        script = f"test -e {tmp_path}/again && sleep 1000; {first}"
        hook = f"lifecycle: {{postStart: {{httpGet: {{host: 127.0.0.1, port: {port}}}}}}}"
        container = f"{{name: c, image: x, command: [sh, -c, '{script}'], {hook}}}"
        await plane.apply(manifest("p", container, "restartPolicy: Always"))

        async def has_asked() -> bool:
            return bool(asked)

        await plane.until(has_asked)
        (tmp_path / "end").touch()
        await restarted(plane, "p", 1)
        asked[0].close()  # the hook of the first attempt has failed, if it is still there
        await asyncio.sleep(1.0)
        assert the_container(await restarted(plane, "p", 1))["restartCount"] == 1
        assert not any("FailedPostStartHook" in line for line in await plane.events("p"))


@pytest.mark.parametrize("tier", ["net", "plain"])
async def test_a_shim_that_was_stopped_is_killed_with_all_that_runs_in_it(
    tmp_path: Path, tier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PodSandbox, "patience", 2.0)
    async with local_plane(tmp_path, tier) as plane:
        unmarked = f"4321.{os.getpid()}"
        script = f"(env -i setsid sleep {unmarked} &); echo up; sleep 1000"
        await plane.apply(manifest("p", f"{{name: c, image: x, command: [sh, -c, '{script}']}}"))
        uid = meta.uid(await plane.phase("p", "Running"))
        await plane.until(lambda: plane.log("p"))
        os.kill((await plane.local("p")).directory.shim_pid(), signal.SIGSTOP)
        await plane.delete("p", grace=1)
        await plane.gone(PODS, "p")
        assert processes_of(uid) == processes_of(unmarked) == []
        await plane.files_gone(uid)


GARBAGE = """
import contextlib, socket
listener = socket.create_server(("", 8000))
for turn in range(1000):
    line, _ = listener.accept()
    with line, contextlib.suppress(OSError):  # whoever asks may have left
        line.recv(65536)
        line.sendall(b"x" * 300000 if turn == 0 else b"HTTP/1.1 200 OK" + bytes((13, 10, 13, 10)))
"""


async def test_a_probe_goes_on_after_an_answer_that_makes_no_sense(tmp_path: Path) -> None:
    async with local_plane(tmp_path / "data", "net") as plane:
        (tmp_path / "server.py").write_text(GARBAGE)
        probe = "readinessProbe: {httpGet: {port: 8000}, periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 1}"
        await plane.apply(manifest("p", f"{{name: c, image: x, command: [python, {tmp_path}/server.py], {probe}}}"))

        async def ready() -> bool:
            status = (await plane.pod("p")).get("status") or {}
            return any(one["ready"] for one in status.get("containerStatuses") or ())

        await plane.until(ready)


async def test_a_pod_goes_on_though_files_are_scarce_when_its_shim_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, refusals = ShimLine.open, [errno.EMFILE, errno.ENFILE, errno.EAGAIN]

    async def scarce(*arguments: Any) -> ShimLine:
        if refusals:
            raise OSError(refusals.pop(0), "not now")
        return await found(*arguments)

    async with local_plane(tmp_path, "names") as plane:
        await plane.apply(manifest("p", "{name: c, image: x, command: [sleep, '1000']}"))
        uid = meta.uid(await plane.phase("p", "Running"))
        running = sorted(processes_of(uid))
        monkeypatch.setattr(ShimLine, "open", scarce)
        nodes = plane.plane.process_nodes
        assert nodes is not None
        _, work = nodes._workers[uid]
        work.cancel()
        await asyncio.wait([work])
        await plane.verbs.patch(PODS, "p", Patch(PatchType.MERGE, {"metadata": {"labels": {"a": "b"}}}), "default")

        async def attached() -> bool:
            return uid in nodes._workers and nodes._workers[uid][0]._sandbox.is_up

        await plane.until(attached)
        assert not refusals
        assert len(running) > 1
        assert sorted(processes_of(uid)) == running
        assert the_container(await plane.pod("p"))["restartCount"] == 0
