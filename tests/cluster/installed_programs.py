"""The programs of an installation as processes: there is no kubelet, so tests do for a Deployment what one would.

Each runs the command and the arguments that its Deployment says, under a token of its ServiceAccount, and its pods are
reported as running and ready when the program says that it is.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.scheme import DEPLOYMENTS, PODS, Object
from echelon.api.verbs import ListOptions, Patch, PatchType, Verbs
from echelon.base.instants import to_time
from echelon.client.http import HttpVerbs

_STOP_SECONDS = 20.0
_POLL_SECONDS = 0.2


@dataclass
class Program:
    name: str
    process: asyncio.subprocess.Process
    #: What it has written so far.
    log: Path

    def said(self) -> str:
        return self.log.read_text()


async def token_of(verbs: HttpVerbs, namespace: str, account: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    answer = await verbs._call("POST", path, body)
    return str(answer["status"]["token"])


def with_token(kubeconfig: Path, token: str, target: Path) -> Path:
    """A copy of a kubeconfig with this token in place of its user's."""
    content = yaml.safe_load(kubeconfig.read_text())
    content["users"][0]["user"] = {"token": token}
    target.write_text(yaml.safe_dump(content))
    return target


@asynccontextmanager
async def kubelet_for(
    verbs: HttpVerbs, kubeconfig: Path, namespace: str, home: Path
) -> AsyncIterator[dict[str, Program]]:
    """Runs every Deployment that appears in a namespace, while the block lasts; yields the programs by name."""
    programs: dict[str, Program] = {}

    async def follow() -> None:
        while True:
            with suppress(ApiError):
                for deployment in (await verbs.list(DEPLOYMENTS, namespace)).items:
                    if meta.name(deployment) not in programs:
                        programs[meta.name(deployment)] = await _start(verbs, deployment, kubeconfig, home)
                    await _report_pods(verbs, deployment)
            await asyncio.sleep(_POLL_SECONDS)

    following = asyncio.create_task(follow())
    try:
        yield programs
    finally:
        following.cancel()
        for program in programs.values():
            await _stop(program)


async def _start(verbs: HttpVerbs, deployment: Object, kubeconfig: Path, home: Path) -> Program:
    name, space = meta.name(deployment), meta.namespace(deployment)
    pod = deployment["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert container["command"] == ["echelon"]
    known = with_token(kubeconfig, await token_of(verbs, space, pod["serviceAccountName"]), home / f"{name}.kubeconfig")
    variables = {"POD_IP": "127.0.0.1", **{one["name"]: one["value"] for one in container["env"] if "value" in one}}
    arguments = [_expanded(one, variables) for one in container["args"]]
    # Two programs share the address of this machine, which pods do not.
    arguments[arguments.index("--metrics-port") + 1] = "0"
    log = home / f"{name}.log"
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "echelon", *arguments, stdout=out, stderr=out,
            env={**os.environ, **variables, "KUBECONFIG": str(known)},
        )  # fmt: skip
    program = Program(name, process, log)
    await _until_ready(program)
    return program


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    for name, value in variables.items():
        text = text.replace(f"$({name})", value)
    return text


async def _until_ready(program: Program) -> None:
    """As its readiness probe asks."""
    async with asyncio.timeout(120), aiohttp.ClientSession() as probe:
        while True:
            assert program.process.returncode is None, program.said()
            for line in program.said().splitlines():
                if line.startswith("serving metrics at "):
                    with suppress(aiohttp.ClientError):
                        async with probe.get(line.split()[-1].replace("/metrics", "/readyz")) as answer:
                            if answer.status == 200:
                                return
            await asyncio.sleep(_POLL_SECONDS)


async def _report_pods(verbs: Verbs, deployment: Object) -> None:
    chosen = ",".join(f"{key}={value}" for key, value in deployment["spec"]["selector"]["matchLabels"].items())
    for pod in (await verbs.list(PODS, meta.namespace(deployment), ListOptions(label_selector=chosen))).items:
        if not meta.condition_is(pod, "Ready"):
            now = to_time(asyncio.get_running_loop().time())
            ready: dict[str, Any] = {"type": "Ready", "status": "True", "lastTransitionTime": now}
            status = {"phase": "Running", "conditions": [ready]}
            patch = Patch(PatchType.MERGE, {"status": status})
            await verbs.patch(PODS, meta.name(pod), patch, meta.namespace(pod), "status")


async def _stop(program: Program) -> None:
    if program.process.returncode is None:
        program.process.terminate()
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await program.process.wait()
        except TimeoutError:
            program.process.kill()
            await program.process.wait()
