"""OpenAPI documents: what kubectl needs to apply, patch and explain every kind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from echelon.api import scheme
from echelon.api.schema import kind_schema
from echelon.api.scheme import Object, Resource
from echelon.api.served_kinds import ServedKinds

SERVED = ServedKinds()

KINDS = pytest.mark.parametrize(
    "resource", scheme.RESOURCES, ids=lambda resource: f"{resource.group or 'core'}.{resource.version}.{resource.kind}"
)


def document(resource: Resource) -> Object:
    return kind_schema.openapi_v3(SERVED, resource.group, resource.version)


def schemas(resource: Resource) -> Object:
    return document(resource)["components"]["schemas"]  # type: ignore[no-any-return]


def gvk(resource: Resource) -> Object:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def nodes(tree: Any) -> Iterator[Object]:
    if isinstance(tree, dict):
        yield tree
    for inner in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from nodes(inner)


@KINDS
def test_every_kind_can_be_patched_with_field_validation(resource: Resource) -> None:
    patches = [
        item["patch"]
        for item in document(resource)["paths"].values()
        if "patch" in item and item["patch"]["x-kubernetes-group-version-kind"] == gvk(resource)
    ]
    assert len(patches) == (2 if resource.has_status else 1)
    for patch in patches:
        assert "fieldValidation" in [parameter["name"] for parameter in patch["parameters"]]
        strategic = "application/strategic-merge-patch+json" in patch["requestBody"]["content"]
        assert strategic == resource.builtin


@KINDS
def test_every_kind_is_found_under_its_path_and_by_its_kind(resource: Resource) -> None:
    prefix = f"/apis/{resource.group}/{resource.version}" if resource.group else "/api/v1"
    middle = "/namespaces/{namespace}" if resource.namespaced else ""
    collection = document(resource)["paths"][f"{prefix}{middle}/{resource.plural}"]
    assert collection["get"]["x-kubernetes-group-version-kind"] == gvk(resource)
    assert {"get", "put", "patch", "delete"} <= set(
        document(resource)["paths"][f"{prefix}{middle}/{resource.plural}/{{name}}"]
    )
    roots = [
        one for one in schemas(resource).values() if gvk(resource) in one.get("x-kubernetes-group-version-kind", ())
    ]
    assert len(roots) == 1


@pytest.mark.parametrize(("group", "version"), SERVED.group_versions)
def test_documents_are_json_with_references_that_resolve_and_no_private_marks(group: str, version: str) -> None:
    tree = msgspec.json.decode(msgspec.json.encode(kind_schema.openapi_v3(SERVED, group, version)))
    known = tree["components"]["schemas"]
    for node in nodes(tree):
        reference = node.get("$ref")
        if isinstance(reference, str):
            assert reference.removeprefix("#/components/schemas/") in known
            assert set(node) == {"$ref"}, "kubectl ignores what stands beside a reference"
        assert not {"x-pointer", "x-written", "x-printer-columns"} & set(node)


@pytest.mark.parametrize(
    ("resource", "type_name", "field", "merge_key"),
    [
        (scheme.PODS, "io.k8s.api.core.v1.PodSpec", "containers", "name"),
        (scheme.PODS, "io.k8s.api.core.v1.PodSpec", "tolerations", None),
        (scheme.PODS, "io.k8s.api.core.v1.Container", "ports", "containerPort"),
        (scheme.PODS, "io.k8s.api.core.v1.PodStatus", "conditions", "type"),
        (scheme.JOBS, "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "ownerReferences", "uid"),
        (scheme.POD_GROUPS, "io.k8s.api.scheduling.v1beta1.PodGroupStatus", "conditions", "type"),
        (scheme.WORKLOADS, "io.k8s.api.scheduling.v1beta1.WorkloadSpec", "podGroupTemplates", None),
        (scheme.SERVICES, "io.k8s.api.core.v1.ServiceSpec", "ports", "port"),
    ],
)
def test_merge_keys_are_published(resource: Resource, type_name: str, field: str, merge_key: str | None) -> None:
    published = schemas(resource)[type_name]["properties"][field]
    assert published.get("x-kubernetes-patch-merge-key") == merge_key
    assert ("merge" in published.get("x-kubernetes-patch-strategy", "")) == (merge_key is not None)


@pytest.mark.parametrize(
    "resource",
    [resource for resource in scheme.RESOURCES if resource.group == "scheduling.k8s.io"],
    ids=lambda resource: f"{resource.version}.{resource.kind}",
)
def test_every_field_of_the_scheduling_kinds_is_explained(resource: Resource) -> None:
    for name, one in schemas(resource).items():
        if ".scheduling." in name and not name.endswith("List"):
            assert one["description"], name
            silent = [
                field
                for field, inner in one.get("properties", {}).items()
                if not inner.get("description") and field not in ("spec", "status")
            ]
            assert silent == [], name


@pytest.mark.parametrize("resource", [scheme.JOBS, scheme.JOB_SETS, scheme.TRAIN_JOBS], ids=lambda r: r.kind)
def test_top_level_fields_of_the_job_kinds_are_explained(resource: Resource) -> None:
    spec = next(one for name, one in schemas(resource).items() if name.endswith(f".{resource.kind}Spec"))
    assert [field for field, inner in spec["properties"].items() if not inner.get("description")] == []


@pytest.mark.parametrize(("group", "version"), SERVED.group_versions)
def test_no_list_of_parameters_is_empty(group: str, version: str) -> None:
    for item in kind_schema.openapi_v3(SERVED, group, version)["paths"].values():
        for described in (item, *(part for part in item.values() if isinstance(part, dict))):
            found = described.get("parameters")
            assert found is None or (isinstance(found, list) and found)


def test_references_in_v2_are_definitions_of_the_document() -> None:
    document = kind_schema.openapi_v2(kind_schema.openapi_v3(SERVED, *served) for served in SERVED.group_versions)
    text = msgspec.json.encode(document).decode()
    named = set(re.findall(r'"\$ref":"([^"]+)"', text))
    assert named <= {f"#/definitions/{name}" for name in document["definitions"]}
    assert "components" not in text
    assert '"oneOf":[' not in text


def test_amounts_are_strings_in_v2() -> None:
    document = kind_schema.openapi_v2(kind_schema.openapi_v3(SERVED, *served) for served in SERVED.group_versions)
    assert document["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"] == {"type": "string"}
