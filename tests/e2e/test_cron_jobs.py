"""A CronJob with kubectl: columns, events, the Job it starts, and a Job made of it by hand."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml

from tests.e2e import kubectl as kubectl_module
from tests.e2e.kubectl import Kubectl
from tests.e2e.process import UpProcess

pytestmark = pytest.mark.skipif(kubectl_module.PATH is None, reason="needs kubectl")

NIGHTLY = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "* * * * *"
  timeZone: Europe/Berlin
  concurrencyPolicy: Forbid
  jobTemplate:
    spec:
      parallelism: 2
      completions: 2
      completionMode: Indexed
      scheduling: {schedulingPolicy: {gang: {}}}
      template:
        spec:
          restartPolicy: Never
          containers: [{name: c, image: registry.example/c:1, command: [sleep, "5"]}]
"""


def test_a_cron_job_as_its_user_sees_it(tmp_path: Path) -> None:
    up = UpProcess(tmp_path / "data", "--speed", "60")
    up.start()
    try:
        kubectl = Kubectl(up.kubeconfig, tmp_path / "cache")
        applied = kubectl.run("apply", manifest=yaml.safe_load(NIGHTLY))
        assert (applied.code, applied.err) == (0, "")
        kubectl("create", "job", "--from=cronjob/nightly", "by-hand")
        kubectl("wait", "--for=condition=Complete", "job/by-hand", "--timeout=60s")
        deadline = time.monotonic() + 60
        while "SawCompletedJob" not in (events := kubectl("events", "--for", "cronjob/nightly")):
            assert time.monotonic() < deadline, events
            time.sleep(0.2)
        assert "Created job nightly-" in events
        header, row = kubectl("get", "cronjob", "nightly").splitlines()
        assert header.split() == ["NAME", "SCHEDULE", "TIMEZONE", "SUSPEND", "ACTIVE", "LAST", "SCHEDULE", "AGE"]
        assert row.split()[:7] == ["nightly", "*", "*", "*", "*", "*", "Europe/Berlin"]
        assert "<none>" not in row
        started = [line for line in kubectl("get", "jobs", "-o", "name").split() if "nightly-" in line]
        assert started
        group = kubectl("get", "podgroups", "-o", "jsonpath={.items[*].spec.schedulingPolicy.gang.minCount}")
        assert set(group.split()) == {"2"}
    finally:
        up.stop()
