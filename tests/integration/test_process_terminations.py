"""Pods on their way out: who is asked how often, how long they have, and that nothing they held is kept."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from echelon.agents.process.pods import pod_worker
from echelon.agents.process.pods.pod_sandbox import PodSandbox
from echelon.agents.process.pods.pod_worker import PodWorker
from echelon.agents.process.rules.host_names import network_name
from echelon.api.cluster.pools import Cluster, node_object
from echelon.api.objects import meta
from echelon.api.objects.vocabulary import RUNS
from echelon.api.scheme import CONFIG_MAPS, PODS

from .local_plane import NODE, local_plane, processes_of, the_container
from .test_process_containers import manifest


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> list[PodWorker]:
    """Those that have begun."""
    found: list[PodWorker] = []
    begin = PodWorker.start

    def start(worker: PodWorker) -> asyncio.Task[None]:
        found.append(worker)
        return begin(worker)

    monkeypatch.setattr(PodWorker, "start", start)
    return found


async def test_a_container_that_is_asked_to_end_is_not_restarted_by_its_liveness_probe(tmp_path: Path) -> None:
    """It is asked once, and has the grace that it was given."""
    log, dead, failed = tmp_path / "log", tmp_path / "dead", tmp_path / "failed"
    async with local_plane(tmp_path / "data", "names") as plane:
        script = f'trap "echo term >> {log}" TERM; echo up; until test -e {tmp_path}/end; do sleep 0.05; done'
        hook = f"lifecycle: {{preStop: {{exec: {{command: [sh, -c, 'echo stopping >> {log}; touch {dead}']}}}}}}"
        look = f"exec: {{command: [sh, -c, 'test ! -e {dead} || {{ touch {failed}; exit 1; }}']}}"
        probe = f"livenessProbe: {{{look}, periodSeconds: 1, failureThreshold: 1, timeoutSeconds: 60}}"
        await plane.apply(manifest("p", f"{{name: c, image: x, command: [sh, -c, '{script}'], {hook}, {probe}}}"))
        await plane.phase("p", "Running")
        await plane.until(lambda: plane.log("p"))
        await plane.delete("p", grace=60)

        async def was_asked_and_looked_at() -> bool:
            return log.exists() and len(log.read_text().splitlines()) >= 2 and failed.exists()

        await plane.until(was_asked_and_looked_at)
        await asyncio.sleep(0.5)  # what the failure would bring about
        (tmp_path / "end").touch()
        await plane.gone(PODS, "p")
        assert log.read_text().splitlines() == ["stopping", "term"]
        assert not [line for line in await plane.events("p") if "will be restarted" in line]


async def test_a_hook_ends_with_a_grace_that_has_become_shorter(tmp_path: Path) -> None:
    async with local_plane(tmp_path / "data", "names") as plane:
        hook = "lifecycle: {preStop: {exec: {command: [sleep, '1000']}}}"
        await plane.apply(manifest("p", f"{{name: c, image: x, command: [sleep, '1000'], {hook}}}"))
        await plane.phase("p", "Running")
        await plane.delete("p", grace=600)
        await plane.told("p", "Killing: Stopping container c")
        begun = time.monotonic()
        await plane.delete("p", grace=1)
        await plane.gone(PODS, "p")
        assert time.monotonic() - begun < 60
        await plane.told("p", "FailedPreStopHook", "it was not done when the grace was over")


async def test_the_end_of_a_container_is_told_though_its_volume_cannot_be_made_again(
    tmp_path: Path, workers: list[PodWorker]
) -> None:
    """As for who takes a pod over from an Echelon that was killed: it makes the files again before the next start."""
    async with local_plane(tmp_path / "data", "names") as plane:
        mount = "volumeMounts: [{name: v, mountPath: /echelon-v}]"
        more = "restartPolicy: Always\n  volumes: [{name: v, configMap: {name: settings}}]"
        await plane.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {a: b}}")
        await plane.apply(manifest("p", f"{{name: c, image: x, command: [sleep, '1000'], {mount}}}", more))
        await plane.phase("p", "Running")
        await plane.verbs.delete(CONFIG_MAPS, "settings", "default")
        workers[0]._sandbox._volumes = None
        os.kill((await plane.local("p")).attempt("c").pid, signal.SIGKILL)
        await plane.told("p", "FailedMount")

        async def ended() -> bool:
            return "running" not in the_container(await plane.pod("p"))["state"]

        await plane.until(ended)
        assert not meta.condition_is(await plane.pod("p"), "Ready", "True")
        assert not any("SetAside" in line for line in await plane.events("p"))
        await plane.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {a: b}}")

        async def runs_again() -> bool:
            return "running" in the_container(await plane.pod("p"))["state"]

        await plane.until(runs_again)


async def test_a_pod_on_its_way_out_rests_though_one_of_its_containers_was_to_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_worker, "_CONFIG_RETRY_SECONDS", 0.1)
    steps = 0
    step = PodWorker._sync

    async def counted(worker: PodWorker) -> None:
        nonlocal steps
        steps += 1
        await step(worker)

    async with local_plane(tmp_path / "data", "names") as plane:
        deaf = "{name: deaf, image: x, command: [sh, -c, 'trap : TERM; echo up; while :; do sleep 0.05; done']}"
        source = "valueFrom: {configMapKeyRef: {name: nobody, key: a}}"
        held = f"{{name: held, image: x, command: [ls], env: [{{name: A, {source}}}]}}"
        await plane.apply(manifest("p", f"{deaf}, {held}"))
        await plane.waiting("p", "CreateContainerConfigError")
        await plane.phase("p", "Running")
        await plane.until(lambda: plane.log("p", "deaf"))
        await plane.delete("p", grace=600)
        await plane.told("p", "Killing: Stopping container deaf")
        await asyncio.sleep(0.2)
        monkeypatch.setattr(PodWorker, "_sync", counted)
        await asyncio.sleep(1)
        taken = steps
        await plane.delete("p", grace=0)
        await plane.gone(PODS, "p")
        assert taken < 20


async def test_the_end_of_a_pod_that_failed_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a full disk, for the records of a shim that had to be killed."""
    end, refused = PodSandbox.end, 0

    async def refuses_once(sandbox: PodSandbox) -> None:
        nonlocal refused
        refused += 1
        if refused == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        await end(sandbox)

    async with local_plane(tmp_path / "data", "names") as plane:
        await plane.apply(manifest("p", "{name: c, image: x, command: [sleep, '1000']}"))
        await plane.phase("p", "Running")
        monkeypatch.setattr(PodSandbox, "end", refuses_once)
        await plane.delete("p", grace=1)
        await plane.gone(PODS, "p")
        assert refused > 1


