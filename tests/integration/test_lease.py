"""Who leads: leases through the embedded server, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from echelon.api.errors import ApiError
from echelon.api.scheme import LEASES, Object
from echelon.base.rng import Rng
from echelon.client.lease import Lease, LeaseLost, LeaseTiming, NotLeading
from echelon.runtime import virtual_time
from echelon.runtime.clocks import LoopClock
from echelon.server.objects.object_cache import header_of
from echelon.server.pipeline import Pipeline
from echelon.store.memory import open_memory

TERMS = LeaseTiming(duration=15, renew_deadline=10, retry=2)


class Stage:
    """An API, and processes that want to lead; each sees the API through its own line, which can be cut."""

    def __init__(self) -> None:
        self.clock = LoopClock()
        self.api = Pipeline(open_memory(header_of), self.clock, Rng(1))
        self.silent: set[str] = set()

    def contender(self, name: str) -> Lease:
        return Lease(_Line(self, name), self.clock, "kube-system", "leader", name, TERMS)  # type: ignore[arg-type]

    async def spec(self) -> Object:
        spec: Object = (await self.api.get(LEASES, "leader", "kube-system"))["spec"]
        return spec


class _Line:
    def __init__(self, stage: Stage, name: str) -> None:
        self._stage = stage
        self._name = name

    def __getattr__(self, verb: str) -> Any:
        async def call(*args: Any, **options: Any) -> Any:
            if self._name in self._stage.silent:
                await asyncio.get_running_loop().create_future()  # no answer, ever
            return await getattr(self._stage.api, verb)(*args, **options)

        return call


def in_virtual_time(test: Callable[[Stage], Awaitable[None]]) -> Callable[[], None]:
    async def body() -> None:
        stage = Stage()
        await stage.api.bootstrap()
        await test(stage)

    def runner() -> None:
        virtual_time.run(body())

    runner.__name__ = getattr(test, "__name__", "test")
    return runner


async def end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def seconds_until(clock: LoopClock, work: Coroutine[Any, Any, None]) -> float:
    begin = clock.now()
    await work
    return clock.now() - begin


async def leader_and_next(stage: Stage) -> tuple[asyncio.Task[None], asyncio.Task[None]]:
    """a leads and renews, b waits to lead."""
    first, second = stage.contender("a"), stage.contender("b")
    await first.acquire()
    return asyncio.create_task(first.hold()), asyncio.create_task(second.acquire())


@in_virtual_time
async def test_first_contender_leads_at_once_and_says_so(stage: Stage) -> None:
    assert await seconds_until(stage.clock, stage.contender("a").acquire()) == 0
    spec = await stage.spec()
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("a", 15, 0)
    assert spec["renewTime"] == spec["acquireTime"]


@in_virtual_time
async def test_leader_that_renews_is_never_replaced(stage: Stage) -> None:
    holding, waiting = await leader_and_next(stage)
    await stage.clock.sleep(300)
    assert not waiting.done()
    assert (await stage.spec())["holderIdentity"] == "a"
    await end(waiting)
    await end(holding)


@in_virtual_time
async def test_crashed_leader_is_replaced_when_its_lease_has_run_out(stage: Stage) -> None:
    holding, waiting = await leader_and_next(stage)
    await stage.clock.sleep(30)
    await end(holding)  # as a crash would: nothing is released
    assert TERMS.duration - TERMS.retry <= await seconds_until(stage.clock, _finish(waiting)) <= TERMS.duration + 4
    spec = await stage.spec()
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("b", 1)


async def _finish(task: asyncio.Task[None]) -> None:
    await task


@in_virtual_time
async def test_a_lease_that_can_never_be_had_is_refused_at_once(stage: Stage) -> None:
    with pytest.raises(ApiError, match="No_Name"):
        await Lease(stage.api, stage.clock, "kube-system", "No_Name", "a", TERMS).acquire()
    with pytest.raises(ApiError, match="nowhere"):
        await Lease(stage.api, stage.clock, "nowhere", "leader", "a", TERMS).acquire()


@in_virtual_time
async def test_released_lease_is_taken_at_the_next_look(stage: Stage) -> None:
    first, second = stage.contender("a"), stage.contender("b")
    await first.acquire()
    waiting = asyncio.create_task(second.acquire())
    await stage.clock.sleep(5)
    await first.release()
    assert await seconds_until(stage.clock, _finish(waiting)) <= TERMS.retry
    assert (await stage.spec())["holderIdentity"] == "b"


@in_virtual_time
async def test_leader_without_an_answer_stops_before_another_can_lead(stage: Stage) -> None:
    holding, waiting = await leader_and_next(stage)
    await stage.clock.sleep(5)
    stage.silent.add("a")
    with pytest.raises(LeaseLost, match="could not be renewed in time"):
        await holding
    assert not waiting.done()
    await waiting
    assert (await stage.spec())["holderIdentity"] == "b"


@in_virtual_time
async def test_leader_that_was_replaced_behind_its_back_learns_of_it(stage: Stage) -> None:
    first = stage.contender("a")
    await first.acquire()
    lease = await stage.api.get(LEASES, "leader", "kube-system")
    taken = {**lease, "spec": {**lease["spec"], "holderIdentity": "b"}}
    await stage.api.update(LEASES, taken, "kube-system")
    with pytest.raises(LeaseLost, match="taken over by b"):
        await first.hold()
    await first.release()
    assert (await stage.spec())["holderIdentity"] == "b"


@in_virtual_time
async def test_of_contenders_for_a_free_lease_one_wins(stage: Stage) -> None:
    contenders = [stage.contender(name) for name in "abcde"]
    tasks = [asyncio.create_task(one.acquire()) for one in contenders]
    await stage.clock.sleep(1)
    assert [task.done() for task in tasks].count(True) == 1
    winner = next(one for one, task in zip(contenders, tasks, strict=True) if task.done())
    assert (await stage.spec())["holderIdentity"] == winner.identity
    for task in tasks:
        await end(task)


@in_virtual_time
async def test_same_identity_resumes_its_own_lease_after_a_restart(stage: Stage) -> None:
    await stage.contender("a").acquire()
    await stage.clock.sleep(3)
    assert await seconds_until(stage.clock, stage.contender("a").acquire()) == 0
    assert (await stage.spec())["leaseTransitions"] == 0


@in_virtual_time
async def test_deleted_lease_is_made_again_by_its_holder(stage: Stage) -> None:
    leader = stage.contender("a")
    await leader.acquire()
    holding = asyncio.create_task(leader.hold())
    await stage.api.delete(LEASES, "leader", "kube-system")
    with pytest.raises(ApiError):
        await stage.spec()
    await stage.clock.sleep(3)
    assert (await stage.spec())["holderIdentity"] == "a"
    await end(holding)


@pytest.mark.parametrize("terms", [(10, 10, 2), (15, 2, 2), (15, 10, 0)])
def test_terms_that_could_let_two_lead_are_refused(terms: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="duration > renew_deadline > retry > 0"):
        LeaseTiming(*terms)


@in_virtual_time
async def test_writes_are_permitted_while_the_lease_is_held_and_not_a_moment_longer(stage: Stage) -> None:
    first = stage.contender("a")
    with pytest.raises(NotLeading):
        first.check()
    await first.acquire()
    holding = asyncio.create_task(first.hold())
    await stage.clock.sleep(TERMS.renew_deadline * 3)
    first.check()
    await end(holding)  # as in a process that is paused: nothing renews, and nothing notices
    await stage.clock.sleep(TERMS.renew_deadline - TERMS.retry - 0.5)
    first.check()
    await stage.clock.sleep(TERMS.retry + 0.6)
    with pytest.raises(NotLeading, match="could not be renewed in time"):
        first.check()


@in_virtual_time
async def test_no_write_is_permitted_once_the_lease_is_given_up_or_taken_over(stage: Stage) -> None:
    first = stage.contender("a")
    await first.acquire()
    await first.release()
    with pytest.raises(NotLeading):
        first.check()
    second = stage.contender("b")
    await second.acquire()
    lease = await stage.api.get(LEASES, "leader", "kube-system")
    lease["spec"] = {**lease["spec"], "holderIdentity": "somebody"}
    await stage.api.update(LEASES, lease, "kube-system")
    with pytest.raises(LeaseLost, match="taken over by somebody"):
        await second.hold()
    with pytest.raises(NotLeading):
        second.check()


@in_virtual_time
async def test_a_lease_is_taken_as_soon_as_it_has_expired(stage: Stage) -> None:
    holding, waiting = await leader_and_next(stage)
    await stage.clock.sleep(30.5)
    await end(holding)
    # Renewed at 30, seen by the other at most a retry later, and not looked at again later than it expires.
    assert await seconds_until(stage.clock, _finish(waiting)) <= TERMS.duration + TERMS.retry - 0.5


@in_virtual_time
async def test_a_lease_is_released_though_a_renewal_arrived_of_which_nothing_was_heard(stage: Stage) -> None:
    first = stage.contender("a")
    await first.acquire()
    lease = await stage.api.get(LEASES, "leader", "kube-system")
    await stage.clock.sleep(1)
    lease["spec"] = {**lease["spec"], "renewTime": "2027-01-15T08:00:01.000000Z"}
    await stage.api.update(LEASES, lease, "kube-system")
    await first.release()
    assert (await stage.spec())["holderIdentity"] == ""


@in_virtual_time
async def test_who_waits_for_the_lease_can_be_interrupted_at_any_moment(stage: Stage) -> None:
    await stage.contender("first").acquire()
    for moment in range(40):
        waiting = asyncio.create_task(stage.contender("second").acquire())
        for _ in range(moment):
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait((waiting,), timeout=1.0)
        assert waiting.cancelled(), f"interrupted after {moment} steps"
