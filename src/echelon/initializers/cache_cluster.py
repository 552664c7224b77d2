"""`cache://schema/table`: a cluster that holds a table in memory and serves it to the trainer.

    ServiceAccount <trainjob>-cache → LeaderWorkerSet <trainjob>-cache → Service <trainjob>-cache-service

All belong to the TrainJob and go with it.  The initializer ends when the cluster is available.
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .http_session import HttpSession
from .problems import LoadingFailed, Refused

ACCOUNT_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_PORT, _HEALTH_PORT = 50051, 8080
_SETS = "/apis/leaderworkerset.x-k8s.io/v1"
_CONFLICT, _NOT_FOUND = 409, 404
_UNPRIVILEGED = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
_CONFINED = {**_UNPRIVILEGED, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}

Object = dict[str, Any]


@dataclass(frozen=True)
class CacheSource:
    schema: str
    table: str
    train_job: str
    image: str
    iam_role: str
    metadata_location: str
    size: int = 3
    head: tuple[str, str] = ("1", "1Gi")
    worker: tuple[str, str] = ("2", "2Gi")

    @property
    def name(self) -> str:
        return f"{self.train_job}-cache"

    def account(self) -> Object:
        notes = {
            "eks.amazonaws.com/sts-regional-endpoints": "true",
            "eks.amazonaws.com/role-arn": self.iam_role,
        }
        return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": self.name, "annotations": notes}}

    def cluster(self) -> Object:
        labels = {"app": f"{self.name}-head"}
        return {
            "apiVersion": "leaderworkerset.x-k8s.io/v1",
            "kind": "LeaderWorkerSet",
            "metadata": {"name": self.name},
            "spec": {
                "replicas": 1,
                "leaderWorkerTemplate": {
                    "size": self.size,
                    "leaderTemplate": {"metadata": {"labels": labels}, "spec": self._pod("head", self.head)},
                    "workerTemplate": {"spec": self._pod("worker", self.worker)},
                },
            },
        }

    def service(self) -> Object:
        ports = [{"protocol": "TCP", "port": _PORT, "targetPort": _PORT}]
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": f"{self.name}-service"},
            "spec": {"selector": {"app": f"{self.name}-head"}, "ports": ports},
        }

    def _pod(self, role: str, amounts: tuple[str, str]) -> Object:
        resources = dict(zip(("cpu", "memory"), amounts, strict=True))
        about = {"METADATA_LOC": self.metadata_location, "TABLE_NAME": self.table, "SCHEMA_NAME": self.schema}
        container = {
            "name": role,
            "image": self.image,
            "command": [role],
            "args": ["0.0.0.0", str(_PORT)],  # noqa: S104  inside its own pod
            "securityContext": _CONFINED,
            "resources": {"limits": resources, "requests": resources},
            "env": [{"name": name, "value": value} for name, value in about.items()],
            "ports": [{"containerPort": _PORT, "name": "grpc"}, {"containerPort": _HEALTH_PORT, "name": "health"}],
            "readinessProbe": {"httpGet": {"path": "/ready", "port": _HEALTH_PORT}},
        }
        return {"serviceAccountName": self.name, "securityContext": _UNPRIVILEGED, "containers": [container]}


@dataclass(frozen=True)
class ClusterApi:
    """The API server as seen from inside a pod."""

    session: HttpSession
    address: str
    namespace: str
    token: str

    def get(self, path: str) -> Any:
        body, _ = self.session.read(self.address + path, self._headers())
        return json.loads(body)

    def ensure(self, path: str, obj: Object) -> None:
        """Create; what is there already stays."""
        try:
            self.session.read(self.address + path, self._headers(), json.dumps(obj).encode())
        except Refused as answer:
            if answer.code != _CONFLICT:
                raise

    def in_namespace(self, group: str, plural: str, name: str = "") -> str:
        return f"{group}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def _headers(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}


def inside_a_pod(environ: Mapping[str, str], folder: Path = ACCOUNT_FOLDER) -> ClusterApi:
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (folder / "token").exists():
        raise LoadingFailed("cache:// works inside a pod with a service account: there is no API server to ask")
    trusted = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    namespace, token = ((folder / name).read_text(encoding="utf-8").strip() for name in ("namespace", "token"))
    address = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return ClusterApi(HttpSession(trusted=trusted), address, namespace, token)


def start(
    source: CacheSource, api: ClusterApi, tell: Callable[[str], None], sleep: Callable[[float], None] = time.sleep
) -> None:
    """Make the cluster and wait until it serves."""
    owner = _owner(source, api)
    made = (
        (api.in_namespace("/api/v1", "serviceaccounts"), source.account()),
        (api.in_namespace(_SETS, "leaderworkersets"), source.cluster()),
        (api.in_namespace("/api/v1", "services"), source.service()),
    )
    for path, obj in made:
        obj["metadata"] |= {"namespace": api.namespace, "ownerReferences": [owner]}
        try:
            api.ensure(path, obj)
        except Refused as answer:
            if answer.code == _NOT_FOUND:
                raise LoadingFailed(f"the cluster has no {obj['kind']}: {answer}") from None
            raise
        tell(f"{obj['kind']} {obj['metadata']['name']} is there")
    while not _available(api.get(api.in_namespace(_SETS, "leaderworkersets", source.name))):
        sleep(5.0)
    tell(f"the cache {source.name} is available")


def _owner(source: CacheSource, api: ClusterApi) -> Object:
    path = api.in_namespace("/apis/trainer.kubeflow.org/v1alpha1", "trainjobs", source.train_job)
    try:
        found = api.get(path)
    except Refused as answer:
        raise LoadingFailed(f"TrainJob {source.train_job} cannot be read: {answer}") from None
    return {
        "apiVersion": found["apiVersion"],
        "kind": found["kind"],
        "name": source.train_job,
        "uid": found["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _available(cluster: Any) -> bool:
    conditions = (cluster.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Available" and one["status"] == "True" for one in conditions)


def parse(uri: str) -> tuple[str, str]:
    """Schema and table of a URI."""
    parts = uri.removeprefix("cache://").split("/")
    if len(parts) != 2 or not all(parts):
        raise LoadingFailed(f"{uri} is not of the form cache://schema/table")
    return parts[0], parts[1]
