"""A server over the durable store, and kubectl to talk to it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from echelon.server.https_server import Server
from tests.https_server import in_thread

from . import kubectl as kubectl_module
from .kubectl import Kubectl


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with in_thread(tmp_path_factory.mktemp("plane")) as running:
        yield running


@pytest.fixture(scope="module")
def kubeconfig(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("client") / "kubeconfig"
    server.write_kubeconfig(path)
    return path


@pytest.fixture(scope="module")
def kubectl(kubeconfig: Path) -> Kubectl:
    if kubectl_module.PATH is None:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("no kubectl on PATH: the tests with the real kubectl DO NOT RUN", stacklevel=1)
        pytest.skip("NO KUBECTL ON PATH: nothing here was tested against the real client")
    return Kubectl(kubeconfig, kubeconfig.parent / "cache")
