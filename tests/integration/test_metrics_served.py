"""Metrics and health over real sockets: of a plane behind its token, of a scheduler on a port of its own."""

from __future__ import annotations

import asyncio
import base64
import ssl
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from echelon.api.scheme import POD_GROUPS, PODS
from echelon.runtime.config import PlaneSettings
from echelon.runtime.operations.metrics_server import Address, CannotListen, serve_metrics
from echelon.runtime.plane import running
from echelon.testing.builders import make_pod, make_pod_group

_PATIENCE_SECONDS = 60.0


def get(url: str, token: str = "", authority: str = "") -> tuple[int, str]:
    trust = ssl.create_default_context(cadata=authority) if authority else None
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=20, context=trust) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


def samples(text: str) -> dict[str, float]:
    """Every sample of a scrape under its name, those with labels summed up."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


async def test_a_plane_tells_of_its_scheduler_and_its_server_whoever_has_its_token(tmp_path: Path) -> None:
    async with running(PlaneSettings(tmp_path)) as plane:
        config = yaml.safe_load(plane.kubeconfig.read_text())
        authority = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
        token = config["users"][0]["user"]["token"]
        await plane.verbs.create(POD_GROUPS, make_pod_group("g", gang=2), "default")
        for number in range(2):
            await plane.verbs.create(PODS, make_pod(f"p{number}", group="g"), "default")
        assert (await asyncio.to_thread(get, f"{plane.url}/version", token, authority))[0] == 200
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            status, text = await asyncio.to_thread(get, f"{plane.url}/metrics", token, authority)
            assert status == 200
            found = samples(text)
            if found.get("echelon_scheduler_bindings_total", 0.0) == 2:
                break
            assert time.monotonic() < deadline, text
            await asyncio.sleep(0.05)
        assert found["scheduler_schedule_attempts_total"] == 2
        assert found["scheduler_pending_pods"] == 0
        assert found["apiserver_request_total"] >= 1
        assert found["process_resident_memory_bytes"] > 0
        assert (await asyncio.to_thread(get, f"{plane.url}/metrics", "", authority))[0] in (401, 403)


async def test_health_is_one_thing_and_readiness_another() -> None:
    ready = False
    async with serve_metrics(CollectorRegistry(), Address("127.0.0.1", 0), lambda: ready) as url:
        assert await asyncio.to_thread(get, f"{url}/healthz") == (200, "ok")
        assert (await asyncio.to_thread(get, f"{url}/readyz"))[0] == 503
        ready = True
        assert await asyncio.to_thread(get, f"{url}/readyz") == (200, "ok")
        assert (await asyncio.to_thread(get, f"{url}/nothing"))[0] == 404


async def test_a_port_in_use_is_said_so() -> None:
    async with serve_metrics(CollectorRegistry(), Address("127.0.0.1", 0), lambda: True) as url:
        port = int(url.rpartition(":")[2])
        with pytest.raises(CannotListen, match=f"cannot serve metrics on 127.0.0.1:{port}: "):
            async with serve_metrics(CollectorRegistry(), Address("127.0.0.1", port), lambda: True):
                pass
