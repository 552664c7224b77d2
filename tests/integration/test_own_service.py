"""How pods of a cluster find its API server: the Service `default/kubernetes` and its endpoints."""

from __future__ import annotations

import pytest

from echelon.api.scheme import ENDPOINT_SLICES, ENDPOINTS, SERVICES
from echelon.server.pipeline import Pipeline


@pytest.mark.parametrize("addresses", [("127.0.0.1",), ("127.0.0.1", "10.1.2.3"), ("10.1.2.3", "fd00::1")])
async def test_service_and_endpoints_say_where_the_server_listens(
    pipeline: Pipeline, addresses: tuple[str, ...]
) -> None:
    for port, address in enumerate(addresses, 6443):
        await pipeline.publish(address, port)
    service = await pipeline.get(SERVICES, "kubernetes", "default")
    assert (service["spec"]["clusterIP"], service["spec"]["type"]) == ("10.0.0.1", "ClusterIP")
    assert service["spec"]["ports"] == [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}]
    endpoints = await pipeline.get(ENDPOINTS, "kubernetes", "default")
    assert endpoints["subsets"] == [
        {"addresses": [{"ip": address}], "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}
    ]
    found = await pipeline.get(ENDPOINT_SLICES, "kubernetes", "default")
    assert found["metadata"]["labels"] == {"kubernetes.io/service-name": "kubernetes"}
    assert found["endpoints"] == [{"addresses": [address], "conditions": {"ready": True}}]


async def test_publishing_the_same_again_changes_nothing(pipeline: Pipeline) -> None:
    await pipeline.publish("127.0.0.1", 6443)
    before = pipeline.resource_version
    await pipeline.publish("127.0.0.1", 6443)
    assert pipeline.resource_version == before
