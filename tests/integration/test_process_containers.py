"""Containers as processes: environment, volumes, order, probes, hooks, restarts, messages and refusals."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from echelon.agents.process.local_pods import LocalPod
from echelon.agents.process.pods import pod_worker
from echelon.agents.process.pods.pod_sandbox import PodSandbox
from echelon.api.objects import meta
from echelon.api.scheme import CONFIG_MAPS, PODS, Object
from echelon.api.verbs import Patch, PatchType

from .local_plane import local_plane, processes_of, the_container

TIERS = ("net", "names", "plain")
CONFIG_ERROR = "CreateContainerConfigError"
#: Of a probe: on a busy machine a program takes more than a second to begin.
PATIENT = "periodSeconds: 1, timeoutSeconds: 60, failureThreshold: 30"

CONFIG = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {alpha: "1", beta: two}
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {token: hidden}
---
"""


def manifest(name: str, containers: str, more: str = "restartPolicy: Never", init: str = "") -> str:
    """`containers` and `init` are lists in YAML, one item per line."""
    return f"""
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  labels: {{tier: "front"}}
  annotations: {{note: "a \\"b\\""}}
spec:
  {more}
  terminationGracePeriodSeconds: 30
  initContainers: [{init}]
  containers: [{containers}]
"""


@pytest.mark.conformance("API-126")
async def test_environment_and_downward_values_are_exact(tmp_path: Path) -> None:
    text = (
        CONFIG
        + """
apiVersion: v1
kind: Pod
metadata: {name: env, labels: {tier: front}, annotations: {note: 'a "b"'}}
spec:
  restartPolicy: Never
  containers:
  - name: c
    image: example
    command: [sh, -c]
    args:
    - env | grep -E "^(P_|X_|alpha|beta)" | sort; printf "%s\\n" "$1"; pwd
    - sh
    - "$(X_NAME) $(MISSING) $$(X_NAME)"
    workingDir: /usr
    resources: {requests: {cpu: 250m, memory: 64Mi}, limits: {memory: 128Mi}}
    envFrom:
    - {configMapRef: {name: settings}}
    - {prefix: P_, secretRef: {name: keys}}
    - {configMapRef: {name: nobody, optional: true}}
    env:
    - {name: X_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: X_SPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
    - {name: X_NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: X_ACCOUNT, valueFrom: {fieldRef: {fieldPath: spec.serviceAccountName}}}
    - {name: X_LABEL, valueFrom: {fieldRef: {fieldPath: "metadata.labels['tier']"}}}
    - {name: X_NOTE, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['note']"}}}
    - {name: X_CPU, valueFrom: {resourceFieldRef: {resource: requests.cpu, divisor: 1m}}}
    - {name: X_MEMORY, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}
    - {name: X_KEY, valueFrom: {configMapKeyRef: {name: settings, key: alpha}}}
    - {name: X_SECRET, valueFrom: {secretKeyRef: {name: keys, key: token}}}
    - {name: X_ABSENT, valueFrom: {secretKeyRef: {name: keys, key: other, optional: true}}}
    - {name: X_BOTH, value: "$(X_NAME)-$(X_KEY)-$(X_LATER)"}
    - {name: X_LATER, value: late}
    - {name: beta, value: mine}
"""
    )
    async with local_plane(tmp_path, "names") as plane:
        await plane.apply(text)
        await plane.phase("env", "Succeeded")
        assert await plane.log("env") == [
            "P_token=hidden",
            "X_ACCOUNT=default",
            "X_BOTH=env-1-$(X_LATER)",
            "X_CPU=250",
            "X_KEY=1",
            "X_LABEL=front",
            "X_LATER=late",
            "X_MEMORY=128",
            "X_NAME=env",
            "X_NODE=here",
            'X_NOTE=a "b"',
            "X_SECRET=hidden",
            "X_SPACE=default",
            "alpha=1",
            "beta=mine",
            "env $(MISSING) $(X_NAME)",
            "/usr",
        ]


