"""An operator written with kopf runs against the embedded plane as `kopf run` starts it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config

from .environments import HERE, interpreter

pytestmark = pytest.mark.clients
NAMESPACE = "kopf"


@pytest.fixture
def core(kubeconfig: Path) -> Any:
    return client.CoreV1Api(config.new_client_from_config(str(kubeconfig)))


@pytest.fixture
def operator(core: Any, kubeconfig: Path, tmp_path: Path) -> Iterator[Path]:
    """What the running operator logs."""
    core.create_namespace({"metadata": {"name": NAMESPACE}})
    kopf = interpreter("kopf").with_name("kopf")
    log = tmp_path / "operator.log"
    with log.open("w") as told:
        process = subprocess.Popen(
            [kopf, "run", "--namespace", NAMESPACE, HERE / "python" / "kopf_operator.py"],
            env={"HOME": str(tmp_path), "KUBECONFIG": str(kubeconfig)}, stdout=told, stderr=told,
        )  # fmt: skip
        try:
            yield log
        finally:
            process.terminate()
            code = process.wait(timeout=30)
    assert code == 0, log.read_text()


def test_an_operator_on_kopf_follows_its_objects(core: Any, operator: Path) -> None:
    def data() -> dict[str, str]:
        found: dict[str, str] = core.read_namespaced_config_map("one", NAMESPACE).data or {}
        return found

    metadata = {"name": "one", "labels": {"work": "yes"}}
    core.create_namespaced_config_map(NAMESPACE, {"metadata": metadata, "data": {"size": "1"}})
    until(lambda: data().get("phase") == "begun", operator)
    assert core.read_namespaced_config_map("one", NAMESPACE).metadata.finalizers == [
        "kopf.zalando.org/KopfFinalizerMarker"
    ]
    core.patch_namespaced_config_map("one", NAMESPACE, {"data": {"size": "2"}})
    until(lambda: data().get("phase") == "resized to 2", operator)
    core.patch_namespaced_config_map("one", NAMESPACE, {"data": {"broken": "yes"}})
    until(lambda: data().get("phase") == "mended after 1", operator)

    spec = {"containers": [{"name": "c", "image": "busybox", "command": ["sleep", "1000"]}]}
    core.create_namespaced_pod(NAMESPACE, {"metadata": {"name": "seen"}, "spec": spec})
    until(lambda: "pod seen: MODIFIED" in operator.read_text(), operator)

    core.delete_namespaced_config_map("one", NAMESPACE)
    until(lambda: not core.list_namespaced_config_map(NAMESPACE, label_selector="work").items, operator)
    reasons = {event.reason for event in core.list_namespaced_event(NAMESPACE).items}
    assert {"Begun", "Ended"} <= reasons


def until(holds: Callable[[], bool], log: Path, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