async def test_a_pod_that_was_replaced_by_one_without_a_node_is_ended(tmp_path: Path) -> None:
    """Both at once, as after a list: nobody tells of the end of the first one."""
    async with local_plane(tmp_path / "data", "names") as plane:
        await plane.apply(manifest("p", "{name: c, image: x, command: [sleep, '1000']}"))
        old = await plane.phase("p", "Running")
        spec = {key: value for key, value in old["spec"].items() if key != "nodeName"}
        new = {**old, "metadata": {**old["metadata"], "uid": "another"}, "spec": spec, "status": {}}
        assert plane.plane.process_nodes is not None
        plane.plane.process_nodes._pod_changed(old, new)
        await plane.files_gone(meta.uid(old))
        assert processes_of(meta.uid(old)) == []


async def test_a_pod_that_is_over_does_not_keep_the_address_of_the_next_one(
    tmp_path: Path, workers: list[PodWorker]
) -> None:
    """As after a restart of Echelon, when both are found again: a retry of a Job has the name of the one before."""
    async with local_plane(tmp_path / "data", "names") as plane:
        for name, script in (("first", "exit 1"), ("second", "sleep 1000")):
            container = f"{{name: c, image: x, command: [sh, -c, '{script}']}}"
            await plane.apply(manifest(name, container, "restartPolicy: Never\n  hostname: w\n  subdomain: job"))
            await plane.phase(name, "Running" if name == "second" else "Failed")
        services, address = workers[0]._services, (await plane.pod("second"))["status"]["podIP"]
        assert (await plane.local("first")).address == address
        with socket.create_server((address, 0)) as listener:
            port = listener.getsockname()[1]
            (await (await plane.local("second")).connect(port)).close()
            with pytest.raises(OSError, match="the pod does not run"):
                (await (await plane.local("first")).connect(port)).close()
        again = PodSandbox(services, await plane.pod("first"), {}, lambda: None)
        await again.attach()
        again.release()
        assert services.network.allocate("third", network_name(await plane.pod("second"))) != address


async def test_gpus_of_a_pod_that_nobody_knows_any_more_are_free(tmp_path: Path) -> None:
    stranger = tmp_path / "pods" / "stranger"
    stranger.mkdir(parents=True, mode=0o700)
    (stranger / "gpus.json").write_text('{"c": [0]}')
    node = node_object(NODE, {RUNS: "processes"}, {"nvidia.com/gpu": "1"})
    async with local_plane(tmp_path, "names", Cluster((), (), (node,))) as plane:
        limits = "resources: {limits: {nvidia.com/gpu: 1}}"
        script = 'echo "see=$CUDA_VISIBLE_DEVICES"'
        await plane.apply(manifest("p", f"{{name: c, image: x, command: [sh, -c, '{script}'], {limits}}}"))
        await plane.phase("p", "Succeeded")
        assert await plane.log("p") == ["see=0"]


async def test_a_shim_that_does_not_answer_holds_up_nobody_who_tells_it_something(tmp_path: Path) -> None:
    async with local_plane(tmp_path, "names") as plane:
        await plane.apply(manifest("p", "{name: c, image: x, command: [sleep, '1000'], tty: true}"))
        await plane.phase("p", "Running")
        local = await plane.local("p")
        attempt, shim = local.attempt("c"), local.directory.shim_pid()
        os.kill(shim, signal.SIGSTOP)
        tell = partial(local.tell_shim, attempt, do="resize", width=80, height=24)

        def give_up(*_: object) -> None:
            raise TimeoutError("it was held up")

        before = signal.signal(signal.SIGALRM, give_up)
        signal.alarm(60)  # else it would wait for ever
        try:
            with pytest.raises(OSError, match="unavailable"):
                _repeat(tell, 200)
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)
            os.kill(shim, signal.SIGCONT)

        async def is_told() -> bool:
            with contextlib.suppress(OSError):
                tell()
                return True
            return False

        await plane.until(is_told)


def _repeat(do: Callable[[], None], count: int) -> None:
    for _ in range(count):
        do()