VOLUMES = (
    CONFIG
    + """
apiVersion: v1
kind: Pod
metadata: {name: vol, labels: {tier: front}}
spec:
  restartPolicy: Never
  volumes:
  - {name: cm, configMap: {name: settings}}
  - {name: one, configMap: {name: settings, items: [{key: beta, path: deep/b.txt, mode: 0400}]}}
  - {name: sec, secret: {secretName: keys, defaultMode: 0440}}
  - {name: scratch, emptyDir: {}}
  - name: all
    projected:
      sources:
      - {serviceAccountToken: {path: token, expirationSeconds: 600, audience: me}}
      - {configMap: {name: kube-root-ca.crt}}
      - {downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}
  initContainers:
  - name: first
    image: example
    command: [sh, -c, 'echo shared > /scratch/file; mkdir -p /scratch/sub; echo inner > /scratch/sub/f']
    volumeMounts: [{name: scratch, mountPath: /scratch}]
  containers:
  - name: c
    image: example
    command: [sh, -c]
    args:
    - |
      cat /etc/echelon-cm/alpha; echo
      cat /one/deep/b.txt; echo; stat -L -c %a /one/deep/b.txt
      cat /sec/token; echo; stat -L -c %a /sec/token
      cat /scratch/file; cat /var/lib/echelon-test/only/f
      touch /scratch/file; touch /ro/x 2>/dev/null || echo read-only
      cut -d. -f1 /all/token | head -c 2; echo; head -1 /all/ca.crt; cat /all/labels; echo
      echo bye > /dev/termination-log
    volumeMounts:
    - {name: cm, mountPath: /etc/echelon-cm}
    - {name: one, mountPath: /one}
    - {name: sec, mountPath: /sec, readOnly: true}
    - {name: scratch, mountPath: /scratch}
    - {name: scratch, mountPath: /ro, readOnly: true}
    - {name: scratch, mountPath: /var/lib/echelon-test/only, subPath: sub}
    - {name: all, mountPath: /all}
"""
)


#: The first part of each path at which something is mounted.
MOUNTED = {"one", "sec", "scratch", "ro", "all"}


@pytest.mark.parametrize("tier", TIERS)
async def test_paths_in_a_container_begin_at_its_root(tmp_path: Path, tier: str) -> None:
    """As a kubelet reads them, which joins whatever is written to the root of the container."""
    mount = "volumeMounts: [{name: v, mountPath: echelon-v}, {name: v, mountPath: ../../echelon-w}]"
    said = "" if tier == "plain" else "terminationMessagePath: ../echelon-said, "
    script = "echo kept > /echelon-v/file; cat /echelon-w/file" + ("; echo why > /echelon-said" if said else "")
    container = f"{{name: c, image: x, command: [sh, -c, '{script}'], {said}{mount}}}"
    async with local_plane(tmp_path, tier) as plane:
        await plane.apply(manifest("p", container, "restartPolicy: Never\n  volumes: [{name: v, emptyDir: {}}]"))
        ended = await plane.phase("p", "Succeeded", "Failed")
        assert ended["status"]["phase"] == "Succeeded", ended["status"]
        assert await plane.log("p") == ["kept"]
        if said:
            assert the_container(ended)["state"]["terminated"]["message"] == "why\n"


async def test_nothing_is_mounted_over_the_root(tmp_path: Path) -> None:
    async with local_plane(tmp_path, "names") as plane:
        mount = "volumeMounts: [{name: v, mountPath: /..}]"
        more = "restartPolicy: Never\n  volumes: [{name: v, emptyDir: {}}]"
        await plane.apply(manifest("p", f"{{name: c, image: x, command: [ls], {mount}}}", more))
        assert "mountPath / is refused" in (await plane.waiting("p", CONFIG_ERROR))["state"]["waiting"]["message"]


