"""The Helm chart and the kustomize tree in `deploy/`, generated from the objects of an installation by `make deploy`.

Templates of the chart are the objects themselves, rendered with marks in place of what `values.yaml` chooses.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import yaml

from ..api.scheme import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, Object
from ..base.version import __version__
from .objects.installation import objects, resource_of
from .objects.monitoring import OPERATOR_GROUP
from .options import InstallOptions

#: Marks in a rendering, and what stands for each in a template.
_MARKS = {
    "namespace-of-the-release": "{{ .Release.Namespace }}",
    "image-of-the-values": "{{ .Values.image | quote }}",
    "9876543": "{{ .Values.replicas }}",
}
_MARKED = InstallOptions(
    namespace="namespace-of-the-release", image="image-of-the-values", replicas=9876543, monitoring=True
)
_VALUES = InstallOptions()


def files() -> dict[str, str]:
    """Text by path below `deploy/`."""
    return {**_kustomize(), **_helm()}


def _kustomize() -> dict[str, str]:
    made = objects(InstallOptions(monitoring=True))
    plain = [obj for obj in made if not _is_operators(obj)]
    base = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": ["objects.yaml"]}
    return {
        "kustomize/default/kustomization.yaml": _text([base]),
        "kustomize/default/objects.yaml": _text(plain),
        "kustomize/monitoring/kustomization.yaml": _text([{**base, "resources": ["../default", "objects.yaml"]}]),
        "kustomize/monitoring/objects.yaml": _text([obj for obj in made if _is_operators(obj)]),
    }


def _helm() -> dict[str, str]:
    """Helm makes the namespace itself, and installs what is in `crds` before the rest, once."""
    made = [obj for obj in objects(_MARKED) if resource_of(obj) != NAMESPACES]
    kinds = [obj for obj in objects(_VALUES) if resource_of(obj) == CUSTOM_RESOURCE_DEFINITIONS]
    rest = [obj for obj in made if resource_of(obj) != CUSTOM_RESOURCE_DEFINITIONS]
    chart = {
        "apiVersion": "v2",
        "name": "echelon",
        "description": "Gang scheduler and JobSet and TrainJob controllers.",
        "type": "application",
        "version": __version__,
        "appVersion": __version__,
        "kubeVersion": ">=1.37.0-0",
    }
    values = {"image": _VALUES.image, "replicas": _VALUES.replicas, "monitoring": False}
    kinds_of_values = {
        "image": {"type": "string", "minLength": 1},
        "replicas": {"type": "integer", "minimum": 1},
        "monitoring": {"type": "boolean"},
    }
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "additionalProperties": False,
        "properties": {**kinds_of_values, "global": {"type": "object"}},
    }
    operators = _template([obj for obj in rest if _is_operators(obj)])
    return {
        "helm/echelon/Chart.yaml": _text([chart]),
        "helm/echelon/values.yaml": _text([values]),
        "helm/echelon/values.schema.json": msgspec.json.format(msgspec.json.encode(schema), indent=2).decode() + "\n",
        "helm/echelon/crds/kinds.yaml": _text(kinds),
        "helm/echelon/templates/objects.yaml": _template([obj for obj in rest if not _is_operators(obj)]),
        "helm/echelon/templates/monitoring.yaml": "{{- if .Values.monitoring }}\n" + operators + "{{- end }}\n",
    }


def _is_operators(obj: Object) -> bool:
    return str(obj["apiVersion"]).startswith(OPERATOR_GROUP)


def _template(found: Sequence[Object]) -> str:
    """Nothing in the objects may look like a template by chance."""
    text = _text(found)
    assert "{{" not in text
    for mark, expression in _MARKS.items():
        text = text.replace(mark, expression)
    return text


def _text(found: Sequence[Object]) -> str:
    pages = [yaml.dump(obj, Dumper=yaml.CSafeDumper, sort_keys=False, width=1000) for obj in found]
    return "---\n".join(pages)
