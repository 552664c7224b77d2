"""A whole plane whose only node is this machine: pods really run, in real time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from echelon.agents.process.local_pods import LocalPod
from echelon.agents.process.machine import Tier
from echelon.agents.process.process_nodes import ProcessSettings
from echelon.agents.process.serving.log_pieces import opened_pieces
from echelon.api.cluster.pools import Cluster, this_machine
from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.scheme import EVENTS, PODS, Object, Resource, by_kind
from echelon.api.verbs import DeleteOptions
from echelon.runtime.config import PlaneSettings
from echelon.runtime.plane import Plane, running

NODE = "here"
#: Generous: a machine that is busy takes its time, and who fails waits for it but once.
_SECONDS = 90.0


class LocalPlane:
    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.verbs = plane.verbs

    async def apply(self, text: str) -> list[Object]:
        made = []
        for document in yaml.safe_load_all(text):
            resource = by_kind(document["apiVersion"], document["kind"])
            assert resource is not None
            made.append(await self.verbs.create(resource, document, "default" if resource.namespaced else ""))
        return made

    async def pod(self, name: str) -> Object:
        return await self.verbs.get(PODS, name, "default")

    async def until(self, what: Callable[[], Awaitable[Any]], seconds: float = _SECONDS) -> Any:
        """The first true answer; fails with the last one."""
        deadline = time.monotonic() + seconds
        while True:
            found = await what()
            if found:
                return found
            assert time.monotonic() < deadline, "it did not happen in time"
            await asyncio.sleep(0.02)

    async def phase(self, name: str, *phases: str, seconds: float = _SECONDS) -> Object:
        """The pod once it is in one of these phases."""
        last: Object = {}

        async def reached() -> Object | None:
            nonlocal last
            last = await self.pod(name)
            return last if (last.get("status") or {}).get("phase") in phases else None

        try:
            found: Object = await self.until(reached, seconds)
        except AssertionError:
            raise AssertionError(f"{name} is {last.get('status')}") from None
        return found

    async def waiting(self, name: str, reason: str, seconds: float = _SECONDS) -> Object:
        """The `waiting` state of a container once it has this reason."""

        async def reached() -> Object | None:
            for one in ((await self.pod(name)).get("status") or {}).get("containerStatuses") or ():
                if (one["state"].get("waiting") or {}).get("reason") == reason:
                    return one
            return None

        found: Object = await self.until(reached, seconds)
        return found

    async def gone(self, resource: Resource, name: str, seconds: float = _SECONDS) -> None:
        async def absent() -> bool:
            try:
                await self.verbs.get(resource, name, "default")
            except ApiError as error:
                return error.code == 404
            return False

        await self.until(absent, seconds)

    async def files_gone(self, uid: str) -> None:
        """The files of a pod go right after its object."""
        assert self.plane.process_nodes is not None
        directory = self.plane.process_nodes.local_pods.directory.pod(uid).path

        async def absent() -> bool:
            return not directory.exists()

        await self.until(absent)

    async def delete(self, name: str, grace: int | None = None) -> None:
        await self.verbs.delete(PODS, name, "default", DeleteOptions(grace_period_seconds=grace))

    async def events(self, name: str) -> list[str]:
        listed = await self.verbs.list(EVENTS, "default")
        return [f"{one['reason']}: {one['message']}" for one in listed.items if one["involvedObject"]["name"] == name]

    async def told(self, name: str, *words: str) -> None:
        """Until one event about an object has all of these words: events are written after what they tell of."""

        async def said() -> bool:
            return any(all(word in line for word in words) for line in await self.events(name))

        await self.until(said)

    async def local(self, name: str) -> LocalPod:
        assert self.plane.process_nodes is not None
        found = self.plane.process_nodes.local_pods.of(meta.uid(await self.pod(name)))
        assert found is not None
        return found

    async def log(self, name: str, container: str = "c") -> list[str]:
        """The lines of a container, without times."""
        pod = await self.local(name)
        found: list[str] = []
        for piece in opened_pieces(pod.directory.log(container, pod.attempt(container).number)):
            with piece:
                # Without a line that is being written.
                lines = piece.read().decode().rpartition("\n")[0].splitlines()
                found += [line.split(" ", 3)[3] for line in lines]
        return found


def the_container(pod: Object) -> Object:
    (only,) = pod["status"]["containerStatuses"]
    found: Object = only
    return found


def processes_of(uid: str) -> list[int]:
    """Processes of this machine with the mark of a pod, and its shim."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                seen = (entry / "cmdline").read_bytes()
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                with contextlib.suppress(PermissionError):  # shims let nobody look into them
                    seen += (entry / "environ").read_bytes()
            except OSError:
                continue
            if uid.encode() in seen and state not in "ZX":
                found.append(int(entry.name))
    return found


@asynccontextmanager
async def local_plane(
    data: Path, tier: Tier | str = "auto", cluster: Cluster | None = None, **settings: Any
) -> AsyncIterator[LocalPlane]:
    """Ends all pods at the end, as `echelon up` does."""
    processes = ProcessSettings(data, tier, **settings)  # type: ignore[arg-type]
    plane = PlaneSettings(data=data, cluster=cluster or this_machine(NODE), processes=processes)
    async with running(plane) as started:
        yield LocalPlane(started)
