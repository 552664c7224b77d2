"""Writes src/echelon/api/data/native.json: the schemas of the native kinds we serve, as a real server has them.

    make cluster-tools && .venv/bin/python -m tools.schemas.extract "$(go env GOMODCACHE)/k8s.io" 0.37.1

Types, defaults, enums, list types and merge keys come from the OpenAPI of a kube-apiserver that is started for it.  Two
facts come from the published Go modules: where a zero means something (`x-pointer`), and which members Go writes even
when they are empty (`x-written`).  Descriptions are left out: ours are in descriptions.yaml.
"""

from __future__ import annotations

import json
import re
import ssl
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

import yaml
from tests.cluster.controlplane import control_plane

#: Kinds whose schemas we need; their parts come along.
ROOTS = [
    *(f"io.k8s.api.core.v1.{kind}" for kind in (
        "Binding", "ConfigMap", "Endpoints", "Event", "LimitRange", "Namespace", "Node", "PersistentVolume",
        "PersistentVolumeClaim", "Pod", "PodTemplate", "ReplicationController", "ResourceQuota", "Secret", "Service",
        "ServiceAccount",
    )),
    *(f"io.k8s.api.apps.v1.{kind}" for kind in (
        "ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet",
    )),
    *(f"io.k8s.api.authentication.v1.{kind}" for kind in ("SelfSubjectReview", "TokenRequest", "TokenReview")),
    *(f"io.k8s.api.authorization.v1.{kind}" for kind in (
        "LocalSubjectAccessReview", "SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview",
    )),
    *(f"io.k8s.api.rbac.v1.{kind}" for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")),
    *(f"io.k8s.api.scheduling.{kind}" for kind in (
        "v1.PriorityClass", "v1alpha3.CompositePodGroup", "v1alpha3.PodGroup", "v1alpha3.Workload", "v1beta1.PodGroup",
        "v1beta1.Workload",
    )),
    "io.k8s.api.autoscaling.v1.Scale",
    "io.k8s.api.batch.v1.CronJob",
    "io.k8s.api.batch.v1.Job",
    "io.k8s.api.coordination.v1.Lease",
    "io.k8s.api.discovery.v1.EndpointSlice",
    "io.k8s.api.events.v1.Event",
    "io.k8s.api.networking.v1.Ingress",
    "io.k8s.api.networking.v1.IngressClass",
    "io.k8s.api.networking.v1.NetworkPolicy",
    "io.k8s.api.node.v1.RuntimeClass",
    "io.k8s.api.policy.v1.Eviction",
    "io.k8s.api.policy.v1.PodDisruptionBudget",
    *(f"io.k8s.api.resource.v1.{kind}" for kind in (
        "DeviceClass", "DeviceTaintRule", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice",
    )),
    *(f"io.k8s.api.storage.v1.{kind}" for kind in ("CSIDriver", "CSINode", "CSIStorageCapacity", "StorageClass")),
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
    "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta",
]  # fmt: skip
_PREFIX = "#/components/schemas/"


def served() -> dict[str, Any]:
    """Every schema of a real server's OpenAPI."""
    with tempfile.TemporaryDirectory() as folder, control_plane(Path(folder), manager=False) as plane:
        token = yaml.safe_load(plane.kubeconfig.read_text())["users"][0]["user"]["token"]
        trust = ssl._create_unverified_context()  # noqa: S323 (loopback, made a moment ago)

        def get(path: str) -> Any:
            request = urllib.request.Request(  # noqa: S310 (it is our own server)
                plane.url + path, headers={"Authorization": f"Bearer {token}"}
            )
            return json.load(urllib.request.urlopen(request, context=trust))  # noqa: S310

        schemas: dict[str, Any] = {}
        for entry in get("/openapi/v3")["paths"].values():
            schemas |= get(entry["serverRelativeURL"]).get("components", {}).get("schemas", {})
        return schemas


def plain(schema: Any) -> Any:
    """A schema without descriptions; references are bare names."""
    if isinstance(schema, list):
        return [plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {
        key: plain(value) for key, value in schema.items() if not (key == "description" and isinstance(value, str))
    }
    if isinstance(found.get("$ref"), str):
        found["$ref"] = found["$ref"].removeprefix(_PREFIX)
    if [*found.get("allOf", [])] and len(found["allOf"]) == 1 and "$ref" in found["allOf"][0]:
        found = {"$ref": found.pop("allOf")[0]["$ref"], **found}
    return found


def members(modules: Path, version: str, name: str) -> dict[str, tuple[bool, bool]]:
    """JSON name → (is a pointer, is written when empty) of the Go struct behind a definition."""
    parts = name.removeprefix("io.k8s.").split(".")
    folder = modules / f"{parts[0]}@v{version}" / Path(*parts[1:-1])
    found: dict[str, tuple[bool, bool]] = {}
    for source in sorted(folder.glob("*.go")):
        body = re.search(rf"^type {parts[-1]} struct \{{\n(.*?)^\}}", source.read_text(), re.MULTILINE | re.DOTALL)
        for line in body[1].splitlines() if body else ():
            member = re.match(r'\s*(\w+)\s*(\S*)\s*`.*json:"([^"]*)"', line)
            if member is None:
                continue
            json_name, *flags = member[3].split(",")
            if not json_name and member[1]:  # an embedded struct: its members are ours
                found |= members(modules, version, ".".join(["io.k8s", *parts[:-1], member[1]]))
            else:
                pointer = member[2].startswith("*")
                found[json_name] = (pointer, not {"omitempty", "omitzero"} & set(flags))
    return found


def marked(schema: Any, known: dict[str, tuple[bool, bool]]) -> Any:
    """A definition whose properties say where Go keeps zeros."""
    for name, inner in schema.get("properties", {}).items():
        pointer, written = known.get(name, (False, False))
        if pointer and inner.get("type") in ("boolean", "integer", "number", "string"):
            inner["x-pointer"] = True
        if written:
            inner["x-written"] = True
    return schema


def references(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [name for item in schema for name in references(item)]
    if not isinstance(schema, dict):
        return []
    if isinstance(schema.get("$ref"), str):
        return [schema["$ref"]]
    return [name for item in schema.values() for name in references(item)]


def main(modules: Path, version: str) -> None:
    schemas = {name: plain(schema) for name, schema in served().items()}
    table: dict[str, Any] = {}
    waiting = list(ROOTS)
    while waiting:
        name = waiting.pop()
        if name not in table:
            table[name] = marked(schemas[name], members(modules, version, name))
            waiting += references(table[name])
    lines = (
        f"{json.dumps(name)}:{json.dumps(table[name], separators=(',', ':'), sort_keys=True)}" for name in sorted(table)
    )
    target = Path(__file__).parents[2] / "src" / "echelon" / "api" / "data" / "native.json"
    target.write_text("{" + ",\n".join(lines) + "}\n")
    print(f"{len(table)} definitions")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
