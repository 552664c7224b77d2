"""Random requests along the grammar that the plane itself publishes: its discovery and OpenAPI documents.

All kinds, verbs, patch types, subresources, parameters, headers and content types.  Most values fit their schema, so
that they get past decoding; a few are odd.  The same seed makes the same requests, as long as the documents are the
same.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from echelon.api.protobuf import to_protobuf

from .corpus import APPLY, JSON_PATCH, MERGE, STRATEGIC, Tree, objects
from .decoders import bent
from .plane import Answer

_NAMES = ("a", "b", "c", "target", "odd-jobset-0")
_NAMESPACES = ("default", "default", "default", "fuzz", "none")
_TEXTS = (
    "a", "b", "x.y/z", "", "²", "Never", "Always", "True", "100m", "1Gi", "5%", "10.0.0.1", "2024-01-01T00:00:00Z",
    "cpu", "kubernetes.io/hostname", "In", "Exists", "NoSchedule", "default", "é", "a" * 70, "9" * 400, "\x00", "%s",
)  # fmt: skip
_ODD: tuple[Any, ...] = (
    None, "", "x", "²", "\x00", "\ud800", 0, -1, 1, 2**31 - 1, 2**31, 2**63 - 1, 2**63, -(2**63), 1.5, 1e300, True, [],
    {}, [None], [{}], [[]], {"": None}, {"a": {}}, "9" * 5_000, ["a", "a"], [1, "a"], {"a": [[{}]]},
)  # fmt: skip
#: A count of pods is kept small: what many pods cost is measured elsewhere.
_COUNTS = ("replicas", "parallelism", "completions", "numNodes", "numProcPerNode", "minCount", "count")
_ACCEPT = (
    "application/json", "*/*", "", "application/vnd.kubernetes.protobuf", "application/yaml", "text/html", "x", ";;,",
    "application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json", "application/json;as=x",
    "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json", "application/cbor",
)  # fmt: skip
_TYPES = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "text/plain", "", "x/y;z")
_PATCHES = (MERGE, STRATEGIC, JSON_PATCH, APPLY)
_LIST_PARAMETERS: dict[str, tuple[str, ...]] = {
    "labelSelector": ("a=b", "a in (b,c)", "!a", "a", "a>1", "a in ()", "=", "a=b,c!=d", "a" * 300),
    "fieldSelector": (
        "metadata.name=a",
        "metadata.namespace!=default",
        "spec.nodeName=",
        "status.phase=Running",
        "x=y",
    ),
    "limit": ("1", "2", "0", "-1", "x", "9" * 30),
    "continue": ("x", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0", "", "e30"),
    # One in the future is left out: 504 is the right answer to it.
    "resourceVersion": ("0", "1", "", "-1", "x"),
    "resourceVersionMatch": ("Exact", "NotOlderThan", "x", ""),
    "timeoutSeconds": ("0", "1", "-1", "x"),
    "allowWatchBookmarks": ("true", "x"),
    "sendInitialEvents": ("true", "false", "x"),
    "includeObject": ("None", "Object", "Metadata", "x"),
    "pretty": ("true",),
}
_WRITE_PARAMETERS: dict[str, tuple[str, ...]] = {
    "dryRun": ("All", "x", ""),
    "fieldValidation": ("Strict", "Warn", "Ignore", "x"),
    "fieldManager": ("m", "n", "\x00", "m" * 200, ""),
    "force": ("true", "false", "x"),
    "pretty": ("false",),
}
_DELETE_PARAMETERS: dict[str, tuple[str, ...]] = {
    "gracePeriodSeconds": ("0", "1", "-1", "x", "9" * 30),
    "propagationPolicy": ("Foreground", "Background", "Orphan", "x"),
    "orphanDependents": ("true", "false"),
    "dryRun": ("All", "x"),
}
#: Verbs of requests, and how often they come; `odd` is none of a client.
_VERBS = {"create": 24, "update": 12, "patch": 34, "get": 6, "list": 8, "delete": 12, "odd": 2}
_DELETE_OPTIONS: Tree = {
    "properties": {
        "gracePeriodSeconds": {"type": "integer"},
        "propagationPolicy": {"enum": ["Foreground", "Background", "Orphan", "x"]},
        "orphanDependents": {"type": "boolean"},
        "preconditions": {"properties": {"uid": {"type": "string"}, "resourceVersion": {"type": "string"}}},
        "dryRun": {"type": "array", "items": {"enum": ["All", "x"]}},
        "ignoreStoreReadErrorWithClusterBreakingPotential": {"type": "boolean"},
    }
}


@dataclass(frozen=True)
class FuzzRequest:
    method: str
    path: str
    body: bytes | None = None
    content_type: str = "application/json"
    accept: str = "application/json"
    #: The body as a tree, if it was one: what a reproduction is made smaller by.
    tree: Any = None

    def curl(self) -> str:
        """The request as one would type it."""
        body = "" if self.body is None else f" --data-binary {self.body[:3_000]!r}"
        return f"-X {self.method} -H 'content-type: {self.content_type}' -H 'accept: {self.accept}' {self.path!r}{body}"


@dataclass(frozen=True)
class FuzzKind:
    """A served kind with its schema and objects that are known to be accepted."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool
    verbs: frozenset[str]
    subresources: tuple[str, ...]
    schema: Tree
    templates: tuple[Tree, ...] = ()

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        base = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        parts = [base, f"namespaces/{namespace}" if self.namespaced and namespace else "", self.plural]
        parts += [quote(name, safe=""), subresource]
        return "/".join(part for part in parts if part)


