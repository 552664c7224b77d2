"""The chart and the kustomize tree say what `echelon install` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from echelon.api.scheme import NAMESPACES
from echelon.deploy.objects.installation import objects, resource_of
from echelon.deploy.options import InstallOptions
from echelon.deploy.packages import files

DEPLOY = Path(__file__).parents[3] / "deploy"


def loaded(path: str, **values: str) -> list[Any]:
    text = (DEPLOY / path).read_text()
    for expression, value in values.items():
        text = text.replace(expression, value)
    return [one for one in yaml.load_all(text, Loader=yaml.CSafeLoader) if one]


def rendered(namespace: str, image: str, replicas: int, monitoring: bool) -> list[Any]:
    """What Helm makes of the chart, which has these expressions and no others."""
    given = {
        "{{ .Release.Namespace }}": namespace,
        "{{ .Values.image | quote }}": f'"{image}"',
        "{{ .Values.replicas }}": str(replicas),
        "{{- if .Values.monitoring }}": "",
        "{{- end }}": "",
    }
    found = loaded("helm/echelon/crds/kinds.yaml", **given) + loaded("helm/echelon/templates/objects.yaml", **given)
    return found + (loaded("helm/echelon/templates/monitoring.yaml", **given) if monitoring else [])


def test_what_is_in_the_folder_is_what_is_generated() -> None:
    made = files()
    there = {str(path.relative_to(DEPLOY)) for path in DEPLOY.rglob("*") if path.is_file()}
    assert there == set(made)
    for path, text in made.items():
        assert (DEPLOY / path).read_text() == text, f"deploy/{path} is out of date: run `make deploy`"


@pytest.mark.parametrize("monitoring", [False, True])
def test_the_kustomize_tree_has_the_objects_of_an_installation(monitoring: bool) -> None:
    found = loaded("kustomize/default/objects.yaml")
    if monitoring:
        found += loaded("kustomize/monitoring/objects.yaml")
    assert found == objects(InstallOptions(monitoring=monitoring))


@pytest.mark.parametrize(
    "options",
    [
        InstallOptions(),
        InstallOptions(image="registry.example/echelon@sha256:abc", replicas=3),
        InstallOptions(replicas=1, monitoring=True),
    ],
    ids=["defaults", "image and replicas", "monitoring"],
)
def test_the_chart_has_the_objects_of_an_installation_but_its_namespace(options: InstallOptions) -> None:
    wanted = [obj for obj in objects(options) if resource_of(obj) != NAMESPACES]
    assert rendered(options.namespace, options.image, options.replicas, options.monitoring) == wanted
