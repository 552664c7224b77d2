"""Accept headers and the forms they ask for."""

from __future__ import annotations

import pytest

from echelon.api.errors import ApiError
from echelon.server.http.requests.content_negotiation import (
    PLAIN,
    PROTOBUF,
    Form,
    form_of,
    wants_aggregated_discovery,
)

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.conformance("API-102")
@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", PLAIN),
        ("*/*", PLAIN),
        ("application/json", PLAIN),
        ("application/vnd.kubernetes.protobuf,application/json", PLAIN),
        (f"{TABLE},application/json", Form("table")),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", Form("table", "v1beta1")),
        ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", PLAIN),
        ("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", Form("metadata")),
        ("application/json; as=PartialObjectMetadata; v=v1; g=meta.k8s.io", Form("metadata")),
        ("application/vnd.kubernetes.protobuf", Form(protobuf=True)),
        ("application/vnd.kubernetes.protobuf, text/foo", Form(protobuf=True)),
        (f"{PROTOBUF};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", Form("metadata", protobuf=True)),
        (
            f"{PROTOBUF};as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json;as=PartialObjectMetadata;v=v1;"
            "g=meta.k8s.io,application/json",
            Form("metadata", protobuf=True),
        ),
        (f"{PROTOBUF};as=Table;v=v1;g=meta.k8s.io,{PROTOBUF}", Form(protobuf=True)),
    ],
)
def test_first_acceptable_clause_wins(accept: str, form: Form) -> None:
    assert form_of(accept) == form


@pytest.mark.conformance("API-102")
@pytest.mark.parametrize(
    ("accept", "custom"), [("text/foo", False), (f"{PROTOBUF};as=Table;v=v1;g=meta.k8s.io", False), (PROTOBUF, True)]
)
def test_nothing_acceptable_is_refused(accept: str, custom: bool) -> None:
    with pytest.raises(ApiError) as refused:
        form_of(accept, custom=custom)
    assert (refused.value.code, refused.value.reason) == (406, "NotAcceptable")


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json", True),
        ("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json", False),
        ("application/json", False),
        ("", False),
    ],
)
def test_aggregated_discovery_is_for_those_who_ask(accept: str, wanted: bool) -> None:
    assert wants_aggregated_discovery(accept) is wanted
