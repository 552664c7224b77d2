"""What a real server takes of resource.k8s.io, and what it refuses: the same as our own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from echelon.api.errors import ApiError
from echelon.api.verbs import Verbs, WriteOptions
from tests.unit.api.rules.device_cases import DeviceCase, device_cases

from .controlplane import ControlPlane
from .logins import client_of
from .own_planes import own_plane

pytestmark = pytest.mark.cluster
_TAKEN = "taken"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with own_plane(tmp_path_factory, "devices", manager=False, strict=False) as running:
        yield running


async def test_a_real_server_takes_and_refuses_the_same_devices_and_claims(plane: ControlPlane) -> None:
    async with client_of(plane.kubeconfig) as verbs:
        answers = {case.name: await _answer(verbs, case) for case in device_cases()}
    expected = {case.name: case.taken for case in device_cases()}
    assert {name: said for name, said in answers.items() if expected[name] != (said == _TAKEN)} == {}


async def _answer(verbs: Verbs, case: DeviceCase) -> str:
    space = "default" if case.resource.namespaced else ""
    try:
        await verbs.create(case.resource, case.obj, space, WriteOptions(dry_run=True))
    except ApiError as error:
        if error.code != 422:
            raise
        return str(error)
    return _TAKEN
