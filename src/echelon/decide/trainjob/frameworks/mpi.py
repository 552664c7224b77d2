"""The mpi plugin: a launcher that starts processes on the nodes through ssh.

    Secret <trainjob>-mpi-ssh-auth      a key pair, made once; mounted by launcher and nodes
    ConfigMap <trainjob>-mpi-hostfile   a line per node, `<host> slots=<processes>`; mounted by the launcher

With `runLauncherAsNode` the launcher is one of the nodes: the replicated job `node` runs one pod less, none for one
node.  The launcher itself is always one pod.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ....api.objects.subtree import items, mapping
from ....api.scheme import CONFIG_MAPS, Object
from ..model import LAUNCHER, NODE, NODE_CONTAINER, container, pod_template, upsert
from ..overrides import set_env
from . import ssh_keys
from .parts import KeySecret, Parts, gpus, owned_object

_KEYS_VOLUME, _HOSTS_VOLUME = "mpi-ssh-auth", "mpi-hostfile"
_HOSTS_FOLDER, _HOSTS_FILE = "/etc/mpi", "hostfile"
_KEYS_FOLDER = "/root/.ssh"


def apply(parts: Parts) -> None:
    policy = mapping(parts.policy, "mpi")
    slots = _processes(parts, policy)
    secret, hosts = f"{parts.tj.name}-{_KEYS_VOLUME}", f"{parts.tj.name}-{_HOSTS_VOLUME}"
    for rj in parts.replicated_jobs:
        if rj["name"] in (LAUNCHER, NODE):
            _mount(rj, _keys_volume(secret), str(policy.get("sshAuthMountPath") or _KEYS_FOLDER))
        if rj["name"] == LAUNCHER:
            _mount(rj, _hosts_volume(hosts), _HOSTS_FOLDER)
            if (node := container(rj, NODE_CONTAINER)) is not None:
                set_env(node, _variables(slots))
    lines = "".join(f"{host} slots={slots}\n" for host in _hosts(parts, policy))
    parts.objects.append(owned_object(parts.tj, CONFIG_MAPS, hosts, data={_HOSTS_FILE: lines}))
    parts.keys.append(KeySecret(secret, ssh_keys.secret))


def _processes(parts: Parts, policy: Mapping[str, Any]) -> int:
    """As told; else what the runtime says, where one stands for one per GPU."""
    if parts.tj.trainer.num_proc_per_node is not None:
        return int(parts.tj.trainer.num_proc_per_node)
    told = int(policy.get("numProcPerNode") or 1)
    if told > 1:
        return told
    nodes = [container(rj, NODE_CONTAINER) for rj in parts.replicated_jobs if rj["name"] in (LAUNCHER, NODE)]
    return max([told, *(gpus(mapping(node, "resources")) for node in nodes if node is not None)])


def _hosts(parts: Parts, policy: Mapping[str, Any]) -> Iterator[str]:
    """Host names of everything that runs processes, in the order of the runtime."""
    for rj in parts.replicated_jobs:
        if rj["name"] == NODE or (rj["name"] == LAUNCHER and policy.get("runLauncherAsNode")):
            for index in range(parts.pods[rj["name"]]):
                yield f"{parts.tj.name}-{rj['name']}-0-{index}.{parts.subdomain}"


def _mount(replicated_job: Object, volume: Object, path: str) -> None:
    spec = pod_template(replicated_job)["spec"]
    spec["volumes"] = upsert(items(spec, "volumes"), [volume])
    if (node := container(replicated_job, NODE_CONTAINER)) is not None:
        mount = {"name": volume["name"], "mountPath": path}
        node["volumeMounts"] = upsert(items(node, "volumeMounts"), [mount], "mountPath")


def _keys_volume(secret: str) -> Object:
    files = [
        {"key": ssh_keys.PRIVATE, "path": "id_rsa", "mode": 0o640},
        {"key": ssh_keys.PUBLIC, "path": "id_rsa.pub", "mode": 0o644},
        {"key": ssh_keys.PUBLIC, "path": "authorized_keys", "mode": 0o644},
    ]
    return {"name": _KEYS_VOLUME, "secret": {"secretName": secret, "defaultMode": 0o400, "items": files}}


def _hosts_volume(config_map: str) -> Object:
    files = [{"key": _HOSTS_FILE, "path": _HOSTS_FILE, "mode": 0o444}]
    return {"name": _HOSTS_VOLUME, "configMap": {"name": config_map, "items": files}}


def _variables(slots: int) -> list[Object]:
    """Settings of mpirun: the names of Open MPI 4, then those of Open MPI 5, which reads no others."""
    path, ssh = f"{_HOSTS_FOLDER}/{_HOSTS_FILE}", "-o ConnectionAttempts=10"
    settings = {
        "OMPI_MCA_orte_default_hostfile": path,
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_set_default_slots": str(slots),
        "OMPI_MCA_plm_rsh_args": ssh,
        "PRTE_MCA_prte_default_hostfile": path,
        "PRTE_MCA_prte_keep_fqdn_hostnames": "false",
        "PRTE_MCA_prte_set_default_slots": str(slots),
        "PRTE_MCA_plm_ssh_args": ssh,
    }
    return [{"name": name, "value": value} for name, value in settings.items()]
