"""Discovery against a real server, cut down to what is served here."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from echelon.api import scheme
from echelon.api.served_kinds import ServedKinds
from echelon.server.http.handlers import discovery

KINDS = ServedKinds()
GOLDEN: dict[str, Any] = msgspec.json.decode((Path(__file__).parent / "data" / "discovery.json").read_bytes())
#: Groups that the real server does not have.
CUSTOM = ("jobset.x-k8s.io", "trainer.kubeflow.org")


def cut(golden: Any, ours: Any, key: str) -> list[Any]:
    """The entries of the real server that we have too."""
    return [one for one in golden if one[key] in {own[key] for own in ours}]


def cut_group(golden: Any, ours: Any) -> Any:
    versions = []
    for version, own in zip(cut(golden["versions"], ours["versions"], "version"), ours["versions"], strict=True):
        resources = cut(version["resources"], own["resources"], "resource")
        for resource, mine in zip(resources, own["resources"], strict=True):
            subresources = cut(resource.get("subresources", ()), mine.get("subresources", ()), "subresource")
            resource.pop("subresources", None)
            resource |= {"subresources": subresources} if subresources else {}
        versions.append({**version, "resources": resources})
    return {**golden, "versions": versions}


@pytest.mark.conformance("API-103")
@pytest.mark.parametrize(("root", "core"), [("api", True), ("apis", False)])
def test_aggregated_discovery_equals_the_real_server(root: str, core: bool) -> None:
    golden = {item["metadata"].get("name", ""): item for item in copy.deepcopy(GOLDEN["aggregated"][root]["items"])}
    ours = [item for item in discovery.aggregated(KINDS, core)["items"] if item["metadata"].get("name") not in CUSTOM]
    assert ours
    for item in ours:
        assert item == cut_group(golden[item["metadata"].get("name", "")], item)


@pytest.mark.conformance("API-103")
@pytest.mark.parametrize("group_version", sorted({one.api_version for one in scheme.RESOURCES} & set(GOLDEN["legacy"])))
def test_legacy_lists_equal_the_real_server(group_version: str) -> None:
    group, _, version = group_version.rpartition("/")
    ours = discovery.resource_list(KINDS, group, version)
    assert ours is not None
    for resource in ours["resources"]:
        resource.pop("storageVersionHash", None)  # left out of the recorded lists
    assert ours["resources"] == cut(GOLDEN["legacy"][group_version], ours["resources"], "name")


def test_versions_of_a_group_come_in_order_of_preference() -> None:
    assert discovery.group(KINDS, "scheduling.k8s.io") == GOLDEN["scheduling_group"]
    assert discovery.group(KINDS, "nosuch.io") is None


@pytest.mark.conformance("API-103")
def test_both_forms_list_the_same_resources() -> None:
    aggregated = {
        (item["metadata"].get("name", ""), version["version"], resource["resource"], tuple(resource["verbs"]))
        for core in (True, False)
        for item in discovery.aggregated(KINDS, core)["items"]
        for version in item["versions"]
        for resource in version["resources"]
    }
    legacy = set()
    for group, versions in discovery.groups(KINDS).items():
        for version in versions:
            listed = discovery.resource_list(KINDS, group, version)
            assert listed is not None
            legacy |= {
                (group, version, r["name"], tuple(r["verbs"])) for r in listed["resources"] if "/" not in r["name"]
            }
    assert aggregated == legacy
    assert len(aggregated) == len(scheme.RESOURCES) + len(scheme.REVIEWS) + 1


def test_storage_version_hashes_are_those_of_a_real_server() -> None:
    listed = discovery.resource_list(KINDS, "", "v1")
    assert listed is not None
    hashes = {entry["name"]: entry.get("storageVersionHash") for entry in listed["resources"]}
    assert (hashes["pods"], hashes["events"]) == ("xPOwRZ+Yhw8=", "r2yiGXH7wu8=")
    assert hashes["bindings"] is None
    assert hashes["pods/status"] is None
    newer = discovery.resource_list(KINDS, "events.k8s.io", "v1")
    assert newer is not None
    assert newer["resources"][0]["storageVersionHash"] == "r2yiGXH7wu8=", "both forms are stored alike"