async def test_a_sub_path_that_names_an_unknown_variable_is_refused(tmp_path: Path) -> None:
    async with local_plane(tmp_path, "names") as plane:
        mount = "volumeMounts: [{name: v, mountPath: /v, subPathExpr: 'a/$(NOBODY)'}]"
        more = "restartPolicy: Never\n  volumes: [{name: v, emptyDir: {}}]"
        await plane.apply(manifest("p", f"{{name: c, image: x, command: [ls], {mount}}}", more))
        waiting = await plane.waiting("p", CONFIG_ERROR)
        assert waiting["state"]["waiting"]["message"] == 'missing value for "NOBODY"'
        assert list((await plane.local("p")).directory.volume("v").iterdir()) == []


@pytest.mark.parametrize("tier", TIERS)
async def test_volumes_are_where_the_manifest_says(tmp_path: Path, tier: str) -> None:
    before = MOUNTED & set(os.listdir("/"))
    async with local_plane(tmp_path, tier) as plane:
        await plane.apply(VOLUMES)
        ended = await plane.phase("vol", "Succeeded", "Failed")
        lines = await plane.log("vol")
        expected = ["1", "two", "400", "hidden", "440", "shared", "inner", "read-only", "ey"]
        if tier == "plain":
            expected.remove("read-only")  # nothing is mounted
        assert lines == [*expected, "-----BEGIN CERTIFICATE-----", 'tier="front"']
        assert the_container(ended)["state"]["terminated"]["message"] == "bye\n"
    assert MOUNTED & set(os.listdir("/")) == before
    assert "echelon-test" not in os.listdir("/var/lib")


async def test_a_mount_path_that_nobody_names_is_refused_where_nothing_can_be_mounted(tmp_path: Path) -> None:
    async with local_plane(tmp_path, "plain") as plane:
        mount = "volumeMounts: [{name: v, mountPath: /built-in}]"
        await plane.apply(
            manifest("p", f"{{name: c, image: x, command: [ls], {mount}}}", "volumes: [{name: v, emptyDir: {}}]")
        )
        state = await plane.waiting("p", CONFIG_ERROR)
        assert "mountPath /built-in is refused" in state["state"]["waiting"]["message"]


async def test_init_containers_run_in_order_and_sidecars_run_beside_the_others(tmp_path: Path) -> None:
    async with local_plane(tmp_path / "data", "names") as plane:
        log = tmp_path / "story"

        def say(word: str, then: str = "") -> str:
            return f"command: [sh, -c, 'echo {word} >> {log}; {then}']"

        init = ", ".join(
            (
                f"{{name: one, image: x, {say('one', 'sleep 0.2; echo one-done >> ' + str(log))}}}",
                "{name: side, image: x, restartPolicy: Always, "
                f'command: [sh, -c, \'trap "echo side-ends >> {log}; exit 0" TERM; echo side >> {log}; '
                "while :; do sleep 0.05; done'], "
                f"startupProbe: {{exec: {{command: [grep, side, {log}]}}, {PATIENT}}}}}",
                f"{{name: two, image: x, {say('two')}}}",
            )
        )
        await plane.apply(manifest("p", f"{{name: c, image: x, {say('main', 'sleep 0.2')}}}", init=init))
        ended = await plane.phase("p", "Succeeded", "Failed")
        assert ended["status"]["phase"] == "Succeeded"
        assert log.read_text().split() == ["one", "one-done", "side", "two", "main", "side-ends"]
        states = {one["name"]: one["state"] for one in ended["status"]["initContainerStatuses"]}
        assert {name: state["terminated"]["exitCode"] for name, state in states.items()} == {
            "one": 0,
            "side": 0,
            "two": 0,
        }


