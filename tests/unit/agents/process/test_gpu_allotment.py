"""Which GPUs a container gets."""

from __future__ import annotations

import pytest

from echelon.agents.process.resources.gpu_allotment import GPU, allotted, gpu_env, gpus_of_nodes
from echelon.api.scheme import Object

from .pods import pod


def wants(name: str, count: int | str, **more: str) -> Object:
    return {"name": name, "image": "i", "resources": {"limits": {GPU: count}}, **more}


def of(*containers: Object, init: tuple[Object, ...] = ()) -> Object:
    made = pod(init=init)
    made["spec"]["containers"] = list(containers)
    return made


@pytest.mark.parametrize(
    ("asked", "free", "expected"),
    [
        (of(wants("a", 2)), {3, 1, 0}, {"a": (0, 1)}),
        (of(wants("a", "1"), wants("b", "2")), range(4), {"a": (0,), "b": (1, 2)}),
        (of(wants("a", 0), {"name": "b"}), range(4), {}),
        (of(wants("a", 2)), {5}, None),
        (of(wants("a", 1), wants("b", 1)), {5}, None),
    ],
)
def test_containers_get_the_lowest_that_are_free_and_share_none(
    asked: Object, free: set[int], expected: dict[str, tuple[int, ...]] | None
) -> None:
    assert allotted(asked, free) == expected


def test_an_init_container_uses_what_those_after_it_get() -> None:
    asked = of(wants("main", 1), init=(wants("first", 2), wants("second", 1)))
    assert allotted(asked, range(2)) == {"main": (0,), "first": (0, 1), "second": (0,)}
    assert allotted(of(wants("main", 1), init=(wants("first", 3),)), range(2)) is None


def test_a_sidecar_keeps_its_own() -> None:
    asked = of(wants("main", 1), init=(wants("side", 1, restartPolicy="Always"), wants("first", 1)))
    assert allotted(asked, range(2)) == {"side": (0,), "main": (1,), "first": (1,)}


def test_nodes_of_one_machine_divide_its_gpus() -> None:
    assert gpus_of_nodes({"b": 2, "a": 1, "c": 0}) == {"a": range(1), "b": range(1, 3), "c": range(3, 3)}


def test_a_container_without_gpus_sees_none() -> None:
    assert gpu_env(())["CUDA_VISIBLE_DEVICES"] == ""
    assert gpu_env((1, 3))["CUDA_VISIBLE_DEVICES"] == gpu_env((1, 3))["NVIDIA_VISIBLE_DEVICES"] == "1,3"
