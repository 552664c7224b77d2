"""Every pod of the installed Deployments as a process: what kubelets do, with all replicas.

A pod's process runs the command of its Deployment with a token file of its own, is started again when it ends, gets
SIGTERM when the pod is deleted, and makes the pod ready when its probe says so.  Tokens end with a Secret, so that they
can be revoked; the audit log names the token of every request, and so the process.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.scheme import PODS, SECRETS, Object
from echelon.api.verbs import DeleteOptions, ListOptions
from echelon.client.http import HttpVerbs

from .controlplane import ControlPlane
from .installed_programs import Program, command_of, report_ready, until_ready
from .logins import token_of, with_user
from .shipped_roles import NAMESPACE

_POLL_SECONDS = 0.2
_GRACE_SECONDS = 20.0
_RESTART_SECONDS = 1.0
_NAMED = "app.kubernetes.io/component"


@dataclass(eq=False)
class Replica:
    """One process of one pod; a process that is started again is another replica."""

    number: int
    pod: Object
    program: Program
    token: Path
    #: Ids of all tokens that it has had.
    credentials: set[str] = field(default_factory=set)
    secrets: list[str] = field(default_factory=list)
    stopping: bool = False

    @property
    def part(self) -> str:
        return meta.labels(self.pod)[_NAMED]

    @property
    def running(self) -> bool:
        return self.program.process.returncode is None

    @property
    def leads(self) -> bool:
        """Whether it said so; one that no longer leads ends."""
        return self.running and "is ready at" in self.program.said()

    def send(self, number: signal.Signals) -> None:
        self.program.process.send_signal(number)

    def __str__(self) -> str:
        return f"replica {self.number} of {self.part}"


class Kubelets:
    """All pods of an installation."""

    def __init__(self, verbs: HttpVerbs, plane: ControlPlane, home: Path, node: str) -> None:
        self._verbs = verbs
        self._node = node
        self._plane = plane
        self._home = home
        self._numbers = itertools.count(1)
        #: All replicas there have ever been, the newest last.
        self.replicas: list[Replica] = []
        #: Seconds by which the clocks of processes that are started from now on are wrong.
        self.skew = 0.0
        #: Tasks of single pods, by uid.
        self._busy: dict[str, asyncio.Task[None]] = {}

    def running(self, part: str) -> list[Replica]:
        """The processes of a part that run."""
        return [one for one in self.replicas if one.part == part and one.running and not one.stopping]

    async def leader(self, part: str, but: Replica | None = None) -> Replica:
        """Wait until another than this one leads."""
        async with asyncio.timeout(120):
            while True:
                for one in self.running(part):
                    if one.leads and one is not but:
                        return one
                await asyncio.sleep(_POLL_SECONDS)

    async def complete(self, part: str, count: int = 2) -> list[Replica]:
        """Wait until so many processes are ready; one of them leads, the others wait for the lease."""
        async with asyncio.timeout(180):
            while True:
                ready = [one for one in self.running(part) if "waiting for lease" in one.program.said()]
                if len(ready) == count and any(one.leads for one in ready):
                    return ready
                await asyncio.sleep(_POLL_SECONDS)

    def by_credential(self) -> dict[str, Replica]:
        return {credential: one for one in self.replicas for credential in one.credentials}

    # -- tokens ------------------------------------------------------------------------------------------

    async def rotate(self, replica: Replica) -> None:
        """Give it a new token, then end the old one."""
        old = list(replica.secrets)
        await self._issue(replica)
        for name in old:
            await self._verbs.delete(SECRETS, name, NAMESPACE)
            replica.secrets.remove(name)

    async def _issue(self, replica: Replica) -> None:
        secret = await self._verbs.create(SECRETS, {"metadata": {"generateName": "token-"}}, NAMESPACE)
        account = replica.pod["spec"]["serviceAccountName"]
        token = await token_of(self._verbs, NAMESPACE, account, ends_with=secret)
        replica.secrets.append(meta.name(secret))
        replica.credentials.add(f"JTI={_claims(token)['jti']}")
        # As the kubelet does it: the file is replaced as a whole.
        fresh = replica.token.with_suffix(".new")
        fresh.write_text(token)
        fresh.rename(replica.token)

    # -- pods --------------------------------------------------------------------------------------------

    async def follow(self) -> None:
        while True:
            with suppress(ApiError):
                pods = (await self._verbs.list(PODS, NAMESPACE, ListOptions(label_selector=_NAMED))).items
                for pod in pods:
                    self._see(pod)
                left = {meta.uid(pod) for pod in pods}
                for replica in self.replicas:
                    if replica.running and not replica.stopping and meta.uid(replica.pod) not in left:
                        replica.send(signal.SIGKILL)  # its pod was deleted by force
            await asyncio.sleep(_POLL_SECONDS)

    def _see(self, pod: Object) -> None:
        uid = meta.uid(pod)
        if uid in self._busy and not self._busy[uid].done():
            return
        mine = [one for one in self.replicas if meta.uid(one.pod) == uid and one.running]
        if meta.deleting(pod):
            self._busy[uid] = asyncio.create_task(self._end(pod, mine))
        elif not mine:
            self._busy[uid] = asyncio.create_task(self._begin(pod))

    async def _begin(self, pod: Object) -> None:
        if not pod["spec"].get("nodeName"):
            # A pod without a node would be gone as soon as it is deleted.
            await self._verbs.bind(NAMESPACE, meta.name(pod), self._node)
        number = next(self._numbers)
        replica = Replica(number, pod, None, self._home / f"token-{number}")  # type: ignore[arg-type]
        await self._issue(replica)
        replica.program = await self._start(replica)
        self.replicas.append(replica)
        try:
            await until_ready(replica.program)
            with suppress(ApiError):
                await report_ready(self._verbs, pod)
        except AssertionError:  # it has ended: the next look starts another
            await asyncio.sleep(_RESTART_SECONDS)

    async def _start(self, replica: Replica) -> Program:
        volumes = self._home / f"volumes-{replica.number}"
        arguments, variables = await command_of(self._verbs, NAMESPACE, replica.pod["spec"], volumes)
        command = ["-m", "tests.cluster.skewed_program", str(self.skew)] if self.skew else ["-m", "echelon"]
        name = f"{replica.part}-{replica.number}"
        log = self._home / f"{name}.log"
        with log.open("wb") as out:
            process = await asyncio.create_subprocess_exec(
                sys.executable, *command, *arguments, stdout=out, stderr=out, cwd=Path(__file__).parents[2],
                env={**os.environ, **variables, "KUBECONFIG": str(self._config(replica))},
            )  # fmt: skip
        return Program(name, process, log)

    def _config(self, replica: Replica) -> Path:
        user = {"tokenFile": str(replica.token)}
        return with_user(self._plane.kubeconfig, user, replica.token.with_suffix(".kubeconfig"))

    async def _end(self, pod: Object, mine: list[Replica]) -> None:
        for replica in mine:
            await self.stop(replica)
        with suppress(ApiError):
            options = DeleteOptions(grace_period_seconds=0, uid=meta.uid(pod))
            await self._verbs.delete(PODS, meta.name(pod), NAMESPACE, options)

    async def stop(self, replica: Replica) -> None:
        """SIGTERM, and SIGKILL when its grace is over."""
        replica.stopping = True
        with suppress(ProcessLookupError):
            replica.send(signal.SIGCONT)
            replica.send(signal.SIGTERM)
            try:
                async with asyncio.timeout(_GRACE_SECONDS):
                    await replica.program.process.wait()
            except TimeoutError:
                replica.send(signal.SIGKILL)
                await replica.program.process.wait()

    async def end_all(self) -> None:
        for task in self._busy.values():
            task.cancel()
        await asyncio.gather(*self._busy.values(), return_exceptions=True)
        await asyncio.gather(*(self.stop(one) for one in self.replicas if one.running))


@asynccontextmanager
async def kubelets_for(verbs: HttpVerbs, plane: ControlPlane, home: Path, node: str) -> AsyncIterator[Kubelets]:
    """Runs every pod of the installed Deployments on that node, while the block lasts."""
    kubelets = Kubelets(verbs, plane, home, node)
    following = asyncio.create_task(kubelets.follow())
    try:
        yield kubelets
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await kubelets.end_all()


def _claims(token: str) -> dict[str, Any]:
    text = token.split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    return claims