@pytest.mark.conformance("API-126")
async def test_a_container_that_fails_is_restarted_with_back_off(tmp_path: Path) -> None:
    async with local_plane(tmp_path, "names") as plane:
        await plane.apply(
            manifest("p", "{name: c, image: x, command: [sh, -c, 'echo again; exit 1']}", "restartPolicy: OnFailure")
        )
        status = await plane.waiting("p", "CrashLoopBackOff")
        assert status["restartCount"] == 1
        assert status["lastState"]["terminated"]["exitCode"] == 1
        assert status["state"]["waiting"]["message"].startswith(
            "back-off 10s restarting failed container=c pod=p_default"
        )
        assert (await plane.pod("p"))["status"]["phase"] == "Running"
        local = await plane.local("p")
        assert local.attempt("c", previous=True, waiting=True).number == 1, "as its last state says"
        assert local.attempt("c", previous=True).number == 0
        uid = meta.uid(await plane.pod("p"))
        await plane.told("p", f"BackOff: Back-off restarting failed container c in pod p_default({uid})")


async def test_a_container_that_succeeds_on_its_second_attempt_is_complete(tmp_path: Path) -> None:
    async with local_plane(tmp_path / "data", "names") as plane:
        script = f"test -e {tmp_path}/seen && exit 0; touch {tmp_path}/seen; exit 1"
        await plane.apply(
            manifest("p", f"{{name: c, image: x, command: [sh, -c, '{script}']}}", "restartPolicy: OnFailure")
        )
        ended = await plane.phase("p", "Succeeded")
        assert the_container(ended)["restartCount"] == 1


@pytest.mark.parametrize("tier", TIERS)
async def test_probes_make_a_pod_ready_and_restart_one_that_is_dead(tmp_path: Path, tier: str) -> None:
    async with local_plane(tmp_path / "data", tier) as plane:
        serve = "python -m http.server 8765 --bind $IP"
        await plane.apply(f"""
apiVersion: v1
kind: Pod
metadata: {{name: p}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: c
    image: python
    command: [sh, -c, 'cd {tmp_path}; exec {serve}']
    env: [{{name: IP, valueFrom: {{fieldRef: {{fieldPath: status.podIP}}}}}}]
    ports: [{{name: web, containerPort: 8765}}]
    startupProbe: {{tcpSocket: {{port: web}}, {PATIENT}}}
    readinessProbe: {{httpGet: {{port: 8765, path: /ready}}, {PATIENT}}}
    livenessProbe:
      exec: {{command: [test, '!', -e, {tmp_path}/dead]}}
      periodSeconds: 1
      timeoutSeconds: 60
      failureThreshold: 1
""")

        async def ready(wanted: bool) -> Object | None:
            found = await plane.pod("p")
            return found if meta.condition_is(found, "Ready", str(wanted)) else None

        async def started() -> bool:
            status = (await plane.pod("p")).get("status") or {}
            return bool(status.get("containerStatuses")) and status["containerStatuses"][0]["started"]

        await plane.until(started)
        assert not await ready(True)
        (tmp_path / "ready").touch()
        await plane.until(lambda: ready(True))
        (tmp_path / "dead").touch()

        async def restarted() -> bool:
            return the_container(await plane.pod("p"))["restartCount"] >= 1

        await plane.until(restarted)
        await plane.told("p", "Unhealthy: Liveness probe failed")
        await plane.told("p", "will be restarted")


async def test_hooks_run_after_the_start_and_before_the_end(tmp_path: Path) -> None:
    async with local_plane(tmp_path / "data", "names") as plane:
        log = tmp_path / "hooks"
        lifecycle = (
            f"lifecycle: {{postStart: {{exec: {{command: [sh, -c, 'echo started $X >> {log}']}}}}, "
            f"preStop: {{exec: {{command: [sh, -c, 'echo stopping >> {log}']}}}}}}"
        )
        up = tmp_path / "up"  # made when the container hears signals
        command = (
            f"command: [sh, -c, 'trap \"echo term >> {log}; exit 0\" TERM; touch {up}; while :; do sleep 0.05; done']"
        )
        env = "env: [{name: X, value: here}]"
        await plane.apply(manifest("p", f"{{name: c, image: x, {command}, {env}, {lifecycle}}}"))

        async def written() -> bool:
            return log.exists() and up.exists()

        await plane.phase("p", "Running")
        await plane.until(written)
        await plane.delete("p")
        await plane.gone(PODS, "p")
        assert log.read_text().splitlines() == ["started here", "stopping", "term"]


