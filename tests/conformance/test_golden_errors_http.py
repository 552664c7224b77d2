"""Every refusal recorded from a real 1.37.1 server, asked again of ours through HTTPS.

Code, reason and details are the same, and so is the message wherever a person would have written it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from echelon.api import scheme
from tests.https_server import Https, in_thread

RECORDED = json.loads((Path(__file__).parent / "data" / "errors.json").read_text())
CASES = {case["case"]: case for case in RECORDED["cases"]}

#: Where our message is another one, and why.
OTHER_WORDS = {
    "workload too deep": "the real message prints a Go structure; ours prints the name of the template",
}
#: Where we accept what the real server refuses, and why.
ACCEPTED = {
    "cpg change minGroupCount": "the next release lets it change, as minCount does on a PodGroup; so do we",
}


@pytest.fixture(scope="module")
def https(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Https]:
    with in_thread(tmp_path_factory.mktemp("plane")) as server:
        client = Https(server)
        _prepare(client)
        yield client


def _prepare(client: Https) -> None:
    """The objects that the recorded requests were about."""
    made = client("POST", "/api/v1/namespaces", {"metadata": {"name": "golden"}})
    assert made.status == 201, made.body
    for obj in RECORDED["objects"]:
        resource = scheme.by_kind(obj["apiVersion"], obj["kind"])
        assert resource is not None
        root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
        place = f"{root}/namespaces/golden/{resource.plural}" if resource.namespaced else f"{root}/{resource.plural}"
        made = client("POST", place, obj)
        assert made.status == 201, made.body
        node = obj.get("spec", {}).get("nodeName")
        assert node is None or made.json()["spec"]["nodeName"] == node


@pytest.mark.conformance("API-114", "SCH-205")
@pytest.mark.parametrize("name", list(CASES))
def test_recorded_refusal(https: Https, name: str) -> None:
    case = CASES[name]
    request, expected = case["request"], case["response"]
    headers = {"content_type": request["contentType"]} if request.get("contentType") else {}
    answer = https(request["method"], request["path"], request.get("body"), **headers)
    if name in ACCEPTED:
        assert answer.status == 200, ACCEPTED[name]
        return
    assert answer.status == case["status"], answer.body
    if not isinstance(expected, dict):
        assert answer.body.decode() == expected
        return
    assert answer.json()["code"] == answer.status
    _compare(answer.json(), expected, same_words=name not in OTHER_WORDS)


def _compare(told: dict[str, Any], expected: dict[str, Any], *, same_words: bool) -> None:
    assert told["reason"] == expected["reason"]
    if same_words:
        assert told["message"] == expected["message"]
        assert told.get("details") == expected.get("details")
        return
    assert told["message"] != expected["message"], "the difference is gone: take the case off the list"
    for side in (told, expected):
        side["details"]["causes"] = [(cause["reason"], cause["field"]) for cause in side["details"]["causes"]]
    assert told["details"] == expected["details"]
