"""The Helm chart and the kustomize tree in `deploy/`, generated from the objects of an installation by `make deploy`.

Templates of the chart are the objects themselves: `chart_templates`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import yaml

from ..api.scheme import DEPLOYMENTS, Object
from ..base.version import __version__
from .admission.kinds import GROUP_VERSION, VALIDATING_POLICIES
from .chart_templates import template
from .chart_values import CHOICES, values_file, values_schema
from .cluster_facts import OLDEST_SERVER, OLDEST_WITH_POLICIES
from .objects.installation import after_definitions, definitions, objects
from .objects.labelled import POLICIES
from .objects.monitoring import OPERATOR_GROUP
from .options import InstallOptions

#: What Helm says after an installation.
_NOTES = """\
Echelon {{ .Chart.AppVersion }} is in namespace {{ .Release.Namespace }}.
{{- if has "scheduler" .Values.parts }}
Pods with schedulerName: {{ join " or " .Values.schedulerNames }} are scheduled by it.
{{- end }}
`echelon doctor` tells whether everything is as it should be.
Helm does not upgrade CustomResourceDefinitions: `echelon crds | kubectl apply --server-side -f -` does.
"""

_WITH_POLICIES = ".".join(map(str, OLDEST_WITH_POLICIES))
#: What is said where somebody opens the kustomize tree, which asks no server.
_NEWER = f"# For Kubernetes {_WITH_POLICIES} or newer: policies can end an older server; for those is ../no-policies.\n"
_OLDER = f"# For Kubernetes before {_WITH_POLICIES}, which admission policies can end (kubernetes/kubernetes#135757).\n"


def files() -> dict[str, str]:
    """Text by path below `deploy/`."""
    return {**_kustomize(), **_helm()}


def _kustomize() -> dict[str, str]:
    made = objects(InstallOptions(monitoring=True))
    plain = [obj for obj in made if not _is_operators(obj)]
    base = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": ["objects.yaml"]}
    return {
        "kustomize/default/kustomization.yaml": f"{_NEWER}{_text([base])}",
        "kustomize/default/objects.yaml": _text(plain),
        "kustomize/monitoring/kustomization.yaml": (
            f"{_NEWER}{_text([{**base, 'resources': ['../default', 'objects.yaml']}])}"
        ),
        "kustomize/no-policies/kustomization.yaml": f"{_OLDER}{_text([{**base, **_no_policies()}])}",
        "kustomize/monitoring/objects.yaml": _text([obj for obj in made if _is_operators(obj)]),
    }


def _no_policies() -> Object:
    """A patch takes its target away or changes it, whatever name it says itself."""
    patch = f"$patch: delete\napiVersion: {GROUP_VERSION}\nkind: any\nmetadata: {{name: any}}\n"
    metadata = f"metadata: {{name: any, annotations: {{{POLICIES}: none}}}}\n"
    said = f"apiVersion: {DEPLOYMENTS.api_version}\nkind: {DEPLOYMENTS.kind}\n{metadata}"
    patches = [
        {"target": {"group": VALIDATING_POLICIES.group}, "patch": patch},
        {"target": {"kind": DEPLOYMENTS.kind}, "patch": said},
    ]
    return {"resources": ["../default"], "patches": patches}


def _helm() -> dict[str, str]:
    """Helm makes the namespace itself, and installs what is in `crds` before the rest, once."""
    chart = {
        "apiVersion": "v2",
        "name": "echelon",
        "description": "Gang scheduler and JobSet and TrainJob controllers.",
        "type": "application",
        "version": __version__,
        "appVersion": __version__,
        "kubeVersion": f">={'.'.join(map(str, OLDEST_SERVER))}.0-0",
    }
    schema = msgspec.json.format(msgspec.json.encode(values_schema()), indent=2).decode()
    return {
        "helm/echelon/Chart.yaml": _text([chart]),
        "helm/echelon/values.yaml": values_file(),
        "helm/echelon/values.schema.json": schema + "\n",
        "helm/echelon/crds/kinds.yaml": _text(definitions(InstallOptions())),
        "helm/echelon/templates/objects.yaml": template(CHOICES, after_definitions),
        "helm/echelon/templates/NOTES.txt": _NOTES,
    }


def _is_operators(obj: Object) -> bool:
    return str(obj["apiVersion"]).startswith(OPERATOR_GROUP)


def _text(found: Sequence[Object]) -> str:
    pages = [yaml.dump(obj, Dumper=yaml.CSafeDumper, sort_keys=False, width=1000) for obj in found]
    return "---\n".join(pages)