async def test_a_pod_that_is_active_for_too_long_fails(tmp_path: Path) -> None:
    async with local_plane(tmp_path, "names") as plane:
        text = manifest("p", "{name: c, image: x, command: [sleep, '1000']}").replace(
            "restartPolicy: Never", "restartPolicy: Never\n  activeDeadlineSeconds: 1"
        )
        (made,) = await plane.apply(text)
        ended = await plane.phase("p", "Failed")
        assert ended["status"]["reason"] == "DeadlineExceeded"
        assert the_container(ended)["state"]["terminated"]["exitCode"] == 143
        assert processes_of(meta.uid(made)) == []


async def test_a_container_that_is_about_to_start_has_its_grace_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = PodSandbox.send

    def late(sandbox: PodSandbox, **command: Any) -> None:
        seconds = 3.0 if command["do"] == "start" else 0.0
        asyncio.get_running_loop().call_later(seconds, lambda: send(sandbox, **command))

    monkeypatch.setattr(PodSandbox, "send", late)
    async with local_plane(tmp_path, "names") as plane:
        text = manifest("p", "{name: c, image: x, command: [sleep, '1000']}").replace(
            "restartPolicy: Never", "restartPolicy: Never\n  activeDeadlineSeconds: 1"
        )
        await plane.apply(text)
        ended = await plane.phase("p", "Failed")
        assert the_container(ended)["state"]["terminated"]["exitCode"] == 143


async def test_the_end_of_the_log_is_the_message_of_a_failed_container_that_wants_it(tmp_path: Path) -> None:
    async with local_plane(tmp_path, "names") as plane:
        policy = "terminationMessagePolicy: FallbackToLogsOnError"
        await plane.apply(
            manifest("p", f"{{name: c, image: x, command: [sh, -c, 'echo what went wrong; exit 1'], {policy}}}")
        )
        ended = await plane.phase("p", "Failed")
        assert the_container(ended)["state"]["terminated"]["message"] == "what went wrong\n"


@pytest.mark.parametrize(
    ("container", "more", "reason", "message"),
    [
        ("image: nginx", "", "InvalidImageName", "images are not pulled"),
        (
            "command: [ls], securityContext: {privileged: true}",
            "",
            CONFIG_ERROR,
            "privileged is refused",
        ),
        (
            "command: [ls], securityContext: {runAsUser: 12345}",
            "",
            CONFIG_ERROR,
            "runAsUser 12345 is refused",
        ),
        ("command: [ls]", "hostNetwork: true", CONFIG_ERROR, "hostNetwork is refused"),
        ("command: [ls]", "hostPID: true", CONFIG_ERROR, "hostPID is refused"),
        (
            "command: [ls], envFrom: [{configMapRef: {name: nobody}}]",
            "",
            CONFIG_ERROR,
            'configmap "nobody" not found',
        ),
    ],
)
async def test_what_cannot_be_done_is_said_where_a_kubelet_says_it(
    tmp_path: Path, container: str, more: str, reason: str, message: str
) -> None:
    async with local_plane(tmp_path, "names") as plane:
        image = "" if "image:" in container else "image: x, "
        await plane.apply(manifest("p", f"{{name: c, {image}{container}}}", more or "restartPolicy: Never"))
        status = await plane.waiting("p", reason)
        assert message in status["state"]["waiting"]["message"]
        await plane.told("p", message)


@pytest.mark.parametrize(
    ("command", "message"), [("nosuchprogram", "not found in $PATH"), ("/etc/passwd", "permission denied")]
)
async def test_a_command_that_cannot_be_started_is_a_start_error(tmp_path: Path, command: str, message: str) -> None:
    async with local_plane(tmp_path, "names") as plane:
        await plane.apply(manifest("p", f"{{name: c, image: x, command: [{command}]}}"))
        ended = await plane.phase("p", "Failed")
        state = the_container(ended)["state"]["terminated"]
        assert (state["reason"], state["exitCode"]) == ("StartError", 128)
        assert message in state["message"]
        await plane.told("p", "Failed: Error: ", message)
        assert not any(line.startswith("Started:") for line in await plane.events("p"))


