"""Writes src/echelon/api/data/protobuf.json: the messages that clients send, from published Go modules.

    python tools/protobuf/extract.py "$(go env GOMODCACHE)/k8s.io" 0.37.1

`generated.proto` has numbers, names and types.  `types.go` has two facts that the messages lack: which scalars are
pointers, so that a zero means something, and which members are inlined in JSON.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TypedDict

PACKAGES = {
    "api": [
        "admissionregistration/v1", "apps/v1", "authentication/v1", "authorization/v1", "autoscaling/v1", "batch/v1",
        "certificates/v1", "coordination/v1", "core/v1", "discovery/v1", "events/v1", "networking/v1", "node/v1",
        "policy/v1", "rbac/v1", "resource/v1", "scheduling/v1", "scheduling/v1alpha3", "scheduling/v1beta1",
        "storage/v1",
    ],
    "apiextensions-apiserver": ["pkg/apis/apiextensions/v1"],
    "apimachinery": ["pkg/apis/meta/v1", "pkg/runtime", "pkg/api/resource", "pkg/util/intstr"],
}  # fmt: skip
#: Messages that stand in requests and answers; the others come along because these mention them.
ROOTS = re.compile(
    r"core\.v1\.(Pod|Node|Namespace|ConfigMap|Secret|Service|ServiceAccount|Event|Binding|Endpoints|LimitRange"
    r"|ResourceQuota|PersistentVolume|PersistentVolumeClaim|PodTemplate|ReplicationController)(List)?$"
    r"|\.(apps|authentication|authorization|autoscaling|batch|coordination|discovery|events|networking|node|policy|rbac"
    r"|resource|scheduling|storage|apiextensions)\.v1\w*\.\w+$"
    r"|meta\.v1\.(DeleteOptions|Status|WatchEvent|PartialObjectMetadata|PartialObjectMetadataList)$"
    r"|runtime\.Unknown$"
)
SCALARS = {"string", "int32", "int64", "bool", "bytes", "double", "uint32", "uint64"}


def messages(text: str) -> dict[str, dict[str, list[str]]]:
    """Name -> field number -> [name, type]; types are as written, `[]` in front of repeated ones."""
    package = re.search(r"^package ([\w.]+);", text, re.MULTILINE)
    assert package
    found: dict[str, dict[str, list[str]]] = {}
    for name, body in re.findall(r"^message (\w+) \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL):
        fields = {}
        for label, kind, field, number in re.findall(
            r"^\s*(optional |repeated |required )?(map<[^>]+>|[\w.]+) (\w+) = (\d+)(?: \[[^\]]*\])?;",
            body,
            re.MULTILINE,
        ):
            fields[number] = [field, _absolute(kind, package[1], label.strip() == "repeated")]
        found[f"{package[1]}.{name}"] = fields
    return found


def _absolute(kind: str, package: str, repeated: bool) -> str:
    if kind.startswith("map<"):
        key, value = (part.strip() for part in kind[4:-1].split(","))
        return f"map<{key},{_absolute(value, package, False)}>"
    if kind not in SCALARS:
        kind = kind.removeprefix(".") if kind.startswith(".") else f"{package}.{kind}"
    return f"[]{kind}" if repeated else kind


class Facts(TypedDict, total=False):
    """What `types.go` adds to a message."""

    #: Scalars that are pointers.
    pointers: list[str]
    #: Members whose fields JSON has in their parent.
    inline: list[str]
    #: Message field -> JSON name, where they differ.
    json: dict[str, str]
    #: Whether it is a list in JSON, wrapped in a message with the one field `items`.
    list: bool


def go_facts(text: str) -> dict[str, Facts]:
    """The facts of every struct and every named slice of a Go file."""
    facts: dict[str, Facts] = {name: {"list": True} for name in re.findall(r"^type (\w+) \[\]", text, re.MULTILINE)}
    for name, body in re.findall(r"^type (\w+) struct \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL):
        known: Facts = {"pointers": [], "inline": [], "json": {}}
        for line in body.splitlines():
            member = re.match(r'\s*(\w+)\s*(\S*)\s*`.*json:"([^",]*)[^"]*".*protobuf:"([^"]*)"', line)
            if member is None:
                continue
            go_name, kind, json_name, wire = member.groups()
            field = wire.partition("name=")[2].partition(",")[0] or go_name[0].lower() + go_name[1:]
            if not json_name:
                known["inline"].append(field)
            elif json_name != field:
                known["json"][field] = json_name
            if kind.startswith("*"):
                known["pointers"].append(field)
        facts[name] = known
    return facts


def main(modules: Path, version: str) -> None:
    fields: dict[str, dict[str, list[str]]] = {}
    facts: dict[str, Facts] = {}
    for module, packages in PACKAGES.items():
        for package in packages:
            folder = modules / f"{module}@v{version}" / package
            found = messages((folder / "generated.proto").read_text())
            fields |= found
            prefix = next(iter(found)).rpartition(".")[0]
            for source in folder.glob("*.go"):
                facts |= {f"{prefix}.{name}": fact for name, fact in go_facts(source.read_text()).items()}
    table = {}
    for name in sorted(_reachable(fields)):
        fact = facts.get(name, {})
        names = {field for field, _ in fields[name].values()}
        scalars = {field for field, kind in fields[name].values() if kind in SCALARS}
        table[name] = {
            "fields": fields[name],
            "pointers": sorted(scalars & set(fact.get("pointers", ()))),
            "inline": sorted(names & set(fact.get("inline", ()))),
            "json": {field: other for field, other in fact.get("json", {}).items() if field in names},
            "list": fact.get("list", False),
        }
    target = Path(__file__).parents[2] / "src" / "echelon" / "api" / "data" / "protobuf.json"
    told = {
        name: {key: value for key, value in entry.items() if value or key == "fields"} for name, entry in table.items()
    }
    lines = (f"{json.dumps(name)}: {json.dumps(entry, separators=(',', ':'))}" for name, entry in told.items())
    target.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(table)} messages")


def _reachable(fields: dict[str, dict[str, list[str]]]) -> set[str]:
    seen: set[str] = set()
    stack = [name for name in fields if ROOTS.search(name)]
    while stack:
        name = stack.pop()
        if name not in seen:
            seen.add(name)
            kinds = (re.sub(r"^map<\w+,|^\[\]|>$", "", kind) for _, kind in fields[name].values())
            stack += [kind for kind in kinds if kind not in SCALARS]
    return seen


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
