"""Python clients as published, each in an environment of its own and with default settings."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .environments import HERE, interpreter

PROGRAMS = {
    "kubernetes 37": "official.py",
    "kubernetes 35": "official.py",
    "kubernetes_asyncio": "asynchronous.py",
    "kr8s": "kr8s_objects.py",
    "lightkube": "lightkube_client.py",
    "pykube-ng": "pykube_objects.py",
    "kubeflow": "kubeflow_trainer.py",
}

pytestmark = pytest.mark.clients


@pytest.mark.conformance("API-106", "API-107", "TJ-96", "TJ-98")
@pytest.mark.parametrize("client", PROGRAMS)
def test_python_client_does_all_it_offers(client: str, kubeconfig: Path, tmp_path: Path) -> None:
    namespace = client.replace(" ", "-").replace("_", "-")
    command = [interpreter(client), HERE / "python" / PROGRAMS[client], kubeconfig, namespace]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=200, check=False, env={"HOME": str(tmp_path)}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "namespace is gone"
