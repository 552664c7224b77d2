"""What becomes of objects when their owners go, and of owners that wait for what they own."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from echelon.api.scheme import CONFIG_MAPS, NODES, PODS, Object, Resource
from echelon.decide.garbage import Fate, Owned, lets_go_of_dependents, reconcile, waits_for_dependents
from echelon.decide.plan import NOTHING, ApplyPatch, Delete, Plan

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
LIVES, WAITS, GONE, UNRESOLVABLE = Fate.LIVES, Fate.WAITS, Fate.GONE, Fate.UNRESOLVABLE


def owned(
    name: str, *owners: str, blocking: bool = True, deleting: bool = False, finalizers: Sequence[str] = ()
) -> Object:
    references = [{"kind": "Pod", "name": one, "uid": f"uid-{one}", "blockOwnerDeletion": blocking} for one in owners]
    metadata: Object = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": "7"}
    metadata |= {"ownerReferences": references} if references else {}
    metadata |= {"finalizers": list(finalizers)} if finalizers else {}
    metadata |= {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {}
    return {"metadata": metadata}


def decided(
    obj: Object,
    *fates: Fate,
    dependents: Sequence[Object] = (),
    circular: Sequence[str] = (),
    resource: Resource = CONFIG_MAPS,
) -> Plan:
    return reconcile(Owned(resource, obj, fates, [(PODS, one) for one in dependents], circular))


def patches(plan: Plan) -> list[list[tuple[str, Object]]]:
    found = []
    for stage in plan.stages:
        for one in stage:
            assert isinstance(one, ApplyPatch)
            # Somebody else may have deleted it meanwhile, which is what was wanted.
            assert one.gone_is_fine
        found.append([(one.name, one.patch.body["metadata"]) for one in stage if isinstance(one, ApplyPatch)])
    return found


def test_an_object_without_owners_is_left_alone() -> None:
    assert decided(owned("a")) == NOTHING


def test_an_object_with_living_owners_is_left_alone() -> None:
    assert decided(owned("a", "x", "y"), LIVES, LIVES) == NOTHING


@pytest.mark.parametrize("fates", [(GONE,), (GONE, GONE), (WAITS,), (WAITS, GONE)])
def test_an_object_none_of_whose_owners_lives_is_deleted_as_it_was_seen(fates: tuple[Fate, ...]) -> None:
    ((delete,),) = decided(owned("a", *"xyz"[: len(fates)]), *fates).stages
    assert delete == Delete(CONFIG_MAPS, "ns", "a", "uid-a", "Background", resource_version="7")


def test_an_object_with_one_living_owner_loses_the_others() -> None:
    plan = decided(owned("a", "x", "y", "z"), GONE, LIVES, WAITS)
    (((name, metadata),),) = patches(plan)
    assert (name, metadata["resourceVersion"]) == ("a", "7")
    assert [one["name"] for one in metadata["ownerReferences"]] == ["y"]


@pytest.mark.parametrize(
    ("finalizers", "fate", "dependents", "policy"),
    [
        ([], GONE, 0, "Background"),
        ([], GONE, 1, "Background"),
        ([], WAITS, 0, "Background"),
        ([], WAITS, 1, "Foreground"),
        ([FOREGROUND], GONE, 0, "Foreground"),
        ([FOREGROUND], WAITS, 0, "Foreground"),
        ([ORPHAN], WAITS, 1, "Orphan"),
        ([ORPHAN, FOREGROUND], GONE, 0, "Orphan"),
    ],
)
def test_how_it_is_deleted_follows_its_finalizers_and_what_its_owner_waits_for(
    finalizers: list[str], fate: Fate, dependents: int, policy: str
) -> None:
    below = [owned("b", "a")] * dependents
    ((delete,),) = decided(owned("a", "x", finalizers=finalizers), fate, dependents=below).stages
    assert isinstance(delete, Delete)
    assert delete.propagation == policy


def test_a_namespaced_owner_of_a_cluster_scoped_object_is_told_and_nothing_deleted() -> None:
    plan = decided(owned("a", "x", "y"), GONE, UNRESOLVABLE, resource=NODES)
    assert plan.stages == ()
    ((note),) = plan.notes
    assert (note.resource, note.type, note.reason) == (NODES, "Warning", "OwnerRefInvalidNamespace")


def test_an_owner_in_foreground_deletion_waits_for_what_blocks_it() -> None:
    owner = owned("a", deleting=True, finalizers=["mine", FOREGROUND])
    blocking, other = owned("b", "x", "a"), owned("c", "a", blocking=False)
    assert decided(owner, dependents=[other, blocking]) == NOTHING
    released = [[("a", {"resourceVersion": "7", "finalizers": ["mine"]})]]
    assert patches(decided(owner, dependents=[other])) == released
    assert patches(decided(owner)) == released
    # One that waits for the owner in turn, and one that blocks another owner only.
    assert patches(decided(owner, dependents=[blocking], circular=["uid-b"])) == released
    mixed = owned("d", "x", "a")
    mixed["metadata"]["ownerReferences"][1]["blockOwnerDeletion"] = False
    assert patches(decided(owner, dependents=[mixed])) == released


def test_an_owner_that_is_deleted_with_orphaning_frees_its_dependents_first() -> None:
    owner = owned("a", deleting=True, finalizers=[ORPHAN, "mine"])
    plan = decided(owner, dependents=[owned("b", "a"), owned("c", "x", "a")])
    freed, released = patches(plan)
    assert [(name, [one["name"] for one in metadata["ownerReferences"]]) for name, metadata in freed] == [
        ("b", []),
        ("c", ["x"]),
    ]
    assert released == [("a", {"resourceVersion": "7", "finalizers": ["mine"]})]


def test_an_object_that_is_being_deleted_in_the_background_is_left_alone() -> None:
    assert decided(owned("a", "x", deleting=True, finalizers=["mine"]), GONE) == NOTHING


@pytest.mark.parametrize("deleting", [True, False])
@pytest.mark.parametrize("finalizer", [FOREGROUND, ORPHAN, "mine"])
def test_only_a_deleted_object_waits_for_its_dependents_or_lets_them_go(finalizer: str, deleting: bool) -> None:
    obj = owned("a", deleting=deleting, finalizers=[finalizer])
    assert waits_for_dependents(obj) is (deleting and finalizer == FOREGROUND)
    assert lets_go_of_dependents(obj) is (deleting and finalizer == ORPHAN)
