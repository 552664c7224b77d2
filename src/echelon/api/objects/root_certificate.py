"""The ConfigMap by which clients inside a cluster know the server: its name, its content, and who has the original."""

from __future__ import annotations

from ..scheme import Object

NAME = "kube-root-ca.crt"
#: The server writes the original here; a controller copies it to all namespaces.
SOURCE_NAMESPACE = "kube-system"
_DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


def root_certificate(authority_pem: str) -> Object:
    """The original, of a server with this authority."""
    about = {"name": NAME, "namespace": SOURCE_NAMESPACE, "annotations": {"kubernetes.io/description": _DESCRIPTION}}
    return {"metadata": about, "data": {"ca.crt": authority_pem}}
