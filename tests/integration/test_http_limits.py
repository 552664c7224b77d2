"""Bodies that are too large, and large ones that must not hold up other requests."""

from __future__ import annotations

import threading
import time

import pytest

from tests.https_server import Https

MAPS = "/api/v1/namespaces/default/configmaps"


def test_a_body_with_too_many_values_is_refused(https: Https) -> None:
    owners = [{}] * 500_000
    answer = https("POST", MAPS, {"metadata": {"name": "many", "ownerReferences": owners}})
    assert (answer.status, answer.json()["reason"]) == (413, "RequestEntityTooLarge")
    assert "limit is 120000 values" in answer.json()["message"]


def test_yaml_with_too_many_values_is_refused(https: Https) -> None:
    body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: y}\nx: [" + "1," * 1_400_000 + "1]"
    answer = https("POST", MAPS, body, content_type="application/yaml")
    assert answer.status == 413


def test_an_object_that_etcd_would_not_store_is_refused(https: Https) -> None:
    answer = https("POST", MAPS, {"metadata": {"name": "m"}, "immutable": False, "data": {"a": "x" * 1_000_000}})
    assert answer.status == 201
    grown = https(
        "PATCH",
        f"{MAPS}/m",
        {"metadata": {"annotations": {"a": "y" * 200_000}}},
        content_type="application/merge-patch+json",
    )
    assert grown.status == 200
    secret = {
        "metadata": {"name": "s"},
        "spec": {"containers": [{"name": "c", "image": "i", "args": ["z" * 1_600_000]}]},
    }
    refused = https("POST", "/api/v1/namespaces/default/pods", secret)
    assert (refused.status, refused.json()["reason"]) == (413, "RequestEntityTooLarge")
    assert refused.json()["message"] == "Request entity too large: limit is 1572864"


def test_problems_beyond_the_first_two_hundred_are_counted(https: Https) -> None:
    spec = {"containers": [{"name": f"c{index}"} for index in range(500)]}
    answer = https("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": "p"}, "spec": spec})
    assert answer.status == 422
    causes = answer.json()["details"]["causes"]
    assert (len(causes), causes[-1]["message"]) == (201, "and 300 more problems")


@pytest.mark.parametrize("kind", ["json", "yaml"])
def test_others_are_answered_while_a_large_body_is_worked_on(https: Https, kind: str) -> None:
    spec = {"containers": [{"name": f"c{index}", "image": "i", "args": ["a"] * 10} for index in range(5_000)]}
    body: object = {"metadata": {"name": f"wide-{kind}"}, "spec": spec}
    if kind == "yaml":
        args = ", ".join(f"{{name: c{index}, image: i, args: [a, b, c]}}" for index in range(5_000))
        body = f"metadata: {{name: wide-{kind}}}\nspec: {{containers: [{args}]}}"
    ended = threading.Event()
    answers: list[int] = []

    def send() -> None:
        answers.append(
            https("POST", "/api/v1/namespaces/default/pods", body, content_type=f"application/{kind}").status
        )
        ended.set()

    thread = threading.Thread(target=send)
    connection = https.connect()
    connection.request("GET", "/api/v1/namespaces/default", headers=https.headers())
    connection.getresponse().read()
    thread.start()
    answered = 0
    while not ended.is_set():
        connection.request("GET", "/api/v1/namespaces/default", headers=https.headers())
        connection.getresponse().read()
        answered += 1
        time.sleep(0.01)
    thread.join()
    connection.close()
    assert answers == [201]
    # If the body were worked on in one step, one request would wait for all of it.
    assert answered > 3
