"""The chart and the kustomize tree say what `echelon install` does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from echelon.api.scheme import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from echelon.cli import main
from echelon.deploy.chart_templates import template
from echelon.deploy.chart_values import CHOICES
from echelon.deploy.objects.installation import objects, resource_of
from echelon.deploy.options import (
    OWN_CONTROLLERS,
    PARTS,
    InstallOptions,
    PodOptions,
)
from echelon.deploy.packages import files

DEPLOY = Path(__file__).parents[3] / "deploy"


def loaded(path: str) -> list[Any]:
    return [one for one in yaml.load_all((DEPLOY / path).read_text(), Loader=yaml.CSafeLoader) if one]


def rendered(options: InstallOptions) -> list[Any]:
    """What Helm makes of the chart, which has these expressions and no others; tests/cluster asks Helm itself."""
    text = (DEPLOY / "helm/echelon/templates/objects.yaml").read_text()
    chosen = {
        'join "," (sortAlpha .Values.parts)': ",".join(sorted(options.parts)),
        'join "," (sortAlpha .Values.controllers)': ",".join(sorted(options.controllers)),
        "toString .Values.monitoring": str(options.monitoring).lower(),
        "toString .Values.dashboard": str(options.dashboard).lower(),
        'toString (and .Values.validatingPolicies (semverCompare ">=1.36.0-0" .Capabilities.KubeVersion.Version))': str(
            options.validating_policies
        ).lower(),
        "toString (and .Values.mutatingPolicies (.Capabilities.APIVersions.Has "
        '"admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"))': str(options.mutating_policies).lower(),
    }
    text = re.sub(
        r"^{{- if has ([^\n]*) \(list ([^\n]*)\) }}\n(---\n.*?)^{{- end }}\n(?=---|{{- if has|\Z)",
        lambda block: block[3] if f'"{asked(block[1], chosen)}"' in block[2].split() else "",
        text, flags=re.MULTILINE | re.DOTALL,
    )  # fmt: skip
    secrets = [{"name": name} for name in options.pods.image_pull_secrets]
    fields: dict[str, Any] = {
        "imagePullSecrets": secrets,
        "priorityClassName": options.pods.priority_class,
        "nodeSelector": options.pods.node_selector,
        "tolerations": list(options.pods.tolerations),
        **{f"resources.{part}": options.pods.resources[part] for part in options.parts},
    }
    text = re.sub(
        r"{{- with \.Values\.([\w.]+) }}\n(.*){{ toJson \. }}\n{{- end }}\n",
        lambda block: f"{block[2]}{json.dumps(fields[block[1]])}\n" if fields[block[1]] else "",
        text,
    )
    text = re.sub(
        r"{{- range \.Values\.schedulerNames }}\n(.*\n)(.*){{ \. \| quote }}\n{{- end }}\n",
        lambda block: "".join(f"{block[1]}{block[2]}{name}\n" for name in options.scheduler_names),
        text,
    )
    plain = {
        ".Release.Namespace | quote": f'"{options.namespace}"',
        ".Values.image | quote": f'"{options.image}"',
        ".Values.replicas": str(options.replicas),
        **{f".Values.{part}Config | quote": json.dumps(options.configuration(part)) for part in PARTS},
        'join "," .Values.controllers': ",".join(options.controllers),
        'list (ternary "validating" "" (and .Values.validatingPolicies '
        '(semverCompare ">=1.36.0-0" .Capabilities.KubeVersion.Version))) '
        '(ternary "mutating" "" (and .Values.mutatingPolicies (.Capabilities.APIVersions.Has '
        '"admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"))) | compact | join "," | default "none"': ",".join(
            ["validating"] * options.validating_policies + ["mutating"] * options.mutating_policies
        )
        or "none",
    }
    for expression, value in plain.items():
        text = text.replace(f"{{{{ {expression} }}}}", value)
    text = text.replace('{{ "{{" }}', "\0")
    assert "{{" not in text
    text = text.replace("\0", "{{")
    return [one for one in yaml.load_all(text, Loader=yaml.CSafeLoader) if one]


def asked(condition: str, chosen: dict[str, str]) -> str:
    """The names of the choices that a condition asks about."""
    places = {condition.find(f"({expression})"): name for expression, name in chosen.items()}
    return "/".join(name for place, name in sorted(places.items()) if place >= 0)


def test_what_is_in_the_folder_is_what_is_generated() -> None:
    made = files()
    written = [path for folder in ("helm", "kustomize") for path in (DEPLOY / folder).rglob("*") if path.is_file()]
    there = {str(path.relative_to(DEPLOY)) for path in written}
    assert there == set(made)
    for path, text in made.items():
        assert (DEPLOY / path).read_text() == text, f"deploy/{path} is out of date: run `make deploy`"


@pytest.mark.parametrize("monitoring", [False, True])
def test_the_kustomize_tree_has_the_objects_of_an_installation(monitoring: bool) -> None:
    found = loaded("kustomize/default/objects.yaml")
    if monitoring:
        found += loaded("kustomize/monitoring/objects.yaml")
    assert found == objects(InstallOptions(monitoring=monitoring))


def test_the_kustomize_tree_says_for_which_servers_it_is() -> None:
    for folder, words in (
        ("default", "1.36 or newer"),
        ("monitoring", "1.36 or newer"),
        ("no-policies", "before 1.36"),
    ):
        assert words in (DEPLOY / "kustomize" / folder / "kustomization.yaml").read_text().splitlines()[0]


@pytest.mark.parametrize("monitoring", [False, True])
@pytest.mark.parametrize(
    "controllers", [OWN_CONTROLLERS, ("jobset",), ("jobset", "trainjob"), ("stage-quota",)], ids=str
)
@pytest.mark.parametrize("parts", [PARTS, ("scheduler",), ("controllers",)], ids=str)
def test_the_chart_has_the_objects_of_an_installation(
    parts: tuple[str, ...], controllers: tuple[str, ...], monitoring: bool
) -> None:
    options = InstallOptions(parts=parts, controllers=controllers, monitoring=monitoring)
    assert by_name(rendered(options)) == by_name(wanted(options))


@pytest.mark.parametrize(
    "options",
    [
        InstallOptions(image="registry.example/echelon@sha256:abc", replicas=3),
        InstallOptions(namespace="train", scheduler_names=("mine", "echelon"), dashboard=False),
        InstallOptions(controllers=("trainjob",), mutating_policies=False),
        InstallOptions(validating_policies=False),
        InstallOptions(validating_policies=False, mutating_policies=False),
        InstallOptions(configurations={"scheduler": 'apiVersion: x\nname: ["a"]\n'}),
        InstallOptions(
            pods=PodOptions(
                image_pull_secrets=("one", "two"),
                priority_class="",
                node_selector={"a": "b"},
                tolerations=({"key": "a", "operator": "Exists"},),
                resources={part: {"limits": {"memory": "1Gi"}} for part in PARTS},
            )
        ),
    ],
    ids=["image and replicas", "names", "one kind of policies", "the other kind", "no policies", "config file", "pods"],
)
def test_values_are_where_options_are(options: InstallOptions) -> None:
    assert by_name(rendered(options)) == by_name(wanted(options))


def by_name(objects: list[Any]) -> dict[tuple[str, str], Any]:
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects}


def wanted(options: InstallOptions) -> list[Any]:
    """All but what Helm makes itself or finds in `crds`."""
    return [obj for obj in objects(options) if resource_of(obj) not in (NAMESPACES, CUSTOM_RESOURCE_DEFINITIONS)]


def test_definitions_are_where_helm_looks_for_them() -> None:
    found = [obj for obj in objects(InstallOptions()) if resource_of(obj) == CUSTOM_RESOURCE_DEFINITIONS]
    assert loaded("helm/echelon/crds/kinds.yaml") == found


def made(**data: str) -> Any:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "any"}, "data": data}


def test_what_depends_on_no_choice_stands_there_without_condition() -> None:
    assert template(CHOICES, lambda options: [made(a="b")]).startswith("---\napiVersion: v1\n")


def test_what_depends_on_one_choice_asks_for_it_alone() -> None:
    text = template(CHOICES, lambda options: [made(a=str(options.dashboard))])
    assert re.findall("{{- if .*", text) == [
        '{{- if has (toString .Values.dashboard) (list "true") }}',
        '{{- if has (toString .Values.dashboard) (list "false") }}',
    ]


def test_what_looks_like_an_expression_by_itself_stays_as_it_is() -> None:
    text = template(CHOICES, lambda options: [made(legend="{{pod}}")])
    assert """'{{ "{{" }}pod}}'""" in text


def test_a_mark_for_which_no_expression_is_known_is_an_error() -> None:
    with pytest.raises(AssertionError, match="no expression is known"):
        template(CHOICES, lambda options: [made(a=f"x-{options.scheduler_names[0]}")])


def test_what_is_rendered_says_for_which_servers_it_is_and_policies_can_be_left_out() -> None:
    whole = CliRunner().invoke(main, ["install", "--render"])
    assert whole.output.startswith("# For Kubernetes 1.36 or newer")
    older = CliRunner().invoke(main, ["install", "--render", "--no-policies"])
    found = [one for one in yaml.load_all(older.output, Loader=yaml.CSafeLoader) if one]
    assert found == objects(InstallOptions(validating_policies=False, mutating_policies=False))
    assert "1.36" not in older.output.splitlines()[0]
