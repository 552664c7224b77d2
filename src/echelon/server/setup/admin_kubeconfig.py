"""Writes the kubeconfig of the administrator: server, CA certificate, token."""

from __future__ import annotations

import base64
from pathlib import Path

import yaml

from .certificates import write_secret


def write(path: Path, url: str, authority_pem: bytes, token: str) -> None:
    """Write a kubeconfig with one cluster, one user and one current context, all named `echelon`."""
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
        "users": [{"name": "echelon", "user": {"token": token}}],
        "contexts": [{"name": "echelon", "context": {"cluster": "echelon", "user": "echelon", "namespace": "default"}}],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_secret(path, yaml.safe_dump(content, sort_keys=False).encode())
