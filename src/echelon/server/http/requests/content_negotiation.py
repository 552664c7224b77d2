"""Content negotiation: the object, a Table or metadata only; JSON, or protobuf for clients that accept nothing else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from ....api.errors import ApiError

_JSON_TYPES = ("application/json", "application/*", "*/*")
PROTOBUF = "application/vnd.kubernetes.protobuf"
_META_VERSIONS = ("v1", "v1beta1")


@dataclass(frozen=True)
class Form:
    shape: Literal["object", "table", "metadata"] = "object"
    #: The version of meta.k8s.io that tables and metadata are written in.
    version: str = "v1"
    protobuf: bool = False


PLAIN = Form()


@lru_cache(maxsize=256)
def form_of(accept: str, *, custom: bool = False) -> Form:
    """The first supported JSON clause of an Accept header, else the first of protobuf; 406 if there is none.

    JSON comes first because it is the cheaper one here, and clients that prefer protobuf list JSON too.  Metadata comes
    as it is preferred: in protobuf its items have no kind, which Go's metadata client relies on.  Objects of custom
    kinds have no protobuf form, but their metadata has.
    """
    if not accept.strip():
        return PLAIN
    in_protobuf: Form | None = None
    for clause in accept.split(","):
        media_type, parameters = _clause(clause)
        form = _form(parameters)
        if form is None:
            continue
        if media_type in _JSON_TYPES:
            return form
        if media_type == PROTOBUF and form.shape == "metadata":
            return replace(form, protobuf=True)
        if media_type == PROTOBUF and in_protobuf is None and _has_protobuf(form, custom):
            in_protobuf = replace(form, protobuf=True)
    if in_protobuf is None:
        raise not_acceptable(custom=custom)
    return in_protobuf


def not_acceptable(*, custom: bool) -> ApiError:
    accepted = "application/json" if custom else f"application/json, {PROTOBUF}"
    return ApiError(406, "NotAcceptable", f"only the following media types are accepted: {accepted}")


def _form(parameters: dict[str, str]) -> Form | None:
    wanted = parameters.get("as", "")
    if not wanted:
        return PLAIN
    if parameters.get("g") == "meta.k8s.io" and parameters.get("v") in _META_VERSIONS:
        if wanted == "Table":
            return Form("table", parameters["v"])
        if wanted in ("PartialObjectMetadata", "PartialObjectMetadataList"):
            return Form("metadata", parameters["v"])
    return None


def _has_protobuf(form: Form, custom: bool) -> bool:
    return form.shape == "object" and not custom


def only_protobuf(accept: str) -> bool:
    """Whether an error has to be told in protobuf."""
    try:
        return form_of(accept).protobuf
    except ApiError:
        return False


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
