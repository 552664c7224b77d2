"""Kubeconfigs of the administrator and of added users: server, CA certificate, credentials."""

from __future__ import annotations

import base64
from pathlib import Path

import yaml

from .certificates import ClientCertificate, write_secret


def write(path: Path, url: str, authority_pem: bytes, token: str) -> None:
    """Write the kubeconfig of the administrator."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_secret(path, text(url, authority_pem, token).encode())


def text(url: str, authority_pem: bytes, credential: str | ClientCertificate, user: str = "echelon") -> str:
    """A kubeconfig with one cluster, one user and one current context; the credential is a token or a certificate."""
    if isinstance(credential, str):
        shown = {"token": credential}
    else:
        shown = {
            "client-certificate-data": base64.b64encode(credential.certificate_pem).decode(),
            "client-key-data": base64.b64encode(credential.key_pem).decode(),
        }
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "echelon",
        "clusters": [
            {
                "name": "echelon",
                "cluster": {
                    "server": url,
                    "certificate-authority-data": base64.b64encode(authority_pem).decode(),
                },
            }
        ],
        "users": [{"name": user, "user": shown}],
        "contexts": [{"name": "echelon", "context": {"cluster": "echelon", "user": user, "namespace": "default"}}],
    }
    return yaml.safe_dump(content, sort_keys=False)
