"""An API server that says no for a moment: what was to be written is written in the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from echelon.api.errors import ApiError
from echelon.api.scheme import POD_GROUPS, PODS, Resource
from echelon.api.verbs import Verbs
from echelon.testing.builders import make_node, make_pod, make_pod_group
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time


class Refusing:
    """Raises an error on the first calls of one verb on one resource."""

    def __init__(self, verbs: Verbs, verb: str, resource: Resource, error: Callable[[], Exception]) -> None:
        self._verbs = verbs
        self._verb = verb
        self._resource = resource
        self._error = error
        self.left = 2

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._verbs, name)
        if name != self._verb:
            return call

        async def refuse(resource: Resource, *args: Any, **options: Any) -> Any:
            if resource is self._resource and self.left:
                self.left -= 1
                raise self._error()
            return await call(resource, *args, **options)

        return refuse


def conflict() -> Exception:
    return ApiError(409, "Conflict", "the object has been modified")


def busy() -> Exception:
    return ApiError(429, "TooManyRequests", "try again later")


@pytest.mark.parametrize("error", [conflict, busy, TimeoutError])
@pytest.mark.parametrize("verb", ["patch", "delete"])
@in_virtual_time
async def test_an_eviction_is_tried_until_the_victim_is_gone(
    world: SchedulerPlane, verb: str, error: Callable[[], Exception]
) -> None:
    await world.stop()
    refusing = Refusing(world.verbs, verb, PODS, error)
    world.start(refusing)  # type: ignore[arg-type]
    await world.create(make_node("n1", cpu=1), make_pod("low", cpu=1, priority=1))
    await world.settle()
    await world.create(make_pod("high", cpu=1, priority=100))
    await world.settle()
    assert refusing.left == 0
    assert await world.nodes("high") == ["n1"]
    assert await world.gone("low")


@pytest.mark.parametrize("error", [conflict, busy, TimeoutError])
@in_virtual_time
async def test_a_condition_is_written_in_the_end(world: SchedulerPlane, error: Callable[[], Exception]) -> None:
    await world.stop()
    refusing = Refusing(world.verbs, "patch", POD_GROUPS, error)
    world.start(refusing)  # type: ignore[arg-type]
    await world.create(make_node("n1", cpu=2), make_pod_group("g", gang=2))
    await world.pods("g", "p", 2)
    await world.settle()
    assert refusing.left == 0
    assert (await world.condition("g"))[:2] == ("True", "Scheduled")


@in_virtual_time
async def test_pods_of_a_missing_group_wait_for_it_whatever_their_priority(world: SchedulerPlane) -> None:
    await world.create(make_node("n1", cpu=2), make_pod("p", group="later", priority=10))
    await world.settle()
    assert await world.reason("p") == "WaitingForGroup"
    assert "waiting for PodGroup" in await world.message("p")
