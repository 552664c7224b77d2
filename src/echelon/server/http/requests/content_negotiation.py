"""Content negotiation: whether the client accepts the object, a Table or metadata only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ....api.errors import ApiError

_JSON_TYPES = ("application/json", "application/*", "*/*")
_META_VERSIONS = ("v1", "v1beta1")


@dataclass(frozen=True)
class Form:
    shape: Literal["object", "table", "metadata"] = "object"
    #: The version of meta.k8s.io that tables and metadata are written in.
    version: str = "v1"


PLAIN = Form()


def form_of(accept: str) -> Form:
    """The first supported clause of an Accept header; 406 if there is none.

    Protobuf and other types are skipped: clients that prefer them list JSON too.
    """
    if not accept.strip():
        return PLAIN
    for clause in accept.split(","):
        media_type, parameters = _clause(clause)
        if media_type not in _JSON_TYPES:
            continue
        wanted = parameters.get("as", "")
        if not wanted:
            return PLAIN
        if parameters.get("g") == "meta.k8s.io" and parameters.get("v") in _META_VERSIONS:
            if wanted == "Table":
                return Form("table", parameters["v"])
            if wanted in ("PartialObjectMetadata", "PartialObjectMetadataList"):
                return Form("metadata", parameters["v"])
    raise ApiError(406, "NotAcceptable", "only the following media types are accepted: application/json")


def wants_aggregated_discovery(accept: str) -> bool:
    """Whether the first JSON clause asks for `APIGroupDiscoveryList` of `apidiscovery.k8s.io/v2`."""
    for clause in accept.split(","):
        media_type, parameters = _clause(clause)
        if media_type not in _JSON_TYPES:
            continue
        if not parameters.get("as"):
            return False
        if (parameters["as"], parameters.get("g"), parameters.get("v")) == (
            "APIGroupDiscoveryList",
            "apidiscovery.k8s.io",
            "v2",
        ):
            return True
    return False


def _clause(text: str) -> tuple[str, dict[str, str]]:
    media_type, *rest = (part.strip() for part in text.split(";"))
    parameters = dict(part.split("=", 1) for part in rest if "=" in part)
    return media_type.lower(), parameters
