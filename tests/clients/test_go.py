"""client-go 0.37 with default settings: typed clients write protobuf, an informer watches, OpenAPI v2 is parsed.

The program in `go` is built from published modules, so Go must be present; the first build takes minutes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.https_server import in_thread

PROGRAM = Path(__file__).parent / "go"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built program; `ECHELON_GO_CLIENT` names one that has been built already."""
    built = os.environ.get("ECHELON_GO_CLIENT")
    if built:
        return Path(built)
    go = shutil.which("go")
    if go is None:
        pytest.skip("NO GO ON PATH: client-go was not tested")
    target = tmp_path_factory.mktemp("go") / "client"
    command = [go, "build", "-p", "2", "-mod=readonly", "-buildvcs=false", "-o", str(target), "."]
    done = subprocess.run(command, cwd=PROGRAM, capture_output=True, text=True, timeout=1700, check=False)
    assert done.returncode == 0, done.stderr
    return target


@pytest.mark.cluster
@pytest.mark.timeout(1800)
def test_client_go_writes_and_watches_with_default_settings(program: Path, tmp_path: Path) -> None:
    with in_thread(tmp_path / "plane") as server:
        kubeconfig = tmp_path / "kubeconfig"
        server.write_kubeconfig(kubeconfig)
        done = subprocess.run(
            [program, kubeconfig], capture_output=True, text=True, timeout=60, check=False, env={"HOME": str(tmp_path)}
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "openapi v2 says the same in both forms"
