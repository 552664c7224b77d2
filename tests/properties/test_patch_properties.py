"""Patches computed from two objects lead from the first to the second."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from echelon.api import scheme
from echelon.api.patching import apply_patch
from echelon.api.verbs import Patch, PatchType

_SCALARS = st.integers(-5, 5) | st.booleans() | st.text("ab", max_size=2)
_TREES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("xyz", max_size=2), inner, max_size=3),
    max_leaves=12,
)
_OBJECTS = st.dictionaries(st.text("xyz/~", max_size=2), _TREES, max_size=4)


def _same(left: Any, right: Any) -> bool:
    """Equality that tells 1 from true."""
    return repr(left) == repr(right) if not isinstance(left, dict) else _same_maps(left, right)


def _same_maps(left: dict[str, Any], right: Any) -> bool:
    return (
        isinstance(right, dict)
        and sorted(left) == sorted(right)
        and all(_same(value, right[key]) for key, value in left.items())
    )


def _merge_difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    difference: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            difference[key] = _merge_difference(before, value)
        elif key not in old or not _same(before, value):
            difference[key] = value
    return difference


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


@given(old=_OBJECTS, new=_OBJECTS)
def test_the_merge_difference_of_two_objects_leads_from_one_to_the_other(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    result = apply_patch.apply(scheme.PODS, old, Patch(PatchType.MERGE, _merge_difference(old, new)))
    assert _same(result, new)


@given(old=_OBJECTS, new=_OBJECTS)
def test_json_patch_operations_lead_from_one_object_to_the_other_and_test_it(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    operations = [{"op": "remove", "path": "/" + _escaped(key)} for key in old]
    operations += [{"op": "add", "path": "/" + _escaped(key), "value": value} for key, value in new.items()]
    operations += [{"op": "test", "path": "", "value": new}]
    assert _same(apply_patch.apply(scheme.PODS, old, Patch(PatchType.JSON, operations)), new)


_NAMES = st.sampled_from("abcdef")
_CONTAINERS = st.dictionaries(_NAMES, st.sampled_from(["1", "2"]), max_size=5)


@given(old=_CONTAINERS, changed=_CONTAINERS, dropped=st.sets(_NAMES))
def test_strategic_merge_treats_containers_as_a_map_by_name(
    old: dict[str, str], changed: dict[str, str], dropped: set[str]
) -> None:
    def listed(images: dict[str, str]) -> list[dict[str, str]]:
        return [{"name": name, "image": image} for name, image in images.items()]

    deletions = [{"name": name, "$patch": "delete"} for name in sorted(dropped - set(changed))]
    body = {"spec": {"containers": listed(changed) + deletions}}
    result = apply_patch.apply(scheme.PODS, {"spec": {"containers": listed(old)}}, Patch(PatchType.STRATEGIC, body))
    expected = {name: image for name, image in (old | changed).items() if name not in dropped or name in changed}
    found = {item["name"]: item["image"] for item in result["spec"]["containers"]}
    assert found == expected
    assert len(found) == len(result["spec"]["containers"])
    assert [name for name in found if name in changed] == list(changed)
    assert [name for name in found if name not in changed] == [name for name in old if name in found.keys() - changed]