@dataclass
class Grammar:
    """Makes requests."""

    rng: random.Random
    kinds: list[FuzzKind]
    definitions: dict[str, Tree] = field(default_factory=dict)

    @staticmethod
    def of(connection: Callable[[str, str], Answer], rng: random.Random) -> Grammar:
        """The grammar of a running plane."""
        definitions: dict[str, Tree] = {}
        kinds: list[FuzzKind] = []
        templates: dict[tuple[str, str], list[Tree]] = {}
        for odd in objects():
            if len(json.dumps(odd.obj)) < 5_000:
                templates.setdefault((odd.obj["apiVersion"], odd.obj["kind"]), []).append(odd.obj)
        groups = connection("GET", "/openapi/v3").json()["paths"]
        for version in sorted(
            path for path in groups if path.count("/") >= 1 and path.split("/")[0] in ("api", "apis")
        ):
            found = connection("GET", f"/{version}")
            if found.code != 200 or found.json().get("kind") != "APIResourceList":
                continue
            schemas = connection("GET", f"/openapi/v3/{version}").json()["components"]["schemas"]
            definitions.update(schemas)
            by_kind = {
                (f"{mark['group']}/{mark['version']}".lstrip("/"), mark["kind"]): schema
                for schema in schemas.values()
                for mark in schema.get("x-kubernetes-group-version-kind", ())
            }
            kinds += _kinds_of(found.json(), by_kind, templates)
        return Grammar(rng, kinds, definitions)

    # -- requests --------------------------------------------------------------------------------------

    def request(self) -> FuzzRequest:
        kind = self.rng.choice(self.kinds)
        made = None
        while made is None:
            verb = self.rng.choices(list(_VERBS), list(_VERBS.values()))[0]
            if verb in kind.verbs or verb == "odd" or self.rng.random() < 0.03:
                made = self._made(verb, kind)
        if self.rng.random() < 0.1:
            made = FuzzRequest(
                made.method, made.path, made.body, made.content_type, self.rng.choice(_ACCEPT), made.tree
            )
        return made

    def _made(self, verb: str, kind: FuzzKind) -> FuzzRequest:
        match verb:
            case "create":
                return self._create(kind)
            case "update":
                return self._replace(kind)
            case "patch":
                return self._apply(kind) if self.rng.random() < 0.35 else self._patch(kind)
            case "get":
                return self._read(kind)
            case "list":
                return self._list(kind)
            case "delete":
                return self._delete(kind)
            case _:
                return self._other(kind)

    def _place(self, kind: FuzzKind) -> tuple[str, str]:
        return self.rng.choice(_NAMESPACES), self.rng.choice(_NAMES)

    def _create(self, kind: FuzzKind) -> FuzzRequest:
        namespace, name = self._place(kind)
        obj = self.object(kind, name)
        subresource = self.rng.choice(kind.subresources) if kind.subresources and self.rng.random() < 0.05 else ""
        path = kind.path(namespace, name if subresource else "", subresource) + self._query(_WRITE_PARAMETERS, 0.2)
        return self._with_body("POST", path, obj)

    def _replace(self, kind: FuzzKind) -> FuzzRequest:
        namespace, name = self._place(kind)
        path = kind.path(namespace, name, self._subresource(kind)) + self._query(_WRITE_PARAMETERS, 0.2)
        return self._with_body("PUT", path, self.object(kind, name))

    def _patch(self, kind: FuzzKind) -> FuzzRequest:
        namespace, name = self._place(kind)
        type_ = self.rng.choice(_PATCHES[:3])
        tree: Any = self._operations(kind) if type_ == JSON_PATCH else self._fragment(kind, type_ == STRATEGIC)
        if self.rng.random() < 0.03:
            tree = self._odd()
        path = kind.path(namespace, name, self._subresource(kind)) + self._query(_WRITE_PARAMETERS, 0.2)
        return FuzzRequest("PATCH", path, _encoded(tree), type_, tree=tree)

    def _apply(self, kind: FuzzKind) -> FuzzRequest:
        namespace, name = self._place(kind)
        tree = self.object(kind, name)
        query = f"?fieldManager={self.rng.choice('mnk')}" + ("&force=true" if self.rng.random() < 0.5 else "")
        if self.rng.random() < 0.1:
            query = self._query(_WRITE_PARAMETERS, 0.6)
        path = kind.path(namespace, name, self._subresource(kind)) + query
        return FuzzRequest("PATCH", path, _encoded(tree), APPLY, tree=tree)

    def _read(self, kind: FuzzKind) -> FuzzRequest:
        namespace, name = self._place(kind)
        subresource = self.rng.choice(("", "", *kind.subresources, "odd"))
        path = kind.path(namespace, name, subresource) + self._query(_LIST_PARAMETERS, 0.1)
        return FuzzRequest("GET", path, accept=self.rng.choice(_ACCEPT))

    def _list(self, kind: FuzzKind) -> FuzzRequest:
        namespace = self.rng.choice(("", *_NAMESPACES))
        query = self._query(_LIST_PARAMETERS, 0.2)
        if self.rng.random() < 0.01:
            # Last, because a watch without a timeout, or with 0, would not end.
            query = query.replace("timeoutSeconds", "x") + ("&" if query else "?") + "watch=true&timeoutSeconds=1"
        return FuzzRequest("GET", kind.path(namespace) + query, accept=self.rng.choice(_ACCEPT))

    def _delete(self, kind: FuzzKind) -> FuzzRequest:
        namespace, name = self._place(kind)
        if self.rng.random() < 0.05:
            query = self._query(_DELETE_PARAMETERS | {"labelSelector": ("a=b", "x")}, 0.5)
            return FuzzRequest("DELETE", kind.path(namespace) + query)
        body: Tree | None = None
        if self.rng.random() < 0.3:
            body = {
                "kind": "DeleteOptions",
                "apiVersion": "v1",
                **self._fields(_DELETE_OPTIONS, 0),
            }
        path = kind.path(namespace, name) + self._query(_DELETE_PARAMETERS, 0.3)
        return FuzzRequest("DELETE", path, None if body is None else _encoded(body), tree=body)

    def _other(self, kind: FuzzKind) -> FuzzRequest:
        """Methods, paths and bodies that no client sends."""
        namespace, name = self._place(kind)
        method = self.rng.choice(("POST", "PUT", "PATCH", "DELETE", "GET", "OPTIONS", "HEAD", "TRACE", "ODD"))
        paths = (
            kind.path(namespace, name, "odd"), kind.path(namespace), kind.path(namespace, "%00"), "/apis", "/api/v1",
            kind.path(namespace, name) + "/", "/openapi/v3", "/openapi/v2?x=y", "/metrics", "/readyz?verbose",
            "/api/v1/namespaces/default/pods/target/binding", "/api/v1/namespaces/default/pods/target/eviction",
            "/api/v1/namespaces/default/serviceaccounts/default/token", "/livez/odd", "/logs", "/version",
        )  # fmt: skip
        body = None if self.rng.random() < 0.3 else self.rng.randbytes(self.rng.randrange(60))
        return FuzzRequest(
            method, self.rng.choice(paths), body, self.rng.choice((*_TYPES, *_PATCHES)), self.rng.choice(_ACCEPT)
        )

    def _subresource(self, kind: FuzzKind) -> str:
        return self.rng.choice(kind.subresources) if kind.subresources and self.rng.random() < 0.35 else ""

    def _query(self, parameters: dict[str, tuple[str, ...]], share: float) -> str:
        chosen = [
            f"{name}={quote(self.rng.choice(values))}"
            for name, values in parameters.items()
            if self.rng.random() < share * 0.5
        ]
        return "?" + "&".join(chosen) if chosen else ""

    def _with_body(self, method: str, path: str, obj: Tree) -> FuzzRequest:
        chance = self.rng.random()
        if chance < 0.12 and to_protobuf.has_form(obj.get("apiVersion", ""), obj.get("kind", "")):
            raw = self._protobuf(obj)
            if raw is not None:
                return FuzzRequest(method, path, raw, "application/vnd.kubernetes.protobuf")
        body = _encoded(obj)
        if chance > 0.98:
            body = bent(self.rng, body)
        type_ = self.rng.choice(_TYPES) if self.rng.random() < 0.03 else "application/json"
        return FuzzRequest(method, path, body, type_, tree=obj)

    def _protobuf(self, obj: Tree) -> bytes | None:
        try:
            raw = to_protobuf.encode(obj)
        except Exception:  # an odd value that has no place in the message
            return None
        return bent(self.rng, raw) if self.rng.random() < 0.5 else raw

    # -- objects ---------------------------------------------------------------------------------------

    def object(self, kind: FuzzKind, name: str) -> Tree:
        """An object: a known one with a few fields set along the schema, or one that is generated whole."""
        if kind.templates and self.rng.random() < 0.8:
            made: Any = copy.deepcopy(self.rng.choice(kind.templates))
            for _ in range(self.rng.randrange(4)):
                self._set_somewhere(kind.schema, made)
        else:
            made = self.value(kind.schema)
        if not isinstance(made, dict):
            made = {}
        made["apiVersion"], made["kind"] = kind.api_version, kind.kind
        metadata = made.get("metadata")
        metadata = dict(metadata) if isinstance(metadata, dict) else {}
        for server_owned in ("resourceVersion", "uid", "deletionTimestamp", "managedFields", "generateName"):
            if self.rng.random() < 0.9:
                metadata.pop(server_owned, None)
        if self.rng.random() < 0.9:
            metadata.pop("namespace", None)
        if metadata.get("finalizers") and self.rng.random() < 0.7:
            del metadata["finalizers"]
        made["metadata"] = {**metadata, "name": name}
        return made

    def _fragment(self, kind: FuzzKind, strategic: bool) -> Tree:
        made: Tree = {}
        for _ in range(self.rng.randint(1, 3)):
            self._set_somewhere(kind.schema, made)
        if strategic and self.rng.random() < 0.2:
            word = self.rng.choice(
                ("$patch", "$retainKeys", "$setElementOrder/containers", "$deleteFromPrimitiveList/x")
            )
            holder = made.get("spec") if isinstance(made.get("spec"), dict) else made
            holder[word] = self.rng.choice(("delete", "replace", "merge", [], ["a"], [{"name": "a"}], 1, {}))
        return made

    def _operations(self, kind: FuzzKind) -> list[Tree]:
        made: list[Tree] = []
        for _ in range(self.rng.randint(1, 3)):
            path, value = self._place_and_value(kind.schema)
            if self.rng.random() < 0.2:
                path = [*path[:-1], self.rng.choice(("-", "0", "1", "99", "~1", ""))]
            operation = self.rng.choice(("add", "replace", "remove", "test", "move", "copy", "odd"))
            text = "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)
            made.append({"op": operation, "path": text, "value": value, "from": "/metadata/labels"})
        return made

    def _set_somewhere(self, schema: Tree, made: Tree) -> None:
        path, value = self._place_and_value(schema)
        holder: Any = made
        for step, following in zip(path, [*path[1:], None], strict=True):
            if following is None:
                value = value if self.rng.random() > 0.04 else self._odd()
            if isinstance(step, int):
                if not isinstance(holder, list):
                    return
                if not holder:
                    holder.append([] if isinstance(following, int) else {})
                step = self.rng.randrange(len(holder))
            elif not isinstance(holder, dict):
                return
            if following is None:
                holder[step] = value
                return
            inner = holder.get(step) if isinstance(holder, dict) else holder[step]
            if not isinstance(inner, (dict, list)):
                inner = holder[step] = [] if isinstance(following, int) else {}
            holder = inner

    def _place_and_value(self, schema: Tree) -> tuple[list[Any], Any]:
        """A way from the root of a schema, and a value for its end."""
        path: list[Any] = []
        while True:
            schema = self._resolved(schema)
            if isinstance(schema.get("properties"), dict) and schema["properties"]:
                name = self.rng.choice(list(schema["properties"]))
                if not path and self.rng.random() < 0.6 and "spec" in schema["properties"]:
                    name = "spec"
                path.append(name)
                schema = schema["properties"][name]
            elif schema.get("type") == "array" and path:
                path.append(0)
                schema = schema["items"]
            elif isinstance(schema.get("additionalProperties"), dict) and path:
                path.append(self.rng.choice(("a", "b", "x.y/z")))
                schema = schema["additionalProperties"]
            else:
                break
            if self.rng.random() < 0.3:
                break
        return (path or ["spec"]), self.value(schema, len(path), str(path[-1]) if path else "")

    def _odd(self) -> Any:
        """An odd value of its own, because trees are changed while they are made."""
        return copy.deepcopy(self.rng.choice(_ODD))

    def value(self, schema: Tree, depth: int = 0, name: str = "") -> Any:
        """A value along a schema."""
        rng = self.rng
        if rng.random() < 0.02 and depth:
            return self._odd()
        schema = self._resolved(schema)
        if schema.get("enum"):
            return rng.choice(schema["enum"])
        if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
            return rng.choice((0, 1, 2, "50%", "1", "x"))
        kind = schema.get("type")
        if kind == "array":
            size = rng.choice((0, 1, 1, 2)) if depth < 8 else 0
            return [self.value(schema["items"], depth + 1, name) for _ in range(size)]
        if kind == "integer":
            small = (0, 1, 2, 3) if name in _COUNTS or rng.random() < 0.8 else (-1, 60, 2**31 - 1, 2**31, 2**63 - 1)
            return rng.choice(small)
        if kind == "number":
            return rng.choice((0, 1, 0.5, 1e300))
        if kind == "boolean":
            return rng.random() < 0.5
        if kind == "string":
            return self._text(schema, name)
        if schema.get("properties"):
            return self._fields(schema, depth)
        values = schema.get("additionalProperties")
        if isinstance(values, dict):
            keys = rng.sample(("a", "b", "x.y/z", "cpu", "memory"), rng.choice((0, 1, 1, 2)))
            return {key: self.value(values, depth + 1, key) for key in keys}
        return rng.choice(({}, {"a": "b"}, 1, "x"))

    def _fields(self, schema: Tree, depth: int) -> Tree:
        required = set(schema.get("required", ()))
        share = max(0.04, 0.35 - 0.06 * depth)
        return {
            name: self.value(inner, depth + 1, name)
            for name, inner in schema["properties"].items()
            if (name in required and self.rng.random() < 0.97) or (depth < 9 and self.rng.random() < share)
        }

    def _text(self, schema: Tree, name: str) -> str:
        rng = self.rng
        if schema.get("format") == "date-time":
            return rng.choice(("2024-01-01T00:00:00Z", "2024-01-01T00:00:00.000000Z", "9999-12-31T23:59:59Z", "x"))
        if schema.get("format") == "byte":
            return rng.choice(("", "YQ==", "x", "é"))
        if name in ("name", "namespace") or name.endswith("Name"):
            return rng.choice(_NAMES)
        return rng.choice(_TEXTS)

    def _resolved(self, schema: Tree) -> Tree:
        while True:
            if "$ref" in schema:
                schema = self.definitions.get(schema["$ref"].rpartition("/")[2], {})
            elif schema.get("allOf"):
                schema = schema["allOf"][0]
            elif schema.get("oneOf") and "type" not in schema:
                schema = self.rng.choice(schema["oneOf"])
            else:
                return schema


def _kinds_of(
    listed: Tree, schemas: dict[tuple[str, str], Tree], templates: dict[tuple[str, str], list[Tree]]
) -> list[FuzzKind]:
    version = listed["groupVersion"]
    below: dict[str, list[str]] = {}
    for one in listed["resources"]:
        plural, slash, subresource = one["name"].partition("/")
        if slash:
            below.setdefault(plural, []).append(subresource)
    made = []
    for one in listed["resources"]:
        if "/" in one["name"]:
            continue
        api_version = f"{one['group']}/{one['version']}" if one.get("group") and one.get("version") else version
        schema = schemas.get((api_version, one["kind"]), {"type": "object"})
        known = tuple(templates.get((api_version, one["kind"]), ()))
        verbs, subresources = frozenset(one["verbs"]), tuple(below.get(one["name"], ()))
        made.append(FuzzKind(version, one["kind"], one["name"], one["namespaced"], verbs, subresources, schema, known))
    return made


def _encoded(tree: Any) -> bytes:
    return json.dumps(tree).encode("utf-8", "surrogatepass")
