"""Pods that report progress: address, token and authority, where they are asked for."""

from __future__ import annotations

import pytest

from echelon.api.objects import meta
from echelon.api.scheme import CONFIG_MAPS, JOB_SETS, Object
from tests.unit.decide.trainjob.stage import LLM, TORCH, Stage, runtime, trainjob

ASKED = {"echelon.dev/progress-reports": "true"}
ROOT: Object = {"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": "pem"}}
AUDIENCE = "trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs/train/status"
FOLDER = "/var/run/secrets/kubeflow/trainer"


def test_the_trainers_containers_get_address_token_and_authority() -> None:
    stage = Stage(trainjob(LLM, annotations=ASKED), beside=[(CONFIG_MAPS, ROOT)])
    env = stage.env("node")
    assert env["KUBEFLOW_TRAINER_SERVER_URL"] == (
        f"https://$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)/apis/{AUDIENCE}"
    )
    assert env["KUBEFLOW_TRAINER_SERVER_CA_CERT"] == f"{FOLDER}/ca.crt"
    assert env["KUBEFLOW_TRAINER_SERVER_TOKEN"] == f"{FOLDER}/token"
    token = {"audience": AUDIENCE, "expirationSeconds": 3600, "path": "token"}
    trusted = {"name": "train-tls-config", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    volume = {
        "name": "kubeflow-trainer-token",
        "projected": {"sources": [{"serviceAccountToken": token}, {"configMap": trusted}]},
    }
    assert volume in stage.pod("node")["volumes"]
    mount = {"name": "kubeflow-trainer-token", "mountPath": FOLDER, "readOnly": True}
    assert mount in stage.container("node")["volumeMounts"]
    made = stage.get(CONFIG_MAPS, "train-tls-config")
    assert made["data"] == {"ca.crt": "pem"}
    assert meta.controlled_by(made, "t")
    assert "KUBEFLOW_TRAINER_SERVER_URL" not in stage.env("dataset-initializer")


@pytest.mark.parametrize(
    ("on_runtime", "on_trainjob", "injected"),
    [("", "", False), ("true", "", True), ("true", "false", False), ("false", "true", True)],
)
def test_the_trainjobs_word_counts_before_the_runtimes(on_runtime: str, on_trainjob: str, injected: bool) -> None:
    made = runtime(TORCH)
    key = "echelon.dev/progress-reports"
    made["metadata"]["annotations"] = {key: on_runtime} if on_runtime else {}
    asked = {key: on_trainjob} if on_trainjob else {}
    stage = Stage(trainjob(TORCH, annotations=asked), made, beside=[(CONFIG_MAPS, ROOT)])
    assert ("KUBEFLOW_TRAINER_SERVER_URL" in stage.env("node")) is injected
    assert ("train-tls-config" in stage.names(CONFIG_MAPS)) is injected


def test_a_variable_of_the_users_own_stays() -> None:
    own = [{"name": "KUBEFLOW_TRAINER_SERVER_URL", "value": "https://mine"}]
    stage = Stage(trainjob(TORCH, trainer={"env": own}, annotations=ASKED), beside=[(CONFIG_MAPS, ROOT)])
    assert stage.env("node")["KUBEFLOW_TRAINER_SERVER_URL"] == "https://mine"


def test_without_the_servers_authority_it_waits_and_says_so() -> None:
    stage = Stage(trainjob(TORCH, annotations=ASKED))
    assert stage.names(JOB_SETS) == []
    assert "kube-root-ca.crt" in stage.plan().notes[0].message


def test_where_nobody_takes_reports_an_event_says_so_and_pods_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stage, "takes_reports", False)
    stage = Stage(trainjob(TORCH, annotations=ASKED))
    assert "KUBEFLOW_TRAINER_SERVER_URL" not in stage.env("node")
    assert [reason for _, reason, _ in stage.events if reason == "ProgressReportsUnavailable"] != []
    assert stage.plan().notes == ()
