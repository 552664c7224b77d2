"""Starting and stopping the server."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
import yaml

from echelon.base.rng import Rng
from echelon.runtime.clocks import RealClock
from echelon.server.https_server import AddressRefused, ServerSettings, serve
from echelon.server.objects.object_cache import header_of
from echelon.server.pipeline import Pipeline
from echelon.store.sqlite import open_sqlite
from tests.https_server import Https, in_thread, running


async def test_a_port_in_use_is_one_clear_error(tmp_path: Path) -> None:
    async with running(tmp_path) as (server, pipeline):
        with pytest.raises(AddressRefused, match=f"port {server.port} on 127.0.0.1 is in use; set another with --port"):
            await serve(pipeline, ServerSettings(tmp_path, server.port), RealClock())


async def test_kubeconfig_is_written_when_the_port_is_known(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path, header_of)
    pipeline = Pipeline(store, RealClock(), Rng(1))
    await pipeline.bootstrap()
    server = await serve(pipeline, ServerSettings(tmp_path, kubeconfig=tmp_path / "kubeconfig"), RealClock())
    try:
        written = yaml.safe_load((tmp_path / "kubeconfig").read_text())
        assert written["clusters"][0]["cluster"]["server"] == server.url == f"https://127.0.0.1:{server.port}"
        assert stat.S_IMODE((tmp_path / "kubeconfig").stat().st_mode) == 0o600
    finally:
        await server.stop()
        await store.close()


def test_token_certificate_and_objects_survive_a_restart(tmp_path: Path) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    with in_thread(tmp_path) as first:
        made = Https(first)("POST", path, {"metadata": {"name": "kept"}}).json()
    with in_thread(tmp_path) as second:
        assert (second.token, second.authority_pem) == (first.token, first.authority_pem)
        assert Https(second)("GET", f"{path}/kept").json() == made
