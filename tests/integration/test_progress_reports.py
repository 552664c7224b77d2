"""What a training reports of itself, through HTTPS: by a token for its own TrainJob, within bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.https_server import Answer, Https, in_thread

CORE, TRAINER = "/api/v1/namespaces/default", "/apis/trainer.kubeflow.org/v1alpha1"
JOB = f"{TRAINER}/namespaces/default/trainjobs/train"
SINCE = "2026-11-01T10:00:00Z"
RUNTIME = {
    "metadata": {"name": "mine"},
    "spec": {
        "template": {
            "spec": {
                "replicatedJobs": [
                    {"name": "node", "template": {"spec": {"template": {"spec": {"containers": [{"name": "node"}]}}}}}
                ]
            }
        }
    },
}


@pytest.fixture(scope="module")
def https(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Https]:
    with in_thread(tmp_path_factory.mktemp("plane"), authorization="rbac") as server:
        client = Https(server)
        for name in ("default", "other"):
            body = {"metadata": {"name": name}}
            if name != "default":
                made(client("POST", "/api/v1/namespaces", body))
            made(client("POST", f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "runner"}}))
        made(client("POST", f"{TRAINER}/clustertrainingruntimes", RUNTIME))
        yield client


@pytest.fixture(autouse=True)
def trainjob(https: Https) -> Iterator[None]:
    body = {"metadata": {"name": "train"}, "spec": {"runtimeRef": {"name": "mine"}}}
    made(https("POST", f"{TRAINER}/namespaces/default/trainjobs", body))
    yield
    assert https("DELETE", JOB).status == 200


def made(answer: Answer) -> Any:
    assert answer.status == 201, answer.body
    return answer.json()


def token(https: Https, job: str = "train", *, account: str = "default", audience: str = "") -> str:
    """A token as a pod of the TrainJob gets it."""
    wanted = audience or f"trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs/{job}/status"
    path = f"/api/v1/namespaces/{account}/serviceaccounts/runner/token"
    return str(made(https("POST", path, {"spec": {"audiences": [wanted]}}))["status"]["token"])


def report(https: Https, body: Any, path: str = JOB, authorization: str | None = None) -> Answer:
    shown = f"Bearer {token(https)}" if authorization is None else authorization
    return https("POST", f"{path}/status", body, authorization=shown)


def stored(https: Https) -> Any:
    return (https("GET", JOB).json().get("status") or {}).get("trainerStatus")


def said(**fields: Any) -> Any:
    return {"trainerStatus": {"lastUpdatedTime": SINCE, **fields}}


@pytest.mark.conformance("TJ-74")
def test_a_report_is_stored_and_answered_with_itself(https: Https) -> None:
    metrics = [{"name": "loss", "value": "0.25"}, {"name": "accuracy", "value": "0.95"}]
    body = said(progressPercentage=42, estimatedRemainingSeconds=120, metrics=metrics)
    answer = report(https, body)
    assert (answer.status, answer.json()) == (200, body)
    assert stored(https) == body["trainerStatus"]
    table = https("GET", JOB, accept="application/json;as=Table;g=meta.k8s.io;v=v1").json()
    assert table["rows"][0]["cells"][-1] == "42%"


@pytest.mark.conformance("TJ-75")
def test_what_a_later_report_leaves_out_is_gone(https: Https) -> None:
    assert report(https, said(progressPercentage=42)).status == 200
    assert report(https, said(estimatedRemainingSeconds=7)).status == 200
    assert stored(https) == {"lastUpdatedTime": SINCE, "estimatedRemainingSeconds": 7}


@pytest.mark.conformance("TJ-76")
@pytest.mark.parametrize("body", [{}, {"trainerStatus": None}, {"other": 1}])
def test_an_empty_report_changes_nothing(https: Https, body: Any) -> None:
    assert report(https, said(progressPercentage=42)).status == 200
    answer = report(https, body)
    assert (answer.status, answer.json()) == (200, {})
    assert stored(https)["progressPercentage"] == 42


@pytest.mark.conformance("TJ-77")
@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"progressPercentage": 150}, "progressPercentage"),
        ({"progressPercentage": -1}, "progressPercentage"),
        ({"estimatedRemainingSeconds": -1}, "estimatedRemainingSeconds"),
        ({"lastUpdatedTime": None}, "lastUpdatedTime"),
        ({"metrics": [{"name": "", "value": "1"}]}, "metrics"),
        ({"metrics": [{"name": "m", "value": "1"}] * 257}, "metrics"),
        ({"progressPercentage": "half"}, "progressPercentage"),
    ],
)
def test_a_report_out_of_bounds_is_refused_and_not_stored(https: Https, fields: Any, named: str) -> None:
    answer = report(https, said(**fields))
    assert answer.status == 422, answer.body
    status = answer.json()
    assert (status["kind"], status["reason"]) == ("Status", "Invalid")
    assert "train" in status["message"]
    assert named in status["message"]
    assert stored(https) is None


@pytest.mark.conformance("TJ-78")
def test_a_report_for_no_trainjob_makes_none(https: Https) -> None:
    path = f"{TRAINER}/namespaces/default/trainjobs/absent"
    answer = report(https, said(progressPercentage=1), path, f"Bearer {token(https, 'absent')}")
    assert (answer.status, answer.json()["message"]) == (404, "Train job not found")
    assert https("GET", path).status == 404


@pytest.mark.conformance("TJ-79")
@pytest.mark.parametrize(
    "scheme", ["", "Bearer", "Basic {}", "Bearer {} more", "Token {}", "{}", "Bearer {}x", "Bearer  "]
)
def test_without_one_good_token_nobody_reports(https: Https, scheme: str) -> None:
    answer = report(https, said(progressPercentage=1), authorization=scheme.format(token(https)))
    assert (answer.status, answer.json()["message"]) == (403, "Forbidden")
    assert stored(https) is None


@pytest.mark.conformance("TJ-79")
def test_the_scheme_is_read_in_any_case(https: Https) -> None:
    assert report(https, said(), authorization=f"bEARER   {token(https)}").status == 200


@pytest.mark.conformance("TJ-79")
def test_a_token_for_something_else_does_not_report(https: Https) -> None:
    wrong = [
        token(https, "other-job"),
        token(https, audience="https://kubernetes.default.svc.cluster.local"),
        token(https, account="other"),
    ]
    for one in wrong:
        assert report(https, said(), authorization=f"Bearer {one}").status == 403
    assert https("POST", f"{JOB}/status", said()).status == 403, "the token of the administrator is not for reports"


def test_a_token_for_reports_opens_nothing_else(https: Https) -> None:
    shown = {"authorization": f"Bearer {token(https)}"}
    assert https("GET", JOB, **shown).status == 401
    assert https("PATCH", f"{JOB}/status", {}, content_type="application/merge-patch+json", **shown).status == 401


@pytest.mark.conformance("TJ-79")
@pytest.mark.parametrize("body", ["invalid", "{}{}", "{} more", "{}]", "[]", '{"trainerStatus": 4}', b"\xff"])
def test_what_is_no_report_is_refused(https: Https, body: Any) -> None:
    answer = report(https, body)
    assert (answer.status, answer.json()["message"]) == (422, "Invalid payload")


@pytest.mark.conformance("TJ-79")
def test_a_report_has_at_most_64_kib(https: Https) -> None:
    body = said(metrics=[{"name": "m", "value": "0.5"}] * 40_000)
    answer = report(https, body)
    assert (answer.status, answer.json()["message"]) == (413, "Payload too large")


def test_a_controllers_write_of_the_status_keeps_the_report(https: Https) -> None:
    assert report(https, said(progressPercentage=42)).status == 200
    found = https("GET", JOB).json()
    counts = {"name": "node", "ready": 0, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0}
    found["status"]["jobsStatus"] = [counts]
    assert https("PUT", f"{JOB}/status", found).status == 200
    assert report(https, said(progressPercentage=43)).status == 200
    status = https("GET", JOB).json()["status"]
    assert status["jobsStatus"] == [counts]
    assert status["trainerStatus"]["progressPercentage"] == 43
