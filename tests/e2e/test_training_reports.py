"""A TrainJob whose processes tell the server how far they are."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from . import kubectl as kubectl_module
from .test_process_nodes import client, started, until
from .test_training import condition

pytestmark = pytest.mark.skipif(kubectl_module.PATH is None, reason="no kubectl on PATH")

REPORTING = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: report
  annotations: {echelon.dev/progress-reports: "true"}
spec:
  runtimeRef: {name: torch-distributed}
  trainer:
    command:
    - python
    - -c
    - |
      import datetime, json, os, ssl, urllib.request
      url, trusted, token = (os.environ["KUBEFLOW_TRAINER_SERVER_" + name] for name in ("URL", "CA_CERT", "TOKEN"))
      now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
      metrics = [{"name": "loss", "value": "0.25"}, {"name": "accuracy", "value": "0.9"}]
      status = {"progressPercentage": 42, "estimatedRemainingSeconds": 120, "metrics": metrics, "lastUpdatedTime": now}
      said = urllib.request.Request(url, json.dumps({"trainerStatus": status}).encode(), method="POST")
      said.add_header("Authorization", "Bearer " + open(token).read())
      said.add_header("Content-Type", "application/json")
      print(urllib.request.urlopen(said, context=ssl.create_default_context(cafile=trusted)).status)
"""


@pytest.mark.conformance("TJ-80")
@pytest.mark.parametrize("tier", ["net", "names", "plain"])
def test_a_process_reports_its_progress(tmp_path: Path, tier: str) -> None:
    with started(tmp_path / "data", "--tier", tier) as up:
        kubectl = client(up, tmp_path)
        kubectl("apply", manifest=yaml.safe_load(REPORTING))
        until(lambda: condition(kubectl, "trainjob", "report", "Complete"), 40)
        status = kubectl.object("trainjob", "report")["status"]["trainerStatus"]
        assert (status["progressPercentage"], status["estimatedRemainingSeconds"]) == (42, 120)
        assert [metric["name"] for metric in status["metrics"]] == ["loss", "accuracy"]