async def test_a_start_is_told_when_the_container_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[Callable[[], None]] = []
    send = PodSandbox.send

    def hold_starts(sandbox: PodSandbox, **command: Any) -> None:
        if command["do"] == "start":
            held.append(partial(send, sandbox, **command))
        else:
            send(sandbox, **command)

    async def is_held() -> bool:
        return bool(held)

    monkeypatch.setattr(PodSandbox, "send", hold_starts)
    async with local_plane(tmp_path, "names") as plane:
        await plane.apply(manifest("p", "{name: c, image: x, command: [sleep, '1000']}"))
        await plane.until(is_held)
        await asyncio.sleep(0.5)
        assert not any(line.startswith("Started:") for line in await plane.events("p"))
        held[0]()
        await plane.told("p", "Started: Started container c")


async def test_a_missing_config_map_volume_holds_the_pod_until_it_is_there(tmp_path: Path) -> None:
    async with local_plane(tmp_path, "names") as plane:
        mount = "volumeMounts: [{name: v, mountPath: /v}]"
        more = "volumes: [{name: v, configMap: {name: late}}]"
        await plane.apply(
            manifest("p", f"{{name: c, image: x, command: [cat, /v/a], {mount}}}", more + "\n  restartPolicy: Never")
        )
        await plane.waiting("p", "ContainerCreating")
        await plane.told("p", 'configmap "late" not found')
        await plane.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: late}, data: {a: found}}")
        await plane.phase("p", "Succeeded")
        assert await plane.log("p") == ["found"]


async def test_exec_runs_in_the_container_with_its_environment(tmp_path: Path) -> None:
    async with local_plane(tmp_path, "net") as plane:
        await plane.apply(manifest("p", "{name: c, image: x, command: [sleep, '1000'], env: [{name: X, value: here}]}"))
        await plane.phase("p", "Running")
        local = await plane.local("p")
        assert await execute(local, "sh", "-c", "echo $X $(hostname); exit 7") == (7, "here p\n")
        assert await execute(local, "sh", "-c", "kill -9 $$") == (137, "")
        used = local.uses()["c"]
        assert used.processes == 1
        assert used.memory_bytes > 0


TITLE = """
import ctypes, time
stat = open("/proc/self/stat").read().rpartition(")")[2].split()
begin, end = int(stat[47]), int(stat[48])
ctypes.memset(begin, 0, end - begin)
print("written over", flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("tier", TIERS)
async def test_exec_has_the_environment_though_the_container_has_a_title_of_its_own(tmp_path: Path, tier: str) -> None:
    """Which is written over what the kernel shows as its environment."""
    async with local_plane(tmp_path / "data", tier) as plane:
        (tmp_path / "title.py").write_text(TITLE)
        command = f"command: [python, {tmp_path}/title.py]"
        await plane.apply(manifest("p", f"{{name: c, image: x, {command}, env: [{{name: X, value: here}}]}}"))
        await plane.phase("p", "Running")
        await plane.until(lambda: plane.log("p"))
        local = await plane.local("p")
        shown = await asyncio.to_thread(Path(f"/proc/{local.attempt('c').pid}/environ").read_bytes)
        assert b"X=" not in shown
        assert await execute(local, "sh", "-c", "echo $X") == (0, "here\n")


async def test_what_a_container_preloads_is_not_loaded_outside_of_it(tmp_path: Path) -> None:
    """The program that enters a container runs with Echelon's rights until it is inside."""
    async with local_plane(tmp_path, "names") as plane:
        await plane.apply(
            manifest(
                "p",
                "{name: c, image: x, command: [sleep, '1000'], env: [{name: LD_PRELOAD, value: /echelon-none.so}]}",
            )
        )
        await plane.phase("p", "Running")
        code, text = await execute(await plane.local("p"), "sh", "-c", "echo $LD_PRELOAD")
        assert (code, text.count("cannot be preloaded")) == (0, 1)
        assert text.endswith("/echelon-none.so\n")


