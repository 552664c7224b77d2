"""What a program finds out about a server before it waits for its caches."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.errors import ApiError
from echelon.api.scheme import CSI_NODES, JOB_SETS, RESOURCE_SLICES, Resource
from echelon.api.verbs import ObjectList
from echelon.base.program_options import CONTROLLERS_PROGRAM, SCHEDULER_PROGRAM, ProgramOptions
from echelon.runtime.cluster_mode import RemoteSettings, _check
from echelon.runtime.operations.live_configuration import LiveConfiguration
from echelon.runtime.plane import CannotStart


class Server:
    """Answers lists of some kinds with an error."""

    def __init__(self, codes: dict[Resource, int]) -> None:
        self._codes = codes

    async def list(self, resource: Resource, *args: Any, **kwargs: Any) -> ObjectList:
        if resource in self._codes:
            raise ApiError(self._codes[resource], "Any", f"{resource.plural}: refused")
        return ObjectList([], "1")


async def check(codes: dict[Resource, int]) -> None:
    kinds = (CSI_NODES, RESOURCE_SLICES, JOB_SETS)
    await _check(Server(codes), kinds, lambda one: one is RESOURCE_SLICES, "https://s")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [CSI_NODES, RESOURCE_SLICES])
async def test_a_program_that_is_newer_than_its_role_says_what_to_do(kind: Resource) -> None:
    """Also about a kind that a server may lack: without the right its cache would never be filled."""
    with pytest.raises(CannotStart, match=f"{kind.plural}: refused; .*`echelon install`"):
        await check({kind: 403})


async def test_a_server_may_lack_some_kinds_and_not_others() -> None:
    await check({RESOURCE_SLICES: 404})
    with pytest.raises(CannotStart, match="does not serve CSINode"):
        await check({CSI_NODES: 404})
    with pytest.raises(CannotStart, match="echelon crds"):
        await check({JOB_SETS: 404})


@pytest.mark.parametrize(
    ("program", "flags", "lease"),
    [
        (SCHEDULER_PROGRAM, {}, "echelon-scheduler"),
        (SCHEDULER_PROGRAM, {"name": ("mine", "echelon", "and")}, "echelon-scheduler-and-mine"),
        (SCHEDULER_PROGRAM, {"name": ("mine",), "lease": "ours"}, "ours"),
        (SCHEDULER_PROGRAM, {"lease": "ours", "leaderElect": False}, ""),
        (CONTROLLERS_PROGRAM, {}, "echelon-controllers"),
        (CONTROLLERS_PROGRAM, {"only": ("trainjob", "jobset")}, "echelon-controllers-jobset-trainjob"),
        (CONTROLLERS_PROGRAM, {"only": ("trainjob",), "lease": "ours"}, "ours"),
    ],
)
def test_programs_that_do_the_same_elect_one_leader_and_a_lease_can_be_named(
    program: ProgramOptions, flags: dict[str, Any], lease: str
) -> None:
    assert RemoteSettings(LiveConfiguration(program, flags)).lease == lease
