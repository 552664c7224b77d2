"""The scheduler's tests in virtual time, word for word, on a real kube-apiserver.

A body that needs what only virtual time or the embedded server has is in `ONLY_EMBEDDED`, with the reason.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any

import pytest

from tests.integration import (
    test_scheduler_bad_input,
    test_scheduler_between_pods,
    test_scheduler_binding,
    test_scheduler_flat_groups,
    test_scheduler_hierarchies,
    test_scheduler_preemption,
    test_scheduler_topology,
)

from .conftest import gate_sets
from .controlplane import GateSet
from .real_plane import RealPlane

_MODULES = (
    test_scheduler_flat_groups,
    test_scheduler_hierarchies,
    test_scheduler_topology,
    test_scheduler_preemption,
    test_scheduler_between_pods,
    test_scheduler_binding,
    test_scheduler_bad_input,
)
ONLY_EMBEDDED = {
    "test_a_minute_of_trouble_is_outlived": "a call that is not answered holds the time up",
    "test_a_place_is_held_until_the_api_says_whether_the_binding_took_place": "as above",
    "test_a_watch_of_one_kind_that_stays_silent_is_caught_up_with": "time waits for what was not heard yet",
    "test_no_pod_is_bound_to_a_node_that_is_known_to_be_gone": "time waits for bindings under way",
    "test_a_pod_deleted_while_its_binding_is_on_the_way_leaves_no_trace": "in real time the binding may come first",
}


#: What short runs do on servers that lack gates: one of each thing that is different there.
IN_SHORT = (
    "test_a_gang_that_fits_is_placed_and_takes_in_later_members",
    "test_a_gang_below_its_quorum_waits_and_says_for_what",
    "test_pods_wait_for_their_group_then_for_room",
    "test_a_gang_evicts_for_its_minimum_and_then_for_the_rest",
    "test_a_gang_of_gangs_waits_for_its_second_group_and_its_last_pod",
    "test_a_basic_group_in_a_rack_and_one_in_a_zone",
    "test_a_group_whose_parent_does_not_exist_says_so_and_goes_on_when_it_does",
    "test_pods_whose_group_is_deleted_wait_for_it_and_say_so",
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    others = (GateSet.NONE, GateSet.FLAT_GROUPS) if metafunc.function.__name__ in IN_SHORT else ()
    metafunc.parametrize("world", gate_sets(*others), indirect=True)


def _on_the_real_cluster(body: Callable[..., Awaitable[None]], marks: list[pytest.Mark]) -> Callable[..., Any]:
    """The same body and parameters; its world comes from the fixture of that name."""

    async def test(world: RealPlane, **arguments: Any) -> None:
        await body(world, **arguments)

    test.__signature__ = inspect.signature(body)  # type: ignore[attr-defined]
    test.__doc__, test.__name__ = body.__doc__, body.__name__
    test.pytestmark = [*marks]  # type: ignore[attr-defined]
    return test


def _bodies(module: ModuleType) -> dict[str, Callable[..., Any]]:
    return {
        name: _on_the_real_cluster(test.__wrapped__, list(getattr(test, "pytestmark", ())))
        for name, test in vars(module).items()
        if name.startswith("test_") and hasattr(test, "__wrapped__") and name not in ONLY_EMBEDDED
    }


for _module in _MODULES:
    globals().update(_bodies(_module))
