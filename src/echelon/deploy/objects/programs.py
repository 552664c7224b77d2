"""The Deployments of scheduler and controllers, and what keeps them available.

Both programs run as two replicas of which one leads.  The pods write nothing but to their standard output, listen on
one port for metrics and health, and have no privileges.
"""

from __future__ import annotations

from ...api.scheme import DEPLOYMENTS, POD_DISRUPTION_BUDGETS, Object
from ..options import SCHEDULER, InstallOptions
from .labelled import full_name, labels, made, selector

METRICS_PORT = 10259
_USER = 65532
#: Memory is not limited: a scheduler that is killed for a large cluster helps nobody.
_REQUESTS = {"scheduler": {"cpu": "500m", "memory": "512Mi"}, "controllers": {"cpu": "100m", "memory": "256Mi"}}


def arguments(part: str, options: InstallOptions) -> list[str]:
    """What follows `echelon` on the command line; `$(POD_IP)` is the pod's address in any family."""
    named: list[str] = []
    if part == SCHEDULER:
        for name in options.scheduler_names:
            named += ["--name", name]
    else:
        named += ["--only", ",".join(options.controllers)]
        for name in options.scheduler_names:
            named += ["--scheduler-name", name]
    return ["-v", part, *named, "--metrics-host", "$(POD_IP)", "--metrics-port", str(METRICS_PORT)]


def program_objects(part: str, options: InstallOptions) -> list[Object]:
    """A budget that lets one pod go at a time, and the Deployment."""
    chosen = {"matchLabels": selector(options, part)}
    budget = {"maxUnavailable": 1, "selector": chosen, "unhealthyPodEvictionPolicy": "AlwaysAllow"}
    deployment: Object = {
        "replicas": options.replicas,
        "selector": chosen,
        "template": {"metadata": {"labels": labels(options, part)}, "spec": _pod(part, options)},
    }
    return [
        made(POD_DISRUPTION_BUDGETS, full_name(part), options, part=part, spec=budget),
        made(DEPLOYMENTS, full_name(part), options, part=part, spec=deployment),
    ]


def _pod(part: str, options: InstallOptions) -> Object:
    return {
        "serviceAccountName": full_name(part),
        "automountServiceAccountToken": True,
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        # A cluster of one node still gets both replicas.
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": key,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": selector(options, part)},
            }
            for key in ("topology.kubernetes.io/zone", "kubernetes.io/hostname")
        ],
        "containers": [_container(part, options)],
    }


def _container(part: str, options: InstallOptions) -> Object:
    return {
        "name": part,
        "image": options.image,
        "command": ["echelon"],
        "args": arguments(part, options),
        "env": [
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"},
            {"name": "PYTHONUNBUFFERED", "value": "1"},
        ],
        "ports": [{"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"}],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "metrics"}, "periodSeconds": 10, "timeoutSeconds": 5},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "metrics"}, "periodSeconds": 5, "timeoutSeconds": 5},
        # Caches of a large cluster take their time; until then it is neither dead nor ready.
        "startupProbe": {
            "httpGet": {"path": "/healthz", "port": "metrics"},
            "periodSeconds": 2,
            "failureThreshold": 60,
        },
        "resources": {"requests": _REQUESTS[part]},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
