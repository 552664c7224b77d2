"""The flux plugin: every node runs a broker of the Flux framework; the first one runs the command on all of them.

    Secret <trainjob>-flux-curve            the certificate that the brokers share, made once
    ConfigMap <trainjob>-flux-entrypoint    init.sh for the init container that brings Flux, entrypoint.sh for the node

Settings are variables of the node container: FLUX_VIEW_IMAGE, FLUX_NETWORK_DEVICE, FLUX_QUEUE_POLICY.
"""

from __future__ import annotations

from ....api.objects.subtree import items, mapping
from ....api.scheme import CONFIG_MAPS, Object
from ..model import pod_template, upsert
from . import curve_certificate, flux_scripts
from .parts import KeySecret, Parts, gpus, node_container, owned_object

INSTALLER = "flux-installer"
_SETTINGS = {
    "FLUX_VIEW_IMAGE": "ghcr.io/converged-computing/flux-view-ubuntu:tag-jammy",
    "FLUX_NETWORK_DEVICE": "eth0",
    "FLUX_QUEUE_POLICY": "fcfs",
}
_SHELL, _SCRIPTS = "/bin/bash", "/etc/flux-config"


def apply(parts: Parts) -> None:
    for trainer in parts.trainers[:1]:  # one set of scripts, so one cluster of brokers
        node = node_container(trainer)
        settings = _settings(node)
        scripts, curve = f"{parts.tj.name}-flux-entrypoint", f"{parts.tj.name}-flux-curve"
        cluster = _cluster(parts, trainer, node, settings)
        data = {"entrypoint.sh": flux_scripts.entrypoint(cluster), "init.sh": flux_scripts.init(cluster)}
        parts.objects.append(owned_object(parts.tj, CONFIG_MAPS, scripts, data=data))
        parts.keys.append(KeySecret(curve, curve_certificate.secret))
        words = [*_words(parts, node, "command"), *_words(parts, node, "args")]
        node["command"] = [_SHELL, f"{_SCRIPTS}/entrypoint.sh", " ".join(words)]
        node.pop("args", None)
        _mount(trainer, node, scripts, curve, settings["FLUX_VIEW_IMAGE"])


def _settings(node: Object) -> dict[str, str]:
    said = {one["name"]: one["value"] for one in items(node, "env") if one["name"] in _SETTINGS and one.get("value")}
    return {**_SETTINGS, **said}


def _words(parts: Parts, node: Object, field: str) -> list[str]:
    """Command or arguments: the TrainJob's, else the runtime's."""
    return list(getattr(parts.tj.trainer, field)) or [str(word) for word in items(node, field)]


def _cluster(parts: Parts, trainer: Object, node: Object, settings: dict[str, str]) -> flux_scripts.Brokers:
    told = parts.tj.trainer.num_proc_per_node or mapping(parts.policy, "flux").get("numProcPerNode") or 1
    return flux_scripts.Brokers(
        prefix=f"{parts.tj.name}-{trainer['name']}-0-",
        domain=f"{parts.subdomain}.{parts.tj.namespace}.svc.cluster.local",
        nodes=parts.pods[trainer["name"]],
        processes=int(told),
        gpus=gpus(mapping(node, "resources")),
        device=settings["FLUX_NETWORK_DEVICE"],
        queue_policy=settings["FLUX_QUEUE_POLICY"],
    )


def _mount(trainer: Object, node: Object, scripts: str, curve: str, image: str) -> None:
    spec = pod_template(trainer)["spec"]
    volumes: list[Object] = [
        {"name": "spack-install", "emptyDir": {}},
        {"name": "flux-install", "emptyDir": {}},
        {"name": scripts, "configMap": {"name": scripts, "defaultMode": 0o755}},
        {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
        {"name": "flux-curve", "secret": {"secretName": curve, "defaultMode": 0o400}},
    ]
    software: Object = {"name": "flux-install", "mountPath": "/mnt/flux"}
    configuration: Object = {"name": scripts, "mountPath": _SCRIPTS, "readOnly": True}
    mounts: list[Object] = [
        software,
        {"name": "spack-install", "mountPath": "/opt/software"},
        configuration,
        {"name": "flux-curve", "mountPath": "/curve", "readOnly": True},
        {"name": "shared-memory", "mountPath": "/dev/shm", "readOnly": True},  # noqa: S108 - inside the container
    ]
    installer = {
        "name": INSTALLER,
        "image": image,
        "command": [_SHELL, f"{_SCRIPTS}/init.sh"],
        "volumeMounts": [software, configuration],
    }
    spec["volumes"] = upsert(items(spec, "volumes"), volumes)
    spec["initContainers"] = upsert(items(spec, "initContainers"), [installer])
    node["volumeMounts"] = upsert(items(node, "volumeMounts"), mounts, "mountPath")
