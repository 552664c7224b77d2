"""The Service `default/kubernetes` and its endpoints: where pods of a cluster find its API server."""

from __future__ import annotations

from ...api.errors import ApiError
from ...api.scheme import ENDPOINT_SLICES, ENDPOINTS, SERVICES, Object, Resource
from ...api.verbs import DeleteOptions, WriteOptions
from ..objects.stored_objects import Access
from ..verbs.create import create
from ..verbs.delete import delete
from ..verbs.update import update

_NAME, _NAMESPACE = "kubernetes", "default"
#: The first address of the range of services, as on a real cluster.
_CLUSTER_IP = "10.0.0.1"
_PORT = "https"


def _objects(address: str, port: int) -> list[tuple[Resource, Object]]:
    service = {
        "metadata": {"name": _NAME, "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "clusterIP": _CLUSTER_IP,
            "clusterIPs": [_CLUSTER_IP],
            "internalTrafficPolicy": "Cluster",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": _PORT, "port": 443, "protocol": "TCP", "targetPort": port}],
        },
    }
    endpoints = {
        "metadata": {"name": _NAME, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [{"addresses": [{"ip": address}], "ports": [{"name": _PORT, "port": port, "protocol": "TCP"}]}],
    }
    endpoint_slice = {
        "metadata": {"name": _NAME, "labels": {"kubernetes.io/service-name": _NAME}},
        "addressType": "IPv6" if ":" in address else "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": _PORT, "port": port, "protocol": "TCP"}],
    }
    return [(SERVICES, service), (ENDPOINTS, endpoints), (ENDPOINT_SLICES, endpoint_slice)]


async def publish(access: Access, address: str, port: int) -> None:
    """Create or update the objects for a server that listens there."""
    for resource, obj in _objects(address, port):
        await _put(access, resource, obj, _NAMESPACE)


async def _put(access: Access, resource: Resource, obj: Object, namespace: str) -> None:
    name = obj["metadata"]["name"]
    try:
        if access.get(resource, name, namespace) is not None:
            await update(access, resource, obj, namespace, "", WriteOptions())
            return
    except ApiError as error:
        if error.reason != "Invalid":
            raise
        # What cannot change, such as the family of addresses, is made anew.
        await delete(access, resource, name, namespace, DeleteOptions())
    await create(access, resource, obj, namespace, WriteOptions())
