"""Two replicas of which one leads: whatever happens to the leader, gangs stay whole and nobody else writes.

The audit log of the server is the witness.  Each round disturbs the leader while gangs are being bound.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.objects.builtin_runtimes import builtin_runtimes
from echelon.api.scheme import (
    CLUSTER_TRAINING_RUNTIMES,
    JOB_SETS,
    JOBS,
    NODES,
    PODS,
    TRAIN_JOBS,
    Object,
)
from echelon.client.http import HttpVerbs
from echelon.testing.builders import make_node

from .audit import AuditLog
from .controlplane import ControlPlane
from .gang_load import GangLoad
from .installing import run
from .job_objects import jobset, train_job
from .leadership import Leadership
from .logins import client_of
from .own_planes import own_plane
from .replicas import Kubelets, Replica, kubelets_for
from .shipped_roles import NAMESPACE
from .waiting import eventually
from .work_places import namespace_with_account

WORK = "work"
SYSTEM_NODE = "system"
NODE_COUNT, CPUS = 24, 64
GANGS, SIZE = 5, 128
#: How many JobSets and how many TrainJobs.
OWNERS = 20
#: No gang may be bound in part for longer.
HALF_BOUND_SECONDS = 20.0
#: How often another one may lead before the one that is waited for.
_TRIES_TO_LEAD = 5


@pytest.fixture(scope="module")
def audited_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with own_plane(tmp_path_factory, "audited") as plane:
        yield plane


@dataclass
class Stage:
    """An installation with two schedulers, and gangs for them."""

    plane: ControlPlane
    verbs: HttpVerbs
    kubelets: Kubelets
    load: GangLoad
    log: AuditLog
    seen: Leadership
    rounds: Iterator[int] = field(default_factory=itertools.count)
    #: How long a gang was bound in part at most, by what was done.
    half_bound: dict[str, list[float]] = field(default_factory=dict)

    async def round(self, what: str) -> None:
        """Submit gangs, disturb the leader while they are bound, wait for all of them, look at the log."""
        number = next(self.rounds)
        ready = await self.kubelets.complete("scheduler")
        leader = next(one for one in ready if one.leads)
        await self.load.submit(f"r{number}", GANGS, SIZE)
        # In the middle of a gang, and each time at another place.
        await self.load.bound(1 + number * 37 % ((GANGS - 1) * SIZE))
        await DISTURBANCES[what](self, leader)
        await self.load.all_bound()
        await self.kubelets.complete("scheduler")
        self.replay()
        longest = self.seen.longest_half_bound()
        self.half_bound.setdefault(what, []).append(longest)
        assert longest <= HALF_BOUND_SECONDS, f"round {number}, {what}: a gang was bound in part for {longest:.1f} s"
        await self.load.clear()

    def replay(self) -> None:
        owners = self.kubelets.by_credential()
        self.seen.replay(self.log.more(), owners, lambda pod: pod.rpartition("-")[0])
        assert not self.seen.problems, "\n".join(self.seen.problems)

    def summary(self) -> str:
        rows = [
            f"{what}: {len(spans)} rounds, in {sum(span > 1 for span in spans)} of them in the middle of a gang, "
            f"which was bound in part for {max(spans):.1f} s at most"
            for what, spans in self.half_bound.items()
        ]
        total = f"{self.seen.transitions} changes of the lease, {self.seen.bound.total()} bindings"
        return "\n".join([*rows, f"{total}, {self.seen.writes} writes"])


async def kill(stage: Stage, leader: Replica) -> None:
    leader.send(signal.SIGKILL)
    await leader.program.process.wait()


async def delete_pod(stage: Stage, leader: Replica) -> None:
    await stage.verbs.delete(PODS, meta.name(leader.pod), NAMESPACE)
    await leader.program.process.wait()
    assert leader.program.process.returncode == 0, leader.program.said()


async def rotate_token(stage: Stage, leader: Replica) -> None:
    await stage.kubelets.rotate(leader)
    await stage.load.all_bound()
    assert leader.leads, "a new token is nothing to notice"
    assert len(leader.credentials) > 1


async def pause(stage: Stage, leader: Replica) -> None:
    """Until its lease has expired and another leads."""
    leader.send(signal.SIGSTOP)
    await stage.kubelets.leader(leader.part, but=leader)
    leader.send(signal.SIGCONT)
    async with asyncio.timeout(60):
        assert await leader.program.process.wait() == 1
    assert "could not be renewed in time" in leader.program.said()


async def skew(stage: Stage, leader: Replica) -> None:
    """The other one comes back with a wrong clock, and leads when the first is gone."""
    (other,) = [one for one in stage.kubelets.running("scheduler") if one is not leader]
    stage.kubelets.skew = 30.0 if leader.number % 2 else -30.0
    try:
        await kill(stage, other)
        (skewed,) = [one for one in await stage.kubelets.complete("scheduler") if one is not leader]
    finally:
        stage.kubelets.skew = 0.0
    await stage.load.submit(f"skewed-{leader.number}", GANGS // 2, SIZE)
    await kill(stage, leader)
    for _ in range(_TRIES_TO_LEAD):
        if (leads := await stage.kubelets.leader("scheduler")) is skewed:
            return
        await kill(stage, leads)  # who came back in the place of the first may be as early as the other
    raise AssertionError("the one with the wrong clock never led")


async def upgrade(stage: Stage, leader: Replica) -> None:
    """Every pod is replaced, one at a time, by one of another image."""
    before = set(stage.kubelets.running("scheduler"))
    image = f"echelon:{leader.number}"
    code, said = await run(stage.plane, "install", "--only", "scheduler", "--image", image)
    assert code == 0, said
    await eventually(lambda: _none_of(stage, before))


async def _none_of(stage: Stage, before: set[Replica]) -> bool:
    return not before & set(stage.kubelets.running("scheduler")) and len(stage.kubelets.running("scheduler")) == 2


DISTURBANCES: dict[str, Callable[[Stage, Replica], Awaitable[None]]] = {
    "kill -9": kill,
    "pod deleted": delete_pod,
    "token rotated": rotate_token,
    "paused": pause,
    "clock skewed": skew,
    "upgraded": upgrade,
}


@pytest.fixture
async def stage(audited_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Stage]:
    async with client_of(audited_plane.kubeconfig) as verbs:
        load = GangLoad(verbs, WORK)
        following = asyncio.create_task(load.follow())
        try:
            await _prepare(verbs)
            code, said = await run(audited_plane, "install", "--only", "scheduler", "--no-wait")
            assert code == 0, said
            async with kubelets_for(verbs, audited_plane, tmp_path, SYSTEM_NODE) as kubelets:
                log = AuditLog(audited_plane.audit_log)
                log.more()
                await kubelets.complete("scheduler")
                yield Stage(audited_plane, verbs, kubelets, load, log, Leadership("echelon-scheduler"))
                await _uninstall(audited_plane)
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


async def _uninstall(plane: ControlPlane, *options: str) -> None:
    """While there are kubelets: without them its pods would never be gone."""
    code, said = await run(plane, "uninstall", *options, "--timeout", "60")
    assert code == 0, said


async def _prepare(verbs: HttpVerbs, space: str = WORK) -> None:
    with suppress(ApiError):
        await namespace_with_account(verbs, space)
    with suppress(ApiError):
        taint = {"key": "system", "effect": "NoSchedule"}
        await verbs.create(NODES, make_node(SYSTEM_NODE, cpu=CPUS, taints=[taint]))
    for number in range(NODE_COUNT):
        with suppress(ApiError):
            await verbs.create(NODES, make_node(f"node-{number}", cpu=CPUS))


@pytest.mark.cluster
@pytest.mark.timeout(900)
async def test_gangs_stay_whole_whatever_happens_to_the_leader(stage: Stage) -> None:
    for what in DISTURBANCES:
        await stage.round(what)
    print(stage.summary())


@pytest.mark.cluster
@pytest.mark.timeout(900)
@pytest.mark.parametrize("what", ["kill -9", "paused", "pod deleted"])
async def test_no_child_is_made_twice_when_controllers_change(
    audited_plane: ControlPlane, tmp_path: Path, what: str
) -> None:
    """JobSets and TrainJobs whose children are being made while the leader of the controllers goes."""
    space = f"controlled-{what.split()[0]}"
    async with client_of(audited_plane.kubeconfig) as verbs:
        await _prepare(verbs, space)
        code, said = await run(audited_plane, "install", "--only", "controllers", "--no-wait")
        assert code == 0, said
        with suppress(ApiError):
            await verbs.create(CLUSTER_TRAINING_RUNTIMES, _runtime())
        async with kubelets_for(verbs, audited_plane, tmp_path, SYSTEM_NODE) as kubelets:
            try:
                await _children_are_made_while_the_leader_goes(audited_plane, verbs, kubelets, space, what)
            finally:
                await _uninstall(audited_plane, "--purge-crds")


async def _children_are_made_while_the_leader_goes(
    plane: ControlPlane, verbs: HttpVerbs, kubelets: Kubelets, space: str, what: str
) -> None:
    log, seen = AuditLog(plane.audit_log), Leadership("echelon-controllers")
    log.more()
    ready = await kubelets.complete("controllers")
    load = Stage(plane, verbs, kubelets, GangLoad(verbs, space), log, seen)
    leader = next(one for one in ready if one.leads)
    makers = [verbs.create(JOB_SETS, jobset(f"js-{number}"), space) for number in range(OWNERS)]
    makers += [verbs.create(TRAIN_JOBS, train_job(f"tj-{number}", "plain-cpu"), space) for number in range(OWNERS)]
    await asyncio.gather(*makers)

    async def some_jobs() -> bool:
        return len((await verbs.list(JOBS, space)).items) >= OWNERS // 4

    await eventually(some_jobs)
    await DISTURBANCES[what](load, leader)
    await eventually(lambda: _children(verbs, space), {"Job": 3 * OWNERS, "JobSet": 2 * OWNERS})
    await kubelets.complete("controllers")
    asked = log.more()
    seen.replay(asked, kubelets.by_credential())
    assert not seen.problems, "\n".join(seen.problems)
    assert seen.transitions >= 2
    assert [one for one in asked if one.verb == "delete"] == []
    assert await _owned_twice(verbs, space) == []


async def _children(verbs: HttpVerbs, space: str) -> dict[str, int]:
    return {kind.kind: len((await verbs.list(kind, space)).items) for kind in (JOBS, JOB_SETS)}


async def _owned_twice(verbs: HttpVerbs, space: str) -> list[str]:
    """Owners with two children that stand for the same thing."""
    keys = Counter(
        (owner["uid"], meta.labels(job)["jobset.sigs.k8s.io/job-global-index"])
        for job in (await verbs.list(JOBS, space)).items
        if (owner := meta.controller_of(job)) is not None
    )
    return [str(key) for key, count in keys.items() if count > 1]


def _runtime() -> Object:
    return next(one for one in builtin_runtimes() if meta.name(one) == "plain-cpu")


@pytest.mark.cluster_long
@pytest.mark.timeout(7200)
async def test_fifty_rounds_and_ten_upgrades(stage: Stage) -> None:
    begin = time.monotonic()
    for what in itertools.islice(itertools.cycle(DISTURBANCES), 60):
        await stage.round(what)
    print(f"{time.monotonic() - begin:.0f} s\n{stage.summary()}")
