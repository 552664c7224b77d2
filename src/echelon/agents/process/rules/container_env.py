"""The environment and the command line of a container, as a kubelet makes them.

envFrom, in order, later ones win ─► env, each may name earlier ones as $(NAME) ─► command and args with $(NAME)
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ....api.objects import meta
from ....api.scheme import Object
from ....base import quantity

#: Finds a ConfigMap or Secret of the pod's namespace by kind and name.
Lookup = Callable[[str, str], Object | None]

_REFERENCE = re.compile(r"\$(\$|\([^()]*\)|)")
_PATH = re.compile(r"(metadata\.(?:labels|annotations))\['([^']*)'\]")
_VARIABLE_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")


class BadConfig(Exception):
    """A container cannot be made as its spec says; the message is the one of a kubelet."""


@dataclass(frozen=True)
class DownwardFacts:
    """What only the node knows about the pod."""

    host: str
    address: str
    #: Of the node, for limits that a container does not set.
    allocatable: Mapping[str, str]


def expand(text: str, known: Mapping[str, str]) -> str:
    """`$(NAME)` is replaced if it is known and left as it is if not; `$$` is a dollar sign."""

    def replace(match: re.Match[str]) -> str:
        word = match.group(1)
        if word.startswith("("):
            return known.get(word[1:-1], match.group(0))
        return "$"

    return _REFERENCE.sub(replace, text)


def named_in(text: str) -> list[str]:
    """The names that `expand` replaces."""
    words = (match.group(1) for match in _REFERENCE.finditer(text))
    return [word[1:-1] for word in words if word.startswith("(")]


def environment(
    pod: Object,
    container: Object,
    facts: DownwardFacts,
    lookup: Lookup,
    from_node: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """`from_node` is what every container gets, and may be named in its own variables.  May raise BadConfig."""
    made = dict(from_node)
    for source in container.get("envFrom") or ():
        made |= _from_source(pod, source, lookup)
    for variable in container.get("env") or ():
        name = variable["name"]
        origin = variable.get("valueFrom")
        if origin is None:
            made[name] = expand(str(variable.get("value") or ""), made)
            continue
        value = _value_from(pod, container, origin, facts, lookup)
        if value is not None:
            made[name] = value
    return made


def command_line(container: Object, env: Mapping[str, str]) -> list[str]:
    return [expand(str(word), env) for word in (*(container.get("command") or ()), *(container.get("args") or ()))]


def _from_source(pod: Object, source: Object, lookup: Lookup) -> dict[str, str]:
    prefix = source.get("prefix") or ""
    for field, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
        reference = source.get(field)
        if reference is None:
            continue
        found = lookup(kind, reference.get("name", ""))
        if found is None:
            if reference.get("optional"):
                return {}
            raise BadConfig(f'{kind.lower()} "{reference.get("name", "")}" not found')
        pairs = {prefix + key: value.decode(errors="replace") for key, value in content_of(found).items()}
        return {key: value for key, value in pairs.items() if _VARIABLE_NAME.fullmatch(key)}
    return {}


def _value_from(pod: Object, container: Object, origin: Object, facts: DownwardFacts, lookup: Lookup) -> str | None:
    if "fieldRef" in origin:
        return field_value(pod, origin["fieldRef"].get("fieldPath", ""), facts)
    if "resourceFieldRef" in origin:
        return resource_value(pod, container, origin["resourceFieldRef"], facts)
    for field, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
        if field in origin:
            return _keyed_value(pod, origin[field], kind, lookup)
    raise BadConfig(f"valueFrom.{next(iter(origin), '')} is not supported on process nodes")


def _keyed_value(pod: Object, reference: Object, kind: str, lookup: Lookup) -> str | None:
    name, key, optional = reference.get("name", ""), reference.get("key", ""), bool(reference.get("optional"))
    found = lookup(kind, name)
    if found is None:
        if optional:
            return None
        raise BadConfig(f'{kind.lower()} "{name}" not found')
    value = content_of(found).get(key)
    if value is None:
        if optional:
            return None
        raise BadConfig(f"couldn't find key {key} in {kind} {meta.namespace(pod)}/{name}")
    return value.decode(errors="replace")


def content_of(found: Object) -> dict[str, bytes]:
    """The entries of a ConfigMap or Secret."""
    if found.get("kind") == "Secret":
        return {key: base64.b64decode(value) for key, value in (found.get("data") or {}).items()}
    text = {key: str(value).encode() for key, value in (found.get("data") or {}).items()}
    return text | {key: base64.b64decode(value) for key, value in (found.get("binaryData") or {}).items()}


# -- the downward API ------------------------------------------------------------------------------------------


def field_value(pod: Object, path: str, facts: DownwardFacts) -> str:
    spec, own = pod["spec"], pod["metadata"]
    plain = {
        "metadata.name": own.get("name", ""),
        "metadata.namespace": own.get("namespace", ""),
        "metadata.uid": own.get("uid", ""),
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName") or "default",
        "status.hostIP": facts.host,
        "status.hostIPs": facts.host,
        "status.podIP": facts.address,
        "status.podIPs": facts.address,
    }
    if path in plain:
        return str(plain[path])
    if path in ("metadata.labels", "metadata.annotations"):
        pairs = own.get(path.partition(".")[2]) or {}
        return "\n".join(f"{key}={_quoted(str(pairs[key]))}" for key in sorted(pairs))
    keyed = _PATH.fullmatch(path)
    if keyed is None:
        raise BadConfig(f"unsupported fieldPath: {path}")
    return str((own.get(keyed[1].partition(".")[2]) or {}).get(keyed[2], ""))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def resource_value(pod: Object, container: Object, reference: Object, facts: DownwardFacts) -> str:
    """`limits.cpu` and its like, in units of the divisor, rounded up; a limit that is not set is what the node has."""
    wanted = reference.get("containerName")
    if wanted:
        everyone = [*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ())]
        container = next((one for one in everyone if one["name"] == wanted), container)
    side, _, resource = str(reference.get("resource", "")).partition(".")
    if side not in ("limits", "requests") or not resource:
        raise BadConfig(f"unsupported container resource : {reference.get('resource', '')}")
    amounts: Mapping[str, Any] = (container.get("resources") or {}).get(side) or {}
    amount = amounts.get(resource)
    if amount is None:
        amount = facts.allocatable.get(resource, "0") if side == "limits" else "0"
    divisor = quantity.exact(reference.get("divisor") or "0") or quantity.exact("1")
    return str(-(-quantity.exact(amount) // divisor))
