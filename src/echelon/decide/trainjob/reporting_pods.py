"""What pods of the trainer need to report progress: an address, a token of their own, and whom to trust.

Only where TrainJob or runtime ask for it by annotation: it costs an object and changes the pods.  The server takes
reports at `…/trainjobs/<name>/status`, from tokens made for that path alone.
"""

from __future__ import annotations

from ...api.objects import meta
from ...api.objects.root_certificate import NAME as ROOT_CERTIFICATE
from ...api.objects.subtree import items, mapping
from ...api.objects.vocabulary import PROGRESS_REPORTS
from ...api.scheme import CONFIG_MAPS, Object
from ...api.views.trainjob_views import report_audience
from .frameworks.parts import owned_object
from .model import TRAINER, CannotBuild, Observed, TrainJob, ancestor, pod_template, upsert

_VOLUME = "kubeflow-trainer-token"
_FOLDER = "/var/run/secrets/kubeflow/trainer"
_CERTIFICATE = "ca.crt"
_TOKEN_SECONDS = 3600
#: Known in every container: where the API server is.
_SERVER = "https://$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)"


def wanted(tj: TrainJob, runtime: Object) -> bool:
    asked = tj.view.annotations.get(PROGRESS_REPORTS) or meta.annotations(runtime).get(PROGRESS_REPORTS)
    return asked == "true"


def certificate(tj: TrainJob, observed: Observed) -> Object:
    """The ConfigMap with the authority of the server, for pods to mount."""
    root = observed.find(CONFIG_MAPS, ROOT_CERTIFICATE)
    if root is None:
        raise CannotBuild(f"progress reports need ConfigMap {ROOT_CERTIFICATE} in namespace {tj.namespace}")
    pem = mapping(root, "data").get(_CERTIFICATE, "")
    return owned_object(tj, CONFIG_MAPS, _config_map(tj), data={_CERTIFICATE: pem})


def inject(tj: TrainJob, replicated_jobs: list[Object]) -> None:
    """Into all containers of the trainer; what the user has set stays."""
    variables = [
        {"name": "KUBEFLOW_TRAINER_SERVER_URL", "value": f"{_SERVER}/apis/{report_audience(tj.namespace, tj.name)}"},
        {"name": "KUBEFLOW_TRAINER_SERVER_CA_CERT", "value": f"{_FOLDER}/{_CERTIFICATE}"},
        {"name": "KUBEFLOW_TRAINER_SERVER_TOKEN", "value": f"{_FOLDER}/token"},
    ]
    mount = {"name": _VOLUME, "mountPath": _FOLDER, "readOnly": True}
    for rj in replicated_jobs:
        if ancestor(rj) != TRAINER:
            continue
        spec = pod_template(rj)["spec"]
        spec["volumes"] = upsert(items(spec, "volumes"), [_volume(tj)])
        for one in items(spec, "containers"):
            own = {variable["name"] for variable in items(one, "env")}
            one["env"] = [*items(one, "env"), *(new for new in variables if new["name"] not in own)]
            one["volumeMounts"] = upsert(items(one, "volumeMounts"), [mount], "mountPath")


def _config_map(tj: TrainJob) -> str:
    return f"{tj.name}-tls-config"


def _volume(tj: TrainJob) -> Object:
    token = {"audience": report_audience(tj.namespace, tj.name), "expirationSeconds": _TOKEN_SECONDS, "path": "token"}
    trusted = {"name": _config_map(tj), "items": [{"key": _CERTIFICATE, "path": _CERTIFICATE}]}
    return {"name": _VOLUME, "projected": {"sources": [{"serviceAccountToken": token}, {"configMap": trusted}]}}
