"""The descheduler beside us: one pass of the real program under its own roles, as its CronJob makes it."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path
from typing import Any

import yaml

from echelon.api.scheme import Object

from .controlplane import ControlPlane, free_ports
from .neighbour_programs import Neighbour, apply, rendered_by_kustomize, running

DESCHEDULER = Neighbour("descheduler", "sigs.k8s.io/descheduler", "job", pinned="descheduler")
_POLICY = "policy.yaml"
_PASS_SECONDS = 120.0
_passes = itertools.count()


def policy(plugin: str, arguments: Object | None = None, **evictor: Any) -> Object:
    """A policy of one plugin; `evictor` says which pods are evicted at all."""
    point = "balance" if plugin in ("RemoveDuplicates", "LowNodeUtilization") else "deschedule"
    configured = [{"name": "DefaultEvictor", "args": evictor}, {"name": plugin, "args": arguments or {}}]
    profile = {"name": "p", "pluginConfig": configured, "plugins": {point: {"enabled": [plugin]}}}
    return {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": [profile]}


def shipped_policy() -> Object:
    """The one that its manifests install."""
    content = yaml.safe_load((DESCHEDULER.home / "manifests" / "base" / "configmap.yaml").read_text())
    return dict(yaml.safe_load(content["data"][_POLICY]))


def deschedule(plane: ControlPlane, chosen: Object) -> str:
    """Evict what a policy says; returns the log."""
    directory = plane.directory / f"{DESCHEDULER.name}-{next(_passes)}"
    directory.mkdir()
    rendered = rendered_by_kustomize(plane, DESCHEDULER, directory)
    apply(plane, [one for one in rendered if one["kind"] != "Job"])
    (job,) = (one for one in rendered if one["kind"] == "Job")
    (directory / _POLICY).write_text(yaml.safe_dump(chosen))
    return _one_pass(plane, job, directory)


def _one_pass(plane: ControlPlane, job: Object, directory: Path) -> str:
    (container,) = job["spec"]["template"]["spec"]["containers"]
    mounted = [one.replace("/policy-dir/", f"{directory}/") for one in container["args"]]
    (port,) = free_ports(1)
    more = ["--kubeconfig", str(directory / "kubeconfig"), "--secure-port", str(port), "--bind-address", "127.0.0.1"]
    with running(plane, DESCHEDULER, job, directory, [*mounted, *more]) as (child, log):
        try:
            ended = child.wait(_PASS_SECONDS)
        except subprocess.TimeoutExpired:
            ended = -1
        assert ended == 0, log.read_text()[-6000:]
        return log.read_text()