async def execute(local: LocalPod, *argv: str) -> tuple[int, str]:
    launch = local.exec_command("c", argv)
    process = await asyncio.create_subprocess_exec(
        *launch.argv, env=launch.env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, said.decode()


async def test_a_container_over_its_memory_limit_is_killed(tmp_path: Path) -> None:
    async with local_plane(tmp_path, "names") as plane:
        limit = "resources: {limits: {memory: 64Mi}}"
        grow = "command: [python, -c, 'import time; x = bytearray(200 << 20); time.sleep(1000)']"
        modest = "command: [sleep, '1000']"
        await plane.apply(manifest("small", f"{{name: c, image: x, {modest}, {limit}}}"))
        await plane.phase("small", "Running")
        await plane.apply(manifest("big", f"{{name: c, image: x, {grow}, {limit}}}"))
        ended = await plane.phase("big", "Failed")
        said = the_container(ended)["state"]["terminated"]
        assert (said["reason"], said["exitCode"]) == ("OOMKilled", 137)
        assert (await plane.pod("small"))["status"]["phase"] == "Running"


async def test_files_of_a_config_map_follow_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_worker, "REFRESH_SECONDS", 0.3)
    async with local_plane(tmp_path, "names") as plane:
        await plane.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: cm}, data: {a: old, b: x}}")
        script = "while ! grep -q new /v/a; do sleep 0.05; done; ls /v"
        mount = f"command: [sh, -c, '{script}'], volumeMounts: [{{name: v, mountPath: /v}}]"
        more = "restartPolicy: Never\n  volumes: [{name: v, configMap: {name: cm}}]"
        await plane.apply(manifest("p", f"{{name: c, image: x, {mount}}}", more))
        await plane.phase("p", "Running")
        patch = Patch(PatchType.MERGE, {"data": {"a": "new", "b": None}})
        await plane.verbs.patch(CONFIG_MAPS, "cm", patch, "default")
        await plane.phase("p", "Succeeded")
        assert await plane.log("p") == ["a"]


@pytest.mark.parametrize("tier", ["net", "names"])
async def test_a_pod_sees_neither_keys_nor_secrets_nor_files_of_others(tmp_path: Path, tier: str) -> None:
    async with local_plane(tmp_path, tier) as plane:
        script = f"ls -A {tmp_path} {tmp_path}/pods {tmp_path}/claims 2>/dev/null; cat /v/own"
        mount = f"command: [sh, -c, '{script}'], volumeMounts: [{{name: v, mountPath: /v}}]"
        init = "{name: i, image: x, command: [sh, -c, 'echo mine > /v/own'], volumeMounts: [{name: v, mountPath: /v}]}"
        more = "restartPolicy: Never\n  volumes: [{name: v, emptyDir: {}}]"
        await plane.apply(manifest("p", f"{{name: c, image: x, {mount}}}", more, init))
        await plane.phase("p", "Succeeded", "Failed")
        assert [line for line in await plane.log("p") if line != f"{tmp_path}:"] == ["mine"]


async def test_containers_have_a_directory_and_packages_of_their_own(tmp_path: Path) -> None:
    """What they write without saying where, and what they install, never meets the user's files or Echelon's."""
    async with local_plane(tmp_path, "names", default_directory="") as plane:
        await plane.apply(
            """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  restartPolicy: Never
  containers:
  - name: c
    image: x
    command: [sh, -c, 'ls -A | wc -l; pwd; echo $PIP_TARGET; python -c "import sys; print(sys.path[1])"; touch made']
"""
        )
        await plane.phase("p", "Succeeded")
        files, where, target, path = await plane.log("p")
        assert files == "0"
        assert where == "/pod/work"
        assert target == path == "/pod/packages"
        assert ((await plane.local("p")).directory.own("c") / "work" / "made").exists()
