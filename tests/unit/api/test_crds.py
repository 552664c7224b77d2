"""CustomResourceDefinitions: closed structural schemas that say what our own data says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from echelon.api.schema import kind_schema
from echelon.api.schema.crd_manifests import custom_resource_definitions
from echelon.api.scheme import RESOURCES, Object, Resource

CUSTOM = [resource for resource in RESOURCES if not resource.builtin]
#: A client-side `kubectl apply` keeps the whole manifest in an annotation of at most this many bytes.
ANNOTATION_LIMIT = 256 * 1024


def definition(resource: Resource) -> Object:
    return next(one for one in custom_resource_definitions() if one["metadata"]["name"] == resource.qualified)


def version(resource: Resource) -> Any:
    return definition(resource)["spec"]["versions"][0]


def root(resource: Resource) -> Any:
    return version(resource)["schema"]["openAPIV3Schema"]


def schemas(node: Object) -> Iterator[Object]:
    """A schema and all schemas inside it."""
    yield node
    for inner in (*node.get("properties", {}).values(), node.get("items"), node.get("additionalProperties")):
        if isinstance(inner, dict):
            yield from schemas(inner)


@pytest.mark.parametrize("resource", CUSTOM, ids=lambda one: one.kind)
class TestEveryCustomKind:
    def test_names_scope_and_version_are_those_served_here(self, resource: Resource) -> None:
        spec = definition(resource)["spec"]
        assert (spec["group"], spec["names"]["plural"], spec["names"]["kind"]) == (
            resource.group,
            resource.plural,
            resource.kind,
        )
        assert spec["scope"] == ("Namespaced" if resource.namespaced else "Cluster")
        assert [one["name"] for one in spec["versions"] if one["storage"]] == [resource.version]

    def test_status_is_a_subresource_where_it_is_one_here(self, resource: Resource) -> None:
        assert ("status" in version(resource).get("subresources", {})) == resource.has_status

    def test_columns_are_those_printed_here(self, resource: Resource) -> None:
        assert version(resource).get("additionalPrinterColumns", []) == kind_schema.printer_columns(resource)

    def test_schema_is_closed_and_every_value_has_a_type(self, resource: Resource) -> None:
        for one in schemas(root(resource)):
            assert "$ref" not in one
            assert ("type" in one) != bool(one.get("x-kubernetes-int-or-string")), one
            assert (one.get("type") == "array") == ("items" in one), one

    def test_lists_that_are_maps_have_certain_keys(self, resource: Resource) -> None:
        for one in schemas(root(resource)):
            assert ("x-kubernetes-list-map-keys" in one) == (one.get("x-kubernetes-list-type") == "map")
            for key in one.get("x-kubernetes-list-map-keys", ()):
                items = one["items"]
                assert key in items.get("required", ()) or "default" in items["properties"][key]

    def test_fits_into_an_annotation(self, resource: Resource) -> None:
        assert len(msgspec.json.encode(definition(resource))) < ANNOTATION_LIMIT


def test_defaults_and_limits_of_our_own_types_are_kept() -> None:
    [jobset, *_] = CUSTOM
    entry = root(jobset)["properties"]["spec"]["properties"]["replicatedJobs"]["items"]
    assert entry["properties"]["replicas"] | {"description": ""} == {
        "type": "integer", "format": "int32", "minimum": 0, "default": 1, "description": "",
    }  # fmt: skip


def test_native_types_bring_what_published_schemas_bring_and_no_more() -> None:
    [jobset, *_] = CUSTOM
    job = root(jobset)["properties"]["spec"]["properties"]["replicatedJobs"]["items"]["properties"]["template"]
    pod = job["properties"]["spec"]["properties"]["template"]
    container = pod["properties"]["spec"]["properties"]["containers"]["items"]
    port = container["properties"]["ports"]["items"]
    assert port["properties"]["protocol"] == {"type": "string", "default": "TCP"}
    assert "default" not in port["properties"]["containerPort"]
    assert set(pod["properties"]["metadata"]["properties"]) == {
        "name", "namespace", "labels", "annotations", "finalizers",
    }  # fmt: skip
