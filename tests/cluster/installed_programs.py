"""The programs of an installation as processes: there is no kubelet, so tests do for a Deployment what one would.

Each runs the command and the arguments that its Deployment says, under a token of its ServiceAccount, and its pods are
reported as running and ready when the program says that it is.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.scheme import CONFIG_MAPS, DEPLOYMENTS, PODS, Object
from echelon.api.verbs import ListOptions, Patch, PatchType, Verbs
from echelon.base.instants import to_time
from echelon.client.http import HttpVerbs

from .controlplane import ControlPlane
from .logins import token_of, with_token
from .shipped_roles import NAMESPACE

_STOP_SECONDS = 20.0
_POLL_SECONDS = 0.2


@dataclass
class Program:
    name: str
    process: asyncio.subprocess.Process
    #: What it has written so far.
    log: Path
    #: Whom signals go to, where that is not the process itself.
    pid: int | None = None
    #: How long it took until it was ready.
    start_seconds: float = 0.0

    def said(self) -> str:
        return self.log.read_text()


#: Starts what a Deployment says and waits until it is ready; files go into the last argument.
Start = Callable[[HttpVerbs, Object, Path, Path], Awaitable[Program]]


@asynccontextmanager
async def kubelet_for(
    verbs: HttpVerbs, plane: ControlPlane, home: Path, start: Start | None = None
) -> AsyncIterator[dict[str, Program]]:
    """Runs every Deployment of an installation that appears, while the block lasts; yields the programs by name."""
    start = start or _start
    programs: dict[str, Program] = {}

    async def follow() -> None:
        while True:
            with suppress(ApiError):
                for deployment in (await verbs.list(DEPLOYMENTS, NAMESPACE)).items:
                    if meta.name(deployment) not in programs:
                        programs[meta.name(deployment)] = await start(verbs, deployment, plane.kubeconfig, home)
                    await _report_pods(verbs, deployment)
            await asyncio.sleep(_POLL_SECONDS)

    following = asyncio.create_task(follow())
    try:
        yield programs
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        for program in programs.values():
            await _stop(program)


async def _start(verbs: HttpVerbs, deployment: Object, kubeconfig: Path, home: Path) -> Program:
    name, space = meta.name(deployment), meta.namespace(deployment)
    pod = deployment["spec"]["template"]["spec"]
    known = with_token(kubeconfig, await token_of(verbs, space, pod["serviceAccountName"]), home / f"{name}.kubeconfig")
    arguments, variables = await command_of(verbs, space, pod, home / name)
    log = home / f"{name}.log"
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "echelon", *arguments, stdout=out, stderr=out,
            env={**os.environ, **variables, "KUBECONFIG": str(known)},
        )  # fmt: skip
    program = Program(name, process, log)
    try:
        await until_ready(program)
    except BaseException:  # nobody knows of it yet, so nobody else would end it
        await _stop(program)
        raise
    return program


async def command_of(verbs: HttpVerbs, namespace: str, pod: Object, target: Path) -> tuple[list[str], dict[str, str]]:
    """What follows `echelon` in the only container of a pod, and its environment; volumes go into `target`."""
    container = pod["containers"][0]
    assert container["command"] == ["echelon"]
    variables = {"POD_IP": "127.0.0.1", **{one["name"]: one["value"] for one in container["env"] if "value" in one}}
    await _mount(verbs, namespace, pod, target)
    mounts = {one["mountPath"]: str(target / one["name"]) for one in container["volumeMounts"]}
    arguments = [expanded(_mounted(one, mounts), variables) for one in container["args"]]
    # Programs share the address of this machine, which pods do not.
    arguments[arguments.index("--metrics-port") + 1] = "0"
    return arguments, variables


async def _mount(verbs: HttpVerbs, namespace: str, pod: Object, target: Path) -> None:
    """Those volumes of a pod that are ConfigMaps, as directories."""
    for volume in pod["volumes"]:
        if "configMap" not in volume:
            continue
        content = await verbs.get(CONFIG_MAPS, volume["configMap"]["name"], namespace)
        (target / volume["name"]).mkdir(parents=True, exist_ok=True)
        for name, text in content["data"].items():
            (target / volume["name"] / name).write_text(text)


def _mounted(text: str, mounts: Mapping[str, str]) -> str:
    for path, directory in mounts.items():
        text = text.replace(path, directory)
    return text


def expanded(text: str, variables: Mapping[str, str]) -> str:
    for name, value in variables.items():
        text = text.replace(f"$({name})", value)
    return text


async def until_ready(program: Program) -> None:
    """As its readiness probe asks."""
    async with asyncio.timeout(120), aiohttp.ClientSession() as probe:
        while True:
            assert program.process.returncode is None, program.said()
            for line in program.said().splitlines():
                message = json.loads(line)["message"] if line.startswith("{") else line
                if message.startswith("serving metrics at "):
                    with suppress(aiohttp.ClientError):
                        async with probe.get(message.split()[-1].replace("/metrics", "/readyz")) as answer:
                            if answer.status == 200:
                                return
            await asyncio.sleep(_POLL_SECONDS)


async def _report_pods(verbs: Verbs, deployment: Object) -> None:
    chosen = ",".join(f"{key}={value}" for key, value in deployment["spec"]["selector"]["matchLabels"].items())
    for pod in (await verbs.list(PODS, meta.namespace(deployment), ListOptions(label_selector=chosen))).items:
        if not meta.condition_is(pod, "Ready"):
            await report_ready(verbs, pod)


async def report_ready(verbs: Verbs, pod: Object) -> None:
    """As its kubelet would."""
    now = to_time(asyncio.get_running_loop().time())
    ready: Object = {"type": "Ready", "status": "True", "lastTransitionTime": now}
    patch = Patch(PatchType.MERGE, {"status": {"phase": "Running", "conditions": [ready]}})
    await verbs.patch(PODS, meta.name(pod), patch, meta.namespace(pod), "status")


async def _stop(program: Program) -> None:
    if program.process.returncode is None:
        os.kill(program.pid or program.process.pid, signal.SIGTERM)
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await program.process.wait()
        except TimeoutError:
            program.process.kill()
            await program.process.wait()
