"""Options of `echelon install` about its pods."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from echelon.cli import main


def rendered(*arguments: str) -> dict[str, Any]:
    """The pods of each part, by its name."""
    done = CliRunner().invoke(main, ["install", "--render", *arguments])
    assert done.exit_code == 0, done.output
    found = [obj for obj in yaml.load_all(done.output, Loader=yaml.CSafeLoader) if obj and obj["kind"] == "Deployment"]
    return {obj["metadata"]["name"].removeprefix("echelon-"): obj["spec"]["template"]["spec"] for obj in found}


def test_without_options_pods_are_critical_and_run_on_linux() -> None:
    for pod in rendered().values():
        assert pod["priorityClassName"] == "system-cluster-critical"
        assert pod["nodeSelector"] == {"kubernetes.io/os": "linux"}
        assert not {"tolerations", "imagePullSecrets"} & set(pod)


def test_what_is_chosen_is_in_the_pods_of_both_parts() -> None:
    given = ("--image-pull-secret", "a", "--image-pull-secret", "b", "--priority-class", "", "--node-selector", "x=y=z")
    for pod in rendered(*given).values():
        assert pod["imagePullSecrets"] == [{"name": "a"}, {"name": "b"}]
        assert "priorityClassName" not in pod
        assert pod["nodeSelector"] == {"kubernetes.io/os": "linux", "x": "y=z"}


@pytest.mark.parametrize(
    ("text", "toleration"),
    [
        ("gpu", {"key": "gpu", "operator": "Exists"}),
        ("gpu=", {"key": "gpu", "operator": "Equal", "value": ""}),
        ("gpu=a100:NoSchedule", {"key": "gpu", "operator": "Equal", "value": "a100", "effect": "NoSchedule"}),
        ("example.com/gpu:NoExecute", {"key": "example.com/gpu", "operator": "Exists", "effect": "NoExecute"}),
    ],
)
def test_tolerations_are_written_as_taints_are(text: str, toleration: dict[str, str]) -> None:
    assert rendered("--toleration", text)["scheduler"]["tolerations"] == [toleration]


def test_requests_are_those_of_their_part_and_the_rest_stays() -> None:
    pods = rendered("--requests", "scheduler:memory=4Gi")
    requests = {part: pod["containers"][0]["resources"]["requests"] for part, pod in pods.items()}
    assert requests == {
        "scheduler": {"cpu": "500m", "memory": "4Gi"},
        "controllers": {"cpu": "100m", "memory": "256Mi"},
    }


@pytest.mark.parametrize(
    ("option", "text", "words"),
    [
        ("--node-selector", "gpu", "--node-selector gpu: must be KEY=VALUE"),
        (
            "--toleration",
            "gpu:Never",
            "--toleration gpu:Never: must be KEY[=VALUE][:EFFECT], the effect one of NoSchedule",
        ),
        ("--toleration", "", "--toleration : must be KEY"),
        ("--requests", "cpu=2", "--requests cpu=2: must be PART:NAME=AMOUNT"),
        ("--requests", "webhook:cpu=2", "the part one of scheduler, controllers"),
        ("--requests", "scheduler:cpu", "--requests scheduler:cpu: cpu: must be KEY=VALUE"),
        ("--requests", "scheduler:cpu=lots", "--requests scheduler:cpu=lots: cpu: quantities must match"),
    ],
)
def test_a_mistake_is_told_with_what_it_should_be(option: str, text: str, words: str) -> None:
    done = CliRunner().invoke(main, ["install", "--render", option, text])
    assert done.exit_code == 2
    assert words in done.output.replace("\n", " ")
