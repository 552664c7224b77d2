"""Objects of custom kinds own others, are owned, and go with their namespace, as those of known kinds."""

from __future__ import annotations

from typing import Any

from echelon.api.objects import meta
from echelon.api.scheme import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, Object, Resource
from echelon.api.verbs import DeleteOptions
from tests.controller_plane import ControllerPlane
from tests.integration.test_custom_resources import crontab, definition
from tests.integration.test_garbage import config_map, names, run


async def defined(plane: ControllerPlane) -> Resource:
    await plane.create(definition())
    found = plane.api.kinds.by_path("stable.example.com", "v1", "crontabs")
    assert found is not None
    return found


def owned_by(obj: Object, owner: Object, **more: Any) -> Object:
    reference = {
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta.name(owner), "uid": meta.uid(owner),
        **more,
    }  # fmt: skip
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": [reference]}}


def test_what_a_custom_object_owns_goes_with_it() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        kind = await defined(plane)
        owner = await plane.api.create(kind, crontab(), "default")
        await plane.create(owned_by(config_map("kept"), owner))
        await plane.wait(5)
        assert await names(plane) == ["kept"]
        await plane.delete(kind, "a")
        await plane.until(lambda: gone(plane, CONFIG_MAPS))

    run(scenario)


def test_a_custom_object_goes_with_its_owner_and_holds_it_in_the_foreground() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        kind = await defined(plane)
        owner = await plane.create(config_map("owner"))
        held = owned_by(crontab(), owner, blockOwnerDeletion=True)
        held["metadata"]["finalizers"] = ["example.com/hold"]
        await plane.api.create(kind, held, "default")
        await plane.delete(CONFIG_MAPS, "owner", "Foreground")
        await plane.wait(5)
        assert await names(plane) == ["owner"]
        assert meta.deleting(await plane.get(kind, "a"))
        await plane.patch(kind, "a", {"metadata": {"finalizers": None}})
        await plane.until(lambda: gone(plane, CONFIG_MAPS))
        assert await plane.all(kind) == []

    run(scenario)


def test_a_namespace_takes_its_custom_objects_with_it() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        kind = await defined(plane)
        await plane.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}})
        await plane.api.create(kind, crontab(), "n")
        await plane.api.delete(NAMESPACES, "n")

        async def empty() -> bool:
            return not await plane.all(kind, "n") and await plane.find(NAMESPACES, "n") is None

        await plane.until(empty)

    run(scenario)


def test_a_kind_that_was_deleted_and_defined_again_is_followed_again() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await defined(plane)
        await plane.wait(2)
        await plane.api.delete(CUSTOM_RESOURCE_DEFINITIONS, "crontabs.stable.example.com", options=DeleteOptions())
        await plane.patch(
            CUSTOM_RESOURCE_DEFINITIONS, "crontabs.stable.example.com", {"metadata": {"finalizers": None}}
        )
        kind = await defined(plane)
        owner = await plane.create(config_map("owner"))
        await plane.api.create(kind, owned_by(crontab(), owner), "default")
        await plane.wait(2)
        await plane.delete(CONFIG_MAPS, "owner")
        await plane.until(lambda: gone(plane, kind))

    run(scenario)


async def gone(plane: ControllerPlane, kind: Resource) -> bool:
    return not await plane.all(kind)
