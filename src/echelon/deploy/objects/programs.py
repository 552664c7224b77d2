"""The Deployments of scheduler and controllers, and what keeps them available.

Both programs run as two replicas of which one leads.  The pods write nothing but their log, listen on one port for
metrics and health, and have no privileges.  A change of their config file needs no new pods: they read it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import pairwise

from ...api.cluster.topology_levels import read_levels
from ...api.objects import meta
from ...api.scheme import CONFIG_MAPS, DEPLOYMENTS, POD_DISRUPTION_BUDGETS, Object
from ...base.program_options import SCHEDULER_PROGRAM
from ..admission.kinds import MUTATING_POLICIES, VALIDATING_POLICIES
from ..configuration import read
from ..options import SCHEDULER, InstallOptions, PodOptions
from .labelled import POLICIES, full_name, labels, made, selector

METRICS_PORT = 10259
_CONFIG_DIRECTORY = "/etc/echelon"
CONFIG_FILE = "config.yaml"
_USER = 65532
#: What an installation says of itself, by the kind of policies.
_POLICY_WORDS = {VALIDATING_POLICIES.kind: "validating", MUTATING_POLICIES.kind: "mutating"}
_NO_POLICIES = "none"


def arguments(part: str, options: InstallOptions) -> list[str]:
    """What follows `echelon` on the command line; `$(POD_IP)` is the pod's address in any family."""
    named = ["--config", f"{_CONFIG_DIRECTORY}/{CONFIG_FILE}", "--lease", full_name(part)]
    if part == SCHEDULER:
        for name in options.scheduler_names:
            named += ["--name", name]
    else:
        named += ["--only", ",".join(options.controllers)]
        for name in options.scheduler_names:
            named += ["--scheduler-name", name]
    if options.groups:
        named += ["--groups", options.groups]
    return [part, *named, "--metrics-host", "$(POD_IP)", "--metrics-port", str(METRICS_PORT)]


def told(deployment: Object, option: str) -> list[str]:
    """The values of an option on the command line of an installed program."""
    given = deployment["spec"]["template"]["spec"]["containers"][0].get("args") or ()
    return [value for name, value in pairwise(given) if name == option]


def policies_left_out(deployment: Object) -> tuple[str, ...]:
    """Kinds of policies that the installation was made without; older ones say nothing, and have all."""
    said = meta.annotations(deployment).get(POLICIES)
    return tuple(kind for kind, word in _POLICY_WORDS.items() if said is not None and word not in said.split(","))


def _policies(options: InstallOptions) -> str:
    has = {"validating": options.validating_policies, "mutating": options.mutating_policies}
    return ",".join(word for word in _POLICY_WORDS.values() if has[word]) or _NO_POLICIES


def configured_levels(deployments: Iterable[Object], configs: Iterable[Object] = ()) -> tuple[str, ...] | None:
    """The topology levels that installed schedulers are told, by flag or config file; None if they find them."""
    for text in (value for one in deployments for value in told(one, "--topology-levels")):
        with suppress(ValueError):  # the scheduler refuses it at its start
            return read_levels(text)
    for one in configs:
        if meta.name(one) == full_name(SCHEDULER):
            with suppress(ValueError):
                levels: tuple[str, ...] | None = read(
                    one["data"].get(CONFIG_FILE, ""), meta.name(one), SCHEDULER_PROGRAM
                ).get("topologyLevels")
                return levels
    return None


def program_objects(part: str, options: InstallOptions) -> list[Object]:
    """The config file, a budget that lets one pod go at a time, and the Deployment."""
    chosen = {"matchLabels": selector(options, part)}
    budget = {"maxUnavailable": 1, "selector": chosen, "unhealthyPodEvictionPolicy": "AlwaysAllow"}
    deployment: Object = {
        "replicas": options.replicas,
        "selector": chosen,
        "template": {"metadata": {"labels": labels(options, part)}, "spec": _pod(part, options)},
    }
    program = made(DEPLOYMENTS, full_name(part), options, part=part, spec=deployment)
    program["metadata"]["annotations"] = {POLICIES: _policies(options)}
    return [
        made(CONFIG_MAPS, full_name(part), options, part=part, data={CONFIG_FILE: options.configuration(part)}),
        made(POD_DISRUPTION_BUDGETS, full_name(part), options, part=part, spec=budget),
        program,
    ]


def _pod(part: str, options: InstallOptions) -> Object:
    return {
        "serviceAccountName": full_name(part),
        "automountServiceAccountToken": True,
        **_placement(options.pods),
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
        "volumes": [{"name": "config", "configMap": {"name": full_name(part)}}],
    }


def _placement(pods: PodOptions) -> Object:
    """What the cluster's own rules ask for; what is empty is left to them."""
    wanted = {
        "imagePullSecrets": [{"name": name} for name in pods.image_pull_secrets],
        "priorityClassName": pods.priority_class,
        "nodeSelector": dict(pods.node_selector),
        "tolerations": list(pods.tolerations),
    }
    return {key: value for key, value in wanted.items() if value}


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
        "volumeMounts": [{"name": "config", "mountPath": _CONFIG_DIRECTORY, "readOnly": True}],
        "ports": [{"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"}],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "metrics"}, "periodSeconds": 10, "timeoutSeconds": 5},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "metrics"}, "periodSeconds": 5, "timeoutSeconds": 5},
        # Caches of a large cluster take their time; until then it is neither dead nor ready.
        "startupProbe": {
            "httpGet": {"path": "/healthz", "port": "metrics"},
            "periodSeconds": 2,
            "failureThreshold": 60,
        },
        "resources": options.pods.resources[part],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
