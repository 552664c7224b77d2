"""client-go 0.37 with default settings: typed clients write protobuf, an informer watches, OpenAPI v2 is parsed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.https_server import in_thread

from .environments import program

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1800)]


def test_client_go_writes_and_watches_with_default_settings(tmp_path: Path) -> None:
    client = program("client-go")
    with in_thread(tmp_path / "plane") as server:
        kubeconfig = tmp_path / "kubeconfig"
        server.write_kubeconfig(kubeconfig)
        done = subprocess.run(
            [client, kubeconfig], capture_output=True, text=True, timeout=60, check=False, env={"HOME": str(tmp_path)}
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "openapi v2 says the same in both forms"


def test_a_manager_on_controller_runtime_reconciles(kubeconfig: Path, tmp_path: Path) -> None:
    """Leader election, cache and index, finalizers, owned objects, patches, server-side apply, events."""
    done = subprocess.run(
        [program("controller-runtime"), kubeconfig], capture_output=True, text=True, timeout=100, check=False,
        env={"HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "done"
