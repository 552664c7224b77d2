"""Claims get simulated volumes through the real API, and lose them when they go."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.objects import meta
from echelon.api.scheme import VOLUME_CLAIMS, VOLUMES, Object
from tests.controller_plane import ControllerPlane, in_virtual_time


def claim(name: str = "data", **spec: Any) -> Object:
    size = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": {**size, **spec}}


def storage_class(provisioner: str) -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
        "provisioner": provisioner,
    }


def test_a_claim_is_bound_and_its_volume_goes_with_it() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(claim())
        await plane.wait(1)
        bound = await plane.get(VOLUME_CLAIMS, "data")
        (volume,) = await plane.all(VOLUMES)
        assert (bound["status"]["phase"], bound["status"]["capacity"]) == ("Bound", {"storage": "1Gi"})
        assert bound["spec"]["volumeName"] == meta.name(volume)
        assert (volume["status"]["phase"], volume["spec"]["claimRef"]["uid"]) == ("Bound", meta.uid(bound))
        await plane.delete(VOLUME_CLAIMS, "data")
        await plane.wait(1)
        assert await plane.all(VOLUMES) == []

    in_virtual_time(story)


def test_a_volume_whose_claim_went_while_the_plane_was_away_goes() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(claim())
        await plane.wait(1)
        await plane.kill()
        await plane.delete(VOLUME_CLAIMS, "data")
        await plane.create(claim())
        await plane.start()
        await plane.wait(1)
        (volume,) = await plane.all(VOLUMES)
        assert volume["spec"]["claimRef"]["uid"] == meta.uid(await plane.get(VOLUME_CLAIMS, "data"))

    in_virtual_time(story)


@pytest.mark.parametrize(
    ("spec", "provisioner", "phase"),
    [
        ({"storageClassName": ""}, None, "Pending"),
        ({"storageClassName": "fast"}, None, "Pending"),
        ({"storageClassName": "fast"}, "example.com/disks", "Pending"),
        ({"storageClassName": "fast"}, "echelon.dev/simulated", "Bound"),
        ({"volumeName": "mine"}, None, "Pending"),
    ],
)
def test_storage_of_others_is_left_to_them(spec: Object, provisioner: str | None, phase: str) -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(claim(**spec))
        await plane.wait(1)
        if provisioner:
            await plane.create(storage_class(provisioner))
        await plane.wait(1)
        assert (await plane.get(VOLUME_CLAIMS, "data"))["status"]["phase"] == phase
        assert len(await plane.all(VOLUMES)) == (phase == "Bound")

    in_virtual_time(story)


@pytest.mark.parametrize("writes", range(1, 5))
def test_a_death_at_any_write_changes_nothing(writes: int) -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.kill()
        mortal = await plane.start(writes)
        await plane.create(claim())
        await mortal.dead.wait()
        await plane.restart()
        await plane.wait(1)
        assert (await plane.get(VOLUME_CLAIMS, "data"))["status"]["phase"] == "Bound"
        assert len(await plane.all(VOLUMES)) == 1

    in_virtual_time(story)
