"""The operator of docs/guides/other-operators.md does what the guide says, run as the guide runs it."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from .environments import interpreter

pytestmark = pytest.mark.clients
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "other-operators.md"
WHERE = ("example.com", "v1", "default", "sweeps")


def block(language: str, name: str) -> str:
    found = re.search(rf"^```{language}\n# {name}\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert found, f"the guide has no {name}"
    return found[1]


def test_the_operator_of_the_guide_makes_jobs_that_go_with_their_sweep(kubeconfig: Path, tmp_path: Path) -> None:
    program, log = tmp_path / "sweeps.py", tmp_path / "operator.log"
    program.write_text(block("python", "sweeps.py"))
    api = config.new_client_from_config(str(kubeconfig))
    custom, jobs = client.CustomObjectsApi(api), client.BatchV1Api(api)
    client.ApiextensionsV1Api(api).create_custom_resource_definition(yaml.safe_load(block("yaml", "sweeps.yaml")))
    with log.open("w") as told:
        operator = subprocess.Popen(
            [interpreter("operator").with_name("kopf"), "run", "--namespace", "default", program],
            env={"HOME": str(tmp_path), "KUBECONFIG": str(kubeconfig)}, stdout=told, stderr=told,
        )  # fmt: skip
        try:
            custom.create_namespaced_custom_object(*WHERE, yaml.safe_load(block("yaml", "sweep.yaml")))
            until(lambda: started(custom) == 2, log)
            until(lambda: started(custom) == 3, log)
            job = jobs.read_namespaced_job("rates", "default")
            assert (job.spec.completions, job.spec.parallelism) == (3, 2)
            custom.delete_namespaced_custom_object(*WHERE, "rates")
            until(lambda: not jobs.list_namespaced_job("default").items, log)
        finally:
            operator.terminate()
            operator.wait(timeout=30)
    api.close()


def started(custom: Any) -> int:
    try:
        found = custom.get_namespaced_custom_object(*WHERE, "rates")
    except ApiException:
        return 0
    count: int = found.get("status", {}).get("started", 0)
    return count


def until(holds: Callable[[], bool], log: Path, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
